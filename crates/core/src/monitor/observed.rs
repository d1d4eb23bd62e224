//! `observed`: the operations set samples, merges and ages by itself, for example through the
//! kernel's own DAMON. The context takes over the regions of each of its windows.
//!
//! No page is made old or looked at here. A window ends when the set has one ([`Wish::Observe`]).
//! The context asks when the window is due, and then in every sample interval until it comes. So
//! the context follows a clock that it does not own. Schemes, walks and snapshots work as with
//! other methods.
//!
//! Each window replaces all regions. The set does not know when a scheme of this context acted. So
//! the time since the last action is carried over from the old regions to the new ones that overlap
//! them.
//!
//! Absent: merging, splitting, the least number of regions, and tuning. The operations set does all
//! of that.

use alloc::vec::Vec;

use super::method::{Ended, InForce, Sampler, Scene};
use super::resample::describe;
use super::{Context, Wish};
use crate::attrs::{Attrs, IntervalsGoal, Method};
use crate::interval::CountIntervals;
use crate::math::weighted;
use crate::ops::{Observation, Observed};
use crate::region::Region;
use crate::snapshot::RegionInfo;
use crate::target::{Target, TargetId};
use crate::time::Time;

/// The state of the method in one context.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// The window of the regions, from the set's answer until the turn ends.
    window: Option<Observation>,
    intervals: CountIntervals,
}

impl Sampler for Observer {
    fn start(&mut self, _: &mut Scene<'_>) {}

    fn rescale(&mut self, _: &mut Scene<'_>, _: u64) {}

    fn prepare(&mut self, scene: &mut Scene<'_>) {
        scene.batch.clear();
    }

    fn prepared(&mut self, _: &mut Scene<'_>) -> u64 {
        0
    }

    fn next_due(&self, scene: &Scene<'_>) -> u64 {
        scene.turn.next_aggregation
    }

    /// Asks for the window if it is due.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish> {
        self.window = None;
        scene.window_over().then_some(Wish::Observe)
    }

    fn checked(&mut self, _: &mut Scene<'_>) {}

    /// Ends the window if the set has answered. The times are the set's, but no window begins
    /// before the last one ended.
    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended> {
        let window = self.window?;
        let end = window.end.min(scene.now).max(start);
        let start = window.start.clamp(start, end);
        Some(Ended { max_nr: None, start, end, lost: window.lost })
    }

    fn split(&mut self, _: &mut Scene<'_>, _: u64) {
        self.window = None;
    }

    /// One sample before the next window is expected, because the two clocks differ.
    fn next_aggregation(&self, scene: &Scene<'_>) -> u64 {
        let samples = scene.attrs.aggr_us / scene.attrs.sample_us.max(1);
        let more = self.window.is_some_and(|w| w.more);
        let ticks = if more { 1 } else { samples.saturating_sub(1).max(1) };
        scene.passed.wrapping_add(ticks)
    }

    fn interval(&mut self, target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>) {
        describe(target, max_nr_accesses, &mut self.intervals, out);
    }
}

impl Context {
    /// Begins a window, as the answer to [`Wish::Observe`]. Its regions follow by
    /// [`Context::observed`], target by target. The call is ignored if the method is another one.
    ///
    /// The operations set may have tuned the intervals. Intervals that differ from the attributes
    /// are taken over as by a commit.
    pub fn begin_observed(&mut self, window: Observation) {
        let InForce::Observed(observer) = &mut self.method else { return };
        observer.window = Some(window);
        let attrs = Attrs { sample_us: window.sample_us, aggr_us: window.aggr_us, ..self.attrs };
        let differs =
            (attrs.sample_us, attrs.aggr_us) != (self.attrs.sample_us, self.attrs.aggr_us);
        let free = Attrs { intervals_goal: IntervalsGoal::default(), ..attrs };
        if differs && free.validate().is_ok() {
            self.set_attrs(attrs);
        }
        // Nothing is known of a target that the set does not report.
        for region in self.targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
            region.unresolved = true;
        }
    }

    /// Takes the regions of a target in that window, in address order. A region that is empty or
    /// starts before its predecessor ends is dropped. A count above the maximum is lowered to it.
    pub fn observed(&mut self, id: TargetId, regions: &[Observed]) {
        let max_nr = self.attrs.max_nr_accesses();
        if !self.observes() {
            return;
        }
        if let Some(target) = self.target_mut(id) {
            take(target, regions, max_nr);
        }
    }

    /// Whether the method is [`Method::Observed`].
    pub(super) const fn observes(&self) -> bool {
        matches!(self.attrs.method, Method::Observed)
    }
}

/// Replaces a target's regions, and carries over the time since an action.
pub(super) fn take(target: &mut Target, observed: &[Observed], max_nr: u32) {
    target.replace(|old, new| {
        let mut first = 0;
        let mut end = 0;
        for o in observed.iter().filter(|o| !o.range.is_empty()) {
            if o.range.start < end {
                continue;
            }
            end = o.range.end;
            while old.get(first).is_some_and(|r| r.range.end <= o.range.start) {
                first += 1;
            }
            let mut region = Region::new(o.range);
            region.nr_accesses = o.nr_accesses.min(max_nr);
            region.nr_accesses_bp = region.nr_accesses.wrapping_mul(10_000);
            region.age = o.age;
            region.in_use = o.in_use;
            region.since_action = since_action(o, &old[first..]);
            new.push(region);
        }
    });
}

/// Windows since an action, as the mean over the bytes of the region. Bytes that were not acted on
/// count with the age. `None` if no byte was acted on, or if the mean is not below the age.
fn since_action(o: &Observed, old: &[Region]) -> Option<u32> {
    let mut acted = false;
    let (mut mean, mut bytes) = (0, 0);
    for r in old.iter().take_while(|r| r.range.start < o.range.end) {
        let both = r.range.end.min(o.range.end) - r.range.start.max(o.range.start);
        acted |= r.since_action.is_some();
        let since = r.since_action.map_or(o.age, |since| since.saturating_add(1).min(o.age));
        mean = weighted(mean, bytes, since, both);
        bytes += both;
    }
    let since = weighted(mean, bytes, o.age, o.range.len() - bytes);
    (acted && since < o.age).then_some(since)
}
