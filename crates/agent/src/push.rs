//! Pushes schemes down to the kernel's DAMON, and says what the kernel lacks for a scheme.
//!
//! A scheme is pushed down as a whole or not at all. Some parts the kernel would accept and then
//! ignore: filters on madvise actions, and actions that its operations set does not know. They
//! count as lacking, because the scheme would only seem to work.
//!
//! Not here: whether a scheme *should* be pushed down; see `run::place`.

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::Scheme;
use isotherm_core::scheme::{Action, Brake, Filter, FilterKind, Goal, Metric, Tuner};
use isotherm_damon::model::Operations;
use isotherm_damon::{Feature, Features};
use isotherm_ops::kdamond::Pushed;

/// Why a scheme cannot be pushed down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPushed {
    /// The scheme's name.
    pub scheme: String,
    /// What the kernel lacks, or what only Isotherm can do.
    pub why: String,
}

impl std::fmt::Display for NotPushed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scheme `{}`: {}", self.scheme, self.why)
    }
}

impl std::error::Error for NotPushed {}

/// Whether the kernel does an action by `madvise`, which ignores page filters.
const fn is_advice(action: Action) -> bool {
    matches!(
        action,
        Action::Willneed
            | Action::Cold
            | Action::Pageout
            | Action::Hugepage
            | Action::Nohugepage
            | Action::Collapse
    )
}

/// Translates a scheme for the kernel.
///
/// The default brake is left out, since the kernel counts no refaults. A brake that the user chose
/// is a reason not to push down.
///
/// # Errors
///
/// The first thing that the kernel lacks.
pub fn push_down(
    scheme: &Scheme,
    settings: &Settings,
    operations: Operations,
    features: &Features,
) -> Result<Pushed, NotPushed> {
    let check = Check { scheme, settings, operations, features };
    match check.lack() {
        Some(why) => Err(NotPushed { scheme: settings.name.clone(), why }),
        None => Ok(Pushed::new(scheme.clone(), settings.cgroups.clone())),
    }
}

struct Check<'a> {
    scheme: &'a Scheme,
    settings: &'a Settings,
    operations: Operations,
    features: &'a Features,
}

impl Check<'_> {
    fn lack(&self) -> Option<String> {
        self.of_isotherm()
            .or_else(|| self.action())
            .or_else(|| self.scheme.filters.core.iter().find_map(|f| self.filter(f)))
            .or_else(|| self.scheme.filters.ops.iter().find_map(|f| self.filter(f)))
            .or_else(|| self.scheme.quota.goals.iter().find_map(|g| self.goal(g.metric)))
            .or_else(|| self.rest())
    }

    /// What the scheme asks for that only Isotherm can do.
    fn of_isotherm(&self) -> Option<String> {
        let Settings { dry_run, evidence, memory_reclaim, .. } = self.settings;
        let quota = &self.scheme.quota;
        let room = |goal: &Goal| goal.follow.room.is_some() || goal.follow.counts_coming;
        let (action, brake) = (self.scheme.action, self.scheme.quota.brake);
        let proves = matches!(
            action,
            Action::Pageout | Action::Cold | Action::MigrateCold | Action::Collapse
        );
        if *dry_run {
            Some("a dry run does nothing, and the kernel cannot do nothing".into())
        } else if proves && *evidence != Evidence::Off {
            Some("evidence is asked for, which the kernel does not gather".into())
        } else if memory_reclaim.is_some() {
            Some("`memory_reclaim` is not in the kernel's DAMON".into())
        } else if self.scheme.source_nid.is_some() {
            Some("the kernel has no `source_node`: filters by address say the same".into())
        } else if self.settings.hold_us != 0 {
            Some("a page that was moved is to stay, and the kernel does not know which was".into())
        } else if self.scheme.rest.is_some() {
            Some("a rest is asked for, and the kernel tries on when a node is full".into())
        } else if quota.tuner == Tuner::Exact {
            Some("the tuner `exact` is not in the kernel".into())
        } else if quota.goals.iter().any(room) {
            Some("a goal that keeps room, or counts pages to come, is not in the kernel".into())
        } else if brake.is_some_and(|brake| brake != Brake::default()) {
            Some("a brake on refaults is asked for, and the kernel counts none".into())
        } else {
            None
        }
    }

    fn needs(&self, what: &str, feature: Feature) -> Option<String> {
        let since = feature.since();
        let missing = !self.features.has(feature).is_likely();
        missing
            .then(|| format!("{what} needs Linux {since}, and this is {}", self.features.release))
    }

    fn action(&self) -> Option<String> {
        let (action, operations) = (self.scheme.action, self.operations);
        let name = action.name();
        let physical = operations == Operations::Paddr;
        let known = match action {
            Action::Willneed
            | Action::Cold
            | Action::Hugepage
            | Action::Nohugepage
            | Action::Collapse => !physical,
            Action::LruPrio | Action::LruDeprio => physical,
            Action::Pageout | Action::MigrateHot | Action::MigrateCold | Action::Stat => true,
        };
        if !known {
            return Some(format!("the kernel does not do `{name}` with {}", operations.name()));
        }
        match action {
            Action::LruPrio | Action::LruDeprio => self.needs(name, Feature::LruActions),
            // For processes the kernel got it together with the weighted destinations.
            Action::MigrateHot | Action::MigrateCold if !physical => {
                self.needs(&format!("`{name}` on processes"), Feature::Dests)
            }
            Action::MigrateHot | Action::MigrateCold if self.scheme.dests.len() > 1 => {
                Some("on physical memory the kernel migrates to one node only".into())
            }
            Action::MigrateHot | Action::MigrateCold => self.needs(name, Feature::Migrate),
            Action::Collapse => self.needs(name, Feature::Collapse),
            _ => None,
        }
    }

    fn filter(&self, filter: &Filter) -> Option<String> {
        let what = match filter.kind {
            FilterKind::File => return Some("filter `file` is not in the kernel".into()),
            FilterKind::Shared => return Some("filter `shared` is not in the kernel".into()),
            FilterKind::Mapping(_) => {
                return Some("filters by mapping name are not in the kernel".into());
            }
            FilterKind::Addr(_) | FilterKind::Target(_) => Some(Feature::CoreFilters),
            FilterKind::Young => Some(Feature::YoungFilter),
            FilterKind::Active | FilterKind::HugepageSize(..) | FilterKind::Unmapped => {
                Some(Feature::PageFilters)
            }
            FilterKind::Anon | FilterKind::Memcg(_) => Some(Feature::Filters),
        };
        let advice = self.operations != Operations::Paddr && is_advice(self.scheme.action);
        if advice && !filter.is_core() {
            let name = self.scheme.action.name();
            return Some(format!("the kernel ignores page filters with `{name}` on processes"));
        }
        let lacks = what.and_then(|feature| self.needs("a filter", feature));
        let allows = || self.needs("a filter that lets memory in", Feature::AllowFilters);
        lacks.or_else(|| filter.allow.then(allows).flatten())
    }

    fn goal(&self, metric: Metric) -> Option<String> {
        let name = metric.name();
        let feature = match metric {
            Metric::UserInput => Feature::Goals,
            Metric::SomeMemPsiUs => Feature::GoalMetrics,
            Metric::NodeMemUsedBp(_) | Metric::NodeMemFreeBp(_) => Feature::NodeGoals,
            Metric::NodeMemcgUsedBp(..) | Metric::NodeMemcgFreeBp(..) => Feature::MemcgGoals,
            Metric::ActiveMemBp | Metric::InactiveMemBp => Feature::LruGoals,
            Metric::NodeEligibleMemBp(_) => Feature::EligibleGoal,
            Metric::FullMemPsiUs
            | Metric::CgroupSomeMemPsiUs(_)
            | Metric::CgroupFullMemPsiUs(_)
            | Metric::WorkingsetRefaultBytes
            | Metric::CgroupWorkingsetRefaultBytes(_)
            | Metric::RefaultBp
            | Metric::DoneBytes
            | Metric::RefaultedBytes
            | Metric::FreeMemRate => {
                return Some(format!("the goal `{name}` is not in the kernel"));
            }
        };
        self.needs(&format!("the goal `{name}`"), feature)
    }

    fn rest(&self) -> Option<String> {
        let scheme = self.scheme;
        let only = |asked: bool, what: &str, feature| {
            if asked { self.needs(what, feature) } else { None }
        };
        let temporal = scheme.quota.tuner != Tuner::default();
        only(scheme.apply_interval_us != 0, "an apply interval", Feature::ApplyInterval)
            .or_else(|| only(temporal, "the tuner `temporal`", Feature::GoalTuner))
            .or_else(|| {
                let asked = scheme.quota.fail_charge.denom != 0;
                only(asked, "a charge for failures", Feature::FailCharge)
            })
            .or_else(|| only(!scheme.dests.is_empty(), "several destinations", Feature::Dests))
            .or_else(|| {
                let asked = scheme.max_nr_snapshots != 0;
                only(asked, "a bound on snapshots", Feature::Snapshots)
            })
    }
}

#[cfg(test)]
mod tests;
