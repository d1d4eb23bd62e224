//! Deadlines, counted in sample intervals since the start ("sis"; R§1.3, R§2.1).

use crate::attrs::Attrs;
use crate::math::mult_frac;
use crate::time::before;

/// The clock of a context, in sample intervals, with its deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Completed sample intervals.
    pub passed: u64,
    /// When the current aggregation window ends.
    pub next_aggregation: u64,
    /// When the mappings are read again.
    pub next_update: u64,
    /// When the intervals are tuned next.
    pub next_tune: u64,
}

impl Schedule {
    /// The deadlines of a context that starts now.
    #[must_use]
    pub fn start(attrs: &Attrs) -> Self {
        let sample = attrs.sample_us.max(1);
        let next_aggregation = attrs.aggr_us / sample;
        Self {
            passed: 0,
            next_aggregation,
            next_update: attrs.update_us / sample,
            next_tune: next_aggregation.wrapping_mul(attrs.intervals_goal.aggrs),
        }
    }

    /// Whether a window is under way.
    #[must_use]
    pub const fn aggregating(&self) -> bool {
        before(self.passed, self.next_aggregation)
    }

    /// Sets the deadlines for new attributes (`damon_set_attrs()`).
    ///
    /// The kernel restarts both deadlines. A tuning period shorter than the update interval then
    /// starves the updates (R§9.1.1). Unless `strict`, an update deadline that is nearer stays.
    pub fn restart(&mut self, attrs: &Attrs) {
        let sample = attrs.sample_us.max(1);
        self.next_aggregation = self.passed.wrapping_add(attrs.aggr_us / sample);
        let update = self.passed.wrapping_add(attrs.update_us / sample);
        if attrs.strict || before(update, self.next_update) {
            self.next_update = update;
        }
    }
}

/// Converts counts and ages from old to new attributes (`damon_update_monitoring_results()`).
#[derive(Debug, Clone, Copy)]
pub struct Conversion {
    old_max: u32,
    new_max: u32,
    old_aggr: u64,
    new_aggr: u64,
}

impl Conversion {
    /// The conversion between two sets of attributes.
    ///
    /// The kernel, and so `strict`, converts nothing if an interval is 0 in either set. That can
    /// leave counts above the maximum.
    #[must_use]
    pub fn between(old: &Attrs, new: &Attrs) -> Option<Self> {
        let intervals = [old.sample_us, old.aggr_us, new.sample_us, new.aggr_us];
        (!new.strict || !intervals.contains(&0)).then(|| Self {
            old_max: old.max_nr_accesses(),
            new_max: new.max_nr_accesses(),
            old_aggr: old.aggr_us.max(1),
            new_aggr: new.aggr_us.max(1),
        })
    }

    /// The same access frequency under the new attributes. The kernel computes in basis points with
    /// 32 bits. The rounding to basis points is reproduced, and the overflow is not.
    #[must_use]
    pub fn count(&self, nr: u32) -> u32 {
        let bp = mult_frac(u64::from(nr), 10_000, u64::from(self.old_max));
        let nr = bp.saturating_mul(u64::from(self.new_max)) / 10_000;
        u32::try_from(nr).unwrap_or(u32::MAX)
    }

    /// The same time under the new attributes.
    #[must_use]
    pub fn age(&self, age: u32) -> u32 {
        let age = u64::from(age).saturating_mul(self.old_aggr) / self.new_aggr.max(1);
        u32::try_from(age).unwrap_or(u32::MAX)
    }

    /// Converts one region. In the middle of a window (`aggregating`) the samples so far are
    /// dropped, and the count of the last window is kept.
    pub fn region(&self, region: &mut crate::region::Region, aggregating: bool) {
        if aggregating {
            region.last_nr_accesses = self.count(region.last_nr_accesses);
            region.nr_accesses_bp = region.last_nr_accesses.wrapping_mul(10_000);
            region.nr_accesses = 0;
        } else {
            region.nr_accesses = self.count(region.nr_accesses);
            region.nr_accesses_bp = region.nr_accesses.wrapping_mul(10_000);
        }
        region.age = self.age(region.age);
        region.since_action = region.since_action.map(|since| self.age(since));
    }
}
