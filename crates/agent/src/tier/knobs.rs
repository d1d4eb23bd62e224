//! What the user can turn, and the schemes that come of it.

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{
    Action, Bounds, Filter, FilterKind, Frequency, Goal, Metric, Pattern, Quota, Tuner, Weights,
};
use isotherm_core::{Attrs, Scheme};

use super::hierarchy::Link;
use crate::ready::knobs::Rate;

/// The knobs of `tier`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knobs {
    /// How full promotion makes an upper node, in basis points.
    pub used_bp: u64,
    /// How much of it demotion keeps free, in basis points.
    pub free_bp: u64,
    /// What each scheme may move.
    pub rate: Rate,
    /// How often the schemes look for something to do, in µs. The kernel engine's apply interval is 1 s in any case.
    pub step_us: u64,
    /// A page that was moved stays for so long, in µs.
    pub hold_us: u64,
    /// Memory is watched for so long before it is demoted, in µs.
    pub confirm_us: u64,
    /// How to look.
    pub attrs: Attrs,
    /// Decide and count, but move nothing.
    pub dry_run: bool,
}

impl Default for Knobs {
    /// 99.7 % used, 0.5 % free; 200 MiB per second, ten times per second; half a minute of rest for a page that was
    /// moved; a second of watching. Intervals tuned for 4 % of positive samples, from 5 ms to 10 s.
    fn default() -> Self {
        let goal = IntervalsGoal {
            access_bp: 400,
            aggrs: 3,
            min_sample_us: 5_000,
            max_sample_us: 10_000_000,
        };
        Self {
            used_bp: 9_970,
            free_bp: 50,
            rate: Rate { amount: 200 << 20, per_ms: 1000 },
            step_us: 100_000,
            hold_us: 30_000_000,
            confirm_us: 1_000_000,
            // A hundred regions at least: the hot parts of a large mapping are rarely in ten pieces.
            attrs: Attrs { intervals_goal: goal, min_nr_regions: 100, ..Attrs::default() },
            dry_run: false,
        }
    }
}

/// Frequency and age count alike, size does not (R§6.5).
const WEIGHTS: Weights = Weights { sz: 0, nr_accesses: 100, age: 100 };

impl Knobs {
    /// The scheme that promotes over a link: what was accessed at all in the last window, young pages only.
    #[must_use]
    pub fn promote(&self, link: Link) -> Scheme {
        let goal = Goal::new(Metric::NodeMemUsedBp(nid(link.upper)), self.used_bp);
        self.scheme(Action::MigrateHot, Bounds::new(1, u32::MAX), link.upper, goal, true)
    }

    /// The scheme that demotes over a link: what was not accessed at all, and no young pages.
    #[must_use]
    pub fn demote(&self, link: Link) -> Scheme {
        let goal = Goal::new(Metric::NodeMemFreeBp(nid(link.upper)), self.free_bp);
        self.scheme(Action::MigrateCold, Bounds::new(0, 0), link.lower, goal, false)
    }

    fn scheme(
        &self,
        action: Action,
        accesses: Bounds<u32>,
        to: u32,
        goal: Goal,
        young: bool,
    ) -> Scheme {
        let mut scheme = Scheme {
            pattern: Pattern {
                sz: Bounds::new(4096, u64::MAX),
                nr_accesses: Frequency::Samples(accesses),
                ..Pattern::ALL
            },
            action,
            apply_interval_us: 1_000_000,
            quota: Quota {
                reset_interval_ms: self.rate.per_ms,
                sz: self.rate.amount,
                goals: vec![goal],
                weights: WEIGHTS,
                ..Quota::default()
            },
            target_nid: Some(to),
            ..Scheme::default()
        };
        scheme.filters.push(Filter { kind: FilterKind::Young, matching: true, allow: young });
        scheme
    }

    /// The same scheme, as our own engine applies it: a window per step, all or nothing by the goal as it stands
    /// then, and never more than what the goal lacks.
    pub(super) fn stepwise(&self, mut scheme: Scheme) -> Scheme {
        let step_ms = (self.step_us / 1000).max(1);
        scheme.apply_interval_us = self.step_us;
        scheme.quota.reset_interval_ms = step_ms;
        scheme.quota.sz = self.rate.in_window(step_ms).max(4096);
        scheme.quota.tuner = Tuner::Temporal;
        scheme
    }

    /// How our own engine carries out a link's schemes: promotion, demotion.
    pub(super) fn settings(&self, link: Link) -> [Settings; 2] {
        let one = |name: &str, from: u32, to: u32, evidence: Evidence| Settings {
            name: format!("{name} {from}->{to}"),
            evidence,
            dry_run: self.dry_run,
            only_on: Some(from),
            hold_us: self.hold_us,
            // A page of the slow node that is touched costs little, so what is touched every few minutes may go.
            refault_window_us: 1_000_000,
            ..Settings::default()
        };
        let Link { upper, lower, .. } = link;
        [
            one("promote", lower, upper, Evidence::Off),
            one("demote", upper, lower, Evidence::Confirm(self.confirm_us.max(1))),
        ]
    }
}

fn nid(node: u32) -> i32 {
    i32::try_from(node).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemes_are_those_of_the_sample_module() {
        let link = Link { upper: 0, lower: 1, promotes: true, demotes: true };
        let knobs = Knobs::default();
        let (up, down) = (knobs.promote(link), knobs.demote(link));
        for (name, scheme, action, nid, metric, target) in [
            ("promote", &up, Action::MigrateHot, 0, Metric::NodeMemUsedBp(0), 9970),
            ("demote", &down, Action::MigrateCold, 1, Metric::NodeMemFreeBp(0), 50),
        ] {
            assert_eq!(scheme.action, action, "{name}");
            assert_eq!(scheme.target_nid, Some(nid), "{name}");
            let quota = &scheme.quota;
            assert_eq!((quota.goals[0].metric, quota.goals[0].target), (metric, target), "{name}");
            assert_eq!((quota.sz, quota.reset_interval_ms), (200 << 20, 1000), "{name}");
            assert_eq!(quota.weights, Weights { sz: 0, nr_accesses: 100, age: 100 }, "{name}");
            assert_eq!(scheme.apply_interval_us, 1_000_000, "{name}");
            let filter = scheme.filters.ops[0];
            assert_eq!((filter.kind, filter.allow), (FilterKind::Young, name == "promote"));
        }
        let step = knobs.stepwise(up);
        assert_eq!((step.quota.sz, step.quota.reset_interval_ms), (20 << 20, 100));
        let [promote, demote] = knobs.settings(link);
        assert_eq!((promote.only_on, demote.only_on), (Some(1), Some(0)));
        assert_eq!(promote.name, "promote 1->0");
    }
}
