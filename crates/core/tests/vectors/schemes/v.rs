//! V-SCORE, V-MIN, V-WMARK, V-ESZ, V-CHARGE, V-SKIP, V-APPLY and the tuners of V-FEED (§8.4).

use isotherm_core::scheme::score::{Facts, hot, min_score, score};
use isotherm_core::scheme::{
    Action, Cursor, FailCharge, Goal, Metric, Order, Quota, QuotaState, Scheme, Skip, Tuner,
    WatermarkMetric, Watermarks, Weights,
};
use isotherm_core::{AddrRange, Attrs, TargetId};

use crate::run::T0;
use crate::schemes::acting::{Acting, match_all};

fn weights(nr_accesses: u32, age: u32) -> Weights {
    Weights { sz: 0, nr_accesses, age }
}

#[test]
fn v_score() {
    let nrs = [0, 1, 5, 10, 20];
    let freq_only = [0, 4, 24, 49, 99];
    // By age: weights 1:1, 0:1 and 3:1.
    type Row = [u32; 5];
    let golden: [(&[u32], Row, Row, Row); 8] = [
        (&[0, 1, 5, 9], [24, 26, 36, 49, 74], [49, 49, 49, 49, 49], [11, 15, 30, 49, 86]),
        // The reference's table has 75 instead of 74. Its own formula, (100 + 51) / 2 * 99 / 100,
        // gives 74, and it gives all other entries.
        (&[10], [23, 27, 37, 49, 74], [47, 50, 50, 50, 50], [11, 15, 30, 49, 86]),
        (&[20], [22, 28, 38, 50, 75], [45, 52, 52, 52, 52], [10, 16, 31, 49, 87]),
        (&[40], [21, 28, 38, 51, 76], [44, 53, 53, 53, 53], [10, 16, 31, 50, 87]),
        (&[100], [20, 29, 39, 52, 77], [42, 55, 55, 55, 55], [9, 16, 31, 50, 88]),
        (&[640, 1200], [18, 31, 41, 54, 79], [38, 59, 59, 59, 59], [8, 17, 32, 51, 89]),
        (&[36_000], [14, 35, 45, 58, 83], [30, 67, 67, 67, 67], [6, 19, 34, 53, 91]),
        (&[u32::MAX], [1, 49, 59, 71, 96], [3, 94, 94, 94, 94], [0, 26, 41, 60, 97]),
    ];
    let attrs = Attrs::reference();
    for (ages, both, age_only, three) in golden {
        for &age in ages {
            for (i, nr_accesses) in nrs.into_iter().enumerate() {
                let facts = Facts { sz: 4096, nr_accesses, age };
                let cases = [
                    (weights(1, 1), both[i]),
                    (weights(100, 100), both[i]),
                    (weights(0, 1), age_only[i]),
                    (weights(1, 0), freq_only[i]),
                    (weights(3, 1), three[i]),
                    (weights(0, 0), 0),
                ];
                for (weights, expected) in cases {
                    assert_eq!(hot(facts, weights, &attrs), expected, "{facts:?} by {weights:?}");
                    let by = |order| score(order, facts, weights, &attrs);
                    let seen = (by(Order::HotFirst), by(Order::ColdFirst), by(Order::Any));
                    assert_eq!(seen, (expected, 99 - expected, 99), "{facts:?} by {weights:?}");
                }
            }
        }
    }
}

/// Sizes, counts, and ages.
const V_MIN: [(u64, u32, u32); 7] = [
    (100, 0, 0),
    (100, 0, 4),
    (200, 0, 16),
    (100, 0, 64),
    (300, 0, 256),
    (200, 4, 100),
    (200, 20, 100),
];

#[test]
fn v_min() {
    let attrs = Attrs { sample_us: 50_000, aggr_us: 1_000_000, ..Attrs::reference() };
    type Golden = (Order, Weights, [u32; 7], &'static [(u64, u32)]);
    let golden: [Golden; 4] = [
        (
            Order::ColdFirst,
            weights(0, 1),
            [50, 55, 58, 61, 65, 40, 40],
            &[
                (50, 65),
                (100, 65),
                (300, 65),
                (400, 61),
                (500, 58),
                (800, 50),
                (1200, 40),
                (5000, 0),
            ],
        ),
        (
            Order::ColdFirst,
            weights(1, 1),
            [75, 78, 79, 81, 83, 60, 20],
            &[
                (50, 83),
                (100, 83),
                (300, 83),
                (400, 81),
                (500, 79),
                (800, 75),
                (1200, 20),
                (5000, 0),
            ],
        ),
        (
            Order::HotFirst,
            weights(0, 1),
            [49, 44, 41, 38, 34, 59, 59],
            &[
                (50, 59),
                (100, 59),
                (300, 59),
                (400, 59),
                (500, 49),
                (800, 41),
                (1200, 34),
                (5000, 0),
            ],
        ),
        (
            Order::HotFirst,
            weights(1, 1),
            [24, 21, 20, 18, 16, 39, 79],
            &[
                (50, 79),
                (100, 79),
                (300, 39),
                (400, 39),
                (500, 24),
                (800, 20),
                (1200, 16),
                (5000, 0),
            ],
        ),
    ];
    for (order, weights, scores, sizes) in golden {
        let mut histogram = [0_u64; 100];
        let seen = V_MIN.map(|(sz, nr_accesses, age)| {
            let score = score(order, Facts { sz, nr_accesses, age }, weights, &attrs);
            histogram[score as usize] += sz;
            score
        });
        assert_eq!(seen, scores, "{order:?} by {weights:?}");
        for &(esz, expected) in sizes {
            assert_eq!(min_score(&histogram, esz), expected, "{order:?} by {weights:?}, {esz}");
        }
    }
}

const V_WMARK: [(u64, bool); 19] = [
    (450, true),
    (400, true),
    (399, true),
    (501, false),
    (500, false),
    (450, false),
    (400, false),
    (399, true),
    (300, true),
    (200, true),
    (199, false),
    (200, true),
    (300, true),
    (399, true),
    (400, true),
    (600, false),
    (350, true),
    (100, false),
    (250, true),
];

/// V-WMARK's marks.
pub(crate) fn marks() -> Watermarks {
    Watermarks {
        metric: WatermarkMetric::FreeMemRate,
        interval_us: 1_000_000,
        high: 500,
        mid: 400,
        low: 200,
    }
}

#[test]
fn v_wmark() {
    let mut active = true;
    for (i, (value, expected)) in V_WMARK.into_iter().enumerate() {
        active = marks().is_active(active, value);
        assert_eq!(active, expected, "{value}, the {i}th");
    }
}

/// A quota for the user's own goal, whose score is `score`.
fn with_goal(score: u64, quota: Quota) -> Quota {
    let goal = Goal { current: score, ..Goal::new(Metric::UserInput, 10_000) };
    Quota { goals: vec![goal], ..quota }
}

#[test]
fn v_esz() {
    let quota = |ms, sz| Quota { ms, sz, ..Quota::default() };
    let second = 1_000_000_000;
    let quick = (104_857_600, second);
    // The bytes charged before, the time for these in ns, and the tuner's memory.
    let golden = [
        (quota(0, 1000), (0, 0), 0, 1000),
        (quota(10, 0), (0, 0), 0, 41_943_040),
        (quota(10, 128 << 20), (0, 0), 0, 41_943_040),
        (quota(10, 0), quick, 0, 1_048_570),
        (quota(10, 1000), quick, 0, 1000),
        (quota(1, 0), (10, second), 0, 4096),
        (with_goal(0, quota(10, 0)), quick, 5_000_000_000_000, 1_048_570),
        (with_goal(20_000, quota(10, 0)), quick, 0, 1),
        (with_goal(0, quota(0, 128 << 20)), (0, 0), 5_000_000_000_000, 134_217_728),
    ];
    for (quota, (charged, ns), esz_bp, expected) in golden {
        let mut state = QuotaState::default();
        (state.total_charged_sz, state.total_charged_ns) = (charged, ns);
        state.esz_bp = esz_bp;
        state.set_effective(&quota, 4096, true);
        assert_eq!(state.esz, expected, "of {quota:?}");
    }
}

/// The tuners, through the quota that they tune.
#[test]
fn v_feed_tuners() {
    let mut state = QuotaState::default();
    let consist: [(u64, [u64; 5]); 4] = [
        (0, [2, 4, 8, 16, 32]),
        (15_000, [16, 8, 4, 2, 1]),
        (5000, [1, 2, 3, 5, 7]),
        (18_000, [1, 1, 1, 1, 1]),
    ];
    let mut bps = Vec::new();
    for (score, sizes) in consist {
        for size in sizes {
            state.set_effective(&with_goal(score, Quota::default()), 4096, true);
            assert_eq!(state.esz, size, "at score {score}");
            if score == 5000 {
                bps.push(state.esz_bp);
            }
        }
    }
    assert_eq!(bps, [15_000, 22_500, 33_750, 50_625, 75_937]);

    for (sz, most) in [(0, 1_844_674_407_370_955), (77_000, 77_000)] {
        let mut state = QuotaState::default();
        let quota = Quota { tuner: Tuner::Temporal, sz, ..Quota::default() };
        let temporal =
            [(0, most), (5000, most), (9999, most), (10_000, 0), (12_000, 0), (3000, most)];
        for (score, expected) in temporal {
            state.set_effective(&with_goal(score, quota.clone()), 4096, true);
            assert_eq!(state.esz, expected, "at score {score}");
        }
    }
}

#[test]
fn v_charge() {
    let mib = 1 << 20;
    let golden = [
        ((1000 * mib, 700 * mib), (1, 1024), 734_310_400),
        ((1000, 0), (1, 4), 250),
        ((1000, 1000), (1, 4), 1000),
        ((1000, 500), (1, 4), 625),
        ((1000, 0), (0, 1), 0),
        ((1000, 500), (0, 0), 1000),
        ((1000, 1200), (1, 4), 1000),
        ((1000, 0), (3, 2), 1500),
        ((10, 0), (1, 1024), 0),
    ];
    for ((tried, applied), (num, denom), expected) in golden {
        let seen = FailCharge { num, denom }.charge(tried, applied);
        assert_eq!(seen, expected, "{applied} of {tried}, {num}/{denom}");
    }
}

#[test]
fn v_skip() {
    let golden = [
        (0, (0, 100), Skip::No),
        (96, (0, 96), Skip::All),
        (200, (0, 96), Skip::All),
        (48, (0, 96), Skip::Left(48)),
        (50, (0, 96), Skip::Left(48)),
        (8, (0, 96), Skip::Left(16)),
        (8, (0, 16), Skip::All),
        (48, (40, 136), Skip::Left(16)),
        (48, (100, 196), Skip::No),
        (95, (0, 96), Skip::Left(80)),
    ];
    for (addr, (start, end), expected) in golden {
        let cursor = Cursor { target: T0, addr };
        let range = AddrRange::new(start, end);
        assert_eq!(cursor.skip(T0, range, 16), expected, "{addr} in {range:?}");
        assert_eq!(cursor.skip(TargetId(1), range, 16), Skip::All, "of another target");
    }
}

/// Apply intervals in µs, and when they are due, counted in samples of 5 ms.
#[test]
fn v_apply() {
    let golden = [(0, 10), (10_000, 2), (25_000, 5), (70_000, 14), (12_000, 2), (3000, 1)];
    let attrs = Attrs { aggr_us: 50_000, ..Attrs::reference() };
    let scheme = |(us, _)| Scheme { apply_interval_us: us, ..match_all(Action::Stat) };
    let mut run = Acting::new(attrs, &[&[(0, 1 << 20)]], golden.map(scheme).to_vec());
    run.go_to_sleep();
    for sis in 1..=100 {
        run.requests.clear();
        run.until_sis(sis);
        for (i, (us, every)) in golden.into_iter().enumerate() {
            let applied = run.requests.iter().any(|r| r.scheme == i);
            assert_eq!(applied, sis.is_multiple_of(every), "{us} µs at sis {sis}");
        }
    }
}
