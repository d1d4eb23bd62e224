//! What not every kernel's DAMON knows: the first mainline version of each feature, and the file
//! that shows it. `sysfs::features` looks at the running kernel.

use isotherm_host::Version;

/// Something that not every kernel's DAMON has (R§11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// The sysfs interface itself.
    Sysfs,
    /// `fvaddr`, `avail_operations`, and commits to a running kdamond.
    OnlineCommit,
    /// `lru_prio` and `lru_deprio`.
    LruActions,
    /// `tried_regions`: reading regions back.
    TriedRegions,
    /// Filters.
    Filters,
    /// `tried_regions/total_bytes`.
    TriedBytes,
    /// Filters by address and by target.
    CoreFilters,
    /// An apply interval of its own for each scheme.
    ApplyInterval,
    /// Quota goals, and committing only these.
    Goals,
    /// Goals that the kernel measures, `some_mem_psi_us` first.
    GoalMetrics,
    /// `quotas/effective_bytes`.
    EffectiveBytes,
    /// The filter `young`.
    YoungFilter,
    /// `migrate_hot`, `migrate_cold`, `target_nid`.
    Migrate,
    /// Filters that let memory in.
    AllowFilters,
    /// Bytes that the ops filters let in, per scheme and per region.
    OpsFilterPassed,
    /// Tuning of the intervals.
    IntervalsGoal,
    /// Directories of their own for core and ops filters.
    FilterLayers,
    /// The filters `active`, `hugepage_size` and `unmapped`.
    PageFilters,
    /// The goals `node_mem_used_bp` and `node_mem_free_bp`.
    NodeGoals,
    /// Several destinations of a migration, by weight.
    Dests,
    /// Statistics that the kernel refreshes by itself.
    RefreshMs,
    /// An address unit.
    AddrUnit,
    /// The goals `node_memcg_used_bp` and `node_memcg_free_bp`.
    MemcgGoals,
    /// Removing a target from the middle.
    ObsoleteTarget,
    /// `nr_snapshots` and `max_nr_snapshots`.
    Snapshots,
    /// The goals `active_mem_bp` and `inactive_mem_bp`.
    LruGoals,
    /// A choice of how goals are followed.
    GoalTuner,
    /// `collapse`.
    Collapse,
    /// The goal `node_eligible_mem_bp`.
    EligibleGoal,
    /// Pausing a context.
    Pause,
    /// What failed bytes cost.
    FailCharge,
    /// Probes.
    Probes,
    /// Weights of probes.
    ProbeWeights,
}

/// Where a feature shows, below a context directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A file of the kdamond.
    Kdamond(&'static str),
    /// A file of the context.
    Context(&'static str),
    /// A file of a scheme; only seen if there is one.
    Scheme(&'static str),
    /// A file of a target; only seen if there is one.
    Target(&'static str),
    /// A value of a file, which reading does not show.
    Value,
}

impl Feature {
    /// All of them, in the order in which kernels got them.
    pub const ALL: [Self; 33] = [
        Self::Sysfs,
        Self::OnlineCommit,
        Self::LruActions,
        Self::TriedRegions,
        Self::Filters,
        Self::TriedBytes,
        Self::CoreFilters,
        Self::ApplyInterval,
        Self::Goals,
        Self::GoalMetrics,
        Self::EffectiveBytes,
        Self::YoungFilter,
        Self::Migrate,
        Self::AllowFilters,
        Self::OpsFilterPassed,
        Self::IntervalsGoal,
        Self::FilterLayers,
        Self::PageFilters,
        Self::NodeGoals,
        Self::Dests,
        Self::RefreshMs,
        Self::AddrUnit,
        Self::MemcgGoals,
        Self::ObsoleteTarget,
        Self::Snapshots,
        Self::LruGoals,
        Self::GoalTuner,
        Self::Collapse,
        Self::EligibleGoal,
        Self::Pause,
        Self::FailCharge,
        Self::Probes,
        Self::ProbeWeights,
    ];

    const fn row(self) -> (&'static str, Version, Mark) {
        use Mark::{Context, Kdamond, Scheme, Target, Value};
        let v = Version::new;
        match self {
            Self::Sysfs => ("sysfs interface", v(5, 18), Kdamond("state")),
            Self::OnlineCommit => {
                ("commits to a running kdamond", v(5, 19), Context("avail_operations"))
            }
            Self::LruActions => ("lru_prio and lru_deprio", v(6, 0), Value),
            Self::TriedRegions => ("reading regions back", v(6, 2), Scheme("tried_regions")),
            Self::Filters => ("filters", v(6, 3), Scheme("filters/nr_filters")),
            Self::TriedBytes => {
                ("reading tried bytes back", v(6, 6), Scheme("tried_regions/total_bytes"))
            }
            Self::CoreFilters => ("filters by address and target", v(6, 6), Value),
            Self::ApplyInterval => {
                ("apply intervals of schemes", v(6, 7), Scheme("apply_interval_us"))
            }
            Self::Goals => ("quota goals", v(6, 8), Scheme("quotas/goals/nr_goals")),
            Self::GoalMetrics => ("goals that the kernel measures", v(6, 9), Value),
            Self::EffectiveBytes => {
                ("reading effective quotas", v(6, 9), Scheme("quotas/effective_bytes"))
            }
            Self::YoungFilter => ("filter young", v(6, 10), Value),
            Self::Migrate => ("migration", v(6, 11), Scheme("target_nid")),
            Self::AllowFilters => ("filters that let memory in", v(6, 14), Value),
            Self::OpsFilterPassed => {
                ("bytes that filters let in", v(6, 14), Scheme("stats/sz_ops_filter_passed"))
            }
            Self::IntervalsGoal => (
                "tuning of the intervals",
                v(6, 15),
                Context("monitoring_attrs/intervals/intervals_goal/aggrs"),
            ),
            Self::FilterLayers => {
                ("core and ops filters", v(6, 15), Scheme("core_filters/nr_filters"))
            }
            Self::PageFilters => ("filters active, hugepage_size, unmapped", v(6, 15), Value),
            Self::NodeGoals => ("goals on a node's memory", v(6, 16), Value),
            Self::Dests => ("weighted destinations", v(6, 17), Scheme("dests/nr_dests")),
            Self::RefreshMs => ("statistics refreshed by itself", v(6, 17), Kdamond("refresh_ms")),
            Self::AddrUnit => ("address units", v(6, 18), Context("addr_unit")),
            Self::MemcgGoals => ("goals on a cgroup's memory", v(6, 19), Value),
            Self::ObsoleteTarget => {
                ("removing a target from the middle", v(6, 19), Target("obsolete_target"))
            }
            Self::Snapshots => ("bound on snapshots", v(7, 0), Scheme("stats/max_nr_snapshots")),
            Self::LruGoals => ("goals on the LRU lists", v(7, 0), Value),
            Self::GoalTuner => ("choice of the goal tuner", v(7, 1), Scheme("quotas/goal_tuner")),
            Self::Collapse => ("collapse", v(7, 2), Value),
            Self::EligibleGoal => ("goal on eligible memory", v(7, 2), Value),
            Self::Pause => ("pause", v(7, 2), Context("pause")),
            Self::FailCharge => {
                ("charge for failed bytes", v(7, 2), Scheme("quotas/fail_charge_num"))
            }
            Self::Probes => ("probes", v(7, 2), Context("monitoring_attrs/probes/nr_probes")),
            Self::ProbeWeights => ("weights of probes", v(7, 3), Value),
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn what(self) -> &'static str {
        self.row().0
    }

    /// The first mainline kernel that has it.
    #[must_use]
    pub const fn since(self) -> Version {
        self.row().1
    }

    /// Where it shows.
    pub(crate) const fn mark(self) -> Mark {
        self.row().2
    }
}
