//! Two Isotherms on one target.

use std::path::Path;
use std::process::Command;

use crate::program::{ISOTHERM, Running, command, isotherm, scratch, snapshots, wait_until};

/// A recorder after its first snapshots.
fn recorder(dir: &Path, file: &str, pid: u32) -> Running {
    let pid = pid.to_string();
    let args = ["record", "--method", "census", "-o", file, "-p", &pid];
    let recorder = Running::start(command(ISOTHERM, dir, &args));
    wait_until("snapshots", || snapshots(dir, file) > 1);
    recorder
}

#[test]
fn the_second_is_refused_and_told_who_is_first() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let first = recorder(dir.path(), "first", target.pid());
    let (pid, holder) = (target.pid(), format!("process {} (isotherm)", first.pid()));
    let watched = format!("process {pid} is watched already");
    for what in [
        "record --method census -o second",
        "record --ops smaps -o second",
        "wss",
        "reclaim --dry-run",
        "stat",
    ] {
        let said = isotherm(dir.path(), &format!("{what} --duration 5s -p {pid}"));
        said.expect(1, &[&watched, "tried:", &holder, "hint:"]);
    }
    assert!(!dir.path().join("second").exists(), "nothing is written");
    let before = snapshots(dir.path(), "first");
    wait_until("more snapshots", || snapshots(dir.path(), "first") > before);
    target.assert_untouched();
}

#[test]
fn one_that_was_killed_or_has_ended_leaves_the_target_free() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let mut first = recorder(dir.path(), "first", target.pid());
    first.child().kill().unwrap();
    first.finish();
    let second = recorder(dir.path(), "second", target.pid());
    second.signal("TERM");
    second.finish().expect(0, &[]);
    let args = format!("record -o third --duration 1s -p {}", target.pid());
    isotherm(dir.path(), &args).expect(0, &[]);
    target.assert_untouched();
}

#[test]
fn a_child_that_another_watches_is_left_out_until_that_one_ends() {
    let dir = scratch();
    let script = "sleep 60 >/dev/null 2>&1 & echo $! >child; wait";
    let parent = Running::start(command("sh", dir.path(), &["-c", script]));
    let mut child = String::new();
    wait_until("the child", || {
        child = std::fs::read_to_string(dir.path().join("child")).unwrap_or_default();
        child.ends_with('\n')
    });
    let child: u32 = child.trim().parse().unwrap();
    let first = recorder(dir.path(), "first", child);
    let second = recorder(dir.path(), "second", parent.pid());
    let seen = |pid: u32| {
        let args = format!("report regions --json --target {pid} second");
        isotherm(dir.path(), &args).out.lines().count()
    };
    wait_until("the parent's regions", || seen(parent.pid()) > 0);
    assert_eq!(seen(child), 0);
    first.signal("TERM");
    first.finish().expect(0, &[]);
    wait_until("the child's regions", || seen(child) > 0);
    second.signal("TERM");
    let left_out = format!("process {child} (sleep) is not watched: process {child} is watched");
    let from_now = format!("process {child} (sleep) is watched from now on");
    second.finish().expect(0, &[&left_out, &from_now]);
    assert!(Command::new("kill").arg(child.to_string()).status().unwrap().success());
}
