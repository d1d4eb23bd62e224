//! Setup Q (§8.5): what a quota lets through, window by window, in one or two targets that nobody
//! touches.

use isotherm_core::scheme::{Action, Cursor, FailCharge, Quota, Scheme, Weights};
use isotherm_core::{Applied, Attrs, Request, TargetId};

use crate::run::T0;
use crate::schemes::acting::{Acting, all_of, attrs_q, match_all};

type Ranges = &'static [(u64, u64)];

/// A scheme for all regions with a quota whose windows are aggregation windows.
fn scheme(action: Action, sz: u64) -> Scheme {
    let quota = Quota { sz, reset_interval_ms: 25, ..Quota::default() };
    Scheme { quota, ..match_all(action) }
}

/// Runs the windows; each has to apply the ranges given.
fn expect(run: &mut Acting, windows: &[Ranges]) {
    for (i, ranges) in windows.iter().enumerate() {
        assert_eq!(run.window_ranges(), *ranges, "in window {}", i + 1);
    }
}

/// Half of the range is acted on, at no cost.
fn half_of(request: &Request) -> Applied {
    Applied { applied: request.range.len() / 2, ..all_of(request) }
}

const Q1: [Ranges; 6] = [
    &[(0, 256), (256, 288)],
    &[(288, 512), (512, 576)],
    &[(576, 768), (768, 864)],
    &[(864, 1024)],
    &[(0, 256), (256, 288)],
    &[(288, 512), (512, 576)],
];

/// Q1's ranges, and the charges, counters and cursors that follow from them.
fn check_q1(mut run: Acting) {
    let charged = [288, 288, 288, 160, 288, 288];
    let cursors = [Some(288), Some(576), Some(864), None, Some(288), Some(576)];
    let qt_exceeds = [0, 1, 2, 3, 3, 4];
    let nr_snapshots = [0, 0, 0, 1, 1, 1];
    for (i, ranges) in Q1.iter().enumerate() {
        assert_eq!(run.window_ranges(), *ranges, "in window {}", i + 1);
        let scheme = &run.ctx.schemes()[0];
        let cursor = cursors[i].map(|addr| Cursor { target: T0, addr });
        assert_eq!(scheme.quota().charged_sz, charged[i]);
        assert_eq!(scheme.cursor(), cursor, "after window {}", i + 1);
        assert_eq!(scheme.stats().qt_exceeds, qt_exceeds[i], "after window {}", i + 1);
        assert_eq!(scheme.stats().nr_snapshots, nr_snapshots[i], "after window {}", i + 1);
        assert_eq!(scheme.quota().esz, 300);
    }
}

#[test]
fn q1_stat() {
    check_q1(Acting::q(scheme(Action::Stat, 300)));
}

#[test]
fn q2_pageout() {
    let mut run = Acting::q(scheme(Action::Pageout, 300));
    let ages: [&[u32]; 6] = [&[1, 1], &[1, 2], &[2, 3], &[2], &[4, 3], &[3, 3]];
    for (i, (ranges, ages)) in Q1.iter().zip(ages).enumerate() {
        let requests = run.window();
        let seen: Vec<_> = requests.iter().map(|r| (r.range.start, r.range.end)).collect();
        assert_eq!(seen, *ranges, "in window {}", i + 1);
        let seen: Vec<_> = requests.iter().map(|r| r.age).collect();
        assert_eq!(seen, ages, "in window {}", i + 1);
    }
}

#[test]
fn q3_longer_windows() {
    let mut scheme = scheme(Action::Stat, 300);
    scheme.quota.reset_interval_ms = 75;
    let none: Ranges = &[];
    expect(&mut Acting::q(scheme), &[Q1[0], none, none, Q1[1], none, none, Q1[2]]);
}

#[test]
fn q4_fail_charge() {
    let mut scheme = scheme(Action::Stat, 300);
    scheme.quota.fail_charge = FailCharge { num: 1, denom: 4 };
    let mut run = Acting::q(scheme);
    run.apply = Box::new(half_of);
    let windows: [(Ranges, u64); 3] = [
        (&[(0, 256), (256, 384), (384, 432), (432, 448), (448, 464)], 290),
        (&[(464, 512), (512, 768), (768, 864), (864, 912), (912, 928)], 290),
        (&[(928, 1024)], 60),
    ];
    for (ranges, charged) in windows {
        assert_eq!(run.window_ranges(), ranges);
        assert_eq!(run.ctx.schemes()[0].quota().charged_sz, charged);
    }
}

/// A quota filled by the very last region costs the next window (R§9.2.2).
#[test]
fn q5_full_at_the_end() {
    let attrs = Attrs { min_region_sz: 128, ..attrs_q() };
    let mut run = Acting::new(attrs, &[&[(0, 1024)]], vec![scheme(Action::Stat, 350)]);
    expect(
        &mut run,
        &[&[(0, 256)], &[(256, 512)], &[(512, 768)], &[(768, 1024)], &[], &[(0, 256)]],
    );
}

#[test]
fn q6_time() {
    let mut scheme = scheme(Action::Stat, 0);
    scheme.quota.ms = 10;
    let mut run = Acting::q(scheme);
    run.apply = Box::new(|r| Applied { ns: 40_000 * r.range.len(), ..all_of(r) });
    let windows: [(Ranges, u64); 4] = [
        (&[(0, 256), (256, 512), (512, 768), (768, 1024)], 41_943_040),
        (&[(0, 240)], 250),
        (&[(240, 256), (256, 480)], 250),
        (&[(480, 512), (512, 720)], 250),
    ];
    for (ranges, esz) in windows {
        assert_eq!(run.window_ranges(), ranges);
        assert_eq!(run.ctx.schemes()[0].quota().esz, esz);
    }
}

#[test]
fn q7_window_per_application() {
    let mut scheme = scheme(Action::Stat, 300);
    scheme.quota.reset_interval_ms = 0;
    let mut run = Acting::q(scheme);
    expect(&mut run, &Q1);
}

#[test]
fn q8_less_than_a_region() {
    let mut run = Acting::q(scheme(Action::Stat, 10));
    for i in 0..5 {
        assert_eq!(run.window_ranges(), []);
        let stats = run.ctx.schemes()[0].stats();
        assert_eq!((stats.qt_exceeds, stats.nr_tried, stats.nr_snapshots), (i, 0, 0));
    }
}

#[test]
fn q9_two_targets() {
    let quarters: Ranges = &[(0, 256), (256, 512), (512, 768), (768, 1024)];
    let mut cold = scheme(Action::Pageout, 300);
    cold.quota.weights = Weights { sz: 0, nr_accesses: 1, age: 1 };
    let mut run = Acting::new(attrs_q(), &[quarters, quarters], vec![cold]);
    let windows: [&[(u32, u64, u64)]; 9] = [
        &[(0, 0, 288)],
        &[(0, 288, 512), (0, 512, 576)],
        &[(0, 576, 864)],
        &[(0, 864, 1024), (1, 0, 128)],
        &[(1, 128, 416)],
        &[(1, 416, 512), (1, 512, 704)],
        &[(1, 704, 992)],
        &[(1, 992, 1024)],
        &[(0, 0, 288)],
    ];
    let nr_snapshots = [0, 0, 0, 1, 1, 1, 1, 2, 2];
    for (i, ranges) in windows.iter().enumerate() {
        let seen: Vec<_> =
            run.window().iter().map(|r| (r.target.0, r.range.start, r.range.end)).collect();
        assert_eq!(seen, *ranges, "in window {}", i + 1);
        assert_eq!(run.ctx.schemes()[0].stats().nr_snapshots, nr_snapshots[i], "window {}", i + 1);
    }
    assert_eq!(run.ctx.schemes()[0].cursor().map(|c| c.target), Some(TargetId(0)));
}
