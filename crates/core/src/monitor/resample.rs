//! `resample`: DAMON's method. In every sample interval every region has one page, drawn at random,
//! made old at the start and looked at after the end (R§3.2).
//!
//! Unbiased whatever the program does, and memoryless: 20 clears per hot region and window.

use alloc::vec::Vec;

use crate::attrs::Attrs;
use crate::interval::wilson;
use crate::ops::{Check, PageState};
use crate::region::Region;
use crate::rng::Rng;
use crate::target::Target;

/// Draws a page for every region and asks for it to be made old.
pub(crate) fn prepare(targets: &mut [Target], rng: &mut Rng, batch: &mut Vec<Check>) {
    for target in targets {
        let id = target.id;
        batch.extend(target.regions.iter_mut().map(|r| {
            r.sampling_addr = rng.range(r.range.start, r.range.end);
            Check::new(id, r.sampling_addr, 0)
        }));
    }
}

/// Notes which pages could not be made old: a look at them would say nothing. The kernel does not
/// know (R§9.5.3) and reads them as accessed for ever; so does `strict`. Returns the number of pages
/// that were cleared.
pub(crate) fn prepared(targets: &mut [Target], strict: bool, batch: &[Check]) -> u64 {
    let mut nr_cleared = 0;
    for (region, check) in targets.iter_mut().flat_map(|t| t.regions.iter_mut()).zip(batch) {
        nr_cleared += u64::from(check.state == PageState::Cleared);
        let no_evidence = matches!(check.state, PageState::Unresolved | PageState::Unknown);
        region.blind = no_evidence && !strict;
    }
    nr_cleared
}

/// Counts what was found; returns the largest count of any region.
pub(crate) fn checked(targets: &mut [Target], batch: &[Check], attrs: &Attrs) -> u32 {
    let window = attrs.max_nr_accesses();
    let mut max = 0;
    for (region, check) in targets.iter_mut().flat_map(|t| t.regions.iter_mut()).zip(batch) {
        let blind =
            region.blind || matches!(check.state, PageState::Unresolved | PageState::Unknown);
        let stays_young = attrs.strict && check.state == PageState::Unresolved;
        let accessed = stays_young || (check.state == PageState::Young && !region.blind);
        region.count_sample(accessed, window);
        region.nr_unresolved += u32::from(blind);
        max = max.max(region.nr_accesses);
    }
    max
}

/// Marks the regions of which the window says nothing: less than half of the samples gave evidence.
pub(crate) fn mark_unresolved(targets: &mut [Target], attrs: &Attrs) {
    let max = attrs.max_nr_accesses();
    for region in targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
        region.unresolved = !attrs.strict && region.nr_unresolved > max / 2;
    }
}

/// The 90 % interval of a region's count, in counts, and whether the count says anything at all.
pub(crate) fn estimate(region: &Region, max_nr_accesses: u32) -> (f32, f32, bool) {
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
