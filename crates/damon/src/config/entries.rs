//! A configuration as the files that hold it: which file, which value, which feature of the kernel.
//!
//! The list is complete: every file is in it, also those with default values. It is in the order of
//! writing: a `nr_` file stands before its children, because writing it makes the children anew.
//! Paths are relative to the kdamond's directory.

use isotherm_core::scheme::{Action, Tuner, WatermarkMetric};

use crate::config::feature::Feature;
use crate::config::model::{
    Config, Context, Filter, FilterKind, Goal, GoalMetric, Probe, ProbeKind, Quota, Scheme, Target,
};

/// One file and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path below the kdamond's directory.
    pub path: String,
    /// Its value, without a newline.
    pub value: String,
    /// The feature that the file came with, if the file was not there from the beginning.
    pub file: Option<Feature>,
    /// The feature that the value came with, if the file took fewer values before.
    pub keyword: Option<Feature>,
}

impl Entry {
    /// Whether the value is what the kernel puts there when it makes the file.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.value == default_of(&self.path)
    }
}

/// The value that the kernel gives a file when it makes it (R§5.2), by the file's path.
#[must_use]
pub fn default_of(path: &str) -> &'static str {
    let mut parts = path.rsplit('/');
    let (name, dir) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    match (dir, name) {
        (_, "sample_us") => "5000",
        (_, "aggr_us") => "100000",
        (_, "update_us") => "60000000",
        ("nr_regions", "min") => "10",
        ("nr_regions", "max") => "1000",
        (_, "addr_unit") => "1",
        (_, "operations") => "vaddr",
        (_, "action") => "stat",
        (_, "target_nid") => "-1",
        (_, "goal_tuner") => "consist",
        (_, "target_metric") => "user_input",
        (_, "metric") => "none",
        (_, "type") => "anon",
        (_, "pause" | "obsolete_target" | "matching" | "allow") => "N",
        (_, "path" | "memcg_path") => "",
        _ => "0",
    }
}

/// How a kernel takes filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterDirs {
    /// `core_filters`, `ops_filters` and `filters` (6.15 and later).
    Layers,
    /// `filters` alone.
    One,
}

/// The files that say `config`.
#[must_use]
pub fn entries(config: &Config, dirs: FilterDirs) -> Vec<Entry> {
    let mut list = List { entries: Vec::new(), prefix: String::new() };
    list.set("refresh_ms", config.refresh_ms, Some(Feature::RefreshMs));
    list.set("contexts/nr_contexts", 1, None);
    list.within("contexts/0", |list| context(list, &config.context, dirs));
    list.entries
}

struct List {
    entries: Vec<Entry>,
    prefix: String,
}

impl List {
    fn set(&mut self, path: &str, value: impl ToString, file: Option<Feature>) {
        self.set_keyword(path, value, file, None);
    }

    fn set_keyword(
        &mut self,
        path: &str,
        value: impl ToString,
        file: Option<Feature>,
        keyword: Option<Feature>,
    ) {
        let path = format!("{}{path}", self.prefix);
        self.entries.push(Entry { path, value: value.to_string(), file, keyword });
    }

    fn flag(&mut self, path: &str, value: bool, file: Option<Feature>) {
        self.set(path, if value { "Y" } else { "N" }, file);
    }

    fn within(&mut self, dir: &str, f: impl FnOnce(&mut Self)) {
        let old = self.prefix.len();
        self.prefix.push_str(dir);
        self.prefix.push('/');
        f(self);
        self.prefix.truncate(old);
    }

    /// `dir/nr_x`, and a directory per item.
    fn each<T>(
        &mut self,
        dir: &str,
        nr: &str,
        items: &[T],
        file: Option<Feature>,
        mut f: impl FnMut(&mut Self, &T),
    ) {
        self.set(&format!("{dir}/{nr}"), items.len(), file);
        for (index, item) in items.iter().enumerate() {
            self.within(&format!("{dir}/{index}"), |list| f(list, item));
        }
    }
}

fn context(list: &mut List, context: &Context, dirs: FilterDirs) {
    list.set("operations", context.operations.name(), None);
    list.set("addr_unit", context.addr_unit, Some(Feature::AddrUnit));
    list.flag("pause", context.pause, Some(Feature::Pause));
    list.within("monitoring_attrs", |list| {
        list.within("intervals", |list| {
            let intervals = &context.intervals;
            list.set("sample_us", intervals.sample_us, None);
            list.set("aggr_us", intervals.aggr_us, None);
            list.set("update_us", intervals.update_us, None);
            list.within("intervals_goal", |list| {
                let (goal, since) = (&intervals.goal, Some(Feature::IntervalsGoal));
                list.set("access_bp", goal.access_bp, since);
                list.set("aggrs", goal.aggrs, since);
                list.set("min_sample_us", goal.min_sample_us, since);
                list.set("max_sample_us", goal.max_sample_us, since);
            });
        });
        list.set("nr_regions/min", context.nr_regions.min, None);
        list.set("nr_regions/max", context.nr_regions.max, None);
        list.each("probes", "nr_probes", &context.probes, Some(Feature::Probes), probe);
    });
    list.each("targets", "nr_targets", &context.targets, None, target);
    list.each("schemes", "nr_schemes", &context.schemes, None, |list, s| scheme(list, s, dirs));
}

fn probe(list: &mut List, probe: &Probe) {
    let since = Some(Feature::Probes);
    list.set("weight", probe.weight, Some(Feature::ProbeWeights));
    list.each("filters", "nr_filters", &probe.filters, since, |list, filter| {
        let (kind, path) = match &filter.kind {
            ProbeKind::Anon => ("anon", ""),
            ProbeKind::Memcg(path) => ("memcg", path.as_str()),
        };
        list.set("type", kind, since);
        list.flag("matching", filter.matching, since);
        list.flag("allow", filter.allow, since);
        list.set("path", path, since);
    });
}

fn target(list: &mut List, target: &Target) {
    list.set("pid_target", target.pid, None);
    list.flag("obsolete_target", target.obsolete, Some(Feature::ObsoleteTarget));
    list.each("regions", "nr_regions", &target.regions, None, |list, range| {
        list.set("start", range.start, None);
        list.set("end", range.end, None);
    });
}

fn scheme(list: &mut List, scheme: &Scheme, dirs: FilterDirs) {
    let action = match scheme.action {
        Action::LruPrio | Action::LruDeprio => Some(Feature::LruActions),
        Action::MigrateHot | Action::MigrateCold => Some(Feature::Migrate),
        Action::Collapse => Some(Feature::Collapse),
        _ => None,
    };
    list.set_keyword("action", scheme.action.name(), None, action);
    let nid = scheme.target_nid.map_or_else(|| "-1".into(), |nid| nid.to_string());
    list.set("target_nid", nid, Some(Feature::Migrate));
    list.set("apply_interval_us", scheme.apply_interval_us, Some(Feature::ApplyInterval));
    list.within("access_pattern", |list| {
        let pattern = &scheme.pattern;
        list.set("sz/min", pattern.sz.min, None);
        list.set("sz/max", pattern.sz.max, None);
        list.set("nr_accesses/min", pattern.nr_accesses.min, None);
        list.set("nr_accesses/max", pattern.nr_accesses.max, None);
        list.set("age/min", pattern.age.min, None);
        list.set("age/max", pattern.age.max, None);
    });
    list.within("quotas", |list| quota(list, &scheme.quota));
    list.within("watermarks", |list| {
        let marks = &scheme.watermarks;
        let metric = match marks.metric {
            WatermarkMetric::None => "none",
            WatermarkMetric::FreeMemRate => "free_mem_rate",
        };
        list.set("metric", metric, None);
        list.set("interval_us", marks.interval_us, None);
        list.set("high", marks.high, None);
        list.set("mid", marks.mid, None);
        list.set("low", marks.low, None);
    });
    let (core, ops, old) = (&scheme.core_filters, &scheme.ops_filters, &scheme.filters);
    let layers = Some(Feature::FilterLayers);
    if dirs == FilterDirs::Layers {
        list.each("core_filters", "nr_filters", core, layers, |l, f| filter(l, f, layers));
        list.each("ops_filters", "nr_filters", ops, layers, |l, f| filter(l, f, layers));
        list.each("filters", "nr_filters", old, Some(Feature::Filters), |list, f| {
            filter(list, f, Some(Feature::Filters));
        });
    } else {
        let all: Vec<&Filter> = core.iter().chain(ops).chain(old).collect();
        list.each("filters", "nr_filters", &all, Some(Feature::Filters), |list, f| {
            filter(list, f, Some(Feature::Filters));
        });
    }
    list.each("dests", "nr_dests", &scheme.dests, Some(Feature::Dests), |list, dest| {
        list.set("id", dest.nid, Some(Feature::Dests));
        list.set("weight", dest.weight, Some(Feature::Dests));
    });
    list.set("stats/max_nr_snapshots", scheme.max_nr_snapshots, Some(Feature::Snapshots));
}

fn quota(list: &mut List, quota: &Quota) {
    list.set("ms", quota.ms, None);
    list.set("bytes", quota.bytes, None);
    list.set("reset_interval_ms", quota.reset_interval_ms, None);
    let tuner = match quota.tuner {
        Tuner::Consist => "consist",
        // The kernel has no `exact`, and a scheme with it is never pushed down.
        Tuner::Temporal | Tuner::Exact => "temporal",
    };
    list.set("goal_tuner", tuner, Some(Feature::GoalTuner));
    list.set("fail_charge_num", quota.fail_charge.num, Some(Feature::FailCharge));
    list.set("fail_charge_denom", quota.fail_charge.denom, Some(Feature::FailCharge));
    list.set("weights/sz_permil", quota.weights.sz, None);
    list.set("weights/nr_accesses_permil", quota.weights.nr_accesses, None);
    list.set("weights/age_permil", quota.weights.age, None);
    list.each("goals", "nr_goals", &quota.goals, Some(Feature::Goals), goal);
}

fn goal(list: &mut List, goal: &Goal) {
    let keyword = match &goal.metric {
        GoalMetric::UserInput => None,
        GoalMetric::SomeMemPsiUs => Some(Feature::GoalMetrics),
        GoalMetric::NodeMemUsedBp(_) | GoalMetric::NodeMemFreeBp(_) => Some(Feature::NodeGoals),
        GoalMetric::NodeMemcgUsedBp(..) | GoalMetric::NodeMemcgFreeBp(..) => {
            Some(Feature::MemcgGoals)
        }
        GoalMetric::ActiveMemBp | GoalMetric::InactiveMemBp => Some(Feature::LruGoals),
        GoalMetric::NodeEligibleMemBp(_) => Some(Feature::EligibleGoal),
    };
    // In 6.8 there was one metric and no file to say so.
    list.set_keyword("target_metric", goal.metric.name(), Some(Feature::GoalMetrics), keyword);
    list.set("target_value", goal.target_value, Some(Feature::Goals));
    list.set("current_value", goal.current_value, Some(Feature::Goals));
    list.set("nid", goal.metric.nid().unwrap_or(0), Some(Feature::NodeGoals));
    list.set("path", goal.metric.path().unwrap_or(""), Some(Feature::MemcgGoals));
}

fn filter(list: &mut List, filter: &Filter, dir: Option<Feature>) {
    let keyword = match filter.kind {
        FilterKind::Anon | FilterKind::Memcg(_) => None,
        FilterKind::Young => Some(Feature::YoungFilter),
        FilterKind::Addr(_) | FilterKind::Target(_) => Some(Feature::CoreFilters),
        FilterKind::Active | FilterKind::HugepageSize(..) | FilterKind::Unmapped => {
            Some(Feature::PageFilters)
        }
    };
    list.set_keyword("type", filter.kind.name(), dir, keyword);
    list.flag("matching", filter.matching, dir);
    list.flag("allow", filter.allow, Some(Feature::AllowFilters));
    let path = match &filter.kind {
        FilterKind::Memcg(path) => path.as_str(),
        _ => "",
    };
    list.set("memcg_path", path, dir);
    let range = match &filter.kind {
        FilterKind::Addr(range) => (range.start, range.end),
        _ => (0, 0),
    };
    list.set("addr_start", range.0, Some(Feature::CoreFilters));
    list.set("addr_end", range.1, Some(Feature::CoreFilters));
    let size = match filter.kind {
        FilterKind::HugepageSize(min, max) => (min, max),
        _ => (0, 0),
    };
    list.set("min", size.0, Some(Feature::PageFilters));
    list.set("max", size.1, Some(Feature::PageFilters));
    let index = match filter.kind {
        FilterKind::Target(index) => index,
        _ => 0,
    };
    list.set("damon_target_idx", index, Some(Feature::CoreFilters));
}
