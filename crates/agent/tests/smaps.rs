//! Operations set `smaps` over real processes.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use std::process::{Child, Command, Stdio};

use isotherm_agent::monitor::{Monitor, MonitorError};
use isotherm_core::ops::UpdateError;
use isotherm_core::{Attrs, Check, MappingKind, Method, Operations, PageState, TargetId};
use isotherm_host::error::SetKind;
use isotherm_host::proc::{Proc, parse_maps};
use isotherm_ops::set::OpsSet;
use isotherm_ops::smaps::{Limits, SmapsOps};
use isotherm_ops::targets::Tracker;
use isotherm_sys::clock::{now, sleep_until};

struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

fn run(command: &str, args: &[&str]) -> Guard {
    Guard(Command::new(command).args(args).stdout(Stdio::null()).spawn().unwrap())
}

/// The last page of the stack: a program that runs uses it.
fn stack_page(pid: u32) -> u64 {
    let mut buf = Vec::new();
    Proc::default().read(pid, "maps", &mut buf).unwrap();
    parse_maps(&buf).find(|m| m.kind() == MappingKind::Stack).unwrap().range.end - 4096
}

/// Waits until the program `sleep` has started, which takes a slow machine a while, and does
/// nothing more.
fn until_asleep(pid: u32) {
    let mut quiet = 0;
    while quiet < 10 {
        sleep_until(now().plus_us(20_000));
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        quiet = if stat.contains("(sleep) S ") { quiet + 1 } else { 0 };
    }
}

fn set(limits: Limits) -> SmapsOps {
    SmapsOps::new(Proc::default(), limits)
}

const FAST: Limits = Limits { max_rss_bytes: 1 << 30, clear_every_us: 0, look_every_us: 0 };

#[test]
fn a_busy_process_is_young_and_a_sleeping_one_is_old() {
    // It sleeps now and then: `clear_refs` does not flush the TLB, so a program that is never
    // switched away from can look idle for long on a quiet machine.
    let busy = run("sh", &["-c", "while :; do sleep 0.001; done"]);
    let sleeping = run("sleep", &["60"]);
    until_asleep(sleeping.0.id());
    let mut ops = set(FAST);
    for (id, pid) in [(0, busy.0.id()), (1, sleeping.0.id())] {
        ops.add_target(TargetId(id), pid).unwrap();
    }
    let checks = [
        Check::new(TargetId(0), stack_page(busy.0.id()), 7),
        Check::new(TargetId(1), stack_page(sleeping.0.id()), 8),
        Check::new(TargetId(1), 0x1000, 9),
        Check::new(TargetId(2), 0x1000, 10),
    ];
    let mut batch = checks;
    ops.prepare(&mut batch);
    assert_eq!(
        batch.map(|c| c.state),
        [PageState::Cleared, PageState::Cleared, PageState::Absent, PageState::Unknown]
    );
    // Starting a program takes an emulated machine long, and the shell waits meanwhile.
    let end = now().plus_us(10_000_000);
    while batch[0].state != PageState::Young && now() < end {
        sleep_until(now().plus_us(50_000));
        ops.check(&mut batch);
    }
    assert_eq!(
        batch.map(|c| c.state),
        [PageState::Young, PageState::Old, PageState::Absent, PageState::Unknown]
    );
    assert_eq!(batch.map(|c| c.tag), [7, 8, 9, 10]);
    sleep_until(now().plus_us(3_000));
    // The sleeper was not touched: made old again it costs nothing to say so.
    let mut batch = [checks[1]];
    ops.prepare(&mut batch);
    assert_eq!(batch[0].state, PageState::Old);
    assert_eq!(ops.share(TargetId(1), checks[1].addr), Some(0.0));
}

#[test]
fn what_would_be_too_often_is_not_answered() {
    let sleeping = run("sleep", &["60"]);
    let mut ops = set(Limits { clear_every_us: u64::MAX, look_every_us: u64::MAX, ..FAST });
    ops.add_target(TargetId(0), sleeping.0.id()).unwrap();
    let mut batch = [Check::new(TargetId(0), stack_page(sleeping.0.id()), 0)];
    ops.prepare(&mut batch);
    assert_ne!(batch[0].state, PageState::Unknown, "the first is allowed");
    for _ in 0..3 {
        // Right after the first it would count as one with it.
        sleep_until(now().plus_us(3_000));
        ops.prepare(&mut batch);
        assert_eq!(batch[0].state, PageState::Unknown);
        ops.check(&mut batch);
        assert_eq!(batch[0].state, PageState::Unknown);
    }
}

#[test]
fn large_targets_are_refused_unless_forced() {
    let sleeping = run("sleep", &["60"]);
    // The kernel's count lags behind a process that has just started.
    let mut buf = Vec::new();
    while Proc::default().status(sleeping.0.id(), &mut buf).unwrap().rss_bytes <= 4096 {
        sleep_until(now().plus_us(1_000));
    }
    let small = Limits { max_rss_bytes: 4096, ..FAST };
    let err = set(small).add_target(TargetId(0), sleeping.0.id()).unwrap_err();
    assert_eq!(err.kind(), SetKind::NotSupported, "{err}");
    let text = err.to_string();
    assert!(text.contains("is too large"), "{text}");
    assert!(text.contains("why:") && text.contains("hint:"), "{text}");
    set(small.forced()).add_target(TargetId(0), sleeping.0.id()).unwrap();
}

#[test]
fn mappings_and_the_end_of_a_target() {
    let mut sleeping = run("sleep", &["60"]);
    let mut ops = set(FAST);
    ops.add_target(TargetId(0), sleeping.0.id()).unwrap();
    let stack = stack_page(sleeping.0.id());
    let mut maps = Vec::new();
    ops.update(TargetId(0), &mut maps).unwrap();
    assert!(maps.iter().any(|r| r.contains(stack)));
    assert!(maps.windows(2).all(|w| w[0].end < w[1].start));
    assert!(ops.target_valid(TargetId(0)));
    sleeping.0.kill().unwrap();
    sleeping.0.wait().unwrap();
    assert!(!ops.target_valid(TargetId(0)));
    assert_eq!(ops.update(TargetId(0), &mut maps), Err(UpdateError::Gone));
    let mut batch = [Check::new(TargetId(0), stack, 0)];
    ops.prepare(&mut batch);
    ops.check(&mut batch);
    assert_eq!(batch[0].state, PageState::Unknown);
    assert!(ops.add_target(TargetId(1), sleeping.0.id()).unwrap_err().is_gone());
}

/// The whole monitor on top, with the shortest intervals that the limits allow: every window is
/// resolved, though no tick comes exactly on time.
#[test]
fn a_monitor_gets_an_answer_in_every_window() {
    let busy = run("sh", &["-c", "while :; do :; done"]);
    sleep_until(now().plus_us(50_000));
    let limits = Limits { clear_every_us: 20_000, look_every_us: 20_000, ..FAST };
    let attrs = Attrs {
        sample_us: limits.sample_us(),
        aggr_us: 10 * limits.sample_us(),
        method: Method::Resample,
        ..Attrs::default()
    };
    let tracker = Tracker::attach(&[busy.0.id()], true).unwrap();
    let ops = OpsSet::Smaps(Box::new(set(limits)));
    let mut monitor = Monitor::new(tracker, ops, attrs, 1).unwrap();
    let stack = stack_page(busy.0.id());
    let mut touched = 0;
    for window in 0..6 {
        let snapshot = monitor.next_snapshot().unwrap().unwrap();
        let regions = &snapshot.targets[0].regions;
        let there = regions.iter().find(|r| r.range.contains(stack)).unwrap();
        let resolved = regions.iter().filter(|r| r.resolved).count();
        // The first window may begin before the first mappings are known.
        if window > 0 {
            assert_eq!(resolved, regions.len(), "window {window}: {regions:?}");
            touched += u32::from(there.nr_accesses > 0);
        }
    }
    // Not in every window: `clear_refs` does not flush the TLB, and on a quiet machine a program
    // that only computes can keep its translation, and with it the look of idleness, for long.
    assert!(touched > 0, "the stack of a busy process was never touched");
}

/// As with Yama's `ptrace_scope` of 1 and without `CAP_SYS_PTRACE`: there is a target, and it
/// cannot be watched.
#[test]
fn a_monitor_that_can_watch_none_of_its_targets_says_so() {
    let sleeping = run("sleep", &["5"]);
    until_asleep(sleeping.0.id());
    let too_large = Limits { max_rss_bytes: 0, ..FAST };
    let tracker = Tracker::attach(&[sleeping.0.id()], true).unwrap();
    let ops = OpsSet::Smaps(Box::new(set(too_large)));
    let mut monitor = Monitor::new(tracker, ops, Attrs::default(), 1).unwrap();
    // Another call tries again, and does not wait for the target's end either.
    for _ in 0..2 {
        let err = monitor.next_snapshot().unwrap_err();
        let MonitorError::NotWatched(target, _) = &err else { panic!("{err}") };
        assert_eq!(target.pid, sleeping.0.id());
        assert!(err.to_string().contains("is not watched: "), "{err}");
    }
    drop(sleeping);
    assert!(monitor.next_snapshot().unwrap().is_none(), "a target that has gone is no error");
}

/// One that cannot be watched is left out while others can.
#[test]
fn a_monitor_goes_on_with_those_that_it_can_watch() {
    let large = run("perl", &["-e", "$x = 'x' x (64 << 20); sleep 30"]);
    let small = run("sleep", &["30"]);
    let rss = |pid| Proc::default().status(pid, &mut Vec::new()).unwrap().rss_bytes;
    while rss(large.0.id()) < 32 << 20 {
        sleep_until(now().plus_us(10_000));
    }
    until_asleep(small.0.id());
    let tracker = Tracker::attach(&[large.0.id(), small.0.id()], true).unwrap();
    let ops = OpsSet::Smaps(Box::new(set(Limits { max_rss_bytes: 16 << 20, ..FAST })));
    let attrs = Attrs { method: Method::Resample, ..Attrs::default() };
    let mut monitor = Monitor::new(tracker, ops, attrs, 1).unwrap();
    assert_eq!(monitor.next_snapshot().unwrap().unwrap().targets.len(), 1);
}
