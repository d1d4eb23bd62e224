//! `first_touch`: cold is free, hot is budgeted (DESIGN §4).
//!
//! Clearing an accessed bit from user space costs up to 20 µs and the target pays again to set it;
//! looking at one costs 0.05 µs and nobody notices. So every region *watches* a few pages: each is
//! *armed* (made old) once and then only looked at, about 1, 2, 4, 8 and 16 samples later and at the end
//! of every window, until it is touched. A page that stays old is never cleared again. A page found young
//! is armed again within a budget of clears per second ([`Attrs::clears_per_sec`]), first where
//! something changed or nothing is known, last where all has been stable for long. Samples at which
//! nothing is due are slept through: a wake-up costs more than many looks.
//!
//! * `slot`: one page, and what its runs say of its rate;
//! * `watch`: a region's pages, its estimate and its 90 % interval;
//! * `plan`: once per window, which pages to arm, to draw anew, to add;
//! * `split`: informed splits, where the pages of a region disagree, and at the edges.
//!
//! Invariant: a page is in its region, and the budget is never exceeded by more than the pages armed
//! in one sample. Absent: any random split. Pages are drawn at random and redrawn, so hidden
//! differences come up by themselves, and a cut that nothing suggests would only cost clears.

mod edges;
mod plan;
mod slot;
mod split;
mod watch;

use alloc::vec::Vec;

pub use watch::Watch;

use super::resample::count;
use crate::attrs::Attrs;
use crate::ops::{Check, PageState};
use crate::region::Region;
use crate::rng::Rng;
use crate::target::Target;
use crate::time::Time;
use plan::Plan;
use slot::{Look, NEVER, State};

/// A region below this rate, one count in a window of 20 samples, is cold ...
const COLD: f32 = 0.05;
/// ... and a rate above this is a surprise there.
const SURPRISE: f32 = 0.3;

/// Samples that a look is taken at most before it is due, together with others.
const EARLIEST: u64 = 4;

/// Where a check of the batch came from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    target: u32,
    region: u32,
    slot: u32,
}

/// The state of the method in one context.
#[derive(Debug, Default)]
pub(crate) struct FirstTouch {
    origins: Vec<Origin>,
    plan: Plan,
}

impl FirstTouch {
    /// Watches the first pages.
    pub(crate) fn start(&mut self, targets: &mut [Target], attrs: &Attrs, rng: &mut Rng) {
        self.plan.fill_budget(attrs);
        self.plan.make(targets, attrs, 0, rng);
    }

    /// Carries the evidence over to another sample interval: it is armed time, counted in intervals.
    pub(crate) fn rescale(targets: &mut [Target], old_sample_us: u64, new_sample_us: u64) {
        let ratio = intervals_of(old_sample_us.saturating_mul(1000), new_sample_us);
        for region in targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
            for slot in region.watch.slots_mut() {
                slot.rescale(ratio);
            }
        }
    }

    /// Which pages to arm now.
    pub(crate) fn prepare(&mut self, targets: &[Target], passed: u64, batch: &mut Vec<Check>) {
        self.collect(targets, batch, |watch| watch.next_due <= passed, |s| s.arm_at <= passed);
    }

    /// Arms what could be made old; returns the number of clears.
    pub(crate) fn prepared(
        &mut self,
        targets: &mut [Target],
        batch: &[Check],
        now: Time,
        passed: u64,
    ) -> u64 {
        let mut nr_cleared = 0;
        for (origin, check) in self.origins.iter().zip(batch) {
            let Some(region) = region_mut(targets, *origin) else { continue };
            let Some(slot) = region.watch.slots_mut().get_mut(origin.slot as usize) else {
                continue;
            };
            slot.leaf_shift = check.leaf_shift;
            match check.state {
                PageState::Cleared => {
                    nr_cleared += 1;
                    slot.arm(now, passed);
                }
                PageState::Old | PageState::Absent => slot.arm(now, passed),
                PageState::Unresolved => slot.blind(),
                PageState::Young | PageState::Unknown => slot.arm_at = NEVER,
            }
            region.watch.set_next_due();
        }
        self.plan.spend(nr_cleared);
        nr_cleared
    }

    /// Which pages to look at: those that are due, and at the end of a window all that are armed.
    pub(crate) fn check(
        &mut self,
        targets: &[Target],
        passed: u64,
        window_over: bool,
        batch: &mut Vec<Check>,
    ) {
        self.collect(
            targets,
            batch,
            |watch| window_over || watch.next_due <= passed.saturating_add(EARLIEST),
            |s| s.state == State::Armed && window_over || s.may_be_looked_at(passed),
        );
    }

    /// The sample at which a page has to be armed or looked at next.
    pub(crate) fn next_due(targets: &[Target]) -> u64 {
        let watches = targets.iter().flat_map(|t| &t.regions).map(|r| r.watch.next_due);
        watches.min().unwrap_or(NEVER)
    }

    fn collect(
        &mut self,
        targets: &[Target],
        batch: &mut Vec<Check>,
        region_due: impl Fn(&Watch) -> bool,
        slot_due: impl Fn(&slot::Slot) -> bool,
    ) {
        self.origins.clear();
        for (target, t) in (0_u32..).zip(targets) {
            for (region, r) in (0_u32..).zip(&t.regions).filter(|(_, r)| region_due(&r.watch)) {
                for (slot, s) in (0_u32..).zip(r.watch.slots()).filter(|(_, s)| slot_due(s)) {
                    self.origins.push(Origin { target, region, slot });
                    batch.push(Check::new(t.id, s.addr, 0));
                }
            }
        }
    }

    /// Takes in what was found.
    pub(crate) fn checked(
        &mut self,
        targets: &mut [Target],
        batch: &[Check],
        attrs: &Attrs,
        now: Time,
        passed: u64,
    ) {
        for (origin, check) in self.origins.iter().zip(batch) {
            let Some(region) = region_mut(targets, *origin) else { continue };
            let watch = &mut region.watch;
            let expected = watch.estimate.rate;
            let Some(slot) = watch.slots_mut().get_mut(origin.slot as usize) else { continue };
            slot.leaf_shift = check.leaf_shift;
            let intervals = intervals(now.since(slot.seen), attrs);
            let look = match check.state {
                PageState::Old | PageState::Absent => slot.found_old(now, passed, intervals),
                PageState::Young | PageState::Cleared => slot.found_young(now, intervals),
                PageState::Unresolved => {
                    slot.blind();
                    Look::Steady
                }
                PageState::Unknown => Look::Steady,
            };
            // One short run says "always touched", and one in 1/p of the runs of a cold page is as short.
            // In a cold region it is looked into at once, before the region is judged by it. (Not in a
            // warm one: to ask again only where an answer was high would make all answers low.)
            let surprise = expected < COLD && slot.is_new() && slot.rate() > SURPRISE;
            match look {
                Look::Steady if surprise && self.plan.may_arm_now() => slot.arm_at = passed,
                Look::Steady => {}
                Look::WokeUp if self.plan.may_arm_now() => slot.arm_at = passed,
                Look::WokeUp => {}
                Look::FellSilent => watch.set_changed(now),
            }
            watch.set_next_due();
        }
    }

    /// Ends a window: every region's count becomes its estimate. Returns the largest.
    pub(crate) fn estimate(&mut self, targets: &mut [Target], attrs: &Attrs) -> u32 {
        let max_nr = attrs.max_nr_accesses();
        let mut largest = 0;
        for region in targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
            region.watch.evaluate();
            let estimate = region.watch.estimate;
            region.unresolved = !estimate.resolved && region.watch.all_blind();
            region.nr_accesses = rounded(estimate.rate * count(max_nr)).min(max_nr);
            region.nr_accesses_bp = region.nr_accesses.wrapping_mul(10_000);
            largest = largest.max(region.nr_accesses);
        }
        largest
    }

    /// After a window that took so long: splits where pages disagree, and plans the next window.
    pub(crate) fn replan(
        &mut self,
        targets: &mut [Target],
        attrs: &Attrs,
        passed: u64,
        window_ns: u64,
        rng: &mut Rng,
    ) {
        for region in targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
            region.watch.fade();
        }
        split::split_informed(targets, attrs);
        self.plan.earn(attrs, window_ns);
        self.plan.make(targets, attrs, passed, rng);
    }
}

/// The 90 % interval of a region's count, in counts, and whether anything is known.
pub(crate) fn interval(region: &Region, max_nr_accesses: u32) -> (f32, f32, bool) {
    let max = count(max_nr_accesses);
    let estimate = region.watch.estimate;
    if !estimate.resolved {
        return (0.0, max, false);
    }
    // The count is rounded, and a merge has averaged it: the interval holds it all the same.
    let nr = count(region.nr_accesses);
    ((estimate.lo * max).min(nr), (estimate.hi * max).max(nr), true)
}

fn region_mut(targets: &mut [Target], origin: Origin) -> Option<&mut Region> {
    targets.get_mut(origin.target as usize)?.regions.get_mut(origin.region as usize)
}

/// Time in sample intervals. Real time, not ticks: on a busy machine a look may come late.
fn intervals(ns: u64, attrs: &Attrs) -> f32 {
    intervals_of(ns, attrs.sample_us)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of two short times")]
fn intervals_of(ns: u64, sample_us: u64) -> f32 {
    ns as f32 / sample_us.max(1).saturating_mul(1000) as f32
}

/// The nearest count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn rounded(x: f32) -> u32 {
    libm::roundf(x.max(0.0)) as u32
}
