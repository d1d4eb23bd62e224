//! What cgroups used over time, as an agent's history has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isotherm::raw::host::metrics::Cgroups;
use isotherm::raw::host::proc::Proc;
use serde_json::Value;

use crate::common::Guard;
use crate::world::{Said, World, sleeper, watch};

/// A cgroup with a process that does next to nothing. Both go with the test.
struct Group {
    process: Guard,
    dir: PathBuf,
}

impl Group {
    /// None if this machine allows no cgroup to be made.
    fn new(name: &str) -> Option<Self> {
        let cgroups = Cgroups::mounted(&Proc::default());
        let mount = cgroups.v1_of("memory").map(Path::to_owned).or_else(|| cgroups.v2.clone())?;
        let dir = mount.join(format!("isotherm-{name}-{}", std::process::id()));
        if let Err(err) = fs::create_dir(&dir) {
            eprintln!("skipped: cannot make {}: {err}", dir.display());
            return None;
        }
        let this = Self { process: sleeper(), dir };
        fs::write(this.dir.join("cgroup.procs"), this.process.0.id().to_string()).unwrap();
        Some(this)
    }

    fn path(&self) -> String {
        format!("/{}", self.dir.file_name().unwrap().to_string_lossy())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.process.0.kill().ok();
        self.process.0.wait().ok();
        // The kernel needs a moment after the last process.
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What `ctl cgroups` says of the last hour. No agent need run for that.
fn over(world: &World, words: &str) -> Said {
    let dir = world.path("state/history");
    world.ctl(&format!("cgroups --since 1h --history {} {words}", dir.display()))
}

fn lines(world: &World, words: &str) -> Vec<Value> {
    let said = over(world, &format!("--json {words}"));
    if said.code != Some(0) {
        return Vec::new();
    }
    let report: Value = serde_json::from_str(&said.out).unwrap();
    report["cgroups"].as_array().unwrap().clone()
}

fn number(line: &Value, key: &str) -> u64 {
    line[key].as_u64().unwrap_or_else(|| panic!("{key}: {line}"))
}

/// The record that a context writes or wrote last.
fn last_record(world: &World, policy: &str) -> PathBuf {
    let dir = fs::read_dir(world.path(&format!("state/history/{policy}/c"))).unwrap();
    dir.flatten().map(|entry| entry.path()).max().unwrap()
}

#[test]
fn the_history_has_what_cgroups_used_also_after_a_crash_and_of_a_torn_file() {
    let (Some(a), Some(b)) = (Group::new("history-a"), Group::new("history-b")) else { return };
    let [one, two] = [&a, &b].map(|group| watch(group.process.0.id()));
    let mut world = World::new(&[("a", &one), ("b", &two)]).arg("--cgroups");
    let begun = Instant::now();
    world.start();
    let watched = |line: &Value| {
        number(line, "watched_ns") > 0 && line["memory"]["median"].as_u64() > Some(0)
    };
    world.until("both were watched", |world| {
        let all = lines(world, "");
        all.len() == 2 && all.iter().all(watched)
    });
    world.kill();
    let before = lines(&world, "");
    let longest = u64::try_from(begun.elapsed().as_nanos()).unwrap();
    for (group, context) in [(&a, "a/c"), (&b, "b/c")] {
        let line = before.iter().find(|line| line["cgroup"] == group.path().as_str()).unwrap();
        assert_eq!(line["context"], context, "{line}");
        assert!(number(line, "watched_ns") <= longest, "{line}");
        assert!(line["paged_out"].is_null(), "no scheme does that: {line}");
        // A cgroup that is watched for seconds has not been idle for an hour, nor known not to be.
        let hour = line["idle"].as_array().unwrap().last().unwrap();
        assert_eq!((number(hour, "idle_ms"), &hour["median"]), (3_600_000, &Value::Null), "{line}");
    }
    let said = over(&world, &a.path());
    assert!(said.out.starts_with(&format!("{} (a/c)\n  watched for ", a.path())), "{said:?}");
    assert!(!said.out.contains(&b.path()) && said.out.contains("idle for 60.0 min"), "{said:?}");
    assert_eq!(lines(&world, "--policy b").len(), 1);
    let said = over(&world, "/no/such");
    assert_eq!(
        (said.code, &*said.out),
        (Some(0), "no cgroup that matches was watched in that time\n")
    );

    // A record that was cut off in the middle of its last rows.
    let path = last_record(&world, "a");
    let bytes = fs::read(&path).unwrap();
    let name = a.path();
    let rows = |bytes: &[u8]| bytes.windows(name.len()).filter(|w| *w == name.as_bytes()).count();
    let whole = rows(&bytes);
    let at = bytes.windows(name.len()).rposition(|w| w == name.as_bytes());
    fs::write(&path, &bytes[..at.unwrap() + 5]).unwrap();
    let torn = lines(&world, &name);
    let of = |all: &[Value]| all.iter().find(|l| l["cgroup"] == name.as_str()).cloned().unwrap();
    assert_eq!(number(&of(&torn), "rows") + 1, number(&of(&before), "rows"), "of {whole}");
    let said = over(&world, &name);
    assert!(said.out.contains("torn tail"), "{said:?}");

    // The next agent goes on, and what was before it counts.
    world.start();
    let now = |world: &World| number(&of(&lines(world, &name)), "rows");
    let then = number(&of(&torn), "rows");
    world.until("there are more rows", |world| now(world) >= then + 2);
    assert_eq!(world.stop(), Some(0));
    let after = of(&lines(&world, &name));
    assert!(number(&after, "watched_ns") >= number(&of(&torn), "watched_ns"), "{after}");
    let said = world.ctl("cgroups --since 1h --history /no/such");
    assert!(said.code == Some(2) && said.err.contains("no agent has recorded"), "{said:?}");
}

/// What `ctl cgroups` says of a process's only cgroup: for how long it has been watched, in ns.
fn watched_ns(world: &World) -> u64 {
    let all = world.json("cgroups");
    all["cgroups"][0]["watched_ns"].as_u64().unwrap_or(0)
}

#[test]
fn a_pause_counts_nowhere_as_watched() {
    let target = sleeper();
    let mut world = World::new(&[("a", &watch(target.0.id()))]).arg("--cgroups");
    let begun = Instant::now();
    world.start();
    world.until("it is watched for a while", |world| watched_ns(world) > 2_000_000_000);
    assert_eq!(world.ctl("pause a").code, Some(0));
    world.until("it is paused", |world| world.state("a") == "paused");
    let paused = Instant::now();
    let for_s = |seconds| {
        world.until("some time", |_| paused.elapsed() > Duration::from_secs(seconds));
    };
    // What is told is of the last second.
    for_s(2);
    let before = watched_ns(&world);
    for_s(8);
    assert_eq!(watched_ns(&world), before, "nothing is watched in a pause");
    let pause = u64::try_from(paused.elapsed().as_nanos()).unwrap();
    let resumed = Instant::now();
    assert_eq!(world.ctl("resume a").code, Some(0));
    world.until("it is watched again", |world| {
        let now = watched_ns(world);
        let most = u64::try_from(resumed.elapsed().as_nanos()).unwrap();
        // A window of the time before may be the last one still, and one was interrupted.
        assert!(now == before || now <= most + 200_000_000, "{now}: before {before}, most {most}");
        now != before && now > 1_000_000_000
    });
    assert_eq!(world.stop(), Some(0));
    // The history has the time on both sides of the pause, and not the pause.
    let line = lines(&world, "").remove(0);
    let most = u64::try_from(begun.elapsed().as_nanos()).unwrap() - pause;
    let told = number(&line, "watched_ns");
    assert!(told >= before + 900_000_000 && told <= most, "{before} {pause} {most}: {line}");
}

#[test]
fn a_history_without_cgroups_says_how_to_have_them() {
    let target = sleeper();
    let mut world = World::new(&[("a", &watch(target.0.id()))]);
    world.start();
    world.until("it watches", |world| world.targets("a") == 1);
    world.until("it records", |world| {
        let report = over(world, "");
        report.err.contains("nothing was recorded of cgroups")
    });
    assert_eq!(world.stop(), Some(0));
    let said = over(&world, "");
    assert!(said.code == Some(2) && said.err.contains("--cgroups"), "{said:?}");
}
