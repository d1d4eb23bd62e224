//! Rare paths in which `strict` once differed from the kernel. They were found by running `core.c`
//! of Linux 7.2.13 beside the core on random cases; a test's letter is that of the path in that
//! comparison.
//!
//! Path (c), the cost of what an address filter refuses, is in `allocs.rs`: it is about memory.

use std::cell::Cell;
use std::rc::Rc;

use isotherm_core::scheme::{
    Action, Filter, FilterKind, Goal, Metric, Quota, Scheme, Walk, WatermarkMetric, Watermarks,
};
use isotherm_core::{AddrRange, Attrs, Method, Time};

use crate::run::Run;
use crate::schemes::acting::{Acting, Answer, attrs_q, free_rate, match_all};
use crate::schemes::v::marks;

const TARGET: &[(u64, u64)] = &[(0, 1024)];

/// A scheme for every region that waits as the watermarks say.
fn waits(watermarks: Watermarks) -> Scheme {
    Scheme { watermarks, ..match_all(Action::Stat) }
}

/// A pressure total that the test increases.
fn total(us: &Rc<Cell<u64>>) -> Answer {
    let us = Rc::clone(us);
    Box::new(move |measure| (measure.metric == Metric::SomeMemPsiUs).then_some(us.get()))
}

/// (a) A watermark interval of 0 is no wait: pages are sampled, and the scheme stays inactive.
#[test]
fn a_watermark_interval_0() {
    for strict in [true, false] {
        let metric = WatermarkMetric::FreeMemRate;
        let marks = Watermarks { metric, interval_us: 0, high: 929, mid: 559, low: 374 };
        let attrs = Attrs { strict, ..attrs_q() };
        let mut run = Acting::new(attrs, &[TARGET], vec![waits(marks)]);
        run.measure = free_rate(270);
        for _ in 0..20 {
            run.tick();
        }
        assert_eq!((run.ctx.schedule().passed, run.now), (20, Time(100_000_000)));
        assert!(run.nr_checks >= 20 * 4, "{} checks, strict: {strict}", run.nr_checks);
        assert!(!run.ctx.schemes()[0].is_active());
        assert_eq!(run.requests, []);
    }
}

/// (a) The shortest wait counts: one scheme that does not wait is enough.
#[test]
fn a_one_of_two_does_not_wait() {
    let no_wait = Watermarks { interval_us: 0, ..marks() };
    let mut run = Acting::new(attrs_q(), &[TARGET], vec![waits(marks()), waits(no_wait)]);
    run.measure = free_rate(900);
    for _ in 0..20 {
        run.tick();
    }
    assert_eq!((run.ctx.schedule().passed, run.requests.len()), (20, 0));
}

/// (b) Only the nine values that the kernel compares restart deadlines and drop the partial window.
#[test]
fn b_commit_of_other_attributes() {
    let first = Attrs {
        sample_us: 5000,
        aggr_us: 25_000,
        min_nr_regions: 4,
        max_nr_regions: 7,
        min_region_sz: 65_536,
        ..Attrs::reference()
    };
    let smaller = |attrs: Attrs| Attrs { min_region_sz: 16, ..attrs };
    let more_clears = |attrs: Attrs| Attrs { clears_per_sec: 5000, ..attrs };
    for strict in [true, false] {
        for change in [smaller, more_clears] {
            let attrs = Attrs { strict, ..first };
            let mut run = Run::new(attrs, &[(0, 1 << 20)], (0, 1 << 20));
            run.go_to_sleep();
            run.ctx.commit(change(attrs)).unwrap();
            run.until_sis(1);
            assert_eq!(run.ctx.schedule().next_aggregation, 5, "strict: {strict}");
            assert_eq!(run.ctx.schedule().next_update, first.update_us / 5000);
            let expected = change(attrs);
            assert_eq!(run.ctx.attrs().min_region_sz, expected.min_region_sz);
            assert_eq!(run.ctx.attrs().clears_per_sec, expected.clears_per_sec);
            run.until_sis(5);
            let counts: Vec<_> =
                run.snapshots[0].targets[0].regions.iter().map(|r| r.nr_accesses).collect();
            assert_eq!(counts, [5; 4], "the window is whole, strict: {strict}");
        }
    }
}

/// (b) The state of watched pages stays, too.
#[test]
fn b_more_clears_for_first_touch() {
    let attrs = Attrs { method: Method::FirstTouch, ..Attrs::default() };
    let mut run = Run::new(attrs, &[(0, 64 << 20)], (8 << 20, 16 << 20));
    run.until_sis(510);
    run.ctx.commit(Attrs { clears_per_sec: 1000, ..attrs }).unwrap();
    run.until_sis(520);
    assert_eq!(run.ctx.schedule().next_aggregation % 20, 0);
    assert_eq!(run.snapshots.len(), 26);
}

/// (d) The sample under way when the wait began keeps its interval: the kernel has read it by then.
#[test]
fn d_intervals_committed_during_a_wait() {
    for (strict, expected_us) in [(true, 8000), (false, 8238)] {
        let attrs = Attrs { sample_us: 1000, aggr_us: 5000, strict, ..attrs_q() };
        let watermarks = Watermarks { interval_us: 7000, ..marks() };
        let mut run = Acting::new(attrs, &[TARGET], vec![waits(watermarks)]);
        run.measure = free_rate(900);
        let woken = run.go_to_sleep().unwrap();
        assert_eq!(woken, Time(7_000_000));
        run.ctx.commit(Attrs { sample_us: 1238, aggr_us: 6190, ..attrs }).unwrap();
        run.measure = free_rate(300);
        run.now = woken;
        run.tick();
        assert_eq!((run.ctx.schedule().passed, run.now), (1, Time(expected_us * 1000)));
        // The next samples use the new interval.
        run.tick();
        assert_eq!(run.now, Time((expected_us + 1238) * 1000));
    }
}

/// (e) In the window in which a removed quota's size becomes 0 the kernel still fills its
/// histogram, and core filters cut regions for it.
#[test]
fn e_quota_removed() {
    let mut limited = match_all(Action::Stat);
    let kind = FilterKind::Addr(AddrRange::new(128, 184));
    limited.filters.push(Filter { kind, matching: true, allow: false });
    let free = limited.clone();
    limited.quota = Quota { sz: 4096, reset_interval_ms: 25, ..Quota::default() };
    let attrs = Attrs { min_region_sz: 8, ..attrs_q() };
    let mut run = Acting::new(attrs, &[TARGET], vec![limited]);
    let sz_tried = |run: &Acting| run.ctx.schemes()[0].stats().sz_tried;
    run.until_sis(5);
    assert_eq!((sz_tried(&run), run.ctx.schemes()[0].quota().esz), (968, 4096));
    run.ctx.commit_schemes([free]);
    run.until_sis(10);
    assert_eq!((sz_tried(&run), run.ctx.schemes()[0].quota().esz), (1936, 0));
    // Then there is none any more, and sizes from before the cut count (R§9.2.1).
    run.until_sis(15);
    assert_eq!(sz_tried(&run), 1936 + 968 + 128);
}

/// (f) What is committed during a wait counts, in `strict` too. The kernel remembers the shortest
/// wait of all looks: it would wait for ever here, and keep a shorter interval for a longer one.
#[test]
fn f_commit_during_a_wait() {
    for strict in [true, false] {
        let attrs = Attrs { strict, ..attrs_q() };
        let mut none = Acting::new(attrs, &[TARGET], vec![waits(marks())]);
        none.measure = free_rate(900);
        none.now = none.go_to_sleep().unwrap();
        assert_eq!((none.ctx.schedule().passed, none.now), (0, Time(1_000_000_000)));
        none.ctx.commit_schemes([]);
        none.until_sis(5);
        assert_eq!(none.now, Time(1_025_000_000), "strict: {strict}");

        let mut longer = Acting::new(attrs, &[TARGET], vec![waits(marks())]);
        longer.measure = free_rate(900);
        longer.now = longer.go_to_sleep().unwrap();
        longer.ctx.commit_schemes([waits(Watermarks { interval_us: 3_000_000, ..marks() })]);
        assert_eq!(longer.go_to_sleep(), Some(Time(4_000_000_000)), "strict: {strict}");
    }
}

/// A scheme whose quota follows a goal.
fn with_goal(goal: Goal, reset_interval_ms: u64) -> Scheme {
    let quota = Quota { goals: vec![goal], reset_interval_ms, ..Quota::default() };
    Scheme { quota, ..match_all(Action::Stat) }
}

/// (g) Without a reset interval the kernel measures twice at the beginning, and no task has waited
/// in between.
#[test]
fn g_pressure_goal_without_interval() {
    let goal = Goal::new(Metric::SomeMemPsiUs, 10_000);
    let mut run = Acting::new(attrs_q(), &[TARGET], vec![with_goal(goal, 0)]);
    run.measure = Box::new(|_| Some(1136));
    run.until_sis(5);
    let scheme = &run.ctx.schemes()[0];
    assert_eq!(scheme.quota().esz_bp, 37_728);
    let goal = scheme.scheme().quota.goals[0];
    assert_eq!((goal.current, goal.last_total), (0, Some(1136)));
    // With a reset interval it measures once.
    let goal = Goal::new(Metric::SomeMemPsiUs, 10_000);
    let mut run = Acting::new(attrs_q(), &[TARGET], vec![with_goal(goal, 25)]);
    run.measure = Box::new(|_| Some(1136));
    run.until_sis(5);
    assert_eq!(run.ctx.schemes()[0].quota().esz_bp, 18_864);
}

/// (h) The pressure total outlives a goal of another metric. By default it is counted from now on.
#[test]
fn h_pressure_goal_comes_back() {
    for (strict, expected) in [(true, 14_774), (false, 0)] {
        let attrs = Attrs { strict, ..attrs_q() };
        let psi = Goal::new(Metric::SomeMemPsiUs, 10_000);
        let user = Goal { current: 9000, ..Goal::new(Metric::UserInput, 10_000) };
        let mut run = Acting::new(attrs, &[TARGET], vec![with_goal(psi, 25)]);
        let stalled = Rc::new(Cell::new(10_245));
        run.measure = total(&stalled);
        run.until_sis(5);
        run.ctx.commit_schemes([with_goal(user, 25)]);
        run.until_sis(10);
        assert_eq!(run.ctx.schemes()[0].scheme().quota.goals[0].current, 9000);
        run.ctx.commit_schemes([with_goal(psi, 25)]);
        stalled.set(25_019);
        run.until_sis(15);
        let goal = run.ctx.schemes()[0].scheme().quota.goals[0];
        assert_eq!((goal.current, goal.last_total), (expected, Some(25_019)), "strict: {strict}");
    }
}

/// (i) The kernel gives up a walk after the first sleep of a wait, whether or not the wait goes on.
/// By default it is given up at once, and one that comes during the wait is kept if that was the
/// last sleep.
#[test]
fn i_walk_around_a_wait() {
    let waiting = |strict| {
        let attrs = Attrs { strict, ..attrs_q() };
        let mut run = Acting::new(attrs, &[TARGET], vec![waits(marks())]);
        run.measure = free_rate(900);
        run
    };
    for strict in [true, false] {
        let mut before = waiting(strict);
        before.ctx.begin_walk().unwrap();
        before.now = before.go_to_sleep().unwrap();
        let running = matches!(before.ctx.walk(), Walk::Running { .. });
        assert_eq!(running, strict);
        before.measure = free_rate(300);
        before.go_to_sleep();
        assert_eq!(*before.ctx.walk(), Walk::Cancelled, "strict: {strict}");
        assert!(before.ctx.schemes()[0].is_active());

        let mut during = waiting(strict);
        during.now = during.go_to_sleep().unwrap();
        during.ctx.begin_walk().unwrap();
        during.measure = free_rate(300);
        during.go_to_sleep();
        assert_eq!(*during.ctx.walk() == Walk::Cancelled, strict);
    }
}

/// (j) With a sample interval of 0 the kernel's moving sum takes one sample for a whole window.
#[test]
fn j_sample_interval_0() {
    for (strict, expected) in [(true, 0), (false, 9600)] {
        let attrs = Attrs { sample_us: 0, aggr_us: 25, strict, max_nr_regions: 7, ..attrs_q() };
        let mut run = Run::new(attrs, &[(0, 1024)], (0, 1024));
        // Every sleep is over at once: each goes on by one sample.
        let until = |run: &mut Run, sis| {
            while run.ctx.schedule().passed < sis {
                run.go_to_sleep();
            }
        };
        until(&mut run, 1);
        run.hot = AddrRange::new(0, 0);
        until(&mut run, 25);
        assert_eq!((run.snapshots.len(), run.regions()[0].last_nr_accesses), (1, 1));
        until(&mut run, 26);
        let seen: Vec<_> = run.regions().iter().map(|r| r.nr_accesses_bp).collect();
        assert_eq!(seen, [expected; 4], "strict: {strict}");
    }
}
