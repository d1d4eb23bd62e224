//! Ready-made policies: safe starting points, made from a few options.
//!
//! The defaults are those of the kernel's modules: [`Reclaim`] has them from `DAMON_RECLAIM`,
//! [`LruSort`] from `DAMON_LRU_SORT`, [`Stat`] from `DAMON_STAT`. [`Thp`] is the scheme `ethp` of
//! DAMON's evaluations. Isotherm adds evidence before memory is taken away, and a brake. The
//! kernel's modules look at physical memory, these policies at processes.
//!
//! [`knobs`] reads the options that are short texts on the command line.

pub mod knobs;
mod lru_sort;
mod reclaim;
mod stat;
mod thp;

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{Age, Bounds, Brake, Pattern, Quota, Watermarks, Weights};
use isotherm_core::{Attrs, Scheme};
use isotherm_ops::support::SetName;

pub use lru_sort::LruSort;
pub use reclaim::Reclaim;
pub use stat::{Stat, bandwidth, idle_bytes, idle_percentiles};
pub use thp::Thp;

use self::knobs::{GoalKnob, Rate};
use crate::policy::{ContextPolicy, Engine, Policy, SchemePolicy, TargetSpec, defaults};

/// Whose memory is watched, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whose {
    /// The targets.
    pub targets: Vec<TargetSpec>,
    /// Whether their children are targets too.
    pub children: bool,
    /// The operations set; none: the best.
    pub ops: Option<SetName>,
    /// Who applies the schemes.
    pub engine: Engine,
    /// How to look.
    pub attrs: Attrs,
}

impl Default for Whose {
    /// No target yet; children are targets too; default attributes.
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            children: true,
            ops: None,
            engine: Engine::default(),
            attrs: defaults::attrs(),
        }
    }
}

impl Whose {
    /// A policy of one context of this name.
    #[must_use]
    pub fn policy(self, name: &str, schemes: Vec<SchemePolicy>) -> Policy {
        let Self { targets, children, ops, engine, attrs } = self;
        let name = name.to_owned();
        Policy {
            contexts: vec![ContextPolicy {
                name,
                targets,
                children,
                ops,
                engine,
                attrs,
                schemes,
                ..ContextPolicy::default()
            }],
            ..Policy::default()
        }
    }

    /// Tunes the intervals for this share of positive samples, as the kernel's modules do.
    fn autotune(&mut self, access_bp: u64) {
        self.attrs.intervals_goal =
            IntervalsGoal { access_bp, aggrs: 3, min_sample_us: 5_000, max_sample_us: 10_000_000 };
        self.attrs.sample_us = self.attrs.sample_us.clamp(5_000, 10_000_000);
        self.attrs.aggr_us = self.attrs.aggr_us.max(self.attrs.sample_us);
    }
}

/// What limits a scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes per time; none: no limit.
    pub size: Option<Rate>,
    /// Time per time, in µs; none: no limit. Takes effect in whole ms, at least 1.
    pub time: Option<Rate>,
    /// What the quota is tuned for.
    pub goals: Vec<GoalKnob>,
    /// The weights that order regions. If all are 0, no region is preferred.
    pub weights: Weights,
    /// The watermarks, outside of which the scheme does nothing.
    pub watermarks: Watermarks,
    /// The brake on refaults, for actions that take memory away.
    pub brake: Option<Brake>,
}

impl Limits {
    /// The quota. Its window is that of the limit in bytes, or else that of the limit in time, or
    /// else one second.
    fn quota(&self, settings: &mut Settings) -> Quota {
        let windows = [self.size, self.time].into_iter().flatten();
        let window_ms =
            windows.map(|rate| rate.per_ms).next().unwrap_or(defaults::QUOTA_INTERVAL_MS);
        let time_us = self.time.map(|time| time.in_window(window_ms));
        let quota = Quota {
            reset_interval_ms: window_ms,
            ms: time_us.map_or(0, |us| (us / 1000).clamp(1, window_ms)),
            sz: self.size.map_or(0, |size| size.amount),
            goals: self.goals.iter().map(|goal| goal.goal(window_ms, settings)).collect(),
            weights: self.weights,
            brake: self.brake,
            ..Quota::default()
        };
        if quota.is_set() { quota } else { Quota { brake: self.brake, ..Quota::default() } }
    }
}

/// Regions of this age or more, in µs.
const fn from_age(us: u64) -> Age {
    if us == 0 { Pattern::ALL.age } else { Age::Micros(Bounds::new(us, u64::MAX)) }
}

/// The evidence that memory is cold, before it is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Confirm {
    /// DAMON's way: the region's numbers are enough.
    Off,
    /// Watch the pages for as long as the age that the scheme asks for, between 1 s and 60 s.
    #[default]
    ByAge,
    /// Watch the pages for so long, in µs.
    For(u64),
}

impl Confirm {
    pub(crate) fn evidence(self, scheme: &Scheme, attrs: &Attrs) -> Evidence {
        match self {
            Self::Off => Evidence::Off,
            Self::ByAge => defaults::evidence(&scheme.pattern, attrs),
            Self::For(us) => Evidence::Confirm(us.max(1)),
        }
    }
}
