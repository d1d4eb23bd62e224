//! How policies come to many hosts: who vouches for them, where they act, and what stops them.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use isotherm::raw::host::zram::Zram;

use crate::common::{Guard, isotherm};
use crate::world::{World, flagged, sleeper, watch};

/// The action whose advice is taken back here, and its flag in the mappings of a process; none
/// without huge pages.
fn advice() -> Option<(&'static str, &'static str)> {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    match enabled.split(['[', ']']).nth(1)? {
        "always" => Some(("nohugepage", "nh")),
        "madvise" => Some(("hugepage", "hg")),
        _ => None,
    }
}

/// A policy that gives advice to everything it sees.
fn advise(pid: u32, rollout: &str) -> String {
    let (action, _) = advice().unwrap();
    format!(
        "{rollout}[[context]]\nname = \"c\"\ntargets = [{{ pid = {pid} }}]\n[[context.scheme]]\n\
         name = \"advise\"\naction = \"{action}\"\ninject = true\nevidence = \"off\"\n"
    )
}

/// Bytes of a process that have the advice.
fn advised(pid: u32) -> u64 {
    flagged(pid, advice().unwrap().1)
}

/// A process with 32 MiB that waits; none, printed, where no advice has an effect.
fn target() -> Option<Guard> {
    if advice().is_none() {
        eprintln!("skipped: without huge pages, no advice has an effect to take back");
        return None;
    }
    // It fills its buffer, and then waits for somebody to read its output.
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=32M"]).stdout(Stdio::piped());
    let dd = Guard(dd.spawn().unwrap());
    let pid = dd.0.id();
    let started = Instant::now();
    loop {
        let smaps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let rss = smaps.lines().find_map(|line| line.strip_prefix("Rss:"));
        let kib = rss.and_then(|kib| kib.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
        if kib > Some(20 << 10) {
            return Some(dd);
        }
        assert!(started.elapsed() < Duration::from_secs(60), "it never has memory: {smaps}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A world with a stop file of its own.
fn world(policies: &[(&str, &str)]) -> World {
    let world = World::new(policies);
    let stop = world.path("stop");
    world.arg("--stop-file").arg(stop.to_str().unwrap())
}

fn held_by(world: &World, name: &str) -> String {
    world.policy(name)["held"]["by"].as_str().unwrap_or("nothing").to_owned()
}

const MOST: u64 = 8 << 20;

#[test]
fn a_stop_file_ends_action_undoes_it_and_lets_it_go_on_when_it_is_gone() {
    let Some(dd) = target() else { return };
    let pid = dd.0.id();
    let before = advised(pid);
    let world = world(&[("advise", &advise(pid, "")), ("other", &watch(pid))]);
    let (stop, prom) = (world.path("stop"), world.path("m.prom"));
    let mut world = world.arg("--metrics-textfile").arg(prom.to_str().unwrap());
    world.start();
    world.until("advice is given", |_| advised(pid) > before + MOST);
    let mut follow = world.ctl_command("follow --events");
    follow.stdout(fs::File::create(world.path("told")).unwrap());
    let _follow = Guard(follow.spawn().unwrap());
    world.until("somebody follows", |world| world.json("status")["clients"].as_u64() > Some(1));

    for file in ["stop", "stop.advise"] {
        let path = stop.with_file_name(file);
        let written = Instant::now();
        fs::write(&path, "").unwrap();
        world.until("action ends", |_| advised(pid) <= before);
        eprintln!("{file}: what was done is undone after {} ms", written.elapsed().as_millis());
        world.until("it is shown", |world| held_by(world, "advise") == "stop-file");
        world.until("it watches on", |world| world.targets("advise") == 1);
        let said = world.ctl("status").out;
        assert!(said.contains("advise: only watches (stop-file):"), "{said}");
        world.until("metrics tell", |_| {
            let text = fs::read_to_string(&prom).unwrap_or_default();
            text.contains("isotherm_policy_held{policy=\"advise\",by=\"stop-file\"} 1")
        });
        // Nothing is done as long as the file is there, whatever is asked for.
        let said = world.ctl("start advise");
        assert_eq!(said.code, Some(2), "{said:?}");
        fs::copy(world.path("policies.d/advise.toml"), world.path("new.toml")).unwrap();
        assert_eq!(world.ctl("commit advise new.toml").code, Some(0));
        let windows = |world: &World| {
            world.json("account advise")["schemes"][0]["windows"].as_u64().unwrap_or(0)
        };
        let then = windows(&world);
        world.until("it decides", |world| windows(world) > then + 3);
        assert!(advised(pid) <= before, "it only counts");
        assert_eq!(held_by(&world, "other"), if file == "stop" { "stop-file" } else { "nothing" });
        fs::remove_file(&path).unwrap();
        world.until("it acts again", |_| advised(pid) > before + MOST);
        assert_eq!(held_by(&world, "advise"), "nothing");
    }
    world.until("events are told", |world| {
        let told = fs::read_to_string(world.path("told")).unwrap();
        told.matches("\"held\"").count() >= 2 && told.contains("\"released\"")
    });
    // A file that is there when the agent starts counts from the first moment on.
    assert_eq!(world.stop(), Some(0));
    // What cannot be taken back from a busy process is left to the next agent.
    let left = advised(pid).max(before);
    fs::write(&stop, "").unwrap();
    world.start();
    world.until("it watches", |world| world.targets("advise") == 1);
    assert_eq!(held_by(&world, "advise"), "stop-file");
    assert!(advised(pid) <= left, "{} more\n{}", advised(pid) - left, world.log());
    world.until("what was left is taken back", |_| advised(pid) <= before);
}

#[test]
fn outside_its_share_a_policy_only_watches() {
    let Some(dd) = target() else { return };
    let pid = dd.0.id();
    let before = advised(pid);
    let none = advise(pid, "[rollout]\nshare = \"0%\"\n\n");
    let mut world = world(&[("advise", &none)]);
    world.start();
    world.until("it watches", |world| world.targets("advise") == 1);
    assert_eq!(held_by(&world, "advise"), "share");
    // More hosts are let in.
    world.write("advise", &advise(pid, "[rollout]\nshare = \"100%\"\n\n"));
    world.signal(rustix::process::Signal::HUP);
    world.until("it acts", |_| advised(pid) > before + MOST);
    assert_eq!(held_by(&world, "advise"), "nothing");
    world.write("advise", &none);
    world.signal(rustix::process::Signal::HUP);
    world.until("it only watches", |world| held_by(world, "advise") == "share");
    world.until("what it did is undone", |_| advised(pid) <= before);
}

#[test]
fn a_policy_that_nobody_vouches_for_never_runs() {
    let target = sleeper();
    let text = watch(target.0.id());
    let world = world(&[("good", &text), ("changed", &text), ("unknown", &text)]);
    let pins = world.path("pins");
    let sums = |names: &[&str]| {
        let mut command = Command::new("sha256sum");
        command.current_dir(world.path("policies.d"));
        let output = command.args(names.iter().map(|name| format!("{name}.toml"))).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    fs::write(&pins, sums(&["good", "changed"])).unwrap();
    world.write("changed", &format!("{text}\n# one line more\n"));
    let both = sums(&["good", "changed"]);
    let mut world = world.arg("--pins").arg(pins.to_str().unwrap());
    let output = world.command().arg("--check").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("policy `changed` is refused: nobody vouches for it"), "{err}");
    world.start();
    assert_eq!(world.state("good"), "running");
    for (name, why) in [("changed", "another SHA-256"), ("unknown", "no line for it")] {
        assert_eq!(world.state(name), "invalid");
        let policy = world.policy(name);
        assert!(policy["why"].as_str().unwrap().contains(why), "{policy}");
        assert_eq!(world.targets(name), 0);
    }
    // By the socket neither.
    fs::write(world.path("new.toml"), format!("{text}\n# another\n")).unwrap();
    for name in ["good", "fresh"] {
        let said = world.ctl(&format!("commit {name} new.toml"));
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains("nobody vouches for it"), "{said:?}");
    }
    assert_eq!(world.state("good"), "running");
    fs::write(&pins, both).unwrap();
    world.signal(rustix::process::Signal::HUP);
    world.until("it is vouched for", |world| world.state("changed") == "running");
    assert_eq!(world.state("unknown"), "invalid");
}

#[test]
fn what_comes_back_too_often_stops_a_policy_until_somebody_starts_it() {
    let _swap = match Zram::set_up(256 << 20) {
        Ok(swap) => swap,
        Err(err) if err.is_missing() => return eprintln!("skipped: {err}"),
        Err(err) => panic!("{err}"),
    };
    // 32 MiB that are touched again and again, and taken all the same.
    let world = world(&[]);
    fs::write(
        world.path("workload"),
        "@seed=1\nm, 33554432, none, thp=off, populate=yes, mapped=33554432\n\n\
         steady\n600000\nm, 1, 64, 1, rw, offset=0, length=33554432\n",
    )
    .unwrap();
    let mut workload = isotherm();
    workload.arg("workload").arg(world.path("workload")).arg("--quiet").stdout(Stdio::null());
    let workload = Guard(workload.spawn().unwrap());
    let policy = format!(
        "[rollout]\nmax_refaults = \"1%\"\n\n[[context]]\nname = \"c\"\n\
         targets = [{{ pid = {} }}]\n[[context.scheme]]\nname = \"cold\"\naction = \"pageout\"\n\
         evidence = \"off\"\nbrake = \"off\"\nrefault_window = \"10s\"\n\
         quota = {{ size = \"16M\", interval = \"1s\" }}\n",
        workload.0.id()
    );
    world.write("hasty", &policy);
    let mut world = world;
    world.start();
    world.until("its limit stops it", |world| held_by(world, "hasty") == "limit");
    world.until("that is told", |world| world.ctl("status").out.contains("`max_refaults` is 1%"));
    let done = |world: &World| {
        let account = world.json("account hasty");
        let of = |key: &str| account["schemes"][0][key].as_u64().unwrap_or(0);
        of("done_bytes").saturating_sub(of("pretended_bytes"))
    };
    // What was held is told first, and what acts is stopped then.
    world.until("it only watches", |world| world.targets("hasty") == 1 && done(world) == 0);
    // A restart does not start it again.
    for _ in 0..2 {
        world.until("it watches on", |world| world.targets("hasty") == 1);
        assert_eq!((held_by(&world, "hasty"), done(&world)), ("limit".to_owned(), 0));
        assert_eq!(world.stop(), Some(0));
        world.start();
    }
    world.until("it watches on", |world| world.targets("hasty") == 1);
    // Somebody does, and it stops again, since nothing has changed.
    let stops = world.log().matches("it was stopped by its limits").count();
    let said = world.ctl("start hasty");
    assert_eq!(said.code, Some(0), "{said:?}");
    world.until("its limit stops it again", |world| {
        world.log().matches("it was stopped by its limits").count() > stops
            && held_by(world, "hasty") == "limit"
    });
}
