//! `reclaim`: memory that was idle for long is paged out while free memory is short (R§6.2).

use isotherm_act::apply::Settings;
use isotherm_core::Scheme;
use isotherm_core::scheme::{
    Action, Bounds, Brake, Filter, FilterKind, Frequency, Pattern, Weights,
};

use super::knobs::{self, Rate};
use super::{Confirm, Limits, Whose, from_age};
use crate::policy::{Policy, SchemePolicy};

/// The knobs of `reclaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaim {
    /// Whose memory.
    pub whose: Whose,
    /// For how long memory has to be idle, in µs.
    pub min_age_us: u64,
    /// What limits it.
    pub limits: Limits,
    /// How sure to be.
    pub confirm: Confirm,
    /// Leave anonymous memory alone.
    pub skip_anon: bool,
    /// Tune the intervals for 0.4 % of positive samples.
    pub autotune: bool,
    /// Memory that is touched within so long counts as refaulted, in µs.
    pub refault_window_us: u64,
    /// Decide and count, but do nothing.
    pub dry_run: bool,
}

impl Default for Reclaim {
    /// Memory that is idle for 120 s; at most 128 MiB and 10 ms per second, oldest first. It works
    /// while free memory is short: it starts below 40 % and stops above 50 % or below 20 %. Pages
    /// are confirmed, and the brake is at 2 % of refaults.
    fn default() -> Self {
        Self {
            whose: Whose::default(),
            min_age_us: 120_000_000,
            limits: Limits {
                size: Some(Rate { amount: 128 << 20, per_ms: 1000 }),
                time: Some(Rate { amount: 10_000, per_ms: 1000 }),
                goals: Vec::new(),
                weights: Weights { sz: 0, nr_accesses: 0, age: 1 },
                watermarks: knobs::free_memory(500, 400, 200),
                brake: Some(Brake::default()),
            },
            confirm: Confirm::default(),
            skip_anon: false,
            autotune: false,
            refault_window_us: Settings::default().refault_window_us,
            dry_run: false,
        }
    }
}

impl Reclaim {
    /// The policy.
    #[must_use]
    pub fn policy(mut self) -> Policy {
        if self.autotune {
            self.whose.autotune(40);
        }
        let mut settings = Settings {
            name: "reclaim".to_owned(),
            dry_run: self.dry_run,
            refault_window_us: self.refault_window_us,
            ..Settings::default()
        };
        let mut scheme = Scheme {
            pattern: Pattern {
                sz: Bounds::new(4096, u64::MAX),
                nr_accesses: Frequency::Bp(Bounds::new(0, 0)),
                age: from_age(self.min_age_us),
            },
            action: Action::Pageout,
            quota: self.limits.quota(&mut settings),
            watermarks: self.limits.watermarks,
            ..Scheme::default()
        };
        if self.skip_anon {
            scheme.filters.push(Filter { kind: FilterKind::Anon, matching: true, allow: false });
        }
        settings.evidence = self.confirm.evidence(&scheme, &self.whose.attrs);
        self.whose.policy("reclaim", vec![SchemePolicy { scheme, settings }])
    }
}
