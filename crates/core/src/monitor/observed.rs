//! `observed`: somebody else samples, merges and ages (the kernel's own DAMON), and the context
//! takes over the regions of each of its windows.
//!
//! No page is made old or looked at here. A window ends when the set has one ([`Wish::Observe`]);
//! asked is first when it is due, then in every sample interval until it comes, so that the context
//! keeps step with a clock that it does not own. Everything after that (schemes, walks, snapshots)
//! is as ever.
//!
//! The regions are the set's, window by window. What stays is the time since a scheme of ours
//! acted: the set does not know of it, so it is carried over from the old regions to the new ones
//! that lie on them.
//!
//! Absent: merging, splitting, the least number of regions, and tuning; all of that is done by
//! whoever samples.

use alloc::vec::Vec;

use super::method::{Ended, InForce, Sampler, Scene};
use super::resample::describe;
use super::{Context, Wish};
use crate::attrs::{Attrs, IntervalsGoal, Method};
use crate::interval::CountIntervals;
use crate::math::weighted;
use crate::ops::{Observation, Observed, TargetId};
use crate::region::Region;
use crate::snapshot::RegionInfo;
use crate::target::Target;
use crate::time::Time;

/// The state of the method in one context.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// The window that the regions belong to, from the answer on until the turn ends.
    window: Option<Observation>,
    intervals: CountIntervals,
}

impl Sampler for Observer {
    fn start(&mut self, _: &mut Scene<'_>) {}

    fn rescale(&mut self, _: &mut Scene<'_>, _: u64) {}

    fn prepare(&mut self, _: &mut Scene<'_>) {}

    fn prepared(&mut self, _: &mut Scene<'_>) -> u64 {
        0
    }

    fn next_due(&self, scene: &Scene<'_>) -> u64 {
        scene.turn.next_aggregation
    }

    /// Asks for the window if it is due.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish> {
        scene.batch.clear();
        self.window = None;
        scene.window_over().then_some(Wish::Observe)
    }

    fn checked(&mut self, _: &mut Scene<'_>) {}

    /// The window's regions are there. Its times are the set's, but no window begins before the
    /// last one ended.
    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended> {
        let window = self.window?;
        let end = window.end.min(scene.now).max(start);
        let start = window.start.clamp(start, end);
        Some(Ended { max_nr: None, start, end, lost: window.lost })
    }

    fn split(&mut self, _: &mut Scene<'_>, _: u64) {
        self.window = None;
    }

    /// A sample before the next window can be there, as two clocks never agree.
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
    /// The answer to [`Wish::Observe`]: there is a window. Its regions follow, target by target, by
    /// [`Context::observed`]. Ignored if the method is another one.
    ///
    /// Intervals that differ from the attributes (whoever samples tunes them) are taken over, as a
    /// commit would.
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
        // Of a target that is not reported nothing is known.
        for region in self.targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
            region.unresolved = true;
        }
    }

    /// The regions of a target in that window, in address order. What is empty or starts before its
    /// predecessor ends is dropped, and a count larger than possible is cut.
    pub fn observed(&mut self, id: TargetId, regions: &[Observed]) {
        let max_nr = self.attrs.max_nr_accesses();
        if !self.observes() {
            return;
        }
        if let Some(target) = self.targets.iter_mut().find(|t| t.id == id) {
            take(target, regions, max_nr);
        }
    }

    /// Whether the method is [`Method::Observed`].
    pub(super) const fn observes(&self) -> bool {
        matches!(self.attrs.method, Method::Observed)
    }
}

/// Replaces a target's regions, and carries over the time since an action.
fn take(target: &mut Target, observed: &[Observed], max_nr: u32) {
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
            region.since_action = since_action(o, &old[first..]);
            new.push(region);
        }
    });
}

/// Windows since an action: the mean over the bytes, where those that were not acted on count with
/// the age. `None` if nothing was, or that is no less than the age.
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
