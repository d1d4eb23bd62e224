//! A reading in which everything is there.

use isotherm_agent::monitor::Durations;
use isotherm_metrics::{
    Build, CgroupReading, ContextReading, FleetReading, GoalReading, OwnReading, Reading,
    SchemeReading, SpanReading, TierReading,
};

/// With so many cgroups.
pub(crate) fn reading(cgroups: u64) -> Reading {
    let goal = GoalReading { metric: "cgroup_some_mem_psi_us".into(), ratio: 0.25 };
    let scheme = SchemeReading {
        name: "cold".into(),
        action: "pageout".into(),
        is_active: true,
        asked_bytes: 9 << 20,
        done_bytes: 8 << 20,
        refaulted_bytes: 4096,
        quota_bytes: Some(128 << 20),
        action_seconds: 0.25,
        goals: vec![goal],
        ..SchemeReading::default()
    };
    let context = ContextReading {
        name: "services".into(),
        backend: "pagewalk".into(),
        is_up: true,
        targets: cgroups,
        windows: 100,
        durations: Durations {
            counts: [0, 7, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            sum_ns: 1_500_000_000,
        },
        budget_ratio: 0.01,
        target_seconds: Some(0.25),
        last_snapshot_seconds: Some(1_700_000_000.5),
        schemes: vec![scheme],
        ..ContextReading::default()
    };
    Reading {
        build: Build { version: "0.1.0".into(), commit: "0123abc".into() },
        contexts: vec![context],
        cgroups: (0..cgroups).map(cgroup).collect(),
        own: OwnReading { cpu_seconds: 1.5, cpu_ratio: 0.01, memory_bytes: 30 << 20 },
        errors: [("action", 2), ("left_out", 0)].into(),
        held: [("reclaim".to_owned(), "stop-file")].into(),
        fleet: Some(FleetReading {
            is_up: false,
            written_seconds: Some(1_700_000_000.5),
            kept_bytes: 1 << 20,
            rows: 700,
            lost_rows: 51,
            failures: 3,
            panics: 1,
        }),
    }
}

fn cgroup(nr: u64) -> CgroupReading {
    let span =
        |seconds| SpanReading { seconds, bytes: nr << 20, lo: 0, hi: nr << 21, coverage: 0.5 };
    CgroupReading {
        context: "services".into(),
        cgroup: format!("/kubepods.slice/kubepods-burstable.slice/kubepods-pod{nr}.slice/cri-{nr}"),
        unit: format!("kubepods-pod{nr}.slice"),
        pod: format!("shop/web-{nr}"),
        container: "nginx".into(),
        processes: 3,
        waiting: 1,
        tiers: TierReading { hot: nr << 20, warm: nr << 10, cold: nr << 22, unresolved: 4096 },
        spans: vec![span(1), span(10), span(60)],
        idle: vec![(1, 0), (10, nr), (60, nr), (300, nr), (u64::MAX, nr << 3)],
        age_seconds: 0.5,
        look_age_seconds: 12.5,
    }
}
