//! Makes the core's attributes and schemes of what the files say.
//!
//! Everything is as strict as the kernel: DAMON's own sampling, its rounding and its defects, and
//! actions without evidence. Who writes these files expects DAMON.

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::scheme::{
    Age, CgroupId, Filter, FilterKind, Filters, Frequency, Goal, Metric, Pattern, Quota, Scheme,
};
use isotherm_core::{Attrs, Method};
use isotherm_damon::model::{self, GoalMetric};
use rustix::io::Errno;

use super::Log;

/// The attributes of a context.
pub(super) fn attrs(context: &model::Context) -> Attrs {
    let intervals = &context.intervals;
    Attrs {
        sample_us: intervals.sample_us,
        aggr_us: intervals.aggr_us,
        update_us: intervals.update_us,
        min_nr_regions: context.nr_regions.min,
        max_nr_regions: context.nr_regions.max,
        intervals_goal: intervals.goal,
        method: Method::Resample,
        strict: true,
        ..Attrs::reference()
    }
}

/// Checks the attributes of a context.
///
/// # Errors
///
/// EINVAL if they are not valid.
pub(super) fn check(context: &model::Context, log: &Log) -> Result<(), Errno> {
    attrs(context).validate().map_err(|why| {
        log(&format!("impossible attributes: {why}"));
        Errno::INVAL
    })
}

/// The schemes of a context, with how each is carried out.
pub(super) fn schemes(context: &model::Context) -> Vec<(Scheme, Settings)> {
    context.schemes.iter().enumerate().map(|(index, scheme)| one(index, scheme)).collect()
}

/// The goals of a scheme. Cgroups are numbered in its settings.
pub(super) fn goals(goals: &[model::Goal], settings: &mut Settings) -> Vec<Goal> {
    let one = |goal: &model::Goal| {
        let metric = metric(&goal.metric, settings);
        Goal { current: goal.current_value, ..Goal::new(metric, goal.target_value) }
    };
    goals.iter().map(one).collect()
}

fn one(index: usize, scheme: &model::Scheme) -> (Scheme, Settings) {
    let mut settings = Settings {
        name: index.to_string(),
        evidence: Evidence::Off,
        // The kernel does these actions without asking the process; from outside that takes a call
        // by one of its threads.
        inject: true,
        ..Settings::default()
    };
    let mut filters = Filters::default();
    let lists = [&scheme.core_filters, &scheme.ops_filters, &scheme.filters];
    for filter in lists.into_iter().flatten() {
        filters.push(self::filter(filter, &mut settings));
    }
    let pattern = &scheme.pattern;
    let made = Scheme {
        pattern: Pattern {
            sz: pattern.sz,
            nr_accesses: Frequency::Samples(pattern.nr_accesses),
            age: Age::Windows(pattern.age),
        },
        action: scheme.action,
        apply_interval_us: scheme.apply_interval_us,
        quota: quota(&scheme.quota, &mut settings),
        watermarks: scheme.watermarks,
        filters,
        target_nid: scheme.target_nid,
        dests: scheme.dests.clone(),
        max_nr_snapshots: scheme.max_nr_snapshots,
        ..Scheme::default()
    };
    (made, settings)
}

fn quota(quota: &model::Quota, settings: &mut Settings) -> Quota {
    Quota {
        reset_interval_ms: quota.reset_interval_ms,
        ms: quota.ms,
        sz: quota.bytes,
        goals: goals(&quota.goals, settings),
        tuner: quota.tuner,
        fail_charge: quota.fail_charge,
        weights: quota.weights,
        brake: None,
    }
}

fn filter(filter: &model::Filter, settings: &mut Settings) -> Filter {
    let kind = match &filter.kind {
        model::FilterKind::Anon => FilterKind::Anon,
        model::FilterKind::Active => FilterKind::Active,
        model::FilterKind::Memcg(path) => FilterKind::Memcg(number_of(settings, path)),
        model::FilterKind::Young => FilterKind::Young,
        model::FilterKind::HugepageSize(min, max) => FilterKind::HugepageSize(*min, *max),
        model::FilterKind::Unmapped => FilterKind::Unmapped,
        model::FilterKind::Addr(range) => FilterKind::Addr(*range),
        model::FilterKind::Target(index) => {
            FilterKind::Target(usize::try_from(*index).unwrap_or(usize::MAX))
        }
    };
    Filter { kind, matching: filter.matching, allow: filter.allow }
}

fn metric(metric: &GoalMetric, settings: &mut Settings) -> Metric {
    let mut cgroup = |path: &str| CgroupId(number_of(settings, path));
    match metric {
        GoalMetric::UserInput => Metric::UserInput,
        GoalMetric::SomeMemPsiUs => Metric::SomeMemPsiUs,
        GoalMetric::NodeMemUsedBp(nid) => Metric::NodeMemUsedBp(*nid),
        GoalMetric::NodeMemFreeBp(nid) => Metric::NodeMemFreeBp(*nid),
        GoalMetric::NodeMemcgUsedBp(nid, path) => Metric::NodeMemcgUsedBp(*nid, cgroup(path)),
        GoalMetric::NodeMemcgFreeBp(nid, path) => Metric::NodeMemcgFreeBp(*nid, cgroup(path)),
        GoalMetric::ActiveMemBp => Metric::ActiveMemBp,
        GoalMetric::InactiveMemBp => Metric::InactiveMemBp,
        GoalMetric::NodeEligibleMemBp(nid) => Metric::NodeEligibleMemBp(*nid),
    }
}

/// The number of a cgroup among those of a scheme.
fn number_of(settings: &mut Settings, path: &str) -> u32 {
    let known = settings.cgroups.iter().position(|known| known == path);
    let at = known.unwrap_or_else(|| {
        settings.cgroups.push(path.to_owned());
        settings.cgroups.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}
