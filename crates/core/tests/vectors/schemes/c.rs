//! Setup C's schemes (§8.5), commits of schemes (§2.9), walks (§2.7), waiting for watermarks
//! (§2.5), and schemes that a tuning starves (§9.1.1).

use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{Action, Goal, Metric, Quota, Scheme, Walk};
use isotherm_core::{Attrs, TargetId};

use crate::run::{T0, bounds, ranges};
use crate::schemes::acting::{Acting, attrs_q, free_rate, match_all, pattern};
use crate::schemes::v::marks;

/// A scheme with a quota of 600 bytes per second.
fn scheme_c() -> Scheme {
    let quota = Quota { sz: 600, reset_interval_ms: 1000, ..Quota::default() };
    Scheme { quota, ..match_all(Action::Stat) }
}

/// Windows of five samples; [256, 512) is hot.
fn setup_c(scheme: Scheme, strict: bool) -> Acting {
    let attrs = Attrs { max_nr_regions: 7, strict, ..attrs_q() };
    let mut run = Acting::new(attrs, &[&[(0, 1024)]], vec![scheme]);
    run.hot = isotherm_core::AddrRange::new(256, 512);
    run
}

/// A new limit counts from the next quota window on. A new scheme is applied after a whole
/// interval.
#[test]
fn c_identical_attributes() {
    for strict in [true, false] {
        let mut run = setup_c(scheme_c(), strict);
        run.until_sis(6);
        let before = run.ctx.schemes()[0].clone();
        assert!(before.stats().nr_tried > 0 && before.quota().charged_sz > 500);
        let mut smaller = scheme_c();
        smaller.quota.sz = 500;
        run.ctx.commit_schemes([smaller, match_all(Action::Stat)]);
        let attrs = *run.ctx.attrs();
        run.ctx.commit(attrs).unwrap();
        run.requests.clear();
        run.until_sis(7);
        assert_eq!(run.ctx.schedule().next_aggregation, 10);
        let after = &run.ctx.schemes()[0];
        assert_eq!((after.stats(), after.quota()), (before.stats(), before.quota()));
        assert_eq!(after.next_apply(), before.next_apply());
        assert_eq!(run.ctx.schemes()[1].next_apply(), 12);
        run.until_sis(11);
        assert!(run.requests.iter().all(|r| r.scheme == 0), "the new one comes at 12");
        run.until_sis(12);
        assert!(run.requests.iter().any(|r| r.scheme == 1));
        // The quota window of one second ends at sample 205, when it is applied next.
        assert_eq!(run.ctx.schemes()[0].quota().esz, 600);
        run.until_sis(204);
        assert_eq!(run.ctx.schemes()[0].quota().esz, 600);
        run.until_sis(205);
        assert_eq!(run.ctx.schemes()[0].quota().esz, 500);
    }
}

#[test]
fn c_longer_windows() {
    let mut run = setup_c(scheme_c(), true);
    run.until_sis(6);
    // The kernel commits the schemes before the attributes, so new attributes plan the schemes
    // anew.
    let first = Scheme { apply_interval_us: 10_000, ..scheme_c() };
    run.ctx.commit_schemes([first, match_all(Action::Stat)]);
    let attrs = Attrs { aggr_us: 50_000, ..*run.ctx.attrs() };
    run.ctx.commit(attrs).unwrap();
    run.until_sis(7);
    run.ctx.set_ranges(T0, &ranges(&[(128, 700)])).unwrap();
    assert_eq!(bounds(&run.ctx.targets()[0]), [(128, 256), (256, 512), (512, 704)]);
    assert_eq!(run.ctx.schedule().next_aggregation, 17);
    let next: Vec<_> = run.ctx.schemes().iter().map(|s| s.next_apply()).collect();
    assert_eq!(next, [9, 17]);
}

/// Identical schemes change nothing at all, at whatever moment (the kernel's no-op commit test).
#[test]
fn commit_noop() {
    for strict in [true, false] {
        let mut goal = scheme_c();
        goal.quota.goals = vec![
            Goal { current: 4000, ..Goal::new(Metric::UserInput, 10_000) },
            Goal::new(Metric::SomeMemPsiUs, 1000),
        ];
        let schemes =
            [goal, Scheme { apply_interval_us: 10_000, ..match_all(Action::Pageout) }, scheme_c()];
        let run = |noop: bool| {
            let attrs = Attrs { strict, max_nr_regions: 20, ..attrs_q() };
            let mut run = Acting::new(attrs, &[&[(0, 4096)]], schemes.to_vec());
            let mut stalled = 0;
            run.measure = Box::new(move |_| {
                stalled += 700;
                Some(stalled)
            });
            for _ in 0..500 {
                if noop {
                    run.ctx.commit_schemes(schemes.clone());
                }
                run.tick();
            }
            (run.requests, run.ctx.schemes().to_vec())
        };
        assert_eq!(run(true), run(false), "strict: {strict}");
    }
}

/// Schemes that are missing in a commit are removed with their counters. The cursor is removed with
/// its target.
#[test]
fn commit_fewer() {
    let mut run = Acting::new(attrs_q(), &[&[(0, 1024)], &[(0, 1024)]], vec![scheme_c(); 3]);
    run.until_sis(5);
    assert_eq!(run.ctx.schemes()[0].cursor().map(|c| c.target), Some(T0));
    run.ctx.commit_schemes([scheme_c()]);
    run.ctx.remove_target(T0);
    run.maps = Vec::new();
    run.until_sis(6);
    assert_eq!(run.ctx.schemes().len(), 1);
    assert_eq!(run.ctx.schemes()[0].cursor(), None);
    run.ctx.commit_schemes([]);
    run.requests.clear();
    run.until_sis(20);
    assert_eq!((run.ctx.schemes().len(), run.requests.len()), (0, 0));
}

/// A walk sees each scheme during its next interval, once. Its ages are those before the action.
#[test]
fn walk() {
    let quick = Scheme { apply_interval_us: 15_000, ..match_all(Action::Stat) };
    let schemes = vec![match_all(Action::Pageout), quick];
    let mut run = Acting::new(attrs_q(), &[&[(0, 1024)]], schemes);
    run.until_sis(5);
    run.ctx.begin_walk().unwrap();
    assert!(run.ctx.begin_walk().is_err(), "one at a time");
    run.requests.clear();
    run.until_sis(9);
    assert!(matches!(run.ctx.walk(), Walk::Running { .. }));
    assert!(run.requests.len() > 4, "the quick one was due twice");
    run.until_sis(10);
    let Walk::Done(tried) = run.ctx.walk() else { panic!("both are through") };
    let of = |i| -> Vec<_> {
        let seen = tried.iter().filter(|t| t.scheme == i);
        seen.map(|t| (t.range.start, t.range.end, t.age)).collect()
    };
    // The first pass at sample 5 made all regions young again.
    assert_eq!(of(0), [(0, 256, 1), (256, 512, 1), (512, 768, 1), (768, 1024, 1)]);
    assert_eq!(of(1).iter().map(|(start, end, _)| end - start).sum::<u64>(), 1024);
    assert!(tried.iter().all(|t| t.passed == t.range.len()));
    run.ctx.begin_walk().unwrap();
}

#[test]
fn walk_cancelled() {
    let mut none = Acting::new(attrs_q(), &[&[(0, 1024)]], Vec::new());
    none.until_sis(1);
    none.ctx.begin_walk().unwrap();
    none.until_sis(2);
    assert_eq!(*none.ctx.walk(), Walk::Cancelled, "no scheme");

    let mut paused = Acting::new(attrs_q(), &[&[(0, 1024)]], vec![scheme_c()]);
    paused.until_sis(1);
    paused.ctx.begin_walk().unwrap();
    paused.ctx.pause(true);
    paused.tick();
    assert_eq!(*paused.ctx.walk(), Walk::Cancelled, "paused");

    let waits = Scheme { watermarks: marks(), ..scheme_c() };
    let mut inactive = Acting::new(attrs_q(), &[&[(0, 1024)]], vec![waits]);
    inactive.ctx.begin_walk().unwrap();
    inactive.measure = free_rate(900);
    inactive.tick();
    assert_eq!(*inactive.ctx.walk(), Walk::Cancelled, "none active");

    let mut stopped = Acting::new(attrs_q(), &[&[(0, 1024)]], vec![scheme_c()]);
    stopped.until_sis(1);
    stopped.ctx.begin_walk().unwrap();
    stopped.ctx.remove_target(TargetId(0));
    stopped.maps.clear();
    stopped.tick();
    assert_eq!(*stopped.ctx.walk(), Walk::Cancelled, "stopped");
}

/// While no scheme may work, nothing is sampled and no sample interval passes, but wall-clock time
/// does.
#[test]
fn watermarks_wait() {
    for strict in [true, false] {
        let attrs = Attrs { strict, ..attrs_q() };
        let waits = Scheme { watermarks: marks(), ..match_all(Action::Stat) };
        let mut run = Acting::new(attrs, &[&[(0, 1024)]], vec![waits]);
        run.measure = free_rate(399);
        run.until_sis(7);
        run.measure = free_rate(501);
        // The watermarks are checked in every sample with `strict`, otherwise once per window.
        while run.ctx.schemes()[0].is_active() {
            run.tick();
        }
        let (passed, nr_checks, from) = (run.ctx.schedule().passed, run.nr_checks, run.now);
        assert!(if strict { passed <= 8 } else { passed <= 12 }, "at {passed}");
        run.requests.clear();
        run.measure = free_rate(400);
        for _ in 0..10 {
            run.tick();
        }
        assert_eq!((run.ctx.schedule().passed, run.nr_checks), (passed, nr_checks));
        assert_eq!(run.requests, []);
        assert!(run.now.since(from) >= 9_000_000_000, "{:?}", run.now);
        // A context that is woken too early goes on waiting.
        let until = run.go_to_sleep().unwrap();
        run.now = isotherm_core::Time(run.now.0 + 1000);
        assert!(run.go_to_sleep().unwrap() > until);
        assert_eq!((run.ctx.schedule().passed, run.nr_checks), (passed, nr_checks));
        run.measure = free_rate(399);
        run.tick();
        run.until_sis(passed + 10);
        assert!(run.ctx.schemes()[0].is_active());
        assert!(!run.requests.is_empty());
    }
}

/// Changes that are asked for during the wait take effect at its end, before the watermarks are
/// checked.
#[test]
fn watermarks_wait_takes_changes() {
    let waits = Scheme { watermarks: marks(), ..match_all(Action::Stat) };
    let mut run = Acting::new(attrs_q(), &[&[(0, 1024)]], vec![waits]);
    run.measure = free_rate(900);
    run.tick();
    assert_eq!((run.ctx.schedule().passed, run.ctx.schemes()[0].is_active()), (0, false));
    run.ctx.commit_schemes([match_all(Action::Stat)]);
    run.tick();
    run.tick();
    assert!(run.ctx.schedule().passed > 0, "nothing to wait for any more");
}

/// Shorter windows that are committed during the wait end on time. They once ended a sample late,
/// with more counts than samples.
#[test]
fn watermarks_wait_takes_attributes() {
    let waits = Scheme { watermarks: marks(), ..match_all(Action::Stat) };
    let mut run = setup_c(waits, false);
    run.measure = free_rate(300);
    run.until_sis(6);
    run.measure = free_rate(900);
    while run.ctx.schemes()[0].is_active() {
        run.tick();
    }
    let passed = run.ctx.schedule().passed;
    run.ctx.commit(Attrs { aggr_us: 5000, ..*run.ctx.attrs() }).unwrap();
    run.measure = free_rate(300);
    run.until_sis(passed + 1);
    assert_eq!(run.ctx.snapshot().max_nr_accesses, 1);
    for sis in 1..5 {
        run.until_sis(passed + sis);
        let regions = &run.ctx.snapshot().targets[0].regions;
        assert!(regions.iter().all(|r| r.nr_accesses <= 1), "{regions:?}");
    }
}

/// If one of two schemes is at work, the loop goes on and applies only that one.
#[test]
fn watermarks_of_one() {
    let waits = Scheme { watermarks: marks(), ..scheme_c() };
    let mut run = Acting::new(attrs_q(), &[&[(0, 1024)]], vec![waits, match_all(Action::Stat)]);
    run.measure = free_rate(900);
    run.until_sis(15);
    assert!(run.requests.iter().all(|r| r.scheme == 1));
    assert_eq!(run.requests.len(), 12);
    assert_eq!(run.ctx.schemes()[0].quota().charged_from, None, "no window has begun");
}

/// Number of passes in ten seconds: all is hot, tuned every 300 ms within bounds that forbid a
/// change, applied every second.
fn nr_passes(strict: bool, goal: IntervalsGoal) -> u64 {
    let attrs = Attrs { intervals_goal: goal, strict, ..Attrs::reference() };
    let scheme = Scheme { apply_interval_us: 1_000_000, ..match_all(Action::Stat) };
    let mut run = Acting::new(attrs, &[&[(0, 1 << 20)]], vec![scheme]);
    run.hot = isotherm_core::AddrRange::new(0, 1 << 20);
    run.until_sis(2000);
    run.ctx.schemes()[0].stats().nr_snapshots
}

/// R§9.1.1: every tuning moves the next application away.
#[test]
fn starvation() {
    let goal =
        IntervalsGoal { access_bp: 400, aggrs: 3, min_sample_us: 5000, max_sample_us: 10_000_000 };
    assert_eq!(nr_passes(true, IntervalsGoal::default()), 10, "strict, without a goal");
    assert_eq!(nr_passes(true, goal), 0, "strict");
    assert_eq!(nr_passes(false, goal), 10, "by default");
}

/// §8.3, size quota: no window does more than the limit, and the windows that were full are
/// counted.
#[test]
fn selftest_size_quota() {
    let quota = Quota { sz: 1 << 20, reset_interval_ms: 100, ..Quota::default() };
    let scheme = Scheme { quota, pattern: pattern((5, 20), (2, u32::MAX)), ..Scheme::default() };
    let mut run = Acting::new(Attrs::reference(), &[&[(0, 64 << 20)]], vec![scheme]);
    run.hot = isotherm_core::AddrRange::new(8 << 20, 24 << 20);
    let (mut full, mut sum) = (0, 0);
    for window in 1..=200 {
        run.requests.clear();
        run.until_sis(20 * window);
        let bytes: u64 = run.requests.iter().map(|r| r.range.len()).sum();
        assert!(bytes <= 1 << 20, "{bytes} bytes in window {window}");
        full += u64::from(bytes == 1 << 20);
        sum += bytes;
    }
    assert!(sum > 100 << 20, "{sum} bytes in all: nothing was limited");
    run.until_sis(4020);
    assert!(run.ctx.schemes()[0].stats().qt_exceeds >= full);
}

/// §8.3, quota goal: the effective quota follows the user's feedback; at its least it may stay.
#[test]
fn selftest_quota_goal() {
    let scheme = |current| {
        let goal = Goal { current, ..Goal::new(Metric::UserInput, 10_000) };
        let quota = Quota { goals: vec![goal], reset_interval_ms: 100, ..Quota::default() };
        Scheme { quota, ..match_all(Action::Stat) }
    };
    let mut run = Acting::new(Attrs::reference(), &[&[(0, 64 << 20)]], vec![scheme(10_000)]);
    run.until_sis(20);
    for current in [0, 15_000, 5000, 18_000] {
        let before = run.ctx.schemes()[0].quota().esz;
        run.ctx.commit_schemes([scheme(current)]);
        run.until_sis(run.ctx.schedule().passed + 100);
        let after = run.ctx.schemes()[0].quota().esz;
        let follows = if current < 10_000 { after > before } else { after < before || after == 1 };
        assert!(follows, "from {before} to {after} at {current}");
    }
}

/// §8.3, apply interval: a scheme that is applied ten times as often tries at least nine times as
/// many regions.
#[test]
fn selftest_apply_interval() {
    let hot = |apply_interval_us| Scheme {
        apply_interval_us,
        pattern: pattern((5, 20), (2, u32::MAX)),
        ..Scheme::default()
    };
    let mut run = Acting::new(Attrs::reference(), &[&[(0, 64 << 20)]], vec![hot(0), hot(10_000)]);
    run.hot = isotherm_core::AddrRange::new(8 << 20, 24 << 20);
    run.until_sis(2000);
    let tried: Vec<_> = run.ctx.schemes().iter().map(|s| s.stats().nr_tried).collect();
    assert!(tried[0] > 50 && tried[1] >= 9 * tried[0], "{tried:?}");
}

/// §8.3 and §4.10: a snapshot per pass and target; no more are taken than allowed.
#[test]
fn selftest_nr_snapshots() {
    for (most, expected) in [(0, 20), (7, 7), (40, 20)] {
        let scheme = Scheme { max_nr_snapshots: most, ..match_all(Action::Stat) };
        let mut run = Acting::new(attrs_q(), &[&[(0, 1024)]], vec![scheme]);
        run.until_sis(100);
        assert_eq!(run.ctx.schemes()[0].stats().nr_snapshots, expected, "of at most {most}");
    }
}
