//! Reads what the files of a kdamond say, as `on` and `commit` do
//! (`damon_sysfs_build_ctx()`, Linux 7.2).
//!
//! What depends on the machine, as whether a process exists, is the engine's to refuse.

mod module;

use isotherm_core::AddrRange;
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{
    Action, Bounds, Destination, FailCharge, Resolved, Tuner, WatermarkMetric, Watermarks, Weights,
};
use isotherm_damon::model::{
    Config, Context, Filter, FilterKind, Goal, GoalMetric, Intervals, Operations, Probe,
    ProbeFilter, ProbeKind, Quota, Scheme, Target,
};
use rustix::io::Errno;

pub(crate) use module::config as module_config;

use crate::tree::{Ino, Tree, Value, path_of};

/// A directory, to read what the files below it say. A missing file reads as 0 or "": the layout
/// has all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files<'a> {
    tree: &'a Tree,
    dir: Ino,
}

impl<'a> Files<'a> {
    pub(crate) const fn new(tree: &'a Tree, dir: Ino) -> Self {
        Self { tree, dir }
    }

    fn value(self, path: &str) -> Option<&'a Value> {
        self.tree.value_at(self.dir, path)
    }

    fn number(self, path: &str) -> u64 {
        match self.value(path) {
            Some(Value::Ulong(value, _) | Value::AddrUnit(value)) => *value,
            Some(Value::Uint(value, _)) => (*value).into(),
            _ => 0,
        }
    }

    fn uint(self, path: &str) -> u32 {
        match self.value(path) {
            Some(Value::Uint(value, _)) => *value,
            _ => 0,
        }
    }

    fn int(self, path: &str) -> i32 {
        match self.value(path) {
            Some(Value::Int(value, _)) => *value,
            _ => 0,
        }
    }

    fn flag(self, path: &str) -> bool {
        matches!(self.value(path), Some(Value::Flag(true)))
    }

    fn word(self, path: &str) -> &'static str {
        match self.value(path) {
            Some(Value::Word(word, _)) => word,
            _ => "",
        }
    }

    fn path(self, path: &str) -> String {
        match self.value(path) {
            Some(Value::Path(text)) => path_of(text),
            _ => String::new(),
        }
    }

    /// The numbered directories in a directory, in order.
    fn each<T>(
        self,
        dir: &str,
        read: impl FnMut(Self) -> Result<T, Errno>,
    ) -> Result<Vec<T>, Errno> {
        let Some(dir) = self.tree.at(self.dir, dir) else { return Ok(Vec::new()) };
        let numbered = self.tree.numbered(dir).into_iter();
        numbered.map(|(_, ino)| Self::new(self.tree, ino)).map(read).collect()
    }

    /// The minimum and maximum in a directory.
    fn bounds(self, dir: &str) -> Bounds<u64> {
        Bounds::new(self.number(&format!("{dir}/min")), self.number(&format!("{dir}/max")))
    }
}

/// What the files of a kdamond's directory say.
///
/// # Errors
///
/// EINVAL unless there is exactly one context, or if its attributes or regions are not valid;
/// ENOMEM if a scheme is not.
pub(crate) fn config(files: Files<'_>) -> Result<Config, Errno> {
    let mut contexts = files.each("contexts", context)?;
    match (contexts.pop(), contexts.is_empty()) {
        (Some(context), true) => Ok(Config { refresh_ms: files.uint("refresh_ms"), context }),
        _ => Err(Errno::INVAL),
    }
}

fn context(files: Files<'_>) -> Result<Context, Errno> {
    let operations = Operations::from_name(files.word("operations")).ok_or(Errno::INVAL)?;
    let targets = files.each("targets", target)?;
    if operations == Operations::Paddr && targets.len() > 1 {
        return Err(Errno::INVAL);
    }
    let addr_unit = files.number("addr_unit");
    let page_units = (4096 / addr_unit.max(1)).max(1);
    if operations == Operations::Paddr && !page_units.is_power_of_two() {
        return Err(Errno::INVAL);
    }
    let intervals = files.inside("monitoring_attrs/intervals");
    let context = Context {
        operations,
        addr_unit,
        pause: files.flag("pause"),
        intervals: intervals.map(intervals_of).unwrap_or_default(),
        nr_regions: files.bounds("monitoring_attrs/nr_regions"),
        probes: files.each("monitoring_attrs/probes", probe)?,
        targets,
        schemes: files.each("schemes", scheme)?,
    };
    let is_eligible = |goal: &Goal| matches!(goal.metric, GoalMetric::NodeEligibleMemBp(_));
    let mut goals = context.schemes.iter().flat_map(|scheme| &scheme.quota.goals);
    if operations != Operations::Paddr && goals.any(is_eligible) {
        return Err(Errno::INVAL);
    }
    Ok(context)
}

impl Files<'_> {
    fn inside(self, dir: &str) -> Option<Self> {
        Some(Self { dir: self.tree.at(self.dir, dir)?, ..self })
    }
}

fn intervals_of(files: Files<'_>) -> Intervals {
    Intervals {
        sample_us: files.number("sample_us"),
        aggr_us: files.number("aggr_us"),
        update_us: files.number("update_us"),
        goal: IntervalsGoal {
            access_bp: files.number("intervals_goal/access_bp"),
            aggrs: files.number("intervals_goal/aggrs"),
            min_sample_us: files.number("intervals_goal/min_sample_us"),
            max_sample_us: files.number("intervals_goal/max_sample_us"),
        },
    }
}

fn probe(files: Files<'_>) -> Result<Probe, Errno> {
    let filter = |files: Files<'_>| {
        let kind = match files.word("type") {
            "memcg" => ProbeKind::Memcg(files.path("path")),
            _ => ProbeKind::Anon,
        };
        Ok(ProbeFilter { kind, matching: files.flag("matching"), allow: files.flag("allow") })
    };
    Ok(Probe { filters: files.each("filters", filter)?, weight: 0 })
}

fn target(files: Files<'_>) -> Result<Target, Errno> {
    let regions = files.each("regions", |region| {
        let range = AddrRange { start: region.number("start"), end: region.number("end") };
        if range.start > range.end { Err(Errno::INVAL) } else { Ok(range) }
    })?;
    if regions.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return Err(Errno::INVAL);
    }
    Ok(Target { pid: files.int("pid_target"), regions, obsolete: files.flag("obsolete_target") })
}

/// A number that the kernel keeps in an `unsigned int` although its file takes more.
#[expect(clippy::cast_possible_truncation, reason = "as the kernel does (R§5.2)")]
const fn truncated(value: u64) -> u32 {
    value as u32
}

fn scheme(files: Files<'_>) -> Result<Scheme, Errno> {
    let narrow = |b: Bounds<u64>| Bounds::new(truncated(b.min), truncated(b.max));
    let destination =
        |files: Files<'_>| Ok(Destination { nid: files.uint("id"), weight: files.uint("weight") });
    Ok(Scheme {
        pattern: Resolved {
            sz: files.bounds("access_pattern/sz"),
            nr_accesses: narrow(files.bounds("access_pattern/nr_accesses")),
            age: narrow(files.bounds("access_pattern/age")),
        },
        action: Action::from_name(files.word("action")).ok_or(Errno::INVAL)?,
        target_nid: u32::try_from(files.int("target_nid")).ok(),
        apply_interval_us: files.number("apply_interval_us"),
        quota: quota(files)?,
        watermarks: watermarks(files),
        core_filters: files.each("core_filters", filter)?,
        ops_filters: files.each("ops_filters", filter)?,
        filters: files.each("filters", filter)?,
        dests: files.each("dests", destination)?,
        max_nr_snapshots: files.number("stats/max_nr_snapshots"),
    })
}

fn quota(files: Files<'_>) -> Result<Quota, Errno> {
    Ok(Quota {
        ms: files.number("quotas/ms"),
        bytes: files.number("quotas/bytes"),
        reset_interval_ms: files.number("quotas/reset_interval_ms"),
        weights: Weights {
            sz: files.uint("quotas/weights/sz_permil"),
            nr_accesses: files.uint("quotas/weights/nr_accesses_permil"),
            age: files.uint("quotas/weights/age_permil"),
        },
        goals: goals(files)?,
        tuner: match files.word("quotas/goal_tuner") {
            "temporal" => Tuner::Temporal,
            _ => Tuner::Consist,
        },
        fail_charge: FailCharge {
            num: files.uint("quotas/fail_charge_num"),
            denom: files.uint("quotas/fail_charge_denom"),
        },
    })
}

/// The goals of a scheme. The kernel leaves out those with the target 0.
fn goals(files: Files<'_>) -> Result<Vec<Goal>, Errno> {
    let all = files.each("quotas/goals", |files| {
        let (name, nid, path) = (files.word("target_metric"), files.int("nid"), files.path("path"));
        Ok(Goal {
            metric: GoalMetric::from_parts(name, nid, &path).ok_or(Errno::INVAL)?,
            target_value: files.number("target_value"),
            current_value: files.number("current_value"),
        })
    })?;
    Ok(all.into_iter().filter(|goal| goal.target_value != 0).collect())
}

fn watermarks(files: Files<'_>) -> Watermarks {
    Watermarks {
        metric: match files.word("watermarks/metric") {
            "free_mem_rate" => WatermarkMetric::FreeMemRate,
            _ => WatermarkMetric::None,
        },
        interval_us: files.number("watermarks/interval_us"),
        high: files.number("watermarks/high"),
        mid: files.number("watermarks/mid"),
        low: files.number("watermarks/low"),
    }
}

fn filter(files: Files<'_>) -> Result<Filter, Errno> {
    let kind = match files.word("type") {
        "active" => FilterKind::Active,
        "memcg" => FilterKind::Memcg(files.path("memcg_path")),
        "young" => FilterKind::Young,
        "hugepage_size" => {
            let (min, max) = (files.number("min"), files.number("max"));
            if min > max {
                return Err(Errno::NOMEM);
            }
            FilterKind::HugepageSize(min, max)
        }
        "unmapped" => FilterKind::Unmapped,
        "addr" => {
            let range =
                AddrRange { start: files.number("addr_start"), end: files.number("addr_end") };
            if range.end < range.start {
                return Err(Errno::NOMEM);
            }
            FilterKind::Addr(range)
        }
        // The kernel compares a negative index with none, so it matches no target.
        "target" => {
            FilterKind::Target(u32::try_from(files.int("damon_target_idx")).unwrap_or(u32::MAX))
        }
        _ => FilterKind::Anon,
    };
    Ok(Filter { kind, matching: files.flag("matching"), allow: files.flag("allow") })
}
