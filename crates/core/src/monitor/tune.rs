//! Auto-tuning of the intervals (R§2.8; `kdamond_tune_intervals()`, Linux 7.2): keeps the share of
//! positive samples near a goal. It makes the intervals longer or shorter, and never changes their
//! ratio.

use super::Context;
use crate::attrs::Attrs;
use crate::math::{feed, mult_frac};
use crate::region::Region;
use crate::time::before;

/// The share of positive samples in the last window, in basis points of the goal.
#[must_use]
pub fn score<'a>(attrs: &Attrs, regions: impl Iterator<Item = &'a Region>) -> u64 {
    let (mut events, mut max_events) = (0_u64, 0_u64);
    for r in regions {
        max_events = max_events.wrapping_add(r.len().wrapping_mul(attrs.aggr_samples));
        events = events.wrapping_add(r.len().wrapping_mul(u64::from(r.nr_accesses)));
    }
    let goal = max_events.wrapping_mul(attrs.intervals_goal.access_bp) / 10_000;
    mult_frac(events, 10_000, goal.max(1))
}

/// The factor for the intervals at a score, in basis points: 5,000 to 20,000.
#[must_use]
pub fn adaptation(score: u64) -> u64 {
    let fed = feed(100_000_000, score) / 10_000;
    if fed > 10_000 { fed } else { 5_000 + fed / 2 }
}

/// The tuned attributes. None if they stay as they are.
///
/// The kernel sets the attributes again even if the bounds leave the interval as it was, which
/// restarts every deadline (R§9.1.1). Here only `strict` does so.
#[must_use]
pub fn tuned(attrs: &Attrs, score: u64) -> Option<Attrs> {
    let factor = adaptation(score);
    if factor == 10_000 {
        return None;
    }
    let goal = &attrs.intervals_goal;
    let wanted = attrs.sample_us.saturating_mul(factor) / 10_000;
    let sample_us = wanted.min(goal.max_sample_us).max(goal.min_sample_us);
    if sample_us == attrs.sample_us && !attrs.strict {
        return None;
    }
    Some(Attrs { sample_us, aggr_us: sample_us.saturating_mul(attrs.aggr_samples), ..*attrs })
}

impl Context {
    /// Step 13a: fits the intervals to the goal, if the tuning is due.
    pub(super) fn tune(&mut self) {
        let goal = self.attrs.intervals_goal;
        let due = !before(self.schedule.passed, self.schedule.next_tune);
        if goal.aggrs == 0 || !due || self.observes() {
            return;
        }
        self.schedule.next_aggregation = self.turn.next_aggregation;
        let period = self.attrs.aggr_samples.wrapping_mul(goal.aggrs);
        self.schedule.next_tune = self.schedule.next_tune.wrapping_add(period);
        let score = score(&self.attrs, super::passes::all(&self.targets));
        if let Some(attrs) = tuned(&self.attrs, score) {
            self.set_attrs(attrs);
        }
    }
}
