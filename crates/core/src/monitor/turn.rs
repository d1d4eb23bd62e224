//! One turn of the loop, step by step (R§2.2).

use core::mem;

use super::{Context, Phase, Wish, enforce_min_regions, merge_all};
use crate::region::Region;
use crate::scheme::Installed;
use crate::snapshot::TargetInfo;
use crate::target::Target;
use crate::time::Time;

impl Context {
    pub(super) const fn step(&mut self, next: Phase, wish: Option<Wish>) -> Option<Wish> {
        self.phase = next;
        wish
    }

    /// Starts the method, with the regions of the first update.
    pub(super) fn begin(&mut self, now: Time) -> Option<Wish> {
        self.sz_limit = enforce_min_regions(&mut self.targets, &self.attrs);
        self.window_start = now;
        self.due = now;
        self.reserve();
        let (method, mut scene) = self.scene();
        method.start(&mut scene);
        self.step(if self.targets.is_empty() { Phase::Calls } else { Phase::Turn }, None)
    }

    /// Step 2: asks for pages to be made old.
    pub(super) fn prepare(&mut self) -> Option<Wish> {
        let (method, mut scene) = self.scene();
        method.prepare(&mut scene);
        let wish = if !self.batch.is_empty() {
            Some(Wish::Prepare)
        } else if !self.units.is_empty() {
            Some(Wish::PrepareUnits)
        } else {
            None
        };
        self.step(Phase::Prepared, wish)
    }

    /// Step 3: sleeps until something is due, for at least one sample interval.
    pub(super) fn prepared(&mut self, now: Time) -> Option<Wish> {
        let (method, mut scene) = self.scene();
        let nr_cleared = method.prepared(&mut scene);
        let due = method.next_due(&scene);
        self.cost.clears += nr_cleared;
        let active = self.schemes.installed.iter().filter(|s| s.is_active());
        let due = active.map(Installed::next_apply).fold(due, u64::min);
        self.ticks = due.saturating_sub(self.schedule.passed).max(1);
        let us = self.turn_sample_us.saturating_mul(self.ticks);
        let on_time = self.due.plus_us(us);
        self.due = if self.observes() {
            // The window's clock belongs to the operations set. After a late wake-up the context
            // asks again one sample later, as the window may be there by then.
            if on_time < now { now.plus_us(self.turn_sample_us) } else { on_time }
        } else if self.attrs.strict || on_time < now {
            now.plus_us(us)
        } else {
            on_time
        };
        let until = self.wakes_at();
        self.step(Phase::Asleep, Some(Wish::Sleep(until)))
    }

    /// When the looks of this turn may be made.
    fn wakes_at(&mut self) -> Time {
        let (due, passed) = (self.due, self.schedule.passed.wrapping_add(self.ticks));
        let (method, scene) = self.scene();
        due.max(method.not_before(&scene, passed))
    }

    /// Steps 4 and 5: asks for pages to be looked at.
    pub(super) fn woke(&mut self, now: Time) -> Option<Wish> {
        let until = self.wakes_at();
        if now < until {
            return Some(Wish::Sleep(until));
        }
        self.schedule.passed = self.schedule.passed.wrapping_add(self.ticks);
        let (method, mut scene) = self.scene();
        let wish = method.check(&mut scene);
        self.cost.checks += self.batch.len() as u64 + 512 * self.units.len() as u64;
        self.step(Phase::Checked, wish)
    }

    /// Steps 5 and 7: counts accesses. At the end of a window merges and ages the regions.
    pub(super) fn checked(&mut self) -> Option<Wish> {
        let window_start = self.window_start;
        let (method, mut scene) = self.scene();
        method.checked(&mut scene);
        let ended = method.end_window(&mut scene, window_start);
        self.window_over = ended.is_some();
        let Some(ended) = ended else {
            return self.step(Phase::Calls, None);
        };
        if let Some(max_nr) = ended.max_nr {
            merge_all(&mut self.targets, &self.attrs, max_nr / 10, self.sz_limit);
            self.sz_limit = enforce_min_regions(&mut self.targets, &self.attrs);
        }
        self.window_start = ended.start;
        self.take_snapshot(ended.end);
        self.snapshot.seq = self.snapshot.seq.saturating_add(ended.lost);
        self.step(Phase::Calls, Some(Wish::Snapshot))
    }

    /// Steps 8 to 11: carries out changes from outside, and pauses.
    pub(super) fn calls(&mut self, now: Time) -> Option<Wish> {
        self.run_changes();
        if self.targets.is_empty() {
            self.schemes.walk.cancel();
            return Some(Wish::Stop);
        }
        if self.paused {
            self.paused_at.get_or_insert(now);
            self.schemes.walk.cancel();
            let until = now.plus_us(self.attrs.sample_us.max(1));
            return self.step(Phase::Paused, Some(Wish::Sleep(until)));
        }
        if let Some(paused_at) = self.paused_at.take() {
            // Nobody looked meanwhile, so a window that was begun is not longer for that.
            self.window_start = Time(self.window_start.0.saturating_add(now.since(paused_at)));
        }
        self.step(Phase::Schemes, None)
    }

    /// Steps 12 to 14: tunes, resets and splits at the end of a window, and asks for an update.
    pub(super) fn finish(&mut self) -> Option<Wish> {
        let mut updating = self.schedule.passed >= self.turn.next_update;
        if self.window_over {
            self.tune();
            let window_ns = self.snapshot.end.since(self.snapshot.start);
            let (method, mut scene) = self.scene();
            let next_aggregation = method.next_aggregation(&scene);
            for target in scene.targets.iter_mut() {
                target.regions.iter_mut().for_each(Region::reset_aggregated);
            }
            method.split(&mut scene, window_ns);
            self.schedule.next_aggregation = next_aggregation;
        }
        // This holds whichever method ended the window. A commit may have changed the method since.
        self.window_start = self.window_start.max(self.snapshot.end);
        if updating {
            let sample = self.attrs.sample_us.max(1);
            self.schedule.next_update =
                self.turn.next_update.wrapping_add(self.attrs.update_us / sample);
        }
        let any_empty = self.targets.iter().any(Target::is_empty);
        updating |= !self.attrs.strict && !self.observes() && self.window_over && any_empty;
        self.window_over = false;
        self.step(Phase::Turn, updating.then_some(Wish::Update))
    }

    /// Makes room for as many regions as a steady state can have.
    pub(super) fn reserve(&mut self) {
        let n = usize::try_from(self.attrs.max_nr_regions.min(1 << 16)).unwrap_or(0) * 2;
        if let [only] = self.targets.as_mut_slice() {
            only.reserve(n);
        }
        self.batch.reserve(n.saturating_sub(self.batch.len()));
    }

    fn take_snapshot(&mut self, now: Time) {
        let max = self.attrs.max_nr_accesses();
        let snapshot = &mut self.snapshot;
        snapshot.seq = if snapshot.max_nr_accesses == 0 { 0 } else { snapshot.seq + 1 };
        snapshot.start = self.window_start;
        snapshot.end = now;
        snapshot.sample_us = self.attrs.sample_us;
        snapshot.aggr_us = self.attrs.aggr_us;
        snapshot.max_nr_accesses = max;
        snapshot.cost = mem::take(&mut self.cost);
        snapshot.cost.target_ns = self.method.sampler().take_target_ns();
        snapshot.targets.resize_with(self.targets.len(), TargetInfo::default);
        for (info, target) in snapshot.targets.iter_mut().zip(&self.targets) {
            info.id = target.id;
            info.regions.clear();
            info.touched = None;
            info.units.clear();
            let sampler = self.method.sampler();
            sampler.interval(target, max, &mut info.regions);
            sampler.pages(target, info);
        }
    }
}
