//! `observed`: somebody else samples, merges and ages (the kernel's own DAMON), and the context takes over
//! the regions of each of its windows.
//!
//! No page is made old or looked at here. A window ends when the set has one ([`Wish::Observe`]); asked is
//! first when it is due, then in every sample interval until it comes, so that the context keeps step with a
//! clock that it does not own. Everything after that (schemes, walks, snapshots) is as ever.
//!
//! The regions are the set's, window by window. What stays is the time since a scheme of ours acted: the set
//! does not know of it, so it is carried over from the old regions to the new ones that lie on them.
//!
//! Absent: merging, splitting, the least number of regions, and tuning; all of that is done by
//! whoever samples.

use super::{Context, Phase, Wish};
use crate::attrs::{Attrs, Method};
use crate::math::weighted;
use crate::ops::{Observation, Observed, TargetId};
use crate::region::Region;
use crate::target::Target;
use crate::time::Time;

/// The observation under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Taking {
    /// The window that the regions belong to, from the answer on until the turn ends.
    pub(super) window: Option<Observation>,
}

impl Context {
    /// The answer to [`Wish::Observe`]: there is a window. Its regions follow, target by target, by
    /// [`Context::observed`].
    ///
    /// Intervals that differ from the attributes (whoever samples tunes them) are taken over, as a commit
    /// would.
    pub fn begin_observed(&mut self, window: Observation) {
        let attrs = Attrs { sample_us: window.sample_us, aggr_us: window.aggr_us, ..self.attrs };
        let differs =
            (attrs.sample_us, attrs.aggr_us) != (self.attrs.sample_us, self.attrs.aggr_us);
        let free = Attrs { intervals_goal: crate::attrs::IntervalsGoal::default(), ..attrs };
        if differs && free.validate().is_ok() {
            self.set_attrs(attrs);
        }
        // Of a target that is not reported nothing is known.
        for region in self.targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
            region.unresolved = true;
        }
        self.taking.window = Some(window);
    }

    /// The regions of a target in that window, in address order. What is empty or starts before its
    /// predecessor ends is dropped, and a count larger than possible is cut.
    pub fn observed(&mut self, id: TargetId, regions: &[Observed]) {
        let max_nr = self.attrs.max_nr_accesses();
        if let Some(target) = self.targets.iter_mut().find(|t| t.id == id) {
            take(target, regions, max_nr);
        }
    }

    /// Whether the method is [`Method::Observed`].
    pub(super) const fn observes(&self) -> bool {
        matches!(self.attrs.method, Method::Observed)
    }

    /// Step 3: sleep until the window is due, or a scheme between two windows.
    pub(super) fn await_window(&mut self, now: Time) -> Option<Wish> {
        let mut ticks = self.turn.next_aggregation.wrapping_sub(self.schedule.passed);
        for scheme in self.schemes.installed.iter().filter(|s| s.is_active()) {
            ticks = ticks.min(scheme.next_apply().wrapping_sub(self.schedule.passed));
        }
        // Deadlines that have passed wrapped around: they are asked for again after one sample.
        let ticks = if ticks > 1 << 32 { 1 } else { ticks.max(1) };
        self.ticks = ticks;
        let us = self.attrs.sample_us.saturating_mul(ticks);
        let on_time = self.due.plus_us(us);
        self.due = if on_time < now { now.plus_us(self.attrs.sample_us) } else { on_time };
        self.step(Phase::Asleep, Some(Wish::Sleep(self.due)))
    }

    /// Steps 4 and 5: ask for the window if it is due.
    pub(super) fn ask_window(&mut self) -> Option<Wish> {
        self.batch.clear();
        self.taking.window = None;
        let due = self.schedule.passed >= self.turn.next_aggregation;
        self.step(Phase::Checked, due.then_some(Wish::Observe))
    }

    /// Step 7: the window's regions are there, if it is over.
    pub(super) fn end_observed(&mut self, now: Time) -> Option<Wish> {
        let Some(window) = self.taking.window else {
            return self.step(Phase::Calls, None);
        };
        let end = window.end.min(now).max(self.window_start);
        let start = window.start.clamp(self.window_start, end);
        self.window_start = start;
        self.take_snapshot(end);
        self.snapshot.seq = self.snapshot.seq.saturating_add(window.lost);
        self.step(Phase::Calls, Some(Wish::Snapshot))
    }

    /// Step 13b: when the next window is due. A sample early, as two clocks never agree.
    pub(super) fn next_observed(&self) -> u64 {
        let samples = self.attrs.aggr_us / self.attrs.sample_us.max(1);
        let more = self.taking.window.is_some_and(|w| w.more);
        let ticks = if more { 1 } else { samples.saturating_sub(1).max(1) };
        self.schedule.passed.wrapping_add(ticks)
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

/// Windows since an action: the mean over the bytes, where those that were not acted on count with the age.
/// `None` if nothing was, or that is no less than the age.
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
