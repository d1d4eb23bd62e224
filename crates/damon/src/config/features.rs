//! What the running kernel's DAMON knows.
//!
//! There are two sources. The kernel's version says what mainline of that version has. That costs
//! nothing, and is enough to choose by. Distributions backport features and leave features out, so
//! the *files* decide where it counts: an existing context directory, whoever made it, or our own
//! after the claim. This module only reads, so it cannot disturb a kdamond that runs.

use std::path::Path;

use isotherm_host::Version;

use crate::config::model::Operations;
use crate::sysfs::root::Root;

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
enum Mark {
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
}

/// How sure it is that a kernel has a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Has {
    /// Its file is there.
    Yes,
    /// Its file is not there, or the version is too old.
    No,
    /// Mainline of this version has it; no file showed it so far.
    ByVersion,
}

impl Has {
    /// Whether it may be counted on.
    #[must_use]
    pub const fn is_likely(self) -> bool {
        !matches!(self, Self::No)
    }
}

/// What the running kernel's DAMON knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Whether the sysfs interface is there.
    pub present: bool,
    /// What the kernel calls itself.
    pub release: String,
    /// Its version, if that could be read.
    pub version: Option<Version>,
    /// Operations sets that are built in, where a context directory says so.
    pub operations: Option<Vec<Operations>>,
    seen: Vec<(Feature, bool)>,
}

impl Features {
    /// Reads the version, and the first context directory that exists. Writes nothing.
    #[must_use]
    pub fn detect(root: &Root) -> Self {
        let release = root.release();
        let mut features = Self {
            present: root.is_present(),
            version: Version::parse(&release),
            release,
            operations: None,
            seen: Vec::new(),
        };
        for index in root.indices().unwrap_or_default() {
            features.look_at(root, index);
        }
        features
    }

    /// Looks at the files of one kdamond directory, reading only.
    pub fn look_at(&mut self, root: &Root, index: u32) {
        let kdamond = root.kdamond(index);
        let context = kdamond.join("contexts/0");
        if !root.exists(&context) {
            return;
        }
        if self.operations.is_none()
            && let Ok(text) = root.read(&context.join("avail_operations"))
        {
            let names = text.split_ascii_whitespace();
            self.operations = Some(names.filter_map(Operations::from_name).collect());
        }
        let see = |dir: &Path, file: &str| Some(root.exists(&dir.join(file)));
        let scheme = context.join("schemes/0");
        let target = context.join("targets/0");
        let (scheme_there, target_there) = (root.exists(&scheme), root.exists(&target));
        for feature in Feature::ALL {
            let there = match feature.row().2 {
                Mark::Kdamond(file) => see(&kdamond, file),
                Mark::Context(file) => see(&context, file),
                Mark::Scheme(file) if scheme_there => see(&scheme, file),
                Mark::Target(file) if target_there => see(&target, file),
                _ => None,
            };
            if let Some(there) = there {
                self.seen.retain(|(known, _)| *known != feature);
                self.seen.push((feature, there));
            }
        }
    }

    /// Whether the kernel has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> Has {
        if !self.present {
            return Has::No;
        }
        match self.seen.iter().find(|(known, _)| *known == feature) {
            Some((_, true)) => Has::Yes,
            Some((_, false)) => Has::No,
            None if self.version.is_some_and(|version| version >= feature.since()) => {
                Has::ByVersion
            }
            None => Has::No,
        }
    }

    /// Whether an operations set is built in; `None` if only a context directory could tell, and
    /// there is none.
    #[must_use]
    pub fn has_operations(&self, operations: Operations) -> Option<bool> {
        if !self.present {
            return Some(false);
        }
        self.operations.as_ref().map(|built_in| built_in.contains(&operations))
    }
}
