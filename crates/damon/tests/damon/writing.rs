//! Files, commands and results of a real kernel.

use std::time::Duration;

use isotherm_core::AddrRange;
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{
    Action, Bounds, Destination, FailCharge, Tuner, WatermarkMetric, Watermarks, Weights,
};
use isotherm_damon::model::{
    Config, Filter, FilterKind, Goal, GoalMetric, Operations, Probe, ProbeFilter, ProbeKind, Scheme,
};
use isotherm_damon::{Command, DamonKind, Feature, Features, Kdamond};

use crate::world::{Role, World, wait_for, watch};

/// Everything that this kernel knows, with values that are not defaults.
fn everything(features: &Features) -> Config {
    let has = |feature| features.has(feature).is_likely();
    let mut config = watch(&[1, 2]);
    let context = &mut config.context;
    context.operations = Operations::Fvaddr;
    context.intervals.sample_us = 10_000;
    context.intervals.aggr_us = 200_000;
    context.intervals.update_us = 3_000_000;
    context.nr_regions = Bounds::new(20, 200);
    context.targets[0].regions = vec![AddrRange::new(4096, 8192), AddrRange::new(1 << 40, 1 << 41)];
    if has(Feature::RefreshMs) {
        config.refresh_ms = 7;
    }
    let context = &mut config.context;
    if has(Feature::AddrUnit) {
        context.addr_unit = 8;
    }
    context.pause = has(Feature::Pause);
    if has(Feature::IntervalsGoal) {
        context.intervals.goal =
            IntervalsGoal { access_bp: 400, aggrs: 3, min_sample_us: 5000, max_sample_us: 1 << 33 };
    }
    if has(Feature::ObsoleteTarget) {
        context.targets[1].obsolete = true;
    }
    if has(Feature::Probes) {
        let filter = |kind, matching, allow| ProbeFilter { kind, matching, allow };
        let memcg = ProbeKind::Memcg("/some/where".into());
        let filters = vec![filter(ProbeKind::Anon, true, false), filter(memcg, false, true)];
        let weight = if has(Feature::ProbeWeights) { 3 } else { 0 };
        context.probes = vec![Probe { filters, weight }, Probe::default()];
    }
    context.schemes.clear();
    for action in Action::ALL {
        let known = match action {
            Action::Collapse => has(Feature::Collapse),
            Action::MigrateCold | Action::MigrateHot => has(Feature::Migrate),
            _ => true,
        };
        if known {
            context.schemes.push(scheme(features, action));
        }
    }
    config
}

fn scheme(features: &Features, action: Action) -> Scheme {
    let has = |feature| features.has(feature).is_likely();
    let mut scheme = Scheme { action, apply_interval_us: 1_000_000, ..Scheme::default() };
    scheme.pattern.sz = Bounds::new(4096, u64::MAX);
    scheme.pattern.nr_accesses = Bounds::new(1, u32::MAX);
    scheme.pattern.age = Bounds::new(2, 3);
    scheme.watermarks = Watermarks {
        metric: WatermarkMetric::FreeMemRate,
        interval_us: 1,
        high: 4,
        mid: 3,
        low: 2,
    };
    let quota = &mut scheme.quota;
    (quota.ms, quota.bytes, quota.reset_interval_ms) = (10, 1 << 40, 1000);
    quota.weights = Weights { sz: 1, nr_accesses: 2, age: 3 };
    let mut metrics = vec![GoalMetric::UserInput, GoalMetric::SomeMemPsiUs];
    if has(Feature::NodeGoals) {
        metrics.extend([GoalMetric::NodeMemUsedBp(1), GoalMetric::NodeMemFreeBp(2)]);
    }
    if has(Feature::MemcgGoals) {
        metrics.push(GoalMetric::NodeMemcgUsedBp(3, "/x".into()));
        metrics.push(GoalMetric::NodeMemcgFreeBp(4, "/y z".into()));
    }
    if has(Feature::LruGoals) {
        metrics.extend([GoalMetric::ActiveMemBp, GoalMetric::InactiveMemBp]);
    }
    if has(Feature::EligibleGoal) {
        metrics.push(GoalMetric::NodeEligibleMemBp(0));
    }
    for (metric, nth) in metrics.into_iter().zip(1..) {
        quota.goals.push(Goal { metric, target_value: 100 * nth, current_value: nth });
    }
    if has(Feature::GoalTuner) {
        quota.tuner = Tuner::Temporal;
    }
    if has(Feature::FailCharge) {
        quota.fail_charge = FailCharge { num: 1, denom: 10 };
    }
    if has(Feature::Migrate) {
        scheme.target_nid = Some(1);
    }
    if has(Feature::Dests) {
        scheme.dests = vec![Destination { nid: 0, weight: 3 }, Destination { nid: 1, weight: 7 }];
    }
    if has(Feature::Snapshots) {
        scheme.max_nr_snapshots = 9;
    }
    let allow = has(Feature::AllowFilters);
    let filter = |kind| Filter { kind, matching: true, allow };
    let core = [FilterKind::Addr(AddrRange::new(4096, 8192)), FilterKind::Target(1)].map(filter);
    let mut ops = vec![FilterKind::Anon, FilterKind::Memcg("/a/b".into()), FilterKind::Young];
    if has(Feature::PageFilters) {
        ops.extend([FilterKind::Active, FilterKind::HugepageSize(1, 2), FilterKind::Unmapped]);
    }
    let ops: Vec<_> = ops.into_iter().map(filter).collect();
    if has(Feature::FilterLayers) {
        scheme.core_filters = core.to_vec();
        scheme.ops_filters = ops;
        scheme.filters = vec![filter(FilterKind::Anon)];
    } else {
        scheme.filters = core.into_iter().chain(ops).collect();
    }
    scheme
}

pub(crate) fn every_file_reads_back(world: &World) {
    let features = world.features();
    let config = everything(&features);
    let claim = world.claim(&config).unwrap();
    assert_eq!(claim.kdamond().read().unwrap().as_ref(), Some(&config));
    // The version table says of no feature that it is there when its file is not, nor the other way
    // round.
    let version = features.version.unwrap();
    for feature in Feature::ALL {
        let by_version = version >= feature.since();
        assert_eq!(features.has(feature).is_likely(), by_version, "{feature:?} on {version}");
    }
    println!("  {} files of {} features", world.dump(0).len(), features.release);
    claim.release().unwrap();
}

pub(crate) fn refusals_are_explained(world: &World) {
    let target = Role::start("touch");
    // A change, and what the error has to name.
    type Row = (&'static str, fn(&mut Config), &'static str);
    let rows: [Row; 6] = [
        ("sample > aggr", |c| c.context.intervals.aggr_us = 1, "above the aggregation interval"),
        ("min regions", |c| c.context.nr_regions.min = 2, "fewer than 3"),
        ("min > max", |c| c.context.nr_regions.max = 3, "min is above max"),
        ("pid", |c| c.context.targets[0].pid = 0x3f_fff0, "there is no process"),
        (
            "upside down",
            |c| c.context.targets[0].regions = vec![AddrRange::new(8192, 4096)],
            "is empty",
        ),
        (
            "filter range",
            |c| {
                let kind = FilterKind::Addr(AddrRange::new(8192, 4096));
                let filter = Filter { kind, matching: true, allow: false };
                c.context.schemes[0].filters.push(filter);
            },
            "ends before it starts",
        ),
    ];
    for (name, change, says) in rows {
        let mut config = watch(&[target.pid()]);
        change(&mut config);
        let mut claim = world.claim(&config).unwrap();
        let err = claim.on().unwrap_err();
        assert_eq!(err.kind(), DamonKind::Refused, "{name}: {err}");
        assert!(err.to_string().contains(says), "{name}: {err}");
        println!("  {name}: errno {:?}", err.errno());
        claim.release().unwrap();
    }
    // Values that a single file refuses.
    let mut config = watch(&[target.pid()]);
    config.context.nr_regions.max = u64::MAX;
    config.context.targets[0].pid = -5;
    // A negative pid is taken by the file, and only found out when it starts.
    let mut claim = world.claim(&config).unwrap();
    assert_eq!(claim.on().unwrap_err().kind(), DamonKind::Refused);
    claim.release().unwrap();
}

pub(crate) fn vaddr_sees_what_is_hot(world: &World) {
    let target = Role::start("touch");
    let hot = target.range();
    let mut config = watch(&[target.pid()]);
    config.context.schemes[0].quota.bytes = 1 << 40;
    config.context.schemes[0].quota.reset_interval_ms = 100;
    let mut claim = world.claim(&config).unwrap();
    let worker = claim.on().unwrap();
    assert_eq!(claim.kdamond().pid().unwrap(), Some(worker));
    let comm = std::fs::read_to_string(format!("/proc/{worker}/comm")).unwrap();
    assert!(comm.starts_with("kdamond"), "{comm}");
    let (mut regions, mut best) = (Vec::new(), 0);
    wait_for("half of the hot range in regions that were accessed", || {
        claim.kdamond().command(Command::UpdateTriedRegions).unwrap();
        claim.kdamond().tried_regions(0, &mut regions).unwrap();
        let hits = regions.iter().filter(|region| region.nr_accesses > 0);
        best = best.max(hits.map(|region| region.range.overlap(&hot)).sum());
        best > hot.len() / 2
    });
    let total: u64 = regions.iter().map(|region| region.range.len()).sum();
    assert_eq!(claim.kdamond().tried_bytes(0).unwrap(), Some(total));
    claim.kdamond().command(Command::UpdateStats).unwrap();
    let stats = claim.kdamond().stats(0).unwrap();
    assert!(stats.nr_tried > 0 && stats.sz_tried >= total, "{stats:?}");
    world.quota_comes(&claim, |esz| esz == 1 << 40);
    println!("  {} regions, {} MiB of {} MiB hot", regions.len(), best >> 20, hot.len() >> 20);
    claim.kdamond().command(Command::ClearTriedRegions).unwrap();
    claim.kdamond().tried_regions(0, &mut regions).unwrap();
    assert_eq!(regions, []);
    claim.off().unwrap();
    claim.off().unwrap();
    assert!(!claim.is_running().unwrap());
    // What the statistics said stays, and asking for new ones is refused with the reason.
    assert_eq!(claim.kdamond().stats(0).unwrap(), stats);
    let err = claim.kdamond().command(Command::UpdateStats).unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotRunning, "{err}");
    claim.on().unwrap();
    claim.release().unwrap();
}

pub(crate) fn busy_is_waited_for(world: &World) {
    let target = Role::start("touch");
    let mut config = watch(&[target.pid()]);
    // A walk waits for the whole apply interval, and holds the kernel's lock.
    config.context.schemes[0].apply_interval_us = 3_000_000;
    let claim = world.running(&config);
    let other = claim.kdamond().clone();
    let walker = std::thread::spawn(move || other.command(Command::UpdateTriedRegions));
    let hasty = world.root.clone().with_patience(Duration::from_millis(1));
    let mut met = 0;
    while !walker.is_finished() {
        match Kdamond::new(&hasty, 0).pid() {
            Ok(_) => {}
            Err(err) => {
                assert_eq!(err.kind(), DamonKind::Busy, "{err}");
                met += 1;
                // With patience the same works.
                claim.kdamond().pid().unwrap();
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    walker.join().unwrap().unwrap();
    println!("  met {met} times");
    claim.release().unwrap();
}
