//! The passes over all targets at the end of a window: merge and age, keep the least number of
//! regions, split (R§2.3, R§2.4).

use crate::addr::round_up;
use crate::attrs::Attrs;
use crate::region::Region;
use crate::rng::Rng;
use crate::target::{Target, size_limit};

/// Number of regions of all targets.
pub(crate) fn nr_regions(targets: &[Target]) -> u64 {
    targets.iter().map(|t| t.regions.len() as u64).sum()
}

/// All regions of all targets.
pub(crate) fn all(targets: &[Target]) -> impl Iterator<Item = &Region> {
    targets.iter().flat_map(|t| t.regions.iter())
}

/// Cuts regions larger than the limit, so that about the least wanted number of regions is there.
/// Returns the limit, in bytes.
pub fn enforce_min_regions(targets: &mut [Target], attrs: &Attrs) -> u64 {
    let (mut total, mut largest) = (0, 0);
    for target in targets.iter() {
        for region in &target.regions {
            total += region.len();
            largest = largest.max(region.len());
        }
    }
    let limit = round_up(size_limit(total, attrs), attrs.min_region_sz);
    if largest > limit {
        targets.iter_mut().for_each(|target| target.limit_size(limit));
    }
    limit
}

/// Ages and merges the regions of all targets. Doubles the threshold and merges again until at most
/// the largest wanted number of regions is left, or the threshold is at its maximum
/// (`kdamond_merge_regions()`).
pub fn merge_all(targets: &mut [Target], attrs: &Attrs, threshold: u32, sz_limit: u64) {
    let max_threshold = attrs.max_nr_accesses();
    let mut threshold = threshold;
    let mut count_age = true;
    loop {
        for target in targets.iter_mut() {
            target.merge(threshold, sz_limit, count_age);
        }
        count_age = false;
        if nr_regions(targets) <= attrs.max_nr_regions || max_threshold <= threshold {
            return;
        }
        threshold = if threshold < max_threshold / 2 {
            threshold.saturating_mul(2).max(1)
        } else {
            max_threshold
        };
    }
}

/// Splits every region at random in two, or in three if the number of regions is the same as at the
/// last split (`kdamond_split_regions()`). `last_nr_regions` belongs to the context. The kernel
/// shares one between all contexts (R§9.1.5), which makes no difference to a single context.
pub fn split_all(targets: &mut [Target], attrs: &Attrs, last_nr_regions: &mut u64, rng: &mut Rng) {
    let n = nr_regions(targets);
    if n > attrs.max_nr_regions / 2 {
        return;
    }
    let stuck = *last_nr_regions == n && n < attrs.max_nr_regions / 3;
    for target in targets {
        target.split_randomly(if stuck { 3 } else { 2 }, attrs.min_region_sz, rng);
    }
    *last_nr_regions = n;
}
