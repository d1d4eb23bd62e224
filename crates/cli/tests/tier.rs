//! `isotherm tier` from a user's view: what it refuses, and what it moves in a guest with two
//! nodes.
//!
//! Pages are moved only where `ISOTHERM_LAB=1` says that the machine is there for tests and has a
//! fast and a slow node. Time goes by instructions there, since the test waits for what a busy host
//! makes late (`lab/run --kernel full --numa2 --mem 3G --flush --count`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a test that skips something says why")]

mod common;
#[path = "common/late.rs"]
mod late;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use isotherm::raw::act::Process;
use isotherm::raw::core::AddrRange;
use isotherm::raw::host::Roots;
use isotherm::raw::host::nodes::Facts;
use isotherm::raw::pages::places::Places;
use serde_json::Value;

use common::{Guard, isotherm};
use late::is_done;

fn tier(args: &[&str]) -> Output {
    isotherm().arg("tier").args(args).stdin(Stdio::null()).output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn nodes_with_memory() -> usize {
    let facts = Facts::read(&Roots::default());
    facts.map_or(0, |facts| facts.nodes.iter().filter(|n| n.has_memory).count())
}

/// Whether pages may be moved here. Prints why if not.
fn in_lab() -> bool {
    if std::env::var("ISOTHERM_LAB").as_deref() != Ok("1") {
        eprintln!("skipped: ISOTHERM_LAB=1 is not set");
        return false;
    }
    if nodes_with_memory() < 2 {
        eprintln!("skipped: one memory node");
        return false;
    }
    true
}

#[test]
fn options_that_cannot_work_are_refused_before_anything_else() {
    for (args, part) in [
        (&["--used", "99%", "--free", "0.5%"][..], "leave a gap"),
        (&["--used", "100%"], "less than 100%"),
        (&["--free", "0%"], "more than 0%"),
        (&["--quota", "fast"], "SIZE/TIME"),
        (&["--hold", "30"], "30"),
        (&["--engine", "magic"], "magic"),
        (&["--fast", "all"], "all"),
    ] {
        let out = tier(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(part), "{args:?}: {}", said(&out));
        assert!(out.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_machine_with_one_node_is_told_what_is_missing() {
    let nodes = nodes_with_memory();
    if nodes > 1 {
        eprintln!("skipped: {nodes} memory nodes");
        return;
    }
    for args in [&[][..], &["--dry-run"], &["--fast", "0", "--slow", "1"], &["--print-policy"]] {
        let out = tier(args);
        assert_eq!(out.status.code(), Some(3), "{args:?}: {}", said(&out));
        // A kernel without nodes says that.
        let found =
            ["one memory node", "memory nodes"].iter().any(|part| said(&out).contains(part));
        assert!(found && said(&out).contains("hint:"), "{args:?}: {}", said(&out));
    }
}

#[test]
fn help_names_every_option() {
    let out = tier(&["--help"]);
    assert!(out.status.success());
    let help = String::from_utf8_lossy(&out.stdout).into_owned();
    for option in [
        "--fast",
        "--slow",
        "--engine",
        "--used",
        "--free",
        "--quota",
        "--hold",
        "--confirm",
        "--dry-run",
        "--print-policy",
        "--every",
        "--json",
    ] {
        assert!(help.contains(option), "{option}: {help}");
    }
}

#[test]
fn nodes_that_are_no_hierarchy_are_refused() {
    if !in_lab() {
        return;
    }
    for (args, part) in [
        (&["--fast", "1", "--slow", "0"][..], "has no CPUs"),
        (&["--fast", "0", "--slow", "7"], "there is no node 7"),
        (&["--fast", "0"], "1 --fast and 0 --slow"),
        (&["--fast", "0", "--slow", "0"], "cannot be above itself"),
        (&["--engine", "kernel", "-p", "1"], "targets are given"),
        (&["--engine", "kernel", "--dry-run"], "a dry run may move nothing"),
    ] {
        let out = tier(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(part), "{args:?}: {}", said(&out));
    }
}

#[test]
fn the_policy_is_one_that_run_accepts() {
    if !in_lab() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let target = Guard(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = target.0.id().to_string();
    let mut cases = vec![vec!["-p", &pid], vec!["--engine", "isotherm"]];
    if std::path::Path::new("/sys/kernel/mm/damon/admin").exists() {
        cases.push(vec!["--engine", "kernel"]);
    }
    for args in cases {
        let out = isotherm().args(["tier", "--print-policy"]).args(&args).output().unwrap();
        if args.contains(&"kernel") && said(&out).contains(" lacks: ") {
            assert!(!out.status.success() && out.stdout.is_empty(), "{}", said(&out));
            eprintln!("skipped for the kernel's DAMON: {}", said(&out));
            continue;
        }
        assert!(out.status.success(), "{args:?}: {}", said(&out));
        let file = dir.path().join("tier.toml");
        std::fs::write(&file, &out.stdout).unwrap();
        let check = isotherm().args(["run", "--check"]).arg(&file).output().unwrap();
        assert!(check.status.success(), "{args:?}: {}", said(&check));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text.contains("migrate_hot") && text.contains("migrate_cold"), "{text}");
    }
}

/// How much of a range is on a node, in percent.
fn hot_on(process: &Process, places: &Places, hot: AddrRange, node: u32) -> u64 {
    let (mut here, mut all) = (0, 0);
    process
        .page_entries(hot, &mut |_, entry| {
            if let Some(frame) = entry.frame() {
                all += 1;
                here += u64::from(places.node_of(frame) == Some(node));
            }
        })
        .unwrap();
    here * 100 / all.max(1)
}

#[test]
fn hot_memory_comes_to_the_fast_node_and_a_dry_run_moves_nothing() {
    if !in_lab() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (config, truth) = (dir.path().join("t.cfg"), dir.path().join("truth"));
    // More than the fast node of 1.5 GiB has, filled from the begin: the end is on the slow node,
    // and 128 MiB there are hot.
    let text = "m, 1900M\n\nrun\n900000\nm, 1, 64, 1, rw, hz=0.002\nm, 1, 64, 1, rw, offset=1760M, length=128M, hz=5\n";
    std::fs::write(&config, text).unwrap();
    let mut workload = isotherm();
    workload.args(["workload", "-q", "--truth"]).arg(&truth).arg(&config).stdout(Stdio::null());
    let workload = Guard(workload.spawn().unwrap());
    let begin = Instant::now();
    let memory = loop {
        let text = std::fs::read_to_string(&truth).unwrap_or_default();
        let lines = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
        let lines: Vec<Value> = lines.collect();
        if lines.iter().any(|l| l["t"] == "phase") {
            break lines
                .iter()
                .find(|l| l["t"] == "map")
                .map(|l| l["start"].as_u64().unwrap())
                .unwrap();
        }
        assert!(begin.elapsed() < Duration::from_secs(180), "the workload did not begin: {text}");
        std::thread::sleep(Duration::from_millis(200));
    };
    let hot = AddrRange::new(memory + (1760 << 20), memory + (1888 << 20));
    let pid = workload.0.id().to_string();
    let process = Process::open(workload.0.id()).unwrap();
    let places = Places::read(&Roots::default()).unwrap();
    let before = hot_on(&process, &places, hot, 0);
    assert!(before < 50, "{before} % of the hot part is on the fast node from the begin");

    // A call takes five times as long in an emulated guest, and waking up alone takes the default.
    let args = ["--json", "-q", "--budget", "5%", "-p", &pid];
    let out = tier(&[&args[..], &["--dry-run", "--duration", "15s"]].concat());
    assert!(is_done(out.status.code(), &said(&out)), "{}", said(&out));
    let account: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(account["stopped"], "duration");
    assert!(account["links"][0]["promoted"].as_u64().unwrap() > 0, "{account:#}");
    let after = hot_on(&process, &places, hot, 0);
    assert!(after.abs_diff(before) <= 1, "a dry run: {before} % before, {after} % after");

    let mut command = isotherm();
    command.arg("tier").args(args).args([
        "--duration",
        "240s",
        "--hold",
        "10s",
        "--confirm",
        "500ms",
    ]);
    let mut tool = Guard(command.stdout(Stdio::piped()).spawn().unwrap());
    let begin = Instant::now();
    let here = || hot_on(&process, &places, hot, 0);
    while here() < 90 && begin.elapsed() < Duration::from_secs(230) {
        assert!(tool.0.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_secs(1));
    }
    let (came, took) = (here(), begin.elapsed());
    let status = Command::new("kill").args(["-TERM", &tool.0.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut tool.0.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(tool.0.wait().unwrap().code(), Some(0));
    let account: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(came >= 90, "{came} % after {took:?}\n{account:#}");
    eprintln!("{came} % after {took:?}");
    let done = |nr: usize, key: &str| account["schemes"][nr][key].as_u64().unwrap();
    assert!(done(0, "done_bytes") >= 64 << 20 && done(1, "done_bytes") > 0, "{account:#}");
    assert!(done(0, "ping_pong_bytes") <= done(0, "done_bytes") / 100, "{account:#}");
    let free = account["links"][0]["free_bp"].as_u64().unwrap();
    let goal = account["links"][0]["free_goal_bp"].as_u64().unwrap();
    assert!(free.abs_diff(goal) <= 150, "{account:#}");
}
