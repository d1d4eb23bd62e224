//! The two schemes of a link, for either engine.
//!
//! | | promote | demote |
//! |---|---|---|
//! | node | lower | upper |
//! | last window | accessed | not accessed |
//! | pages | young ones only | no young ones |
//! | goal | so much of the upper node used | so much of it free |
//!
//! These are the schemes of the kernel's sample module `mtier` (R§6.5). Isotherm's engine adds what
//! the kernel does not have: goals in bytes that are followed at every application (`exact`), room
//! that is kept while hot memory waits, room that the lower node must have, rests when the upper
//! node is full, and a hold for pages that were moved.

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::Scheme;
use isotherm_core::scheme::{
    Action, Bounds, Filter, FilterKind, Follow, Frequency, Goal, Metric, Pattern, Quota, Rest,
    Room, Tuner, Weights,
};

use super::hierarchy::Link;
use super::knobs::Knobs;
use crate::policy::SchemePolicy;

/// Frequency and age count alike, size does not (R§6.5).
const WEIGHTS: Weights = Weights { sz: 0, nr_accesses: 100, age: 100 };
/// The most that demotion keeps free beyond its goal while hot memory waits, in basis points of the
/// upper node. A part of it stays free when nothing waits any more.
const ROOM_BP: u32 = 25;
/// While more than this waits, in basis points of the upper node, promotion needs room at once.
/// Pages that CPUs will give back from their lists do not count as room then.
const URGENT_BP: u32 = 100;
/// How long promotion rests when the upper node is full.
const REST: Rest = Rest { first_ms: 1000, most_ms: 16_000 };
/// CPU time for making memory old before it is demoted, in µs per second. It is spent only while
/// there is something to exchange.
const EVIDENCE_US_PER_S: u64 = 50_000;
/// The quota window of the kernel's schemes, in ms. With the tuner `temporal` a scheme may use all
/// of its quota in a window or nothing, depending on the goal when the window begins. So windows
/// are short.
const WINDOW_MS: u64 = 100;
/// The least quota of such a window, in bytes.
const LEAST: u64 = 64 << 10;

/// The direction in which a scheme moves memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Promote,
    Demote,
}

impl Way {
    /// The source node and the destination node.
    pub(super) const fn nodes(self, link: Link) -> (u32, u32) {
        match self {
            Self::Promote => (link.lower, link.upper),
            Self::Demote => (link.upper, link.lower),
        }
    }

    /// The name of the scheme over a link.
    pub(super) fn name(self, link: Link) -> String {
        let (from, to) = self.nodes(link);
        let way = if self == Self::Promote { "promote" } else { "demote" };
        format!("{way} {from}->{to}")
    }

    /// The directions of a link, in the order of their schemes.
    pub(super) fn of(link: Link) -> impl Iterator<Item = Self> {
        let promote = link.promotes.then_some(Self::Promote);
        promote.into_iter().chain(link.demotes.then_some(Self::Demote))
    }
}

impl Knobs {
    /// The schemes of a link for Isotherm's engine. `first`: the number of schemes before them in
    /// their context.
    pub(super) fn own(&self, link: Link, first: usize) -> Vec<SchemePolicy> {
        let room = Room { scheme: first, most_bp: ROOM_BP, urgent_bp: URGENT_BP };
        let one = |way: Way| {
            let mut scheme = self.scheme(link, way);
            scheme.apply_interval_us = self.step_us;
            scheme.source_nid = Some(way.nodes(link).0);
            let quota = &mut scheme.quota;
            quota.tuner = Tuner::Exact;
            let usual = Settings::default().evidence_us_per_s;
            let (evidence, evidence_us_per_s) = if way == Way::Promote {
                scheme.rest = Some(REST);
                (Evidence::Off, usual)
            } else {
                quota.goals[0].follow.counts_coming = true;
                quota.goals[0].follow.room = link.promotes.then_some(room);
                // Nothing is demoted to a node that is itself full.
                let follow = Follow { watermark_bp: Some(0), ..Follow::default() };
                let below = Goal::new(Metric::NodeMemUsedBp(nid(link.lower)), 10_000);
                quota.goals.push(Goal { follow, ..below });
                (Evidence::Confirm(self.confirm_us.max(1)), EVIDENCE_US_PER_S)
            };
            let settings = Settings {
                evidence,
                evidence_us_per_s,
                hold_us: self.hold_us,
                // Touching a page on the slow node costs little, so pages that are touched every
                // few minutes may be demoted.
                refault_window_us: 1_000_000,
                ..self.settings(link, way)
            };
            SchemePolicy { scheme, settings }
        };
        Way::of(link).map(one).collect()
    }

    /// The schemes of a link for the kernel's engine. `prompt`: the kernel has the tuner
    /// `temporal`, which follows goals at once. `total`: bytes of the upper node. `kept_out`:
    /// filters that reject the memory of other nodes than the given one.
    pub(super) fn pushed(
        &self,
        link: Link,
        prompt: bool,
        total: u64,
        kept_out: impl Fn(u32) -> Vec<Filter>,
    ) -> Vec<SchemePolicy> {
        let one = |way: Way| {
            let mut scheme = self.scheme(link, way);
            for filter in kept_out(way.nodes(link).0) {
                scheme.filters.push(filter);
            }
            scheme.apply_interval_us = 1_000_000;
            if prompt {
                // A scheme may overshoot its goal by at most the overlap. Beyond it the other
                // scheme would have nothing to do.
                let overlap = total / 10_000 * u64::from(self.overlap_bp());
                let quota = &mut scheme.quota;
                quota.tuner = Tuner::Temporal;
                quota.reset_interval_ms = WINDOW_MS;
                quota.sz = self.rate.in_window(WINDOW_MS).min(overlap).max(LEAST);
                scheme.apply_interval_us = WINDOW_MS * 1000;
            }
            let settings = Settings { evidence: Evidence::Off, ..self.settings(link, way) };
            SchemePolicy { scheme, settings }
        };
        Way::of(link).map(one).collect()
    }

    fn settings(&self, link: Link, way: Way) -> Settings {
        Settings { name: way.name(link), dry_run: self.dry_run, ..Settings::default() }
    }

    /// What both engines have in common.
    fn scheme(&self, link: Link, way: Way) -> Scheme {
        let upper = nid(link.upper);
        let (action, accesses, mut goal, more_bp) = match way {
            Way::Promote => {
                let goal = Goal::new(Metric::NodeMemUsedBp(upper), self.used_bp);
                (Action::MigrateHot, Bounds::new(1, u32::MAX), goal, 0)
            }
            Way::Demote => {
                let goal = Goal::new(Metric::NodeMemFreeBp(upper), self.free_bp);
                (Action::MigrateCold, Bounds::new(0, 0), goal, self.overlap_bp())
            }
        };
        goal.follow.watermark_bp = Some(more_bp);
        let mut scheme = Scheme {
            pattern: Pattern {
                sz: Bounds::new(4096, u64::MAX),
                nr_accesses: Frequency::Samples(accesses),
                ..Pattern::ALL
            },
            action,
            quota: Quota {
                reset_interval_ms: self.rate.per_ms,
                sz: self.rate.amount,
                goals: vec![goal],
                weights: WEIGHTS,
                ..Quota::default()
            },
            target_nid: Some(way.nodes(link).1),
            ..Scheme::default()
        };
        let allow = way == Way::Promote;
        scheme.filters.push(Filter { kind: FilterKind::Young, matching: true, allow });
        scheme
    }
}

fn nid(node: u32) -> i32 {
    i32::try_from(node).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { upper: 0, lower: 1, promotes: true, demotes: true };

    #[test]
    fn the_schemes_are_those_of_the_sample_module() {
        let knobs = Knobs::default();
        let engines = [knobs.own(LINK, 0), knobs.pushed(LINK, true, 10_000 << 20, |_| Vec::new())];
        for schemes in engines {
            let [up, down] = &schemes[..] else { panic!("two schemes") };
            for (name, one, action, nid, metric, target) in [
                ("promote 1->0", up, Action::MigrateHot, 0, Metric::NodeMemUsedBp(0), 9970),
                ("demote 0->1", down, Action::MigrateCold, 1, Metric::NodeMemFreeBp(0), 50),
            ] {
                let SchemePolicy { scheme, settings } = one;
                assert_eq!(settings.name, name);
                assert_eq!((scheme.action, scheme.target_nid), (action, Some(nid)), "{name}");
                let goal = scheme.quota.goals[0];
                assert_eq!((goal.metric, goal.target), (metric, target), "{name}");
                assert_eq!(scheme.quota.weights, WEIGHTS, "{name}");
                let filter = scheme.filters.ops[0];
                let young = (FilterKind::Young, name.starts_with("promote"));
                assert_eq!((filter.kind, filter.allow), young, "{name}");
            }
        }
    }

    #[test]
    fn our_own_follow_the_goals_step_by_step() {
        let schemes = Knobs::default().own(LINK, 4);
        for (one, from) in schemes.iter().zip([1, 0]) {
            assert_eq!(one.scheme.source_nid, Some(from));
            assert_eq!(one.settings.hold_us, 30_000_000);
            let quota = &one.scheme.quota;
            assert_eq!((quota.tuner, quota.sz), (Tuner::Exact, 200 << 20));
            assert_eq!((quota.reset_interval_ms, one.scheme.apply_interval_us), (1000, 100_000));
        }
        let room = schemes[1].scheme.quota.goals[0].follow.room;
        assert_eq!(room.map(|room| room.scheme), Some(4), "the promotion of the same link");
        let alone = Knobs::default().own(Link { promotes: false, ..LINK }, 4);
        assert_eq!(alone.len(), 1);
        assert_eq!(alone[0].scheme.quota.goals[0].follow.room, None, "nothing waits");
    }

    #[test]
    fn a_prompt_scheme_never_overshoots_by_more_than_the_goals_overlap() {
        for (total, bytes) in [
            (10_000 << 20, 20 << 20),
            // By the rate: 200 MiB per second.
            (10_000 << 30, 20 << 20),
            (5_000 << 20, 10 << 20),
            (1 << 20, 64 << 10),
        ] {
            for made in Knobs::default().pushed(LINK, true, total, |_| Vec::new()) {
                let quota = &made.scheme.quota;
                assert_eq!(quota.sz >> 10, bytes >> 10, "{total}");
                let times = (quota.reset_interval_ms, made.scheme.apply_interval_us);
                assert_eq!((times, quota.tuner), ((100, 100_000), Tuner::Temporal));
            }
        }
        let slow = Knobs::default().pushed(LINK, false, 10_000 << 20, |_| Vec::new());
        assert_eq!(slow[0].scheme.quota.tuner, Tuner::Consist);
        assert_eq!(slow[0].scheme.quota.sz, 200 << 20);
    }
}
