//! What the parameters of a module say (R§6.2 to R§6.4): each module is one context over physical
//! memory.

use isotherm_core::AddrRange;
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{Action, Bounds, Resolved, WatermarkMetric, Watermarks, Weights};
use isotherm_damon::model::{
    Config, Context, Filter, FilterKind, Goal, GoalMetric, Intervals, Operations, Quota, Scheme,
    Target,
};
use isotherm_damon::modules::Module;
use rustix::io::Errno;

use super::{Files, truncated};

/// Any count of samples or windows from this one on.
const fn from(least: u32) -> Bounds<u32> {
    Bounds::new(least, u32::MAX)
}

/// What the parameters of a module say.
///
/// # Errors
///
/// EINVAL if an interval is 0 or a share is above 1.
pub(crate) fn config(module: Module, files: Files<'_>) -> Result<Config, Errno> {
    let mut context = Context {
        operations: Operations::Paddr,
        addr_unit: files.number("addr_unit").max(1),
        targets: vec![Target { pid: 0, regions: region(files), obsolete: false }],
        ..Context::default()
    };
    if module == Module::Stat {
        context.intervals.goal = tuned(400);
        return Ok(Config { context, ..Config::default() });
    }
    let (sample_us, aggr_us) = (files.number("sample_interval"), files.number("aggr_interval"));
    if aggr_us == 0 || (module == Module::LruSort && sample_us == 0) {
        return Err(Errno::INVAL);
    }
    context.intervals = Intervals { sample_us, aggr_us, update_us: 0, ..Intervals::default() };
    context.nr_regions =
        Bounds::new(files.number("min_nr_regions"), files.number("max_nr_regions"));
    if files.flag("autotune_monitoring_intervals") {
        context.intervals = Intervals { update_us: 0, goal: tuned(40), ..Intervals::default() };
    }
    let intervals = context.intervals;
    context.schemes = match module {
        Module::Reclaim => vec![reclaim(files, &intervals)],
        _ => lru_sort(files, &intervals)?,
    };
    Ok(Config { context, ..Config::default() })
}

/// The goal that modules tune their intervals for.
const fn tuned(access_bp: u64) -> IntervalsGoal {
    IntervalsGoal { access_bp, aggrs: 3, min_sample_us: 5_000, max_sample_us: 10_000_000 }
}

/// The region to watch; none to have it found.
fn region(files: Files<'_>) -> Vec<AddrRange> {
    let (start, end) = (files.number("monitor_region_start"), files.number("monitor_region_end"));
    if start < end { vec![AddrRange { start, end }] } else { Vec::new() }
}

fn reclaim(files: Files<'_>, intervals: &Intervals) -> Scheme {
    let mut goals = Vec::new();
    let pressure_us = files.number("quota_mem_pressure_us");
    if pressure_us != 0 {
        let metric = GoalMetric::SomeMemPsiUs;
        goals.push(Goal { metric, target_value: pressure_us, current_value: 0 });
    }
    let feedback = files.number("quota_autotune_feedback");
    if feedback != 0 {
        let metric = GoalMetric::UserInput;
        goals.push(Goal { metric, target_value: 10_000, current_value: feedback });
    }
    let anon = Filter { kind: FilterKind::Anon, matching: true, allow: false };
    let skipped = files.flag("skip_anon").then_some(anon);
    let age = from(truncated(files.number("min_age") / intervals.aggr_us));
    Scheme {
        pattern: pattern(Bounds::new(0, 0), age),
        action: Action::Pageout,
        quota: Quota {
            bytes: files.number("quota_sz"),
            weights: Weights { sz: 0, nr_accesses: 0, age: 1 },
            goals,
            ..quota(files, 1)
        },
        watermarks: watermarks(files),
        ops_filters: skipped.into_iter().collect(),
        ..Scheme::default()
    }
}

fn lru_sort(files: Files<'_>, intervals: &Intervals) -> Result<Vec<Scheme>, Errno> {
    let active_bp = files.number("active_mem_bp");
    if active_bp > 10_000 {
        return Err(Errno::INVAL);
    }
    let goal = |metric, target_value| {
        (active_bp != 0).then_some(Goal { metric, target_value, current_value: 0 })
    };
    let young = |matching| Filter { kind: FilterKind::Young, matching, allow: false };
    let filters = |matching| {
        files.flag("filter_young_pages").then_some(young(matching)).into_iter().collect()
    };
    let weights = Weights { sz: 0, nr_accesses: 1, age: 1 };
    let quota = |goal: Option<Goal>| Quota {
        weights,
        goals: goal.into_iter().collect(),
        ..quota(files, 2)
    };
    let max_nr = intervals.aggr_us / intervals.sample_us.max(1);
    let hot = max_nr.saturating_mul(files.number("hot_thres_access_freq")) / 1000;
    let cold = files.number("cold_min_age") / intervals.aggr_us;
    Ok(vec![
        Scheme {
            pattern: pattern(from(truncated(hot)), from(0)),
            action: Action::LruPrio,
            quota: quota(goal(GoalMetric::ActiveMemBp, active_bp)),
            watermarks: watermarks(files),
            ops_filters: filters(false),
            ..Scheme::default()
        },
        Scheme {
            pattern: pattern(Bounds::new(0, 0), from(truncated(cold))),
            action: Action::LruDeprio,
            // Both shares together are 2 bp more than all, so that they overlap.
            quota: quota(goal(GoalMetric::InactiveMemBp, 10_002 - active_bp)),
            watermarks: watermarks(files),
            ops_filters: filters(true),
            ..Scheme::default()
        },
    ])
}

const fn pattern(nr_accesses: Bounds<u32>, age: Bounds<u32>) -> Resolved {
    Resolved { sz: Bounds::new(4096, u64::MAX), nr_accesses, age }
}

/// The quota of each of so many schemes that share it.
fn quota(files: Files<'_>, shared_by: u64) -> Quota {
    Quota {
        ms: files.number("quota_ms") / shared_by,
        reset_interval_ms: files.number("quota_reset_interval_ms"),
        ..Quota::default()
    }
}

fn watermarks(files: Files<'_>) -> Watermarks {
    Watermarks {
        metric: WatermarkMetric::FreeMemRate,
        interval_us: files.number("wmarks_interval"),
        high: files.number("wmarks_high"),
        mid: files.number("wmarks_mid"),
        low: files.number("wmarks_low"),
    }
}
