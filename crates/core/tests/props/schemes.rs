//! Random schemes, sensible or not, and random results of their requests.

use isotherm_core::scheme::{
    Action, Age, Bounds, Brake, FailCharge, Filter, FilterKind, Frequency, Goal, Metric, Pattern,
    Quota, Scheme, Tuner, WatermarkMetric, Watermarks, Weights,
};
use isotherm_core::{AddrRange, Applied, Request, Rng};
use proptest::prelude::*;
use proptest::sample::select;

fn pattern() -> impl Strategy<Value = Pattern> {
    let nr = prop_oneof![
        Just(Frequency::Samples(Bounds::new(0, u32::MAX))),
        Just(Frequency::Samples(Bounds::new(0, 0))),
        (0_u32..5000, 0_u32..10_000).prop_map(|(a, b)| Frequency::Bp(Bounds::new(a, b))),
    ];
    let age = prop_oneof![
        4 => Just(Age::Windows(Bounds::new(0, u32::MAX))),
        1 => (0_u32..5).prop_map(|min| Age::Windows(Bounds::new(min, u32::MAX))),
        1 => (0_u64..1 << 30).prop_map(|min| Age::Micros(Bounds::new(min, u64::MAX))),
    ];
    (nr, age).prop_map(|(nr_accesses, age)| Pattern { nr_accesses, age, ..Pattern::ALL })
}

fn goal() -> impl Strategy<Value = Goal> {
    let metric = select(vec![Metric::UserInput, Metric::SomeMemPsiUs, Metric::NodeMemUsedBp(0)]);
    (metric, select(vec![0_u64, 1, 5000, u64::MAX]), select(vec![0_u64, 4000, 5000, 9000]))
        .prop_map(|(metric, target, current)| Goal { current, ..Goal::new(metric, target) })
}

pub(crate) fn quota() -> impl Strategy<Value = Quota> {
    let sizes = select(vec![0_u64, 0, 1, 4096, 10_000, 100 << 10, 1 << 20, 1 << 40, u64::MAX]);
    let limits = (sizes, select(vec![0_u64, 0, 0, 1, 10, u64::MAX]));
    let goals = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(goal(), 1..3)];
    let rest = (select(vec![0_u64, 1, 100, 1000, u64::MAX]), 0..3_usize, any::<bool>());
    let fail = prop_oneof![
        Just(FailCharge::default()),
        (0_u32..4).prop_map(|num| FailCharge { num, denom: 4 }),
    ];
    let weights = (0_u32..3, 0_u32..3, 0_u32..3);
    (limits, goals, rest, fail, weights).prop_map(|(limits, goals, rest, fail_charge, weights)| {
        Quota {
            reset_interval_ms: rest.0,
            ms: limits.1,
            sz: limits.0,
            goals,
            tuner: [Tuner::Consist, Tuner::Temporal, Tuner::Exact][rest.1],
            fail_charge,
            weights: Weights { sz: weights.0, nr_accesses: weights.1, age: weights.2 },
            brake: rest.2.then(Brake::default),
        }
    })
}

fn watermarks() -> impl Strategy<Value = Watermarks> {
    let on = (0_u64..1000, 0_u64..1000, 0_u64..1000, select(vec![0, 1, 5000, 1_000_000]));
    prop_oneof![
        3 => Just(Watermarks::default()),
        1 => on.prop_map(|(high, mid, low, interval_us)| Watermarks {
            metric: WatermarkMetric::FreeMemRate,
            interval_us,
            high,
            mid,
            low,
        }),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let start = select(vec![0_u64, 0x40_0000, 0x7f00_0000_0000]);
    let addr = (start, 0_u64..20 << 20, 0_u64..20 << 20).prop_map(|(start, skip, len)| {
        FilterKind::Addr(AddrRange::new(start + skip, start + skip + len))
    });
    let kind = prop_oneof![
        3 => addr,
        1 => (0_usize..4).prop_map(FilterKind::Target),
        1 => Just(FilterKind::Anon),
    ];
    (kind, any::<bool>(), any::<bool>()).prop_map(|(kind, matching, allow)| Filter {
        kind,
        matching,
        allow,
    })
}

/// One scheme.
pub(crate) fn scheme() -> impl Strategy<Value = Scheme> {
    let interval = select(vec![0_u64, 0, 0, 1, 10_000, 1_000_000]);
    let filters = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(filter(), 1..4)];
    let most = select(vec![0_u64, 0, 0, 1, 7]);
    (pattern(), select(Action::ALL.to_vec()), interval, quota(), watermarks(), filters, most)
        .prop_map(|(pattern, action, apply_interval_us, quota, watermarks, filters, most)| {
            let mut scheme = Scheme {
                pattern,
                action,
                apply_interval_us,
                quota,
                watermarks,
                max_nr_snapshots: most,
                ..Scheme::default()
            };
            filters.into_iter().for_each(|f| scheme.filters.push(f));
            scheme
        })
}

/// Any possible result of a request.
pub(crate) fn any_answer(request: &Request, strict: bool, rng: &mut Rng) -> Applied {
    let len = request.range.len();
    let ns = [0, 0, 1000, 200_000, 5_000_000][usize::try_from(rng.range(0, 5)).unwrap()];
    let some = |rng: &mut Rng, most: u64| rng.range(0, most.saturating_add(1).max(1));
    if strict {
        let passed = some(rng, len);
        return Applied { applied: some(rng, passed), passed, ns, ..Applied::default() };
    }
    match rng.range(0, 8) {
        0 => Applied { ns, ..Applied::default() },
        1 => Applied { skip: some(rng, len), ns, ..Applied::default() },
        // As much as is allowed, or a part with holes.
        n => {
            let covered = if n < 5 { len.min(request.max_bytes) } else { 1 + some(rng, len - 1) };
            let most = covered.min(request.max_bytes);
            let asked = if n < 5 { most } else { some(rng, most) };
            let applied = some(rng, asked);
            let no_room = some(rng, asked - applied);
            Applied { covered, skip: 0, asked, applied, passed: asked, no_room, ns }
        }
    }
}
