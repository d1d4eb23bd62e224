//! `first_touch`: cold is free, hot is budgeted (DESIGN §4).
//!
//! Clearing an accessed bit from user space costs up to 20 µs, and the target pays again to set it.
//! Looking at one costs 0.05 µs, and the target does not notice. So every region *watches* a few
//! pages. Each is *armed* (made old) once. Then it is only looked at, about 1, 2, 4, 8 and 16
//! samples later and at the end of every window, until it is touched. A page that stays old is
//! never cleared again.
//!
//! A page found young is armed again within a budget of clears per second
//! ([`Attrs::clears_per_sec`]): first where something changed or nothing is known, and last where
//! all has been stable for long. The monitor sleeps through samples at which nothing is due,
//! because a wake-up costs more than many looks.
//!
//! * [`watches`](crate::watches): the watches of a target's regions, with their pages and
//!   estimates;
//! * `slices`: the looks for a window's end, in its last samples;
//! * `plan`: once per window, which pages to arm, to draw anew, to add;
//! * `split`: informed splits, where the pages of a region disagree, and at the edges.
//!
//! Invariant: a page is in its region, and the budget is never exceeded by more than the pages
//! armed in one sample. Absent: any random split. Pages are drawn at random and redrawn, so hidden
//! differences come up by themselves, and a cut that nothing suggests would only cost clears.

mod edges;
mod plan;
mod slices;
mod split;

use alloc::vec::Vec;

use super::Wish;
use super::method::{Ended, Sampler, Scene};
use crate::addr::AddrRange;
use crate::attrs::Attrs;
use crate::interval::count;
use crate::ops::{Check, PageState};
use crate::region::Region;
use crate::snapshot::RegionInfo;
use crate::target::Target;
use crate::time::Time;
use crate::watches::slot::{Look, NEVER, Slot, State};
use crate::watches::watch::{Estimate, Watch};
use plan::Plan;
use slices::Slices;

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
    slices: Slices,
    plan: Plan,
}

/// A region that is about to change, and its watched pages.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    region: &'a mut Region,
    watch: &'a mut Watch,
}

impl Watched<'_> {
    /// Where it is.
    const fn range(&self) -> AddrRange {
        self.region.range
    }

    /// Its size in bytes.
    const fn len(&self) -> u64 {
        self.region.len()
    }
}

impl Sampler for FirstTouch {
    /// Watches the first pages.
    fn start(&mut self, scene: &mut Scene<'_>) {
        let most = usize::try_from(scene.attrs.max_nr_regions.min(1 << 16)).unwrap_or(0);
        if let [only] = &mut *scene.targets {
            only.watches.reserve(2 * most);
        }
        self.plan.fill_budget(scene.attrs);
        self.begin_window(scene);
    }

    /// Carries the evidence over to another sample interval, because it is armed time, counted in
    /// intervals.
    fn rescale(&mut self, scene: &mut Scene<'_>, old_us: u64) {
        let ratio = intervals_of(old_us.saturating_mul(1000), scene.attrs.sample_us);
        for target in scene.targets.iter_mut() {
            for region in &target.regions {
                let Some(watch) = target.watches.get_mut(region.watch) else { continue };
                watch.slots_mut().iter_mut().for_each(|slot| slot.rescale(ratio));
            }
        }
    }

    /// Which pages to arm now.
    fn prepare(&mut self, scene: &mut Scene<'_>) {
        let passed = scene.passed;
        scene.batch.clear();
        self.collect(scene, passed, 0, |s| s.arm_at <= passed);
    }

    /// Arms what could be made old.
    fn prepared(&mut self, scene: &mut Scene<'_>) -> u64 {
        let (now, passed) = (scene.now, scene.passed);
        let mut nr_cleared = 0;
        for_answers(&self.origins, scene, |watch, i, check| {
            let Some(slot) = watch.slots_mut().get_mut(i) else { return };
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
        });
        self.plan.spend(nr_cleared);
        nr_cleared
    }

    /// When a page has to be armed or looked at, a slice or the mappings are due, or the window
    /// ends. `strict` sleeps one interval as the kernel does.
    fn next_due(&self, scene: &Scene<'_>) -> u64 {
        if scene.attrs.strict {
            return scene.passed.wrapping_add(1);
        }
        let pages = scene.targets.iter().map(|t| t.watches.next_due()).min().unwrap_or(NEVER);
        let end = scene.turn.next_aggregation;
        pages.min(self.slices.due(end)).min(end).min(scene.turn.next_update)
    }

    /// Which pages to look at: those that are due, and for the end of a window all that are armed.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish> {
        let passed = scene.passed;
        scene.batch.clear();
        let room = self.slices.room(passed, scene.turn.next_aggregation);
        self.collect(scene, passed.saturating_add(EARLIEST), room, |s| s.may_be_looked_at(passed));
        (!scene.batch.is_empty()).then_some(Wish::Check)
    }

    /// Takes in what was found.
    fn checked(&mut self, scene: &mut Scene<'_>) {
        let (now, passed, attrs) = (scene.now, scene.passed, scene.attrs);
        let plan = &self.plan;
        for_answers(&self.origins, scene, |watch, i, check| {
            let expected = watch.estimate.rate;
            let Some(slot) = watch.slots_mut().get_mut(i) else { return };
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
            // One short run says "always touched". But at a rate of p, a share of p of all runs is
            // as short. In a cold region the page is asked again at once, before the region is
            // judged by it. In a warm region it is not: to ask again only after high answers would
            // make the estimate too low.
            let surprise = expected < COLD && slot.is_new() && slot.rate() > SURPRISE;
            match look {
                Look::Steady if surprise && plan.may_arm_now() => slot.arm_at = passed,
                Look::Steady => {}
                Look::WokeUp if plan.may_arm_now() => slot.arm_at = passed,
                Look::WokeUp => {}
                Look::FellSilent => watch.set_changed(now),
            }
        });
        self.settle(scene);
    }

    /// Every region's count becomes its estimate.
    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended> {
        if !scene.window_over() {
            return None;
        }
        let max_nr = scene.attrs.max_nr_accesses();
        let mut largest = 0;
        for target in scene.targets.iter_mut() {
            for region in &mut target.regions {
                // Regions that are new since the last plan have none.
                target.watches.of(&mut region.watch);
                if target.watches.brief(region.watch).outdated {
                    target.watches.evaluate(region.watch);
                }
                let estimate = target.watches.brief(region.watch).estimate;
                region.unresolved = !estimate.resolved
                    && target.watches.get(region.watch).is_some_and(Watch::all_blind);
                region.nr_accesses = rounded(estimate.rate * count(max_nr)).min(max_nr);
                region.nr_accesses_bp = region.nr_accesses.wrapping_mul(10_000);
                largest = largest.max(region.nr_accesses);
            }
        }
        Some(Ended { max_nr: Some(largest), start, end: scene.now, lost: 0 })
    }

    /// Splits where pages disagree, and plans the next window.
    fn split(&mut self, scene: &mut Scene<'_>, window_ns: u64) {
        for target in scene.targets.iter_mut() {
            for region in &target.regions {
                if !target.watches.brief(region.watch).restless {
                    continue;
                }
                if let Some(watch) = target.watches.get_mut(region.watch) {
                    watch.calm_down();
                    target.watches.note(region.watch);
                }
            }
        }
        split::split_informed(scene.targets, scene.attrs);
        self.plan.earn(scene.attrs, window_ns);
        self.begin_window(scene);
    }

    fn interval(&mut self, target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>) {
        out.extend(target.regions.iter().map(|r| {
            let estimate = target.watches.brief(r.watch).estimate;
            RegionInfo::of(r, interval(r, estimate, max_nr_accesses))
        }));
    }
}

impl FirstTouch {
    /// Plans the window that begins.
    fn begin_window(&mut self, scene: &mut Scene<'_>) {
        scene.targets.iter_mut().for_each(|target| target.watches.begin_window());
        let nr_pages = self.plan.make(scene.targets, scene.attrs, scene.passed, scene.rng);
        self.slices.begin(nr_pages, u64::from(scene.attrs.max_nr_accesses()));
    }

    /// Fills the batch with the pages that are due in the regions that are due until sample
    /// `until`, and with all armed pages of as many regions as `room` has place for and are not
    /// settled yet; notes whose they are.
    fn collect(
        &mut self,
        scene: &mut Scene<'_>,
        until: u64,
        mut room: usize,
        page_due: impl Fn(&Slot) -> bool,
    ) {
        self.origins.clear();
        self.slices.settling.clear();
        for (target, t) in (0_u32..).zip(scene.targets.iter_mut()) {
            if room == 0 && t.watches.next_due() > until {
                continue;
            }
            let (mut next_due, first) = (NEVER, self.origins.len());
            for (region, r) in (0_u32..).zip(&t.regions) {
                let brief = *t.watches.brief(r.watch);
                let settles = room > 0 && !brief.settled;
                if !settles && brief.due > until {
                    next_due = next_due.min(brief.due);
                    continue;
                }
                if settles {
                    room = room.saturating_sub(slices::cost(brief.nr_slots));
                    t.watches.settle(r.watch);
                    self.slices.settling.push((target, region));
                }
                let Some(watch) = t.watches.get(r.watch) else { continue };
                let before = self.origins.len();
                for (slot, s) in (0_u32..).zip(watch.slots()) {
                    if settles && s.state == State::Armed || page_due(s) {
                        self.origins.push(Origin { target, region, slot });
                        scene.batch.push(Check::new(t.id, s.addr, 0));
                    }
                }
                // Those that are asked about say with their answer when they are due next.
                if self.origins.len() == before {
                    next_due = next_due.min(brief.due);
                }
            }
            t.watches.ask(next_due, self.origins.len() > first);
        }
    }

    /// Computes the estimates of the regions whose armed pages were looked at for the end of the
    /// window.
    fn settle(&mut self, scene: &mut Scene<'_>) {
        let mut nr_pages = 0;
        for (target, region) in self.slices.settling.drain(..) {
            let target = &mut scene.targets[target as usize];
            let id = target.regions[region as usize].watch;
            let Some(watch) = target.watches.get_mut(id) else { continue };
            watch.fade_memory();
            target.watches.evaluate(id);
            nr_pages += slices::cost(target.watches.brief(id).nr_slots);
        }
        self.slices.settled(nr_pages);
    }
}

/// The 90 % interval of a region's count, in counts, and whether anything is known.
fn interval(region: &Region, estimate: Estimate, max_nr_accesses: u32) -> (f32, f32, bool) {
    let max = count(max_nr_accesses);
    if !estimate.resolved {
        return (0.0, max, false);
    }
    // The count is rounded, and a merge has averaged it: the interval holds it all the same.
    let nr = count(region.nr_accesses);
    ((estimate.lo * max).min(nr), (estimate.hi * max).max(nr), true)
}

/// Takes the answers of the batch to the pages that they are about, and plans the next look at each
/// region.
fn for_answers(
    origins: &[Origin],
    scene: &mut Scene<'_>,
    mut take: impl FnMut(&mut Watch, usize, &Check),
) {
    for of_target in origins.chunk_by(|a, b| a.target == b.target) {
        scene.targets[of_target[0].target as usize].watches.answered();
    }
    let mut answers = scene.batch.iter();
    let same_region = |a: &Origin, b: &Origin| (a.target, a.region) == (b.target, b.region);
    for asked in origins.chunk_by(same_region) {
        let target = &mut scene.targets[asked[0].target as usize];
        let region = &target.regions[asked[0].region as usize];
        let answers = asked.iter().zip(&mut answers);
        let Some(watch) = target.watches.get_mut(region.watch) else { continue };
        for (origin, check) in answers {
            take(watch, origin.slot as usize, check);
        }
        target.watches.note(region.watch);
    }
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
    let x = x.max(0.0);
    let whole = x as u32;
    // The difference is exact, so a half is rounded up and what is less is not.
    whole + u32::from(x - count(whole) >= 0.5)
}
