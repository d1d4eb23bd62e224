//! `resample`: DAMON's method. In every sample interval every region has one page, drawn at random,
//! made old at the start and looked at after the end (R§3.2).
//!
//! Unbiased whatever the program does, and memoryless: 20 clears per hot region and window.

use alloc::vec::Vec;

use super::Wish;
use super::method::{Ended, Sampler, Scene};
use super::passes::split_all;
use crate::interval::{CountIntervals, count};
use crate::ops::{Check, PageState};
use crate::snapshot::RegionInfo;
use crate::target::Target;
use crate::time::Time;

/// The state of the method in one context.
#[derive(Debug, Default)]
pub(crate) struct Resample {
    /// Largest count that any region had at the last check.
    max_nr: u32,
    /// Number of regions at the last split.
    last_nr_regions: u64,
    /// Whether some page gave no evidence in the sample interval before.
    any_blind: bool,
    intervals: CountIntervals,
}

impl Sampler for Resample {
    fn start(&mut self, _: &mut Scene<'_>) {}

    fn rescale(&mut self, _: &mut Scene<'_>, _: u64) {}

    /// Draws a page for every region and asks for it to be made old.
    fn prepare(&mut self, scene: &mut Scene<'_>) {
        // A copy, so that its state is in registers while the regions are written.
        let mut rng = scene.rng.clone();
        for target in scene.targets.iter_mut() {
            let id = target.id;
            scene.batch.extend(target.regions.iter_mut().map(|r| {
                r.sampling_addr = rng.range(r.range.start, r.range.end);
                Check::new(id, r.sampling_addr, 0)
            }));
        }
        *scene.rng = rng;
    }

    /// Notes which pages could not be made old: a look at them would say nothing. The kernel does not
    /// know (R§9.5.3) and reads them as accessed for ever; so does `strict`. What was found at any other
    /// page is no answer to the look that follows.
    fn prepared(&mut self, scene: &mut Scene<'_>) -> u64 {
        let strict = scene.attrs.strict;
        let (mut nr_cleared, mut any_blind) = (0, false);
        for check in scene.batch.iter_mut() {
            nr_cleared += u64::from(check.state == PageState::Cleared);
            let blind = !strict && no_evidence(check.state);
            any_blind |= blind;
            let stays = blind || check.state == PageState::Unresolved;
            check.state = if stays { PageState::Unresolved } else { PageState::Unknown };
        }
        // Rare: the regions need not be gone through for it.
        if any_blind || self.any_blind {
            let regions = scene.targets.iter_mut().flat_map(|t| t.regions.iter_mut());
            for (region, check) in regions.zip(&*scene.batch) {
                region.blind = any_blind && check.state == PageState::Unresolved;
            }
        }
        self.any_blind = any_blind;
        nr_cleared
    }

    fn next_due(&self, scene: &Scene<'_>) -> u64 {
        scene.passed.wrapping_add(1)
    }

    /// The pages are those that were made old.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish> {
        (!scene.batch.is_empty()).then_some(Wish::Check)
    }

    /// Counts. At the end of a window marks the regions of which it says nothing: less than half of the
    /// samples gave evidence.
    fn checked(&mut self, scene: &mut Scene<'_>) {
        let strict = scene.attrs.strict;
        let window = scene.attrs.max_nr_accesses();
        let most_unresolved = if strict { u32::MAX } else { window / 2 };
        // The kernel's moving sum takes a sample interval of 0 for a window of one sample (R§9.1.8).
        let summed = if strict && scene.attrs.sample_us == 0 { 1 } else { window };
        let window_over = scene.window_over();
        self.max_nr = 0;
        let mut checks = scene.batch.iter();
        for target in scene.targets.iter_mut() {
            for (region, check) in target.regions.iter_mut().zip(&mut checks) {
                let stays_young = strict && check.state == PageState::Unresolved;
                let accessed = stays_young || (check.state == PageState::Young && !region.blind);
                region.count_sample(accessed, summed);
                region.nr_unresolved += u32::from(region.blind || no_evidence(check.state));
                if window_over {
                    region.unresolved = region.nr_unresolved > most_unresolved;
                }
                self.max_nr = self.max_nr.max(region.nr_accesses);
            }
        }
    }

    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended> {
        let ended = Ended { max_nr: Some(self.max_nr), start, end: scene.now, lost: 0 };
        scene.window_over().then_some(ended)
    }

    fn split(&mut self, scene: &mut Scene<'_>, _: u64) {
        split_all(scene.targets, scene.attrs, &mut self.last_nr_regions, scene.rng);
    }

    fn interval(&mut self, target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>) {
        describe(target, max_nr_accesses, &mut self.intervals, out);
    }
}

/// Appends a target's regions; the interval of a count is that of a share of the samples that gave evidence.
pub(super) fn describe(
    target: &Target,
    max_nr_accesses: u32,
    intervals: &mut CountIntervals,
    out: &mut Vec<RegionInfo>,
) {
    intervals.prepare(max_nr_accesses);
    out.extend(target.regions.iter().map(|r| {
        let known = if r.unresolved {
            (0.0, count(max_nr_accesses), false)
        } else {
            let nr_evidence = max_nr_accesses.saturating_sub(r.nr_unresolved);
            let (lo, hi) = intervals.of(r.nr_accesses, nr_evidence);
            (lo, hi, true)
        };
        RegionInfo::of(r, known)
    }));
}

const fn no_evidence(state: PageState) -> bool {
    matches!(state, PageState::Unresolved | PageState::Unknown)
}
