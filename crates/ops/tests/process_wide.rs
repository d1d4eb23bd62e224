//! What belongs to a whole process: signal handlers, and being the reaper of orphans. So there is
//! no harness with threads here, only this one thread.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::ffi::OsString;
use std::process::Command;

use isotherm_ops::targets::{ChildExit, TargetEvent, Tracker};
use isotherm_sys::clock::{Wake, now, sleep_until};
use isotherm_sys::signals::{install, stop_requested};

fn main() {
    a_request_to_stop_sets_the_flag_and_ends_a_sleep();
    orphans_of_the_command_are_adopted_and_buried();
}

fn a_request_to_stop_sets_the_flag_and_ends_a_sleep() {
    install().unwrap();
    assert_eq!(stop_requested(), None);
    let ask = format!("sleep 0.05; kill -TERM {}; kill -INT {0}", std::process::id());
    let mut asker = Command::new("sh").args(["-c", &ask]).spawn().unwrap();
    let begin = now();
    assert_eq!(sleep_until(begin.plus_us(20_000_000)), Wake::Signal);
    assert!(now().since(begin) < 20_000_000_000);
    assert_eq!(stop_requested().map(|s| s.number()), Some(15));
    assert!(asker.wait().unwrap().success());
    assert_eq!(stop_requested().map(|s| s.number()), Some(15), "the first one counts");
}

/// A daemon forks, the middle process ends at once, and the grandchild gets a new parent: without
/// adoption nothing would link it to the command.
fn orphans_of_the_command_are_adopted_and_buried() {
    let script = "sh -c 'sh -c \"sleep 0.3; exit 3\" & exit 0'; exit 4";
    let args = [OsString::from("-c"), OsString::from(script)];
    let mut tracker = Tracker::spawn("sh", &args, true).unwrap();
    tracker.adopt_orphans().unwrap();
    tracker.start().unwrap();
    // The command and its first child are over before the first look.
    sleep_until(now().plus_us(100_000));
    let mut added = Vec::new();
    let end = now().plus_us(120_000_000);
    while !tracker.all_gone() {
        for event in tracker.poll(now()) {
            if let TargetEvent::Added(target) = event {
                added.push(target);
            }
        }
        assert!(now() < end, "so far: {added:?}");
        sleep_until(now().plus_us(5_000));
    }
    assert!(added.iter().any(|t| t.name == "sleep" || t.ppid == std::process::id()), "{added:?}");
    assert!(added.len() >= 3, "the command, the orphan and its sleep: {added:?}");
    assert_eq!(
        tracker.child_exit(),
        Some(ChildExit::Code(4)),
        "the orphan's 3 is not the command's"
    );
    // Nobody is left as a zombie of ours, once the tracker has looked for orphans again.
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let children = || std::fs::read_to_string(&path).unwrap_or_default();
    let end = now().plus_us(120_000_000);
    while !children().trim().is_empty() && now() < end {
        sleep_until(now().plus_us(50_000));
        tracker.poll(now());
    }
    assert_eq!(children().trim(), "");
}
