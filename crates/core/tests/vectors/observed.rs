//! Windows that the operations set observed: the context's clock, the regions, and the time since
//! an action.

use isotherm_core::scheme::{Action, Age, Bounds, Pattern};
use isotherm_core::{
    AddrRange, Applied, Attrs, Context, Method, Observation, Observed, Scheme, TargetId, Time, Wish,
};

const MIB: u64 = 1 << 20;

fn observed(start: u64, end: u64, nr_accesses: u32, age: u32) -> Observed {
    Observed { range: AddrRange::new(start * MIB, end * MIB), nr_accesses, age, in_use: false }
}

fn window(end_us: u64) -> Observation {
    Observation {
        start: Time(end_us.saturating_sub(100_000) * 1000),
        end: Time(end_us * 1000),
        sample_us: 5_000,
        aggr_us: 100_000,
        ..Observation::default()
    }
}

fn context(schemes: Vec<Scheme>) -> Context {
    let attrs = Attrs { method: Method::Observed, ..Attrs::default() };
    let mut context = Context::new(attrs, 1).unwrap();
    context.add_target(TargetId(0));
    context.commit_schemes(schemes);
    context
}

/// Polls from `now` on, and acts on every request in full, until a wish is no sleep. Returns the
/// time.
fn next(context: &mut Context, now: &mut Time, acted: &mut Vec<AddrRange>) -> Wish {
    loop {
        match context.poll(*now) {
            Wish::Sleep(until) => *now = until,
            Wish::Update => assert!(context.update_target(TargetId(0), &[AddrRange::new(0, 4096)])),
            Wish::Apply => {
                let range = context.request().0.range;
                acted.push(range);
                let len = range.len();
                context.applied(Applied {
                    covered: len,
                    asked: len,
                    applied: len,
                    ..Applied::default()
                });
            }
            wish => return wish,
        }
    }
}

/// The context asks when a window is due and then in every sample interval; a window's times are
/// the set's.
#[test]
fn the_clock_follows() {
    let mut context = context(Vec::new());
    let (mut now, mut acted) = (Time(0), Vec::new());
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Observe);
    assert_eq!(now, Time(100_000_000));
    for late in 1..=3_u64 {
        assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Observe);
        assert_eq!(now, Time((100 + 5 * late) * 1_000_000));
    }
    context.begin_observed(Observation { lost: 2, ..window(112_000) });
    context.observed(TargetId(0), &[observed(1, 2, 20, 3), observed(4, 8, 0, 9)]);
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Snapshot);
    let snapshot = context.snapshot();
    assert_eq!((snapshot.start, snapshot.end), (Time(12_000_000), Time(112_000_000)));
    assert_eq!(snapshot.seq, 2);
    let regions = &snapshot.targets[0].regions;
    assert_eq!(regions.len(), 2);
    assert_eq!((regions[0].nr_accesses, regions[0].age), (20, 3));
    assert_eq!((regions[1].nr_accesses, regions[1].age), (0, 9));
    assert!(regions[0].lo > 15.0 && regions[1].hi < 5.0);
    // The context asks one sample before the next window is expected.
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Observe);
    assert_eq!(now, Time(210_000_000));
    // Another window is there already.
    context.begin_observed(Observation { more: true, ..window(205_000) });
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Snapshot);
    // The set did not report the target. That does not mean that the target is cold.
    assert!(context.snapshot().targets[0].regions.iter().all(|r| !r.resolved));
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Observe);
    assert_eq!(now, Time(215_000_000));
}

/// The operations set may tune the intervals.
#[test]
fn intervals_are_taken_over() {
    let mut context = context(Vec::new());
    let (mut now, mut acted) = (Time(0), Vec::new());
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Observe);
    let tuned = Observation { sample_us: 10_000, aggr_us: 200_000, ..window(100_000) };
    context.begin_observed(tuned);
    context.observed(TargetId(0), &[observed(0, 1, 25, 1)]);
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Snapshot);
    let snapshot = context.snapshot();
    assert_eq!((snapshot.sample_us, snapshot.aggr_us), (10_000, 200_000));
    assert_eq!(snapshot.targets[0].regions[0].nr_accesses, 20, "no more than there are");
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Observe);
    assert_eq!(now, Time(290_000_000));
    // Intervals that are not valid are ignored.
    context.begin_observed(Observation { sample_us: 10_000, aggr_us: 1, ..window(290_000) });
    assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Snapshot);
    assert_eq!(context.snapshot().aggr_us, 200_000);
}

/// The set does not know that a scheme acted; regions that are cut anew remember it, byte by byte.
#[test]
fn the_time_since_an_action_stays() {
    let pattern = Pattern {
        age: Age::Windows(Bounds::new(5, u32::MAX)),
        nr_accesses: isotherm_core::scheme::Frequency::Samples(Bounds::new(0, 0)),
        ..Pattern::ALL
    };
    let pageout = Scheme { pattern, action: Action::Pageout, ..Scheme::default() };
    for strict in [false, true] {
        let mut context = context(vec![pageout.clone()]);
        context.commit(Attrs { strict, ..*context.attrs() }).unwrap();
        let (mut now, mut acted) = (Time(0), Vec::new());
        let mut step = |regions: &[Observed]| {
            acted.clear();
            assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Observe);
            context.begin_observed(window(now.0 / 1000));
            context.observed(TargetId(0), regions);
            assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Snapshot);
            // The pass comes after the snapshot.
            assert_eq!(next(&mut context, &mut now, &mut acted), Wish::Observe);
            acted.clone()
        };
        assert_eq!(step(&[observed(0, 8, 0, 10)]), [AddrRange::new(0, 8 * MIB)], "{strict}");
        // All of the memory was acted on one window ago, however the regions are cut.
        assert_eq!(step(&[observed(0, 2, 0, 11), observed(2, 8, 0, 11)]), [], "{strict}");
        // A quarter of this region was acted on. The mean of 2 and 12 windows, weighted by size, is
        // 9.
        let wider = observed(6, 14, 0, 12);
        assert_eq!(step(&[observed(0, 6, 0, 12), wider]), [wider.range], "{strict}");
    }
}
