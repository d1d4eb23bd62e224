//! The monitor over the set that needs no privileges.

use super::*;
use isotherm_ops::smaps::{Limits, SmapsOps};

/// A monitor that can be asked for what schemes it has, over a process that sleeps.
struct Fixture {
    child: std::process::Child,
    monitor: Monitor,
}

impl Fixture {
    fn new() -> Self {
        let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let limits = Limits { clear_every_us: 5_000, look_every_us: 5_000, ..Limits::default() };
        let ops = OpsSet::Smaps(Box::new(SmapsOps::new(Proc::default(), limits)));
        let attrs = Attrs { aggr_us: 20_000, ..Attrs::default() };
        let tracker = Tracker::attach(&[child.id()], false).unwrap();
        Self { child, monitor: Monitor::new(tracker, ops, attrs, 1).unwrap() }
    }

    /// Commits one `stat` scheme, which a number tells from others.
    fn commit(&mut self, name: &str, number: u64) {
        let scheme = Scheme { max_nr_snapshots: number, ..Scheme::default() };
        let settings = Settings { name: name.to_owned(), ..Settings::default() };
        self.monitor.commit_schemes(vec![(scheme, settings)]);
    }

    /// The scheme in force: its number in the context, and the name that it is carried out by.
    fn in_force(&mut self) -> (u64, String) {
        let number = self.monitor.context().schemes()[0].scheme().max_nr_snapshots;
        (number, self.monitor.actor().settings()[0].name.clone())
    }

    /// What each scheme was tried on, in regions.
    fn windows(&self) -> Vec<(String, u64)> {
        let accounts = self.monitor.accounts();
        accounts.into_iter().map(|(name, c)| (name, c.nr_snapshots)).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn schemes_and_how_they_are_carried_out_change_at_the_same_point() {
    const A: u64 = 1_000_001;
    const B: u64 = 1_000_002;
    let mut fixture = Fixture::new();
    fixture.commit("a", A);
    assert_eq!(fixture.in_force(), (A, "a".to_owned()), "nothing runs yet");
    for _ in 0..3 {
        fixture.monitor.next_snapshot().unwrap().unwrap();
    }
    fixture.commit("b", B);
    fixture.commit("a", A);
    fixture.commit("b", B);
    // In the middle of a turn neither has changed, and nothing that `a` does counts as `b`'s.
    assert_eq!(fixture.in_force(), (A, "a".to_owned()));
    let before = fixture.windows();
    let [(name, windows)] = before.as_slice() else { panic!("{before:?}") };
    assert!(name == "a" && *windows > 0, "{before:?}");
    for _ in 0..20 {
        fixture.monitor.next();
        let (number, name) = fixture.in_force();
        assert_eq!(name, if number == A { "a" } else { "b" });
    }
    assert_eq!(fixture.in_force().1, "b", "the last commit is in force");
    let after = fixture.windows();
    let [(a, of_a), (b, of_b)] = after.as_slice() else { panic!("{after:?}") };
    assert_eq!((a.as_str(), b.as_str()), ("a", "b"));
    let raw = fixture.monitor.context().schemes()[0].stats().nr_snapshots;
    assert!(of_a >= windows, "{before:?} {after:?}");
    assert_eq!(of_a + of_b, raw, "every window is one scheme's: {after:?}");
}

#[test]
fn a_set_that_failed_is_not_a_target_that_is_gone() {
    let ops = OpsSet::Smaps(Box::new(SmapsOps::new(Proc::default(), Limits::default())));
    let tracker = Tracker::new(Proc::default(), false);
    let mut monitor = Monitor::new(tracker, ops, Attrs::default(), 1).unwrap();
    monitor.events.push_back(Happened::Failed("the kdamond has ended".to_owned()));
    let err = monitor.next_snapshot().unwrap_err();
    assert!(matches!(err, MonitorError::Failed(_)), "{err}");
    assert!(monitor.next_snapshot().unwrap().is_none(), "there is no target");
}

#[test]
fn a_window_over_a_suspend_is_late_and_ages_count_it() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const HOUR_NS: u64 = 3_600_000_000_000;
    // For how long the machine has slept so far.
    static SLEPT_NS: AtomicU64 = AtomicU64::new(0);
    let mut fixture = Fixture::new();
    let monitor = &mut fixture.monitor;
    monitor.driver.clock.since_boot =
        || Time(clock::since_boot().as_ns() + SLEPT_NS.load(Ordering::Relaxed));
    for _ in 0..3 {
        monitor.next_snapshot().unwrap().unwrap();
        assert_eq!(monitor.suspended_ns(), 0, "a busy machine is no suspend");
    }
    SLEPT_NS.store(HOUR_NS, Ordering::Relaxed);
    monitor.next_snapshot().unwrap().unwrap();
    let told = monitor.suspended_ns();
    assert!(told <= HOUR_NS && told > HOUR_NS - 10_000_000_000, "{told}");
    assert!(monitor.snapshot().end.since(monitor.snapshot().start) < HOUR_NS, "by its clock");
    let late = monitor.late().unwrap();
    assert!(late.late >= 1 && late.suspended_ns == told && late.is_much(), "{late:?}");
    assert!(late.to_string().contains("the machine was suspended for "), "{late}");
    assert!(monitor.lengths().of_last(1) >= told, "an age is as long as its windows");
    monitor.next_snapshot().unwrap().unwrap();
    assert_eq!(monitor.suspended_ns(), 0, "told once");
    assert!(monitor.lengths().of_last(2) >= told);
    assert_eq!(monitor.late().unwrap().suspended_ns, told);
}

#[test]
fn a_slowed_context_looks_at_its_targets_less_often_but_several_times_per_second() {
    let mut fixture = Fixture::new();
    for (times, ms) in [(1, 200), (2, 400), (3, 400), (70, 400), (0, 100)] {
        fixture.monitor.set_slowed(times);
        assert_eq!(fixture.monitor.closeness.track_ns, ms * 1_000_000, "{times}");
    }
}

#[test]
fn targets_are_looked_at_with_the_window_that_ends_near() {
    let ms = |ms: u64| ms * 1_000_000;
    let at = |now: u64| Time(ms(1000 + now));
    // Due, how often, how long the next window is: all in ms after the end of this one.
    for (due, track, window, expected) in [
        (0, 100, 100, 0),
        (30, 100, 100, 0),
        (94, 100, 100, 105),
        (100, 100, 100, 105),
        (120, 100, 100, 120),
        (30, 100, 20, 30),
        (20, 100, 20, 0),
        (60, 100, 1000, 60),
        (960, 1000, 1000, 1005),
    ] {
        let next = with_window(at(due), ms(track), at(0), (ms(window), ms(5)));
        assert_eq!(next, at(expected), "due after {due}, every {track}, window of {window} ms");
    }
}
