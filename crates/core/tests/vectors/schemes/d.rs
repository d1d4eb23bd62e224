//! Defects of schemes (§9.2, and 9.1.4, 9.5.3, 2.5): what `strict` reproduces, and what is done by
//! default. The tests are named after the reference. They cover the table in
//! `isotherm_core::scheme`.

use std::cell::Cell;
use std::rc::Rc;

use isotherm_core::scheme::score::{Facts, hot, score};
use isotherm_core::scheme::{
    Action, Age, Bounds, Filter, FilterKind, Frequency, Goal, Metric, Order, Pattern, Quota,
    QuotaState, Scheme, Weights,
};
use isotherm_core::{AddrRange, Applied, Attrs, PageState, Wish};

use crate::run::bounds;
use crate::schemes::acting::{Acting, all_of, attrs_q, free_rate, match_all, pattern};
use crate::schemes::v::marks;

type Ranges = &'static [(u64, u64)];

const TARGET: Ranges = &[(0, 1024)];

/// Setup Q, strict or not.
fn run(strict: bool, scheme: Scheme) -> Acting {
    Acting::new(Attrs { strict, ..attrs_q() }, &[TARGET], vec![scheme])
}

/// A scheme that counts all regions, with a limit of bytes per aggregation window.
fn with_sz(sz: u64) -> Scheme {
    let quota = Quota { sz, reset_interval_ms: 25, ..Quota::default() };
    Scheme { quota, ..match_all(Action::Stat) }
}

/// Refuses addresses from 100 to 600, of which 96 to 592 are left when rounded.
fn refuse_addr(mut scheme: Scheme) -> Scheme {
    let kind = FilterKind::Addr(AddrRange::new(100, 600));
    scheme.filters.push(Filter { kind, matching: true, allow: false });
    scheme
}

/// A quota whose goal is the user's input: 10,000 meets the goal.
fn with_goal(current: u64, quota: Quota) -> Quota {
    Quota { goals: vec![Goal { current, ..Goal::new(Metric::UserInput, 10_000) }], ..quota }
}

#[test]
fn d9_2_1_size_before_cutting() {
    for (strict, tried) in [(true, 688), (false, 528)] {
        let mut run = run(strict, refuse_addr(match_all(Action::Stat)));
        run.window();
        let scheme = &run.ctx.schemes()[0];
        let seen = (scheme.stats().sz_tried, scheme.stats().sz_applied, scheme.quota().charged_sz);
        assert_eq!(seen, (tried, 528, tried), "strict: {strict}");
    }
}

#[test]
fn d9_2_2_window_wasted_at_the_end() {
    let quarters: [Ranges; 4] = [&[(0, 256)], &[(256, 512)], &[(512, 768)], &[(768, 1024)]];
    for strict in [true, false] {
        let attrs = Attrs { min_region_sz: 128, strict, ..attrs_q() };
        let mut run = Acting::new(attrs, &[TARGET], vec![with_sz(350)]);
        for round in 0..3 {
            for quarter in quarters {
                assert_eq!(run.window_ranges(), quarter, "round {round}, strict: {strict}");
            }
            if strict {
                assert_eq!(run.window_ranges(), [], "round {round}");
            }
        }
    }
}

/// If another target follows the one that filled the quota, the next window begins with it.
#[test]
fn d9_2_2_next_target() {
    let attrs = Attrs { min_region_sz: 128, strict: false, ..attrs_q() };
    let mut run = Acting::new(attrs, &[&[(0, 512)], &[(0, 512)]], vec![with_sz(512)]);
    for i in 0..6 {
        let targets: Vec<_> = run.window().iter().map(|r| r.target.0).collect();
        assert!(!targets.is_empty() && targets.iter().all(|t| *t == i % 2), "{i}: {targets:?}");
    }
}

#[test]
fn d9_2_3_snapshots() {
    // A pass counts even if the quota is used up before the last region.
    for (strict, sz, expected) in
        [(true, 0, 20), (false, 0, 10), (true, 10, 0), (false, 10, 10), (true, 300, 2)]
    {
        let attrs = Attrs { strict, ..attrs_q() };
        let mut run = Acting::new(attrs, &[TARGET, TARGET], vec![with_sz(sz)]);
        run.until_sis(50);
        let seen = run.ctx.schemes()[0].stats().nr_snapshots;
        assert_eq!(seen, expected, "strict: {strict}, {sz} bytes");
    }
    // Three snapshots: one and a half passes, or three.
    for (strict, expected) in [(true, 1024 * 3), (false, 1024 * 6)] {
        let scheme = Scheme { max_nr_snapshots: 3, ..match_all(Action::Stat) };
        let attrs = Attrs { strict, ..attrs_q() };
        let mut run = Acting::new(attrs, &[TARGET, TARGET], vec![scheme]);
        run.until_sis(50);
        let stats = run.ctx.schemes()[0].stats();
        assert_eq!((stats.sz_applied, stats.nr_snapshots), (expected, 3), "strict: {strict}");
    }
}

#[test]
fn d9_2_4_quota_set_later() {
    for (strict, expected) in [(true, 0), (false, 288)] {
        let mut run = run(strict, match_all(Action::Stat));
        run.until_sis(24);
        run.ctx.commit_schemes([with_sz(300)]);
        let bytes: u64 = run.window().iter().map(|r| r.range.len().min(r.max_bytes)).sum();
        assert_eq!(bytes, expected, "strict: {strict}");
    }
}

/// A scheme that may use one millisecond per aggregation window.
fn with_ms() -> Scheme {
    let quota = Quota { ms: 1, reset_interval_ms: 25, ..Quota::default() };
    Scheme { quota, ..match_all(Action::Stat) }
}

/// 64 MiB in regions of 4 KiB and more.
fn large(strict: bool, scheme: Scheme) -> Acting {
    let attrs = Attrs { min_region_sz: 4096, max_nr_regions: 100, strict, ..attrs_q() };
    Acting::new(attrs, &[&[(0, 64 << 20)]], vec![scheme])
}

/// The time that acting on a page takes, in ns.
fn at_cost(ns: &Rc<Cell<u64>>) -> Box<dyn FnMut(&isotherm_core::Request) -> Applied> {
    let ns = Rc::clone(ns);
    Box::new(move |r| {
        let done = all_of(r);
        Applied { ns: done.covered / 4096 * ns.get(), ..done }
    })
}

#[test]
fn d9_2_5_lifetime_throughput() {
    for strict in [true, false] {
        let mut run = large(strict, with_ms());
        let cost = Rc::new(Cell::new(10_000));
        run.apply = at_cost(&cost);
        run.until_sis(5 * 400);
        let slow = run.ctx.schemes()[0].quota().esz;
        assert!(300 << 10 < slow && slow < 500 << 10, "{slow} bytes in a millisecond");
        // Acting is now a hundred times as fast. 20 windows should be enough to notice it.
        cost.set(100);
        run.until_sis(5 * 420);
        let fast = run.ctx.schemes()[0].quota().esz;
        if strict {
            assert!(fast < 10 * slow, "{slow} to {fast}: nothing of the past was kept");
        } else {
            assert!(fast > 50 * slow, "{slow} to {fast}");
        }
    }
}

/// The throughput of the first window is a guess. Unless `strict`, the window also ends when its
/// time is used up.
#[test]
fn d9_2_5_time_is_a_limit() {
    for strict in [true, false] {
        let mut run = large(strict, with_ms());
        run.apply = Box::new(move |r| {
            // A page takes 100 µs. By default the operations set stops when the time is over.
            let in_time = if strict { u64::MAX } else { r.max_ns.div_ceil(100_000) };
            let done = (r.range.len() / 4096).min(in_time);
            let ns = done * 100_000;
            Applied { ns, covered: done * 4096, asked: done * 4096, ..all_of(r) }
        });
        run.window();
        let ns = run.ctx.schemes()[0].stats().max_window_ns;
        assert_eq!(ns > 1_000_000, strict, "{ns} ns, strict: {strict}");
        assert!(ns >= 1_000_000);
    }
}

#[test]
fn d9_2_6_wind_up() {
    let limit = 1 << 20;
    for strict in [true, false] {
        let quota = Quota { sz: limit, ..Quota::default() };
        let mut state = QuotaState::default();
        for _ in 0..60 {
            state.set_effective(&with_goal(0, quota.clone()), 4096, strict);
        }
        assert_eq!(state.esz, limit);
        let mut windows = 0;
        while state.esz > limit / 2 {
            state.set_effective(&with_goal(15_000, quota.clone()), 4096, strict);
            windows += 1;
        }
        assert!(if strict { windows > 20 } else { windows == 1 }, "{windows}, strict: {strict}");
    }
}

#[test]
fn d9_2_7_slow_start() {
    for strict in [true, false] {
        let quota = with_goal(0, Quota { reset_interval_ms: 25, ..Quota::default() });
        let mut run = large(strict, Scheme { quota, ..match_all(Action::Stat) });
        let mut windows = 0;
        while run.window().is_empty() {
            windows += 1;
        }
        assert!(if strict { windows >= 10 } else { windows == 0 }, "{windows}, strict: {strict}");
    }
}

#[test]
fn d9_2_9_weight_of_size() {
    let weights = Weights { sz: 1, nr_accesses: 1, age: 1 };
    let facts = |sz, nr_accesses| Facts { sz, nr_accesses, age: 0 };
    for strict in [true, false] {
        let attrs = Attrs { strict, ..Attrs::reference() };
        let hotter =
            hot(facts(1 << 30, 10), weights, &attrs) > hot(facts(4096, 10), weights, &attrs);
        let cold = |sz| score(Order::ColdFirst, facts(sz, 0), weights, &attrs);
        assert_eq!((hotter, cold(1 << 30) > cold(4096)), (!strict, !strict));
    }
}

#[test]
fn d9_2_13_commit_activates() {
    for strict in [true, false] {
        let schemes = [Scheme { watermarks: marks(), ..with_sz(0) }, match_all(Action::Stat)];
        let attrs = Attrs { strict, ..attrs_q() };
        let mut run = Acting::new(attrs, &[TARGET], schemes.to_vec());
        run.measure = free_rate(600);
        run.until_sis(10);
        // Between mid and high: a scheme that has stopped does not start, one at work does not
        // stop.
        run.measure = free_rate(450);
        run.until_sis(20);
        assert!(!run.ctx.schemes()[0].is_active());
        run.ctx.commit_schemes(schemes);
        run.until_sis(30);
        assert_eq!(run.ctx.schemes()[0].is_active(), strict);
        // A commit of other watermarks switches the scheme on again.
        let mut others = run.ctx.schemes().iter().map(|s| s.scheme().clone()).collect::<Vec<_>>();
        others[0].watermarks.high += 1;
        run.ctx.commit_schemes(others);
        run.until_sis(40);
        assert!(run.ctx.schemes()[0].is_active());
    }
}

#[test]
fn d9_2_14_first_total() {
    for (strict, expected) in [(true, 1_000_000), (false, 0)] {
        let mut goal = Goal::new(Metric::SomeMemPsiUs, 500);
        goal.measured(Some(1_000_000), strict);
        assert_eq!(goal.current, expected, "strict: {strict}");
        goal.measured(Some(1_000_700), strict);
        assert_eq!(goal.current, 700);
        // What cannot be measured changes nothing.
        goal.measured(None, strict);
        assert_eq!((goal.current, goal.last_total), (700, Some(1_000_700)));
    }
}

/// Half of each range is a hole.
#[test]
fn d9_2_15_holes() {
    for (strict, regions, charged) in [(true, 2, 512), (false, 4, 512)] {
        let mut run = run(strict, with_sz(512));
        run.apply = Box::new(|r| Applied { asked: r.range.len() / 2, ..all_of(r) });
        let seen = run.window().len();
        let charge = run.ctx.schemes()[0].quota().charged_sz;
        assert_eq!((seen, charge), (regions, charged), "strict: {strict}");
    }
}

/// The bounds of the regions when the first application is wanted.
#[test]
fn d9_2_18_filters_cut_twice() {
    for (strict, expected) in [
        (true, &[0, 96, 256, 512, 592, 768][..]),
        // The first region is about to be acted on; nothing was cut behind it.
        (false, &[0, 96, 256, 512, 768][..]),
    ] {
        let mut run = run(strict, refuse_addr(with_sz(300)));
        run.until_sis(4);
        run.now = run.go_to_sleep().unwrap();
        loop {
            match run.poll() {
                Wish::Apply => break,
                Wish::Check => {
                    run.ctx.batch_mut().iter_mut().for_each(|c| c.state = PageState::Old);
                }
                wish => assert_eq!(wish, Wish::Snapshot),
            }
        }
        let starts: Vec<_> = bounds(&run.ctx.targets()[0]).iter().map(|b| b.0).collect();
        assert_eq!(starts, expected, "strict: {strict}");
        run.act();
    }
}

#[test]
fn d9_2_20_age() {
    for strict in [true, false] {
        // Memory that has looked the same for three windows and was not acted on for three windows.
        let scheme =
            Scheme { pattern: pattern((0, 0), (3, u32::MAX)), ..match_all(Action::Pageout) };
        let mut run = run(strict, scheme);
        // Every action fails.
        run.apply = Box::new(|r| Applied { applied: 0, ..all_of(r) });
        let applied: Vec<_> = (0..9).map(|_| !run.window().is_empty()).collect();
        let every_third = [false, false, true, false, false, true, false, false, true];
        assert_eq!(applied, every_third, "strict: {strict}");
        let ages: Vec<_> = run.ctx.targets()[0].regions.iter().map(|r| r.age).collect();
        assert!(ages.iter().all(|age| *age == if strict { 0 } else { 9 }), "{ages:?}");
    }
}

/// Windows and samples stay as they are; times and shares follow the intervals.
#[test]
fn d9_1_4_units() {
    let kernel = pattern((5, 10), (100, u32::MAX));
    let units = Pattern {
        nr_accesses: Frequency::Bp(Bounds::new(2500, 5000)),
        age: Age::Micros(Bounds::new(10_000_000, u64::MAX)),
        ..Pattern::ALL
    };
    let first = Attrs::reference();
    assert_eq!(kernel.resolve(&first), units.resolve(&first));
    let schemes = [kernel, units].map(|pattern| Scheme { pattern, ..match_all(Action::Stat) });
    let mut run = Acting::new(first, &[&[(0, 1 << 20)]], schemes.to_vec());
    run.until_sis(4);
    run.ctx.commit(Attrs { sample_us: 10_000, aggr_us: 400_000, ..first }).unwrap();
    run.until_sis(5);
    let seen = |i: usize| *run.ctx.schemes()[i].pattern();
    assert_eq!(seen(0), kernel.resolve(&first));
    assert_eq!(seen(1).nr_accesses, Bounds::new(10, 20));
    assert_eq!(seen(1).age, Bounds::new(25, u32::MAX));
}

/// Pages that cannot be made old read as accessed; by default no scheme acts on them.
#[test]
fn d9_5_3_no_evidence() {
    for strict in [true, false] {
        let mut run = run(strict, match_all(Action::Stat));
        run.blind = Some(PageState::Unresolved);
        run.window();
        let requests = run.window();
        assert_eq!(!requests.is_empty(), strict);
        assert!(requests.iter().all(|r| r.nr_accesses == 5));
    }
}

#[test]
fn d2_5_watermark_looks() {
    for (strict, expected) in [(true, 101), (false, 21)] {
        let scheme = Scheme { watermarks: marks(), ..match_all(Action::Stat) };
        let mut run = run(strict, scheme);
        let looks = Rc::new(Cell::new(0));
        let seen = Rc::clone(&looks);
        run.measure = Box::new(move |_| {
            seen.set(seen.get() + 1);
            Some(300)
        });
        run.until_sis(100);
        assert_eq!(looks.get(), expected, "strict: {strict}");
    }
}

/// A part that a later scheme cuts off is a new region, and the kernel asks earlier schemes about
/// it again.
#[test]
fn d4_2_asked_again() {
    for (strict, expected) in [(true, 1024 + 224), (false, 1024)] {
        let attrs = Attrs { strict, ..attrs_q() };
        let schemes = vec![match_all(Action::Stat), with_sz(300)];
        let mut run = Acting::new(attrs, &[TARGET], schemes);
        let bytes = |r: &isotherm_core::Request| if r.scheme == 0 { r.range.len() } else { 0 };
        assert_eq!(run.window().iter().map(bytes).sum::<u64>(), expected, "strict: {strict}");
    }
}

/// The kernel cuts for the quota before it asks the filters: what they refuse is cut to pieces.
#[test]
fn d4_3_refused_cut() {
    for (strict, expected) in [(true, 1024 / 64), (false, 4)] {
        let mut scheme = with_sz(64);
        let kind = FilterKind::Target(0);
        scheme.filters.push(Filter { kind, matching: true, allow: false });
        // A second scheme acts, so that the test sees the regions after the first scheme.
        let attrs = Attrs { strict, ..attrs_q() };
        let mut run = Acting::new(attrs, &[TARGET], vec![scheme, match_all(Action::Stat)]);
        let requests = run.window();
        assert!(requests.iter().all(|r| r.scheme == 1));
        assert_eq!(requests.len(), expected, "strict: {strict}");
    }
}

/// A cursor at a target without mappings does not stall the scheme.
#[test]
fn cursor_at_an_empty_target() {
    let attrs = Attrs { min_region_sz: 128, strict: false, ..attrs_q() };
    let targets: [Ranges; 3] = [&[(0, 512)], &[(0, 512)], &[(0, 512)]];
    let mut run = Acting::new(attrs, &targets, vec![with_sz(512)]);
    assert!(run.window().iter().all(|r| r.target.0 == 0));
    run.ctx.set_ranges(isotherm_core::TargetId(1), &[]).unwrap();
    run.maps[1].clear();
    let order: Vec<u32> = (0..4)
        .map(|_| {
            let requests = run.window();
            assert!(!requests.is_empty());
            requests[0].target.0
        })
        .collect();
    assert_eq!(order, [2, 0, 2, 0]);
}

/// A region that uses up the time without result loses its own turn. The other regions keep theirs.
#[test]
fn deferred_out_of_time() {
    let mut run = large(false, with_ms());
    run.apply = Box::new(|_| Applied { ns: 2_000_000, ..Applied::default() });
    let mut seen: Vec<_> = (0..4).map(|_| run.window_ranges()).collect();
    assert!(seen.iter().all(|ranges| ranges.len() == 1), "{seen:?}");
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(run.ctx.schemes()[0].stats().nr_deferred, 4);
}
