//! Informed splits: cut a region where its watched pages disagree.
//!
//! Inside: the pages are sorted by address; the best cut between two of them is the one with the
//! largest difference between the means of its sides, in standard errors. At an edge: a page near
//! a border that behaves unlike its own region shows that the border lies further inside. Cuts
//! fall between two leaves: inside of a huge page there is nothing to tell apart.

use super::edges::move_borders;
use super::plan::leaf;
use super::slot::Slot;
use super::watch::{MAX_SLOTS, Watch};
use crate::addr::round_down;
use crate::attrs::Attrs;
use crate::region::Region;
use crate::target::Target;

/// Least difference of two rates that is worth a cut: about one count in a window of 20 samples.
const LEAST_CONTRAST: f32 = 0.06;
/// ... and as a share of the larger of the two.
const LEAST_RELATIVE: f32 = 0.35;
/// Least difference in standard errors.
const LEAST_SIGNIFICANCE: f32 = 2.0;
/// A piece of less than this part of an average region at the largest number of regions is not worth
/// the clears that it takes to know it.
const LEAST_SHARE: u64 = 4;
/// Windows in which a new region is not split again, unless it changes.
const COOLDOWN: u8 = 2;

/// Splits the regions whose pages disagree, at most to the largest wanted number of regions.
pub(crate) fn split_informed(targets: &mut [Target], attrs: &Attrs) {
    let mut nr_regions: u64 = targets.iter().map(|t| t.regions.len() as u64).sum();
    let total: u64 = targets.iter().map(Target::len).sum();
    let least = attrs.min_region_sz.max(total / LEAST_SHARE.saturating_mul(attrs.max_nr_regions));
    for target in targets {
        move_borders(&mut target.regions, attrs, least);
        let wants = |r: &Region| cut_of(r, attrs, least).is_some();
        if nr_regions >= attrs.max_nr_regions || !target.regions.iter().any(wants) {
            continue;
        }
        target.rebuild(|mut region, out| {
            match cut_of(&region, attrs, least).filter(|_| nr_regions < attrs.max_nr_regions) {
                Some(cut) => {
                    nr_regions += 1;
                    let mut right = region.split_off(cut - region.range.start);
                    for half in [&mut region, &mut right] {
                        half.watch.cooldown = COOLDOWN;
                        half.watch.drop_memory();
                    }
                    out.push(region);
                    out.push(right);
                }
                None => out.push(region),
            }
        });
    }
}

/// Where to cut a region, if anywhere: not into a piece of less than `least` bytes, and not while some of
/// its pages are still believed to be what they were before a change.
fn cut_of(region: &Region, attrs: &Attrs, least: u64) -> Option<u64> {
    if region.len() < 2 * least || region.watch.changed.is_some() {
        return None;
    }
    if region.watch.cooldown > 0 {
        return None;
    }
    let cut = inner_cut(&region.watch, attrs)?;
    let fits = region.range.start + least <= cut && cut + least <= region.range.end;
    fits.then_some(cut)
}

/// The best cut between two evenly drawn pages.
fn inner_cut(watch: &Watch, attrs: &Attrs) -> Option<u64> {
    let mut sorted = [Slot::default(); MAX_SLOTS];
    let mut n = 0;
    for slot in watch.evidence() {
        sorted[n] = *slot;
        n += 1;
    }
    let sorted = &mut sorted[..n];
    sorted.sort_unstable_by_key(|s| s.addr);
    let mut best: Option<(f32, u64)> = None;
    for i in 1..n {
        let (left, right) = sorted.split_at(i);
        let (mean_l, error_l) = mean_and_error(left);
        let (mean_r, error_r) = mean_and_error(right);
        let contrast = (mean_l - mean_r).abs();
        let significance = contrast / libm::sqrtf(error_l + error_r).max(1e-3);
        let least = LEAST_CONTRAST.max(LEAST_RELATIVE * mean_l.max(mean_r));
        if contrast < least || significance < LEAST_SIGNIFICANCE {
            continue;
        }
        let (a, b) = (left[i - 1], right[0]);
        let (a, b) = (leaf(a.addr, a.leaf_shift), leaf(b.addr, b.leaf_shift));
        if a.end > b.start {
            continue;
        }
        let grain = attrs.min_region_sz.max(a.len().min(b.len()));
        let cut = round_down(u64::midpoint(a.end, b.start), grain).max(a.end);
        // Of equal cuts the most central: both sides keep pages.
        if best.is_none_or(|(s, _)| significance > s) {
            best = Some((significance, cut));
        }
    }
    best.map(|(_, cut)| cut)
}

/// Mean rate of some pages and its squared standard error, by their own uncertainty and by how they
/// differ.
fn mean_and_error(slots: &[Slot]) -> (f32, f32) {
    let n = f32::from(u8::try_from(slots.len()).unwrap_or(u8::MAX));
    let mean = slots.iter().map(Slot::rate).sum::<f32>() / n;
    let spread = slots.iter().map(|s| (s.rate() - mean) * (s.rate() - mean)).sum::<f32>() / n;
    let own = slots.iter().map(Slot::rate_variance).sum::<f32>() / n;
    (mean, (spread + own) / n)
}
