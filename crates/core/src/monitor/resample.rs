//! `resample`: DAMON's method. In every sample interval every region has one page, drawn at random,
//! made old at the start and looked at after the end (R§3.2).
//!
//! Unbiased whatever the program does, and memoryless: 20 clears per hot region and window.

use alloc::vec::Vec;

use super::Wish;
use super::method::{Ended, Sampler, Scene};
use super::passes::split_all;
use crate::attrs::Attrs;
use crate::interval::wilson;
use crate::ops::{Check, PageState};
use crate::region::Region;
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
}

impl Sampler for Resample {
    fn start(&mut self, _: &mut Scene<'_>) {}

    fn rescale(&mut self, _: &mut Scene<'_>, _: u64) {}

    /// Draws a page for every region and asks for it to be made old.
    fn prepare(&mut self, scene: &mut Scene<'_>) {
        let (rng, batch) = (&mut *scene.rng, &mut *scene.batch);
        for target in scene.targets.iter_mut() {
            let id = target.id;
            batch.extend(target.regions.iter_mut().map(|r| {
                r.sampling_addr = rng.range(r.range.start, r.range.end);
                Check::new(id, r.sampling_addr, 0)
            }));
        }
    }

    /// Notes which pages could not be made old: a look at them would say nothing. The kernel does not
    /// know (R§9.5.3) and reads them as accessed for ever; so does `strict`.
    fn prepared(&mut self, scene: &mut Scene<'_>) -> u64 {
        let strict = scene.attrs.strict;
        let mut nr_cleared = 0;
        for (region, check) in regions(scene.targets).zip(&*scene.batch) {
            nr_cleared += u64::from(check.state == PageState::Cleared);
            region.blind = !strict && no_evidence(check.state);
        }
        nr_cleared
    }

    fn next_due(&self, scene: &Scene<'_>) -> u64 {
        scene.passed.wrapping_add(1)
    }

    /// The pages are those that were made old; what was found then is no answer now.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish> {
        for check in scene.batch.iter_mut() {
            if check.state != PageState::Unresolved {
                check.state = PageState::Unknown;
            }
        }
        (!scene.batch.is_empty()).then_some(Wish::Check)
    }

    fn checked(&mut self, scene: &mut Scene<'_>) {
        let window = scene.attrs.max_nr_accesses();
        let strict = scene.attrs.strict;
        self.max_nr = 0;
        for (region, check) in regions(scene.targets).zip(&*scene.batch) {
            let stays_young = strict && check.state == PageState::Unresolved;
            let accessed = stays_young || (check.state == PageState::Young && !region.blind);
            region.count_sample(accessed, window);
            region.nr_unresolved += u32::from(region.blind || no_evidence(check.state));
            self.max_nr = self.max_nr.max(region.nr_accesses);
        }
    }

    /// Marks the regions of which the window says nothing: less than half of the samples gave evidence.
    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended> {
        if !scene.window_over() {
            return None;
        }
        let Attrs { strict, .. } = *scene.attrs;
        let max = scene.attrs.max_nr_accesses();
        for region in regions(scene.targets) {
            region.unresolved = !strict && region.nr_unresolved > max / 2;
        }
        Some(Ended { max_nr: Some(self.max_nr), start, end: scene.now, lost: 0 })
    }

    fn split(&mut self, scene: &mut Scene<'_>, _: u64) {
        split_all(scene.targets, scene.attrs, &mut self.last_nr_regions, scene.rng);
    }

    fn interval(&mut self, target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>) {
        intervals(target, max_nr_accesses, out);
    }
}

/// Appends a target's regions; the interval of a count is that of a share of so many samples.
pub(super) fn intervals(target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>) {
    let info = |r| RegionInfo::of(r, estimate(r, max_nr_accesses));
    out.extend(target.regions.iter().map(info));
}

fn regions(targets: &mut [Target]) -> impl Iterator<Item = &mut Region> {
    targets.iter_mut().flat_map(|t| t.regions.iter_mut())
}

const fn no_evidence(state: PageState) -> bool {
    matches!(state, PageState::Unresolved | PageState::Unknown)
}

/// The 90 % interval of a region's count, in counts, and whether the count says anything at all.
fn estimate(region: &Region, max_nr_accesses: u32) -> (f32, f32, bool) {
    let max = count(max_nr_accesses);
    if region.unresolved {
        return (0.0, max, false);
    }
    let evidence = count(max_nr_accesses.saturating_sub(region.nr_unresolved));
    let share = (count(region.nr_accesses) / max).min(1.0);
    let (lo, hi) = wilson(share, evidence);
    (lo * max, hi * max, true)
}

/// A count as a float; exact up to 2^24, far beyond any window.
#[expect(clippy::cast_precision_loss, reason = "counts of samples in a window are small")]
pub(crate) const fn count(n: u32) -> f32 {
    n as f32
}
