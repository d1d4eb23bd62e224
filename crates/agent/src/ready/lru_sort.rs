//! `lru-sort`: cold memory becomes the first to be reclaimed (R§6.3).
//!
//! The kernel's module moves hot pages to the head of the active list and cold pages to the tail of
//! the inactive list. From outside a process only the second is possible: `MADV_COLD` deactivates
//! pages. No call activates pages. `MADV_WILLNEED` does not move pages that are in memory; it only
//! reads swapped pages back. So the hot half is off by default. If it is on, hot regions get their
//! swapped pages back before they are accessed. Hot pages are ahead of the deactivated cold pages
//! in any case.

use isotherm_act::apply::Settings;
use isotherm_core::Scheme;
use isotherm_core::scheme::{
    Action, Bounds, Brake, Filter, FilterKind, Frequency, Pattern, Weights,
};

use super::knobs::{self, GoalKnob, Rate};
use super::{Confirm, Limits, Whose, from_age};
use crate::policy::{Policy, SchemePolicy};

/// The knobs of `lru-sort`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LruSort {
    /// Whose memory.
    pub whose: Whose,
    /// For how long memory has to be idle to count as cold, in µs.
    pub cold_min_age_us: u64,
    /// Whether hot regions get their swapped pages back.
    pub hot: bool,
    /// From which frequency a region counts as hot, in basis points.
    pub hot_min_bp: u32,
    /// What limits it; the time is shared equally by the two schemes, if there are two.
    pub limits: Limits,
    /// The wanted share of active memory, in basis points; at most 10,000.
    pub active_mem_bp: Option<u32>,
    /// Leave pages alone that were accessed since they were last looked at.
    pub skip_young: bool,
    /// How sure to be that memory is cold.
    pub confirm: Confirm,
    /// Tune the intervals for 0.4 % of positive samples.
    pub autotune: bool,
    /// Decide and count, but do nothing.
    pub dry_run: bool,
}

impl Default for LruSort {
    /// Memory that is idle for 120 s; at most 10 ms per second, with equal weights of frequency and
    /// age. It starts below 15 % of free memory and stops above 20 % or below 5 %. The hot half is
    /// off.
    fn default() -> Self {
        Self {
            whose: Whose::default(),
            cold_min_age_us: 120_000_000,
            hot: false,
            hot_min_bp: 5_000,
            limits: Limits {
                size: None,
                time: Some(Rate { amount: 10_000, per_ms: 1000 }),
                goals: Vec::new(),
                weights: Weights { sz: 0, nr_accesses: 1, age: 1 },
                watermarks: knobs::free_memory(200, 150, 50),
                brake: Some(Brake::default()),
            },
            active_mem_bp: None,
            skip_young: false,
            confirm: Confirm::default(),
            autotune: false,
            dry_run: false,
        }
    }
}

impl LruSort {
    /// The policy.
    #[must_use]
    pub fn policy(mut self) -> Policy {
        if self.autotune {
            self.whose.autotune(40);
        }
        if self.hot {
            let half = |rate: Rate| Rate { amount: rate.amount / 2, ..rate };
            self.limits.time = self.limits.time.map(half);
        }
        let mut schemes = Vec::new();
        if self.hot {
            let frequency = Bounds::new(self.hot_min_bp, u32::MAX);
            let limits = Limits { brake: None, ..self.limits.clone() };
            schemes.push(self.half("hot", Action::Willneed, frequency, 0, &limits));
        }
        let mut limits = self.limits.clone();
        // The two goals overlap by 2 basis points, as in the kernel, so that they do not work
        // against each other.
        let inactive =
            self.active_mem_bp.map(|active| (10_000 - active.min(10_000) + 2).min(10_000));
        let inactive =
            inactive.map(u64::from).and_then(|bp| GoalKnob::share("inactive_mem_bp", bp));
        limits.goals.extend(inactive);
        let never = Bounds::new(0, 0);
        schemes.push(self.half("cold", Action::Cold, never, self.cold_min_age_us, &limits));
        self.whose.policy("lru-sort", schemes)
    }

    fn half(
        &self,
        name: &str,
        action: Action,
        frequency: Bounds<u32>,
        min_age_us: u64,
        limits: &Limits,
    ) -> SchemePolicy {
        let mut settings =
            Settings { name: name.to_owned(), dry_run: self.dry_run, ..Settings::default() };
        let mut scheme = Scheme {
            pattern: Pattern {
                sz: Bounds::new(4096, u64::MAX),
                nr_accesses: Frequency::Bp(frequency),
                age: from_age(min_age_us),
            },
            action,
            quota: limits.quota(&mut settings),
            watermarks: limits.watermarks,
            ..Scheme::default()
        };
        if self.skip_young && action == Action::Cold {
            scheme.filters.push(Filter { kind: FilterKind::Young, matching: true, allow: false });
        }
        settings.evidence = self.confirm.evidence(&scheme, &self.whose.attrs);
        SchemePolicy { scheme, settings }
    }
}
