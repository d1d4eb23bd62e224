//! Ready-made policies: their values, and that a file can have the same.

use expect_test::{Expect, expect};
use isotherm_act::apply::Evidence;
use isotherm_agent::policy::{Policy, TargetSpec, parse, print};
use isotherm_agent::ready::knobs::{Rate, goal, size_rate, time_rate, watermarks};
use isotherm_agent::ready::{
    Confirm, LruSort, Reclaim, Stat, Thp, Whose, bandwidth, idle_percentiles,
};
use isotherm_core::scheme::{Metric, WatermarkMetric};
use isotherm_core::{AddrRange, Lengths, RegionInfo, Snapshot, TargetInfo, Time};

fn shown(policy: &Policy, want: &Expect) {
    let text = print(policy);
    want.assert_eq(&text);
    match parse(&text, "ready.toml") {
        Ok(read) => assert_eq!(&read, policy, "{text}"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn defaults() {
    shown(
        &Reclaim::default().policy(),
        &expect![[r#"
        [[context]]
        name = "reclaim"

        [context.intervals]
        sample = "5ms"
        aggregation = "100ms"
        update = "1s"

        [context.regions]
        min = 10
        max = 1000

        [[context.scheme]]
        name = "reclaim"
        action = "pageout"
        size = "4K.."
        frequency = "0%"
        age = "120s.."
        quota = { size = "128M", time = "10ms", interval = "1s", weights = { size = 0, frequency = 0, age = 1 } }
        brake = { refaults = "2%" }
        watermarks = { metric = "free_mem_rate", interval = "5s", high = "50%", mid = "40%", low = "20%" }
        evidence = { confirm = "60s" }
    "#]],
    );
    shown(
        &LruSort::default().policy(),
        &expect![[r#"
        [[context]]
        name = "lru-sort"

        [context.intervals]
        sample = "5ms"
        aggregation = "100ms"
        update = "1s"

        [context.regions]
        min = 10
        max = 1000

        [[context.scheme]]
        name = "cold"
        action = "cold"
        size = "4K.."
        frequency = "0%"
        age = "120s.."
        quota = { time = "10ms", interval = "1s", weights = { size = 0, frequency = 1, age = 1 } }
        brake = { refaults = "2%" }
        watermarks = { metric = "free_mem_rate", interval = "5s", high = "20%", mid = "15%", low = "5%" }
        evidence = { confirm = "60s" }
    "#]],
    );
    shown(
        &Thp::default().policy(),
        &expect![[r#"
        [[context]]
        name = "thp"

        [context.intervals]
        sample = "5ms"
        aggregation = "100ms"
        update = "1s"

        [context.regions]
        min = 10
        max = 1000

        [[context.scheme]]
        name = "hot"
        action = "collapse"
        size = "2M.."
        frequency = "5%.."
        evidence = { confirm = "1s" }
        prove = "auto"
    "#]],
    );
    shown(
        &Stat::default().policy(),
        &expect![[r#"
            [[context]]
            name = "stat"

            [context.intervals]
            sample = "5ms"
            aggregation = "100ms"
            update = "1s"
            goal = { access = "4%", aggregations = 3, min_sample = "5ms", max_sample = "10s" }

            [context.regions]
            min = 10
            max = 1000

            [[context.scheme]]
            name = "accessed"
            action = "stat"
            frequency = "1 sample.."

            [[context.scheme]]
            name = "idle"
            action = "stat"
            frequency = "0 samples"
            age = "120s.."
        "#]],
    );
}

#[test]
fn with_all_knobs_turned() {
    let whose = Whose { targets: vec![TargetSpec::Pid(7)], children: false, ..Whose::default() };
    let mut reclaim = Reclaim {
        whose: whose.clone(),
        min_age_us: 10_000_000,
        confirm: Confirm::Off,
        skip_anon: true,
        autotune: true,
        refault_window_us: 3_000_000,
        dry_run: true,
        ..Reclaim::default()
    };
    reclaim.limits.size = Some(Rate { amount: 200 << 20, per_ms: 2000 });
    reclaim.limits.goals = vec![
        goal("psi=0.5ms/s").expect("a goal"),
        goal("used=30%@1/app").expect("a goal"),
        goal("user=5000").expect("a goal"),
    ];
    reclaim.limits.brake = None;
    reclaim.limits.watermarks = watermarks("none").expect("none");
    shown(
        &reclaim.policy(),
        &expect![[r#"
        [[context]]
        name = "reclaim"
        targets = [{ pid = 7 }]
        children = false

        [context.intervals]
        sample = "5ms"
        aggregation = "100ms"
        update = "1s"
        goal = { access = "0.4%", aggregations = 3, min_sample = "5ms", max_sample = "10s" }

        [context.regions]
        min = 10
        max = 1000

        [[context.scheme]]
        name = "reclaim"
        action = "pageout"
        size = "4K.."
        frequency = "0%"
        age = "10s.."
        quota = { size = "200M", time = "20ms", interval = "2s", weights = { size = 0, frequency = 0, age = 1 }, goals = [
          { metric = "some_mem_psi_us", target = "1ms" },
          { metric = "node_memcg_used_bp", node = 1, cgroup = "/app", target = "30%" },
          { metric = "user_input", target = 10000, current = 5000 },
        ] }
        brake = "off"
        filters = [
          "reject anon",
        ]
        evidence = "off"
        dry_run = true
        refault_window = "3s"
    "#]],
    );
    let sort = LruSort {
        hot: true,
        active_mem_bp: Some(4000),
        skip_young: true,
        confirm: Confirm::For(2_000_000),
        ..LruSort::default()
    };
    shown(
        &sort.policy(),
        &expect![[r#"
            [[context]]
            name = "lru-sort"

            [context.intervals]
            sample = "5ms"
            aggregation = "100ms"
            update = "1s"

            [context.regions]
            min = 10
            max = 1000

            [[context.scheme]]
            name = "hot"
            action = "willneed"
            size = "4K.."
            frequency = "50%.."
            quota = { time = "5ms", interval = "1s", weights = { size = 0, frequency = 1, age = 1 } }
            watermarks = { metric = "free_mem_rate", interval = "5s", high = "20%", mid = "15%", low = "5%" }
            evidence = { confirm = "2s" }

            [[context.scheme]]
            name = "cold"
            action = "cold"
            size = "4K.."
            frequency = "0%"
            age = "120s.."
            quota = { time = "5ms", interval = "1s", weights = { size = 0, frequency = 1, age = 1 }, goals = [
              { metric = "inactive_mem_bp", target = "60.02%" },
            ] }
            brake = { refaults = "2%" }
            watermarks = { metric = "free_mem_rate", interval = "5s", high = "20%", mid = "15%", low = "5%" }
            filters = [
              "reject young",
            ]
            evidence = { confirm = "2s" }
        "#]],
    );
    let thp = Thp { inject: true, min_touched_bp: 7500, ..Thp::default() };
    shown(
        &thp.policy(),
        &expect![[r#"
        [[context]]
        name = "thp"

        [context.intervals]
        sample = "5ms"
        aggregation = "100ms"
        update = "1s"

        [context.regions]
        min = 10
        max = 1000

        [[context.scheme]]
        name = "hot"
        action = "collapse"
        size = "2M.."
        frequency = "5%.."
        evidence = { confirm = "1s" }
        min_touched = "75%"
        prove = "auto"
        inject = true

        [[context.scheme]]
        name = "cold"
        action = "nohugepage"
        size = "2M.."
        frequency = "0%"
        age = "7s.."
        inject = true
    "#]],
    );
}

#[test]
fn without_any_limit() {
    let mut reclaim = Reclaim::default();
    (reclaim.limits.size, reclaim.limits.time) = (None, None);
    let policy = reclaim.policy();
    assert!(!policy.contexts[0].schemes[0].scheme.quota.is_set());
    assert_eq!(parse(&print(&policy), "").as_ref(), Ok(&policy));
}

#[test]
fn evidence_by_age() {
    for (age_s, want_s) in [(0, 1), (10, 10), (120, 60)] {
        let reclaim = Reclaim { min_age_us: age_s * 1_000_000, ..Reclaim::default() };
        let settings = &reclaim.policy().contexts[0].schemes[0].settings;
        assert_eq!(settings.evidence, Evidence::Confirm(want_s * 1_000_000));
    }
}

#[test]
fn rates() {
    let rate = |amount, per_ms| Some(Some(Rate { amount, per_ms }));
    let sizes = [
        ("200M/s", rate(200 << 20, 1000)),
        ("1G/10s", rate(1 << 30, 10_000)),
        ("4.5K / 500ms", rate(4608, 500)),
        ("none", Some(None)),
        ("0/s", None),
        ("4095/s", None),
        ("200M", None),
        ("200M/", None),
        ("200M/0s", None),
        ("200M/us", None),
        ("200M/parsec", None),
        ("M/s", None),
    ];
    for (text, want) in sizes {
        assert_eq!(size_rate(text).ok(), want, "{text}");
    }
    let times = [
        ("10ms/s", rate(10_000, 1000)),
        ("1s/s", rate(1_000_000, 1000)),
        ("none", Some(None)),
        ("2s/s", None),
        ("0.5ms/s", None),
        ("10/s", None),
    ];
    for (text, want) in times {
        assert_eq!(time_rate(text).ok(), want, "{text}");
    }
}

#[test]
fn goals() {
    let policy = |text: &str, per_ms| {
        let mut reclaim = Reclaim::default();
        reclaim.limits.size = Some(Rate { amount: 1 << 20, per_ms });
        reclaim.limits.goals = vec![goal(text).expect(text)];
        reclaim.policy().contexts[0].schemes[0].clone()
    };
    let cases = [
        ("psi=0.5ms/s", Metric::SomeMemPsiUs, 500),
        ("psi=5ms/10s", Metric::SomeMemPsiUs, 500),
        ("psi-full=1ms/s", Metric::FullMemPsiUs, 1000),
        ("free=5%", Metric::FreeMemRate, 50),
        ("free=0.5%@0", Metric::NodeMemFreeBp(0), 50),
        ("used=99.7%@1", Metric::NodeMemUsedBp(1), 9970),
        ("active=50%", Metric::ActiveMemBp, 5000),
        ("inactive=40%", Metric::InactiveMemBp, 4000),
        ("refaults=1%", Metric::RefaultBp, 100),
        ("refaults=2M/2s", Metric::WorkingsetRefaultBytes, 1 << 20),
        ("user=1/2", Metric::UserInput, 2),
    ];
    for (text, metric, target) in cases {
        let quota = policy(text, 1000).scheme.quota;
        assert_eq!((quota.goals[0].metric, quota.goals[0].target), (metric, target), "{text}");
    }
    // Pressure is a rate, so it follows the window.
    assert_eq!(policy("psi=0.5ms/s", 4000).scheme.quota.goals[0].target, 2000);
    let cgroup = policy("psi=1ms/s@/app", 1000);
    assert!(matches!(cgroup.scheme.quota.goals[0].metric, Metric::CgroupSomeMemPsiUs(_)));
    assert_eq!(cgroup.settings.cgroups, ["/app"]);
    let cgroup = policy("refaults=1M/s@/app", 4000).scheme.quota.goals[0];
    assert_eq!(cgroup.metric.name(), "cgroup_workingset_refault_bytes");
    assert_eq!(cgroup.target, 4 << 20, "it follows the window");
    let user = policy("user=5000", 1000).scheme.quota.goals[0];
    assert_eq!((user.current, user.target), (5000, 10_000));
    for wrong in [
        "psi",
        "psi=",
        "psi=5",
        "psi=0/s",
        "psi=2s/s",
        "psi=1ms/s@0",
        "refaults=1%@/app",
        "refaults=1M/s@0",
        "refaults=0/s",
        "free=0%",
        "free=101%@0",
        "used=5%",
        "used=5%@x",
        "used=5%@0/../x",
        "active=5%@0",
        "user=",
        "user=-1",
        "user=1/0",
        "mood=5%",
        "free=5%@",
    ] {
        assert!(goal(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn marks() {
    let read = watermarks("50%,40%,20%").expect("watermarks");
    assert_eq!(watermarks("500,400,200"), Ok(read));
    assert_eq!((read.metric, read.high, read.mid), (WatermarkMetric::FreeMemRate, 500, 400));
    assert_eq!(watermarks("none").expect("none").metric, WatermarkMetric::None);
    for wrong in ["", "1,2,3", "50%,40%", "50%,40%,40%", "2000,400,200", "0.05%,0,0", "a,b,c"] {
        assert!(watermarks(wrong).is_err(), "{wrong}");
    }
}

fn snapshot(regions: &[(u64, u32, u32, bool)]) -> Snapshot {
    let mut at = 0;
    let regions = regions.iter().map(|(len, nr_accesses, age, resolved)| {
        let range = AddrRange { start: at, end: at + len };
        at += len;
        RegionInfo {
            range,
            nr_accesses: *nr_accesses,
            age: *age,
            resolved: *resolved,
            ..RegionInfo::default()
        }
    });
    let targets = vec![TargetInfo { regions: regions.collect(), ..TargetInfo::default() }];
    Snapshot { aggr_us: 100_000, max_nr_accesses: 20, targets, ..Snapshot::default() }
}

#[test]
fn idle_memory_by_percent() {
    // A tenth is hot for 3 windows, four tenths are idle for 10, half for 100; what is not known is
    // left out.
    let seen =
        snapshot(&[(40, 0, 9, true), (50, 0, 99, true), (10, 5, 2, true), (500, 20, 0, false)]);
    let mut lengths = Lengths::default();
    for nr in 0..200 {
        let (start, end) = (Time(nr * 100_000_000), Time((nr + 1) * 100_000_000));
        lengths.note(&Snapshot { start, end, aggr_us: 100_000, ..Snapshot::default() });
    }
    let percentiles = idle_percentiles(&seen, &lengths);
    assert_eq!(percentiles[0], -300);
    assert_eq!(percentiles[10], -300);
    assert_eq!(percentiles[11], 1000);
    assert_eq!(percentiles[50], 1000);
    assert_eq!(percentiles[51], 10_000);
    assert_eq!(percentiles[100], 10_000);
    assert!(percentiles.is_sorted());
    assert_eq!(idle_percentiles(&Snapshot::default(), &lengths), [0; 101]);
    // The last window but one took 10 s. What is idle for longer is idle for as much longer.
    let mut late = lengths.clone();
    for (start, end) in [(20_000, 30_000), (30_000, 30_100)] {
        let (start, end) = (Time(start * 1_000_000), Time(end * 1_000_000));
        late.note(&Snapshot { start, end, aggr_us: 100_000, ..Snapshot::default() });
    }
    let percentiles = idle_percentiles(&seen, &late);
    assert_eq!([percentiles[0], percentiles[11]], [-10_200, 10_900]);
    // 10 bytes in 5 samples of a tenth of a second.
    assert_eq!(bandwidth(&seen), 500);
    // The same in a whole second.
    assert_eq!(bandwidth(&Snapshot { end: Time(1_000_000_000), ..seen }), 50);
}
