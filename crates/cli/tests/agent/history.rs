//! What an agent has recorded can be read afterwards, also after a crash and with a full disk.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::common::{Guard, isotherm};
use crate::world::{Said, World, sleeper, watch};

/// Runs a command of `isotherm` over the history of a world.
fn over(world: &World, words: &str) -> Said {
    let mut command = isotherm();
    command.args(words.split_whitespace()).arg("--history").arg(world.path("state/history"));
    command.output().unwrap().into()
}

fn snapshots(world: &World) -> u64 {
    let said = over(world, "report wss --json --since 1h");
    if said.code != Some(0) {
        return 0;
    }
    let report: Value = serde_json::from_str(&said.out).unwrap();
    report["snapshots"].as_u64().unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn reports_and_top_read_what_was_recorded_also_across_a_crash() {
    let target = sleeper();
    let mut world = World::new(&[("a", &watch(target.0.id()))]);
    let said = over(&world, "report --since 1h");
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("no agent has recorded anything"), "{said:?}");
    world.start();
    world.until("it is recorded", |world| snapshots(world) > 10);
    world.kill();
    let before = snapshots(&world);
    world.start();
    world.until("it goes on", |world| snapshots(world) > before + 10);
    let history = &world.json("status")["history"];
    assert_eq!(history["records"], 2, "{history}");
    assert!(history["trouble"].is_null(), "{history}");

    // The process is one target in both records.
    let said = over(&world, "report --since 1h");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.out.matches("sleep").count().min(1), 1, "{}", said.out);
    let said = over(&world, "top --batch -n 1 -t 5min");
    assert_eq!(said.code, Some(0), "{said:?}");
    let rows = said.out.lines().filter(|line| line.contains("sleep")).count();
    assert_eq!(rows, 1, "{}", said.out);
    let said = over(&world, "report --since 1h --of b");
    assert!(said.err.contains("a/c"), "{said:?}");
}

#[test]
fn reports_show_every_context_that_was_recorded() {
    let targets: Vec<Guard> = (0..2).map(|_| sleeper()).collect();
    let policies: Vec<String> = targets.iter().map(|target| watch(target.0.id())).collect();
    let mut world = World::new(&[("a", &policies[0]), ("b", &policies[1])]);
    world.start();
    let lines = |said: &Said| -> Vec<Value> {
        said.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    world.until("both are recorded", |world| {
        let said = over(world, "report ages --json --since 1h");
        lines(&said).iter().filter(|line| line["report"].is_object()).count() == 2
    });
    let kinds = ["", "wss", "regions", "mappings", "ages"];
    for kind in kinds {
        let said = over(&world, &format!("report {kind} --since 1h"));
        assert_eq!(said.code, Some(0), "{kind}: {said:?}");
        let heads: Vec<&str> = said.out.lines().filter(|l| matches!(*l, "a/c" | "b/c")).collect();
        assert_eq!(heads, ["a/c", "b/c"], "{kind}: {said:?}");
        let said = over(&world, &format!("report {kind} --since 1h --of b"));
        assert!(said.code == Some(0) && !said.out.contains("b/c"), "one alone: {said:?}");
    }
    let said = over(&world, "report wss --json --since 1h");
    let names: Vec<Value> = lines(&said).into_iter().map(|line| line["context"].clone()).collect();
    assert_eq!(names, ["a/c", "b/c"], "{said:?}");
    for one in ["regions --json", "heatmap"] {
        let said = over(&world, &format!("report {one} --since 1h"));
        assert_eq!(said.code, Some(2), "{one}: {said:?}");
        assert!(said.err.contains("--of with one of a/c, b/c"), "{one}: {said:?}");
    }
}

/// A small file system that is unmounted at the end. It has to be dropped before the world whose
/// directory it lies in, so it is made after that is bound.
pub(crate) struct Small(PathBuf);

impl Small {
    pub(crate) fn mount(path: PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=48k", "tmpfs"])
            .arg(&path)
            .output();
        if !done.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: may not mount a small file system");
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _status = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_drops_history_and_is_told() {
    let targets: Vec<Guard> = (0..4).map(|_| sleeper()).collect();
    let policies: Vec<String> = targets.iter().map(|target| watch(target.0.id())).collect();
    let mut world = World::new(&[("a", &policies[0]), ("b", &policies[1]), ("c", &policies[2])]);
    let Some(_small) = Small::mount(world.path("state/history")) else { return };
    world.start();
    world.until("the disk is full", |world| !world.json("status")["history"]["trouble"].is_null());
    let log = world.log();
    assert!(log.contains("not recorded"), "{log}");
    // The policies go on.
    for name in ["a", "b", "c"] {
        assert_eq!(world.state(name), "running");
        let windows = |world: &World| {
            world.json(&format!("account {name}"))["schemes"][0]["windows"].as_u64().unwrap()
        };
        let then = windows(&world);
        world.until("windows end", |world| windows(world) > then);
    }
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn without_a_size_nothing_is_recorded() {
    let target = sleeper();
    let mut world = World::new(&[("a", &watch(target.0.id()))]).arg("--history-size").arg("0");
    world.start();
    world.until("it watches", |world| world.targets("a") == 1);
    assert!(world.json("status")["history"].is_null());
    assert!(!world.path("state/history").exists());
}

#[test]
fn fifty_contexts_share_what_they_can() {
    let targets: Vec<Guard> = (0..50).map(|_| sleeper()).collect();
    let contexts = targets.iter().enumerate().map(|(nr, target)| {
        watch(target.0.id()).replace("name = \"c\"", &format!("name = \"c{nr}\""))
    });
    let mut world = World::new(&[("many", &contexts.collect::<String>())]);
    world.start();
    world.until("all watch", |world| world.targets("many") == 50);
    let windows = |world: &World| {
        let account = world.json("account many");
        let schemes = account["schemes"].as_array().cloned().unwrap_or_default();
        schemes.iter().map(|scheme| scheme["windows"].as_u64().unwrap()).min().unwrap_or(0)
    };
    world.until("windows end", |world| windows(world) >= 10);
    let kib = world.rss_kib();
    eprintln!("50 contexts: {kib} KiB");
    // Each with a canary of its own had 450 MiB, and 180 with what the heap kept. Where all memory
    // gets huge pages, stacks and heaps of threads do, too.
    let thp = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let most = if thp.is_ok_and(|thp| thp.contains("[always]")) { 300 } else { 100 };
    assert!(kib <= most << 10, "{kib} KiB");
}
