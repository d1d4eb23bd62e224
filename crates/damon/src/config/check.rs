//! Why a kernel refuses a whole configuration.
//!
//! `on` and `commit` answer EINVAL or ENOMEM for two dozen different reasons (R§5.3). This module
//! finds the reasons that can be seen from outside. [`problems`] runs before a commit, because
//! older kernels do not report a refused one (see `commit`), and explains a refusal of the kernel
//! (see `kdamond::refusal`).

use isotherm_core::AddrRange;
use isotherm_host::metrics::MetricKind;
use isotherm_host::metrics::cgroup::Cgroups;
use isotherm_host::proc::Proc;

use crate::config::model::{Config, Context, Filter, FilterKind, GoalMetric, Operations, Scheme};

/// What is wrong with a configuration, as far as the kernel's rules are known
/// (`damon_sysfs_apply_inputs()`, `damon_set_attrs()`, Linux 7.2). `lives` says whether there is a
/// process with a pid.
pub fn problems(config: &Config, lives: impl Fn(u32) -> bool) -> Vec<String> {
    let context = &config.context;
    let mut found = attrs(context);
    for (index, target) in context.targets.iter().enumerate() {
        let pid = u32::try_from(target.pid).ok();
        if context.operations != Operations::Paddr && !pid.is_some_and(&lives) {
            found.push(format!("target {index}: there is no process {}", target.pid));
        }
        let mut last_end = 0;
        for range in &target.regions {
            if range.is_empty() {
                found.push(format!("target {index}: region {} is empty", shown(range)));
            } else if range.start < last_end {
                found.push(format!(
                    "target {index}: region {} is not behind the one before",
                    shown(range)
                ));
            }
            last_end = range.end;
        }
    }
    if context.operations == Operations::Paddr && context.targets.len() > 1 {
        found.push("paddr takes one target".into());
    }
    for (index, scheme) in context.schemes.iter().enumerate() {
        found.extend(
            schemes(scheme, context.operations).map(|what| format!("scheme {index}: {what}")),
        );
    }
    found
}

/// As `/proc/PID/maps` writes it.
fn shown(range: &AddrRange) -> String {
    format!("{:x}-{:x}", range.start, range.end)
}

/// Cgroups that the configuration names and that do not exist, as far as that can be seen.
pub(crate) fn missing_cgroups(config: &Config, proc: &Proc) -> Vec<String> {
    let schemes = config.context.schemes.iter();
    let of_filter = |filter: &Filter| match &filter.kind {
        FilterKind::Memcg(path) => Some(path.clone()),
        _ => None,
    };
    let named: Vec<String> = schemes
        .flat_map(|scheme| {
            let lists = [&scheme.core_filters, &scheme.ops_filters, &scheme.filters];
            let filters = lists.into_iter().flatten().filter_map(of_filter);
            let goals = scheme.quota.goals.iter();
            filters.chain(goals.filter_map(|goal| goal.metric.path().map(str::to_owned)))
        })
        .collect();
    if named.is_empty() {
        return named;
    }
    let mounted = Cgroups::mounted(proc);
    let gone = |path: &String| {
        let found = mounted.memory_id(path);
        matches!(found, Err(err) if err.kind() == MetricKind::NoCgroup)
    };
    named.into_iter().filter(gone).map(|path| format!("there is no cgroup {path}")).collect()
}

fn attrs(context: &Context) -> Vec<String> {
    let (intervals, goal) = (&context.intervals, &context.intervals.goal);
    let bounds = &context.nr_regions;
    let unit = context.addr_unit;
    let tuned = goal.aggrs != 0;
    let out_of_goal =
        intervals.sample_us < goal.min_sample_us || goal.max_sample_us < intervals.sample_us;
    let odd_unit = context.operations == Operations::Paddr
        && unit != 0
        && !(4096 / unit).max(1).is_power_of_two();
    let all = [
        (tuned && goal.min_sample_us > goal.max_sample_us, "intervals goal: min is above max"),
        (tuned && out_of_goal, "the sample interval is outside of the intervals goal's bounds"),
        (bounds.min < 3, "fewer than 3 regions"),
        (bounds.min > bounds.max, "nr_regions: min is above max"),
        (
            intervals.sample_us > intervals.aggr_us,
            "the sample interval is above the aggregation interval",
        ),
        (odd_unit, "the page size in address units is no power of two"),
    ];
    all.into_iter().filter(|(wrong, _)| *wrong).map(|(_, what)| what.to_owned()).collect()
}

fn schemes(scheme: &Scheme, operations: Operations) -> impl Iterator<Item = String> {
    let filters = scheme.core_filters.iter().chain(&scheme.ops_filters).chain(&scheme.filters);
    let mut found = Vec::new();
    for filter in filters {
        match &filter.kind {
            FilterKind::Addr(range) if range.end < range.start => {
                found.push(format!("filter by address: {} ends before it starts", shown(range)));
            }
            FilterKind::HugepageSize(min, max) if max < min => {
                found.push("filter hugepage_size: min is above max".into());
            }
            _ => {}
        }
    }
    for goal in &scheme.quota.goals {
        if matches!(goal.metric, GoalMetric::NodeEligibleMemBp(_))
            && operations != Operations::Paddr
        {
            found.push("goal node_eligible_mem_bp needs paddr".into());
        }
    }
    found.into_iter()
}
