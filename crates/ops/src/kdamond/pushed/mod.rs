//! A scheme as the kernel's DAMON is told of it.
//!
//! Invariant: a [`Pushed`] holds only what the kernel can do. Its maker has checked that
//! (`isotherm-agent`).

mod follow;

use isotherm_core::scheme::{
    Age, CgroupId, Filter, FilterKind, Frequency, Metric, NodeLevel, Stand,
};
use isotherm_core::{Attrs, Scheme};
use isotherm_damon::model;
use isotherm_host::nodes::Level;

pub(super) use follow::Marks;

/// The node whose memory a metric is a share of.
fn node(metric: Metric) -> Option<u32> {
    match metric {
        Metric::NodeMemUsedBp(node) | Metric::NodeMemFreeBp(node) => u32::try_from(node).ok(),
        _ => None,
    }
}

/// A scheme that the kernel can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    scheme: Scheme,
    cgroups: Vec<String>,
}

impl Pushed {
    /// `scheme` for the kernel. Its filters and goals refer to `cgroups` by number.
    #[must_use]
    pub const fn new(scheme: Scheme, cgroups: Vec<String>) -> Self {
        Self { scheme, cgroups }
    }

    /// Whether the kernel's form depends on the intervals, because the kernel counts in samples and
    /// windows.
    pub(in crate::kdamond) const fn follows_intervals(&self) -> bool {
        matches!(self.scheme.pattern.age, Age::Micros(_))
            || matches!(self.scheme.pattern.nr_accesses, Frequency::Bp(_))
    }

    /// The nodes whose watermarks its goals follow.
    pub(in crate::kdamond) fn followed(&self) -> impl Iterator<Item = u32> {
        let goals = self.scheme.quota.goals.iter().filter(|goal| goal.follow.is_set());
        goals.filter_map(|goal| node(goal.metric))
    }

    /// Moves the targets of goals that follow a node's watermarks. `levels`: of nodes.
    pub(in crate::kdamond) fn follow(&mut self, levels: &[(u32, Level)]) {
        for goal in self.scheme.quota.goals.iter_mut().filter(|goal| goal.follow.is_set()) {
            let at = levels.iter().find(|(nid, _)| Some(*nid) == node(goal.metric));
            // A migration by DAMON does not insist on its node (`__GFP_THISNODE`, Linux 7.3). If
            // the node has less free memory than the watermarks ask for now, it takes a page of
            // another node, calls that a success, and wakes nobody who would lower the marks again.
            // So what they are raised by counts.
            goal.stand = at.and_then(|(_, Level { free, total, high, boost, coming })| {
                let level =
                    NodeLevel { free: *free, total: *total, high: high + boost, coming: *coming };
                Stand::of(goal.metric, goal.target, goal.follow, level, 0)
            });
        }
    }

    /// In the kernel's words and units, with these attributes in force.
    pub(in crate::kdamond) fn model(&self, attrs: &Attrs) -> model::Scheme {
        let scheme = &self.scheme;
        let filters = |list: &[Filter]| list.iter().map(|f| self.filter(f)).collect();
        let quota = &scheme.quota;
        model::Scheme {
            pattern: scheme.pattern.resolve(attrs),
            action: scheme.action,
            target_nid: scheme.target_nid,
            apply_interval_us: scheme.apply_interval_us,
            quota: model::Quota {
                ms: quota.ms,
                bytes: quota.sz,
                reset_interval_ms: quota.reset_interval_ms,
                weights: quota.weights,
                goals: quota
                    .goals
                    .iter()
                    .map(|goal| model::Goal {
                        metric: self.metric(goal.metric),
                        // At least one: a goal of 0 would not count.
                        target_value: goal.target_now().max(goal.target.min(1)),
                        current_value: goal.current,
                    })
                    .collect(),
                tuner: quota.tuner,
                fail_charge: quota.fail_charge,
            },
            watermarks: scheme.watermarks,
            core_filters: filters(&scheme.filters.core),
            ops_filters: filters(&scheme.filters.ops),
            filters: Vec::new(),
            dests: scheme.dests.clone(),
            max_nr_snapshots: scheme.max_nr_snapshots,
        }
    }

    fn cgroup(&self, number: u32) -> String {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        self.cgroups.get(at).cloned().unwrap_or_default()
    }

    fn filter(&self, filter: &Filter) -> model::Filter {
        let kind = match filter.kind {
            FilterKind::Addr(range) => model::FilterKind::Addr(range),
            FilterKind::Target(index) => {
                model::FilterKind::Target(u32::try_from(index).unwrap_or(u32::MAX))
            }
            FilterKind::Active => model::FilterKind::Active,
            FilterKind::Memcg(number) => model::FilterKind::Memcg(self.cgroup(number)),
            FilterKind::Young => model::FilterKind::Young,
            FilterKind::HugepageSize(min, max) => model::FilterKind::HugepageSize(min, max),
            FilterKind::Unmapped => model::FilterKind::Unmapped,
            // The rest was refused: it is not in the kernel.
            FilterKind::Anon | FilterKind::File | FilterKind::Shared | FilterKind::Mapping(_) => {
                model::FilterKind::Anon
            }
        };
        model::Filter { kind, matching: filter.matching, allow: filter.allow }
    }

    fn metric(&self, metric: Metric) -> model::GoalMetric {
        let path = |id: CgroupId| self.cgroup(id.0);
        match metric {
            Metric::SomeMemPsiUs => model::GoalMetric::SomeMemPsiUs,
            Metric::NodeMemUsedBp(nid) => model::GoalMetric::NodeMemUsedBp(nid),
            Metric::NodeMemFreeBp(nid) => model::GoalMetric::NodeMemFreeBp(nid),
            Metric::NodeMemcgUsedBp(nid, id) => model::GoalMetric::NodeMemcgUsedBp(nid, path(id)),
            Metric::NodeMemcgFreeBp(nid, id) => model::GoalMetric::NodeMemcgFreeBp(nid, path(id)),
            Metric::ActiveMemBp => model::GoalMetric::ActiveMemBp,
            Metric::InactiveMemBp => model::GoalMetric::InactiveMemBp,
            Metric::NodeEligibleMemBp(nid) => model::GoalMetric::NodeEligibleMemBp(nid),
            // The rest was refused: it is not in the kernel.
            Metric::UserInput
            | Metric::FullMemPsiUs
            | Metric::CgroupSomeMemPsiUs(_)
            | Metric::CgroupFullMemPsiUs(_)
            | Metric::WorkingsetRefaultBytes
            | Metric::CgroupWorkingsetRefaultBytes(_)
            | Metric::RefaultBp
            | Metric::DoneBytes
            | Metric::RefaultedBytes
            | Metric::FreeMemRate => model::GoalMetric::UserInput,
        }
    }
}
