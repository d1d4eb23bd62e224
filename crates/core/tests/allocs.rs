//! A steady state allocates nothing: 1000 regions, every method, with and without schemes.

use isotherm_core::scheme::{Action, Filter, FilterKind, Goal, Metric, Pattern, Quota, Weights};
use isotherm_core::{AddrRange, Attrs, Context, Method, PageState, Scheme, TargetId, Time, Wish};

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

/// A quota that lets the coldest through, in passes between aggregations too, with a filter and a
/// goal; and one scheme that counts everything.
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

/// A strict context with targets of these sizes, which nobody touches, and a scheme with a quota of
/// so many bytes whose filter refuses every address.
fn refusing(sizes: &[u64], quota: u64) -> Context {
    let quota = Quota { sz: quota, reset_interval_ms: 100, ..Quota::default() };
    let mut scheme = Scheme { pattern: Pattern::ALL, quota, ..Scheme::default() };
    let kind = FilterKind::Addr(AddrRange::new(0, 1 << 40));
    scheme.filters.push(Filter { kind, matching: true, allow: false });
    let mut context = Context::new(Attrs::reference(), 1).expect("valid attributes");
    context.commit_schemes([scheme]);
    for (i, size) in (0..).zip(sizes) {
        context.add_target(TargetId(i));
        context.set_ranges(TargetId(i), &[AddrRange::new(0, *size)]).expect("one range");
    }
    context
}

/// Runs the first window, and the pass at its end.
fn one_window(context: &mut Context) {
    let mut now = Time(0);
    loop {
        match context.poll(now) {
            Wish::Prepare | Wish::Check => {
                context.batch_mut().iter_mut().for_each(|c| c.state = PageState::Old);
            }
            Wish::Sleep(_) if context.schedule().passed == u64::from(WINDOW) => return,
            Wish::Sleep(until) => now = until,
            Wish::Update | Wish::Snapshot => {}
            wish => panic!("nothing is let in, but {wish:?}"),
        }
    }
}

/// The kernel cuts a region for the quota before it asks the filters, so that what they refuse is
/// tried in pieces of the quota. It joins them at once, and needs 1.4 MB for two million pieces.
#[test]
fn refused_pieces_do_not_pile_up() {
    const GIB: u64 = 1 << 30;
    let three = [20 * GIB, 25 * GIB, 30 * GIB];
    for (sizes, quota) in [(&[8 * GIB][..], 4096), (&three[..], 1 << 16)] {
        let mut context = refusing(sizes, quota);
        let info = allocation_counter::measure(|| one_window(&mut context));
        // Room is made for twice as many regions as a single target may have.
        assert!(info.bytes_max < 6 << 20, "{} bytes for {sizes:?}", info.bytes_max);
        let nr_regions: usize = context.targets().iter().map(|t| t.regions.len()).sum();
        assert!((10..=40).contains(&nr_regions), "{nr_regions} regions of {sizes:?}");
    }
}
