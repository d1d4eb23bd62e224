//! A steady state allocates nothing: 1000 regions, every method, with and without schemes.

use isotherm_core::scheme::{Action, Filter, FilterKind, Goal, Metric, Pattern, Quota, Weights};
use isotherm_core::{AddrRange, Attrs, Method, Scheme};

mod steady;

const WINDOW: u32 = 20;

fn check(method: Method, schemes: Vec<Scheme>) {
    let acts = !schemes.is_empty();
    let attrs = Attrs { method, ..Attrs::default() };
    let mut steady = steady::Steady::new(attrs, true, schemes);
    // Long enough for every list to have grown, and over several updates of the ranges.
    for _ in 0..100 * WINDOW {
        steady.tick();
    }
    for window in 0..100 {
        for tick in 0..WINDOW {
            let info = allocation_counter::measure(|| {
                steady.tick();
            });
            // `count_total` holds reallocations too.
            assert_eq!(
                info.count_total, 0,
                "{method:?}: window {window}, tick {tick}: {} bytes allocated",
                info.bytes_total
            );
        }
    }
    assert!(steady.nr_regions() >= 1000, "{} regions", steady.nr_regions());
    assert_eq!(steady.nr_applied > 10_000, acts, "applied {} times", steady.nr_applied);
}

/// A quota that lets the coldest through, in passes between aggregations too, with a filter and a goal; and
/// one scheme that counts everything.
fn schemes() -> Vec<Scheme> {
    let quota = Quota {
        sz: 100 << 20,
        reset_interval_ms: 200,
        goals: vec![Goal::new(Metric::SomeMemPsiUs, 1000)],
        weights: Weights { sz: 0, nr_accesses: 1, age: 1 },
        ..Quota::default()
    };
    let mut cold = Scheme {
        pattern: Pattern::ALL,
        action: Action::Pageout,
        apply_interval_us: 10_000,
        quota,
        ..Scheme::default()
    };
    let kind = FilterKind::Addr(AddrRange::new(0x7f00_0000_1000, 0x7f00_0010_0000));
    cold.filters.push(Filter { kind, matching: true, allow: false });
    let all = Scheme { pattern: Pattern::ALL, ..Scheme::default() };
    vec![cold, all]
}

#[test]
fn resample_allocates_nothing() {
    check(Method::Resample, Vec::new());
}

#[test]
fn first_touch_allocates_nothing() {
    check(Method::FirstTouch, Vec::new());
}

#[test]
fn observed_allocates_nothing() {
    check(Method::Observed, Vec::new());
}

#[test]
fn schemes_allocate_nothing() {
    check(Method::Resample, schemes());
    check(Method::FirstTouch, schemes());
    check(Method::Observed, schemes());
}
