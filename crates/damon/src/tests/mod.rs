//! The library over a made-up kernel.

mod claims;
mod fake;
mod faults;
mod files;
mod modules;

use isotherm_core::AddrRange;
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{
    Action, Bounds, Destination, FailCharge, Resolved, Tuner, WatermarkMetric, Watermarks, Weights,
};

use crate::config::model::{
    Config, Context, Filter, FilterKind, Goal, GoalMetric, Intervals, Operations, Probe,
    ProbeFilter, ProbeKind, Quota, Scheme, Target,
};

/// Every file with a value that is not its default, and every list with something in it.
pub(super) fn everything() -> Config {
    let metrics = [
        GoalMetric::UserInput,
        GoalMetric::SomeMemPsiUs,
        GoalMetric::NodeMemUsedBp(1),
        GoalMetric::NodeMemFreeBp(2),
        GoalMetric::NodeMemcgUsedBp(3, "/a".into()),
        GoalMetric::NodeMemcgFreeBp(4, "/b".into()),
        GoalMetric::ActiveMemBp,
        GoalMetric::InactiveMemBp,
        GoalMetric::NodeEligibleMemBp(5),
    ];
    let filter = |kind, matching, allow| Filter { kind, matching, allow };
    let scheme = Scheme {
        pattern: Resolved {
            sz: Bounds::new(4096, u64::MAX),
            nr_accesses: Bounds::new(1, 20),
            age: Bounds::new(2, u32::MAX),
        },
        action: Action::MigrateCold,
        target_nid: Some(1),
        apply_interval_us: 1_000_000,
        quota: Quota {
            ms: 10,
            bytes: 1 << 27,
            reset_interval_ms: 1000,
            weights: Weights { sz: 1, nr_accesses: 2, age: 3 },
            goals: metrics
                .into_iter()
                .zip(1..)
                .map(|(metric, nth)| Goal { metric, target_value: 100 * nth, current_value: nth })
                .collect(),
            tuner: Tuner::Temporal,
            fail_charge: FailCharge { num: 1, denom: 10 },
        },
        watermarks: Watermarks {
            metric: WatermarkMetric::FreeMemRate,
            interval_us: 5_000_000,
            high: 500,
            mid: 400,
            low: 200,
        },
        core_filters: vec![
            filter(FilterKind::Addr(AddrRange::new(4096, 8192)), true, true),
            filter(FilterKind::Target(1), false, false),
        ],
        ops_filters: vec![
            filter(FilterKind::Anon, true, false),
            filter(FilterKind::Active, false, true),
            filter(FilterKind::Memcg("/a/b".into()), true, true),
            filter(FilterKind::Young, true, false),
            filter(FilterKind::HugepageSize(2 << 20, 1 << 30), true, true),
            filter(FilterKind::Unmapped, true, false),
        ],
        filters: vec![filter(FilterKind::Anon, true, true)],
        dests: vec![Destination { nid: 0, weight: 3 }, Destination { nid: 1, weight: 7 }],
        max_nr_snapshots: 9,
    };
    let probe = |kind| ProbeFilter { kind, matching: true, allow: true };
    Config {
        refresh_ms: 100,
        context: Context {
            operations: Operations::Fvaddr,
            addr_unit: 2,
            pause: true,
            intervals: Intervals {
                sample_us: 10_000,
                aggr_us: 200_000,
                update_us: 1_000_000,
                goal: IntervalsGoal {
                    access_bp: 400,
                    aggrs: 3,
                    min_sample_us: 5000,
                    max_sample_us: 10_000_000,
                },
            },
            nr_regions: Bounds::new(20, 200),
            probes: vec![
                Probe {
                    filters: vec![probe(ProbeKind::Anon), probe(ProbeKind::Memcg("/c".into()))],
                    weight: 3,
                },
                Probe::default(),
            ],
            targets: vec![
                Target {
                    pid: 7,
                    regions: vec![AddrRange::new(4096, 8192), AddrRange::new(1 << 40, 1 << 41)],
                    obsolete: false,
                },
                Target { pid: 8, regions: Vec::new(), obsolete: true },
            ],
            schemes: vec![scheme, Scheme::default()],
        },
    }
}

/// A process to monitor and a scheme that only counts.
pub(super) fn simple(pid: i32) -> Config {
    let pattern = Resolved {
        sz: Bounds::new(0, u64::MAX),
        nr_accesses: Bounds::new(0, u32::MAX),
        age: Bounds::new(0, u32::MAX),
    };
    let context = Context {
        targets: vec![Target { pid, ..Target::default() }],
        schemes: vec![Scheme { pattern, ..Scheme::default() }],
        ..Context::default()
    };
    Config { refresh_ms: 0, context }
}
