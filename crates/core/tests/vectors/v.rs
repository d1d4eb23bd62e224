//! V-*: numbers from the real code (§8.4).

use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::math::{Divisor, feed};
use isotherm_core::monitor::{
    Conversion, Schedule, adaptation, enforce_min_regions, merge_all, score, tuned,
};
use isotherm_core::{Attrs, AttrsError, Context, Rng};

use crate::run::{bounds, region, target};

#[test]
fn v_rng() {
    let golden: [(u64, &[u32]); 4] = [
        (0, &[1_574_944, 268_744, 1_109_394_980, 8_552_980, 826_355_289, 2_421_007_874]),
        (1, &[276_959_246, 18_909_696, 2_298_495_022, 9_442_690]),
        (42, &[3_053_367_555, 794_645_456, 722_109_529, 489_076_602]),
        (0x1234_5678_90ab_cdef, &[4_162_675_846, 2_794_237_896, 3_294_393_514, 3_670_496_727]),
    ];
    for (seed, outputs) in golden {
        let mut rng = Rng::seeded(seed);
        let seen: Vec<_> = outputs.iter().map(|_| rng.next_u32()).collect();
        assert_eq!(seen, outputs, "seed {seed:#x}");
    }
}

#[test]
fn v_rand() {
    let golden = [
        (0, 1),
        (0x1c71_c71c, 1),
        (0x1c71_c71d, 2),
        (0x38e3_8e39, 3),
        (0x5555_5555, 3),
        (0x5555_5556, 4),
        (0x8000_0000, 5),
        (0xe38e_38e3, 8),
        (0xe38e_38e4, 9),
        (0xffff_ffff, 9),
    ];
    for (x, expected) in golden {
        assert_eq!(Rng::constant(x).range(1, 10), expected, "of {x:#x}");
    }
    // A span from 2^32 on takes two numbers, the high half first. An empty span gives `l`.
    let mut two = Rng::seeded(42);
    let x = (3_053_367_555_u128 << 32) | 794_645_456;
    let span = 1_u128 << 40;
    assert_eq!(u128::from(two.range(7, 7 + (1 << 40))), 7 + ((x * span) >> 64));
    assert_eq!(two.next_u32(), 722_109_529);
    let mut one = Rng::seeded(42);
    assert_eq!(one.range(0, u64::from(u32::MAX)), (3_053_367_555 * u64::from(u32::MAX)) >> 32);
    assert_eq!(one.next_u32(), 794_645_456);
    assert_eq!(Rng::constant(u32::MAX).range(5, 5), 5);
}

#[test]
fn v_feed() {
    let golden = [
        (10_000, 0, 20_000),
        (900_000, 200, 1_782_000),
        (900_000, 2000, 1_620_000),
        (900_000, 10_000, 900_000),
        (900_000, 15_000, 450_000),
        (900_000, 19_999, 10_000),
        (900_000, 250_000_000, 10_000),
        (100_000_000, 9999, 100_010_000),
        (100_000_000, 20_000, 10_000),
        (10_000, 9999, 10_001),
        (10_000, 10_001, 10_000),
        (10_000, 15_000, 10_000),
        (50_000, 12_000, 40_000),
        (1, 0, 2),
        (u64::MAX, 0, u64::MAX),
        (u64::MAX, 10_001, 18_444_899_399_302_180_660),
        (u64::MAX, 19_999, 1_844_674_407_372_570),
        (1 << 63, 0, 18_446_744_073_709_545_808),
    ];
    for (last, score, next) in golden {
        assert_eq!(feed(last, score), next, "feed({last}, {score})");
    }
}

/// The feedback loop over several steps, as the consist tuner drives it.
#[test]
fn v_feed_consist() {
    let steps: [(u64, &[u64]); 4] = [
        (0, &[2, 4, 8, 16, 32]),
        (15_000, &[16, 8, 4, 2, 1]),
        (5000, &[1, 2, 3, 5, 7]),
        (18_000, &[1, 1, 1, 1, 1]),
    ];
    let mut bp = 0_u64;
    for (score, sizes) in steps {
        for &size in sizes {
            bp = feed(bp.max(10_000), score);
            assert_eq!(bp / 10_000, size, "score {score}");
        }
    }
}

/// Attributes that are tuned within wide bounds.
fn tunable() -> Attrs {
    let intervals_goal =
        IntervalsGoal { access_bp: 400, aggrs: 3, min_sample_us: 1, max_sample_us: 10_000_000 };
    Attrs { intervals_goal, aggr_samples: 20, ..Attrs::reference() }
}

#[test]
fn v_tune() {
    let golden = [
        (0, 20_000, 10_000),
        (1, 19_999, 9999),
        (100, 19_900, 9950),
        (2500, 17_500, 8750),
        (5000, 15_000, 7500),
        (9999, 10_001, 5000),
        (10_000, 10_000, 5000),
        (10_001, 9999, 4999),
        (10_002, 9999, 4999),
        (12_500, 8750, 4375),
        (15_000, 7500, 3750),
        (19_998, 5001, 2500),
        (19_999, 5000, 2500),
        (20_000, 5000, 2500),
        (u64::MAX, 5000, 2500),
    ];
    let attrs = tunable();
    for (score, factor, sample_us) in golden {
        assert_eq!(adaptation(score), factor, "of score {score}");
        let new = tuned(&attrs, score);
        assert_eq!(new.is_none(), factor == 10_000, "score {score}");
        let new = new.unwrap_or(attrs);
        assert_eq!((new.sample_us, new.aggr_us), (sample_us, sample_us * 20), "score {score}");
        assert_eq!(new.aggr_samples, 20);
    }
}

/// A tuning that the bounds undo: `strict` sets the attributes all the same, which restarts
/// deadlines.
#[test]
fn v_tune_clamped() {
    let mut attrs = tunable();
    attrs.intervals_goal.min_sample_us = attrs.sample_us;
    assert_eq!(tuned(&attrs, 20_000), Some(attrs));
    assert_eq!(tuned(&Attrs { strict: false, ..attrs }, 20_000), None);
}

#[test]
fn v_tune_scores() {
    type Regions = &'static [(u64, u32)];
    let golden: [(Regions, u64, u64); 5] = [
        (&[(1_000_000, 0), (1_000_000, 0), (2_000_000, 0)], 0, 20_000),
        (&[(1_000_000, 1), (1_000_000, 0), (2_000_000, 0)], 3125, 16_875),
        (&[(40_960, 20), (983_040, 0), (1_024_000, 0)], 5000, 15_000),
        (&[(4096, 20), (98_304, 0), (102_400, 1)], 11_250, 9375),
        (&[(4096, 20), (4096, 20), (4096, 20)], 250_010, 5000),
    ];
    for (sizes, expected, factor) in golden {
        let mut start = 0;
        let regions: Vec<_> = sizes
            .iter()
            .map(|&(size, nr)| {
                start += size;
                region(start - size, start, nr, 0, 0)
            })
            .collect();
        let seen = score(&tunable(), regions.iter());
        assert_eq!((seen, adaptation(seen)), (expected, factor), "of {sizes:?}");
    }
}

#[test]
fn v_age() {
    let golden =
        [(0, 0, 4), (0, 1, 0), (1, 0, 0), (3, 1, 4), (4, 1, 0), (5, 7, 4), (5, 8, 0), (20, 20, 4)];
    for (nr, last, age) in golden {
        let mut r = region(0, 1, nr, last, 3);
        r.count_age(2);
        assert_eq!(r.age, age, "of {nr} after {last}");
    }
}

#[test]
fn v_merge() {
    // The mean of the regions merged so far differs too much from the next region.
    let nrs = [0, 5, 8, 13, 18];
    let mut t =
        target((0..).zip(nrs).map(|(i, nr)| region(i * 10, i * 10 + 10, nr, nr, 0)).collect());
    t.merge(5, 1000, false);
    let seen: Vec<_> = t.regions.iter().map(|r| (r.range.end, r.nr_accesses)).collect();
    assert_eq!(seen, [(20, 2), (40, 10), (50, 18)]);
}

#[test]
fn v_merge_size_limit() {
    let mut t = target((0..4).map(|i| region(i * 40, i * 40 + 40, 1, 1, 0)).collect());
    for (r, age) in t.regions.iter_mut().zip(1..) {
        r.age = age;
    }
    t.merge(0, 100, false);
    assert_eq!(bounds(&t), [(0, 80), (80, 160)]);
    // 1 and 2, 3 and 4: the means are truncated. The reference's 2 and 4 were counted up first.
    assert_eq!([t.regions[0].age, t.regions[1].age], [1, 3]);
    let mut t = target((0..4).map(|i| region(i * 40, i * 40 + 40, 1, 1, 0)).collect());
    for (r, age) in t.regions.iter_mut().zip(1..) {
        r.age = age;
    }
    t.merge(0, 100, true);
    assert_eq!([t.regions[0].age, t.regions[1].age], [2, 4]);
}

#[test]
fn v_merge_escalation() {
    let nrs = [0, 20, 1, 18, 3, 15, 6, 12, 9, 2, 19, 10];
    for max_nr_regions in (3..=10).rev() {
        let mut targets = [target(
            (0..).zip(nrs).map(|(i, nr)| region(i * 10, i * 10 + 10, nr, nr, 5)).collect(),
        )];
        let attrs = Attrs { min_nr_regions: 3, max_nr_regions, ..Attrs::reference() };
        merge_all(&mut targets, &attrs, 2, 1000);
        let seen: Vec<_> = targets[0]
            .regions
            .iter()
            .map(|r| (r.range.start, r.range.end, r.nr_accesses))
            .collect();
        match max_nr_regions {
            9 | 10 => {
                assert_eq!(seen.len(), 9, "of at most {max_nr_regions}");
                assert!(seen.contains(&(60, 100, 6)), "{seen:?}");
            }
            4..=8 => assert_eq!(seen, [(0, 10, 0), (10, 20, 20), (20, 30, 1), (30, 120, 9)]),
            _ => assert_eq!(seen, [(0, 120, 8)]),
        }
        assert!(targets[0].regions.iter().all(|r| r.age == 6), "aged more than once");
    }
}

#[test]
fn v_split() {
    let golden: [(u64, &[u64]); 7] = [
        (16, &[16]),
        (32, &[32]),
        (48, &[16, 32]),
        (64, &[32, 32]),
        (96, &[16, 32, 48]),
        (160, &[32, 48, 80]),
        (1024, &[256, 256, 512]),
    ];
    for (size, pieces) in golden {
        let mut t = target(vec![region(0, size, 0, 0, 0)]);
        t.split_randomly(3, 16, &mut Rng::constant(0x8000_0000));
        let seen: Vec<_> = t.regions.iter().map(isotherm_core::Region::len).collect();
        assert_eq!(seen, pieces, "of {size}");
        assert_eq!(t.len(), size);
    }
}

/// Attributes with two intervals.
fn intervals(sample_us: u64, aggr_us: u64) -> Attrs {
    Attrs { sample_us, aggr_us, update_us: 1_000_000, ..Attrs::reference() }
}

#[test]
fn v_conv() {
    // New intervals; nr, last, age, aggregating; then nr, bp, last, age.
    let golden = [
        ((10_000, 200_000), (4, 10, 20, true), (0, 100_000, 10, 10)),
        ((5000, 200_000), (7, 13, 9, false), (14, 140_000, 13, 4)),
        ((5000, 50_000), (7, 13, 9, false), (3, 30_000, 13, 18)),
        ((100_000, 2_000_000), (19, 1, 50, false), (19, 190_000, 1, 2)),
        ((5000, 35_000), (20, 20, 1, false), (7, 70_000, 20, 2)),
    ];
    for ((sample, aggr), (nr, last, age, aggregating), expected) in golden {
        let conversion =
            Conversion::between(&intervals(5000, 100_000), &intervals(sample, aggr)).unwrap();
        let mut r = region(0, 1, nr, last, age);
        conversion.region(&mut r, aggregating);
        assert_eq!((r.nr_accesses, r.nr_accesses_bp, r.last_nr_accesses, r.age), expected);
    }
    for zero in [intervals(0, 100_000), intervals(0, 0)] {
        assert!(Conversion::between(&zero, &intervals(5000, 100_000)).is_none());
        assert!(Conversion::between(&intervals(5000, 100_000), &zero).is_none());
    }
}

#[test]
fn v_conv_deadlines() {
    let cases = [
        (107, 120, intervals(10_000, 200_000), true, 127, 207),
        (140, 140, intervals(5000, 50_000), false, 150, 340),
    ];
    for (passed, next_aggregation, new, aggregating, aggregation, update) in cases {
        let mut schedule = Schedule { passed, next_aggregation, next_update: 200, next_tune: 60 };
        assert_eq!(schedule.aggregating(), aggregating);
        schedule.restart(&new);
        assert_eq!((schedule.next_aggregation, schedule.next_update), (aggregation, update));
        assert_eq!((schedule.passed, schedule.next_tune), (passed, 60));
    }
    // By default the update that is nearer stays (R§9.1.1).
    let mut schedule =
        Schedule { passed: 107, next_aggregation: 120, next_update: 200, next_tune: 0 };
    schedule.restart(&Attrs { strict: false, ..intervals(10_000, 200_000) });
    assert_eq!((schedule.next_aggregation, schedule.next_update), (127, 200));
}

#[test]
fn v_bp() {
    let mut r = region(0, 1, 0, 10, 0);
    r.nr_accesses_bp = 100_000;
    let seen: Vec<_> = (0..20)
        .map(|i| {
            r.count_sample(i < 8, Divisor::new(20));
            r.nr_accesses_bp
        })
        .collect();
    let up = (1..=8).map(|i| 100_000 + 5000 * i);
    let down = (1..=12).map(|i| 140_000 - 5000 * i);
    assert_eq!(seen, up.chain(down).collect::<Vec<_>>());
    assert_eq!(r.nr_accesses, 8);

    // A window that does not divide the last count leaves a remainder.
    let mut r = region(0, 1, 0, 2, 0);
    r.nr_accesses_bp = 20_000;
    let seen = [true, false, false].map(|accessed| {
        r.count_sample(accessed, Divisor::new(3));
        r.nr_accesses_bp
    });
    assert_eq!(seen, [23_334, 16_668, 10_002]);
}

#[test]
fn v_attr() {
    let with = |sample_us, aggr_us, min_nr_regions, max_nr_regions| Attrs {
        sample_us,
        aggr_us,
        min_nr_regions,
        max_nr_regions,
        ..Attrs::reference()
    };
    let goal = |sample_us, min_sample_us, max_sample_us, aggrs| Attrs {
        sample_us,
        intervals_goal: IntervalsGoal { access_bp: 400, aggrs, min_sample_us, max_sample_us },
        aggr_us: 100_000_000,
        ..Attrs::reference()
    };
    let cases = [
        (with(5000, 100_000, 10, 1000), Ok(20)),
        (with(5000, 100_000, 3, 3), Ok(20)),
        (with(5000, 100_000, 2, 1000), Err(AttrsError::MinNrRegions)),
        (with(5000, 100_000, 10, 9), Err(AttrsError::NrRegions)),
        (with(5000, 4999, 10, 1000), Err(AttrsError::Intervals)),
        (with(5000, 5000, 10, 1000), Ok(1)),
        (with(0, 0, 10, 1000), Ok(0)),
        (goal(5000, 5000, 10_000_000, 3), Ok(20_000)),
        (goal(4999, 5000, 10_000_000, 3), Err(AttrsError::GoalSample)),
        (goal(5000, 6000, 5500, 3), Err(AttrsError::GoalBounds)),
        (goal(5000, 6000, 5500, 0), Ok(20_000)),
        (goal(10_000_001, 5000, 10_000_000, 3), Err(AttrsError::GoalSample)),
    ];
    for (attrs, expected) in cases {
        let seen = Context::new(attrs, 0).map(|ctx| ctx.attrs().aggr_samples);
        assert_eq!(seen, expected, "of {attrs:?}");
    }
    let max_nr = [
        (5000, 100_000, 20),
        (0, 100_000, 100_000),
        (0, 0, 1),
        (100, 99, 1),
        (1, 1 << 32, u32::MAX),
        (7, 100, 14),
    ];
    for (sample, aggr, expected) in max_nr {
        assert_eq!(intervals(sample, aggr).max_nr_accesses(), expected, "of {sample}/{aggr}");
    }
}

#[test]
fn v_enf() {
    let golden = [
        (1000, 16, 10, 112, 9, (896, 1000)),
        (1000, 16, 3, 336, 3, (672, 1000)),
        (16, 16, 10, 16, 1, (0, 16)),
        (4_096_000, 4096, 10, 409_600, 10, (3_686_400, 4_096_000)),
        (4_100_096, 4096, 10, 413_696, 10, (3_723_264, 4_100_096)),
    ];
    for (size, min_region_sz, min_nr_regions, limit, nr, last) in golden {
        let attrs = Attrs { min_region_sz, min_nr_regions, ..Attrs::reference() };
        let mut targets = [target(vec![region(0, size, 3, 2, 1)])];
        assert_eq!(enforce_min_regions(&mut targets, &attrs), limit, "of {size}");
        let seen = bounds(&targets[0]);
        assert_eq!((seen.len(), *seen.last().unwrap()), (nr, last), "of {size}");
        assert_eq!(targets[0].len(), size);
    }
}
