//! A steady state allocates nothing: 1000 regions, both methods.

use isotherm_core::Method;

mod steady;

const WINDOW: u32 = 20;

fn check(method: Method) {
    let mut steady = steady::Steady::new(method);
    // Long enough for every list to have grown, and over several updates of the ranges.
    for _ in 0..100 * WINDOW {
        steady.tick();
    }
    for window in 0..100 {
        for tick in 0..WINDOW {
            let info = allocation_counter::measure(|| steady.tick());
            // `count_total` holds reallocations too.
            assert_eq!(
                info.count_total, 0,
                "{method:?}: window {window}, tick {tick}: {} bytes allocated",
                info.bytes_total
            );
        }
    }
    assert!(steady.nr_regions() >= 1000, "{} regions", steady.nr_regions());
}

#[test]
fn resample_allocates_nothing() {
    check(Method::Resample);
}

#[test]
fn first_touch_allocates_nothing() {
    check(Method::FirstTouch);
}
