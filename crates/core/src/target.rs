//! A target: an address space that is watched, as a sorted list of regions.

use alloc::vec::Vec;

use crate::addr::{AddrRange, round_down, round_up};
use crate::attrs::Attrs;
use crate::region::{Region, WatchId};
use crate::rng::Rng;
use crate::watches::Watches;

/// The id of a target in one context. Whoever adds targets never uses an id twice, so a reused pid
/// is never taken for the process before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TargetId(pub u32);

/// For how long ranges hold that a user has given to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Given {
    /// Until its mappings are read again.
    Now,
    /// As [`Given::Now`], and the next reading of the mappings is skipped: it is that of a new
    /// target, which is only made for want of ranges (`damon_va_init()`).
    First,
    /// Always: its mappings are not followed (`fvaddr`).
    Always,
}

/// The place of what belongs to this target, in a list of one item per target. Targets mostly have
/// their ids in the order in which they were added, so that a search by halves finds nearly all.
pub(crate) fn place_of<T>(
    list: &[T],
    id: TargetId,
    of: impl Fn(&T) -> TargetId + Copy,
) -> Option<usize> {
    let found = list.binary_search_by_key(&id, of).ok();
    found.or_else(|| list.iter().position(|item| of(item) == id))
}

/// One target (`struct damon_target`).
///
/// Invariant: regions are sorted, do not overlap, and none is empty. Gaps are possible.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Target {
    /// Its id in the context.
    pub id: TargetId,
    /// Its regions.
    pub regions: Vec<Region>,
    /// Whether the user gave the ranges. Then they are watched as they are, and no gaps are left
    /// out.
    pub given: bool,
    /// For how long the ranges stay that [`Context::give_ranges`](crate::Context::give_ranges) has
    /// set, if it was used and they are not to be replaced by the next mappings.
    pub(crate) kept: Option<Given>,
    /// How often its ranges were set. What lies between regions changes only then.
    pub(crate) nr_set: u64,
    /// The watched pages of its regions; empty unless the method is `first_touch`.
    pub(crate) watches: Watches,
    /// The list in which passes build the new regions. It is kept, so that a steady state allocates
    /// nothing.
    scratch: Vec<Region>,
}

/// Why ranges were refused. The target was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangesError {
    /// A range is empty after rounding.
    Empty,
    /// A range starts before the one in front of it ends, after rounding.
    Overlap,
}

impl Target {
    /// A target without regions.
    #[must_use]
    pub fn new(id: TargetId) -> Self {
        Self { id, ..Self::default() }
    }

    /// Total size of the regions, in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.regions.iter().map(Region::len).sum()
    }

    /// Whether the target has no region.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Fits the regions to new `ranges` (sorted), whose bounds are rounded outward to the power of
    /// two `min_region_sz` (`damon_set_regions()`).
    ///
    /// Regions outside of every range are removed. The first and last region that meet a range are
    /// cut or stretched to it, and holes between them get new regions. Regions that stay keep their
    /// history. A region over two ranges is cut to the first.
    ///
    /// # Errors
    ///
    /// If a rounded range is empty or starts before its predecessor ends. Then nothing is changed.
    pub fn set_ranges(
        &mut self,
        ranges: &[AddrRange],
        min_region_sz: u64,
    ) -> Result<(), RangesError> {
        let round = |r: &AddrRange| {
            AddrRange::new(round_down(r.start, min_region_sz), round_up(r.end, min_region_sz))
        };
        let mut last_end = 0;
        for range in ranges.iter().map(round) {
            if range.is_empty() {
                return Err(RangesError::Empty);
            }
            if range.start < last_end {
                return Err(RangesError::Overlap);
            }
            last_end = range.end;
        }
        self.nr_set += 1;
        // Both lists are sorted, so one pass over each is enough.
        let mut rest = ranges;
        self.regions.retain(|r| {
            while rest.first().is_some_and(|range| range.end <= r.range.start) {
                rest = &rest[1..];
            }
            let stays = rest.first().is_some_and(|range| range.start < r.range.end);
            if !stays {
                self.watches.release(r.watch);
            }
            stays
        });
        if self.regions.is_empty() {
            self.regions.extend(ranges.iter().map(|r| Region::new(round(r))));
            return Ok(());
        }
        self.scratch.clear();
        let mut old = self.regions.drain(..).peekable();
        for range in ranges {
            let fitted = round(range);
            // A region in front of this range was met by an earlier range. Otherwise it would have
            // been removed.
            while let Some(r) = old.next_if(|r| r.range.end <= range.start) {
                self.scratch.push(r);
            }
            let met = self.scratch.len();
            while let Some(r) = old.next_if(|r| r.range.start < range.end) {
                let hole_start = self.scratch[met..].last().map_or(r.range.start, |p| p.range.end);
                let hole = AddrRange::new(hole_start, r.range.start);
                if !hole.is_empty() {
                    self.scratch.push(Region::new(hole));
                }
                self.scratch.push(r);
            }
            if self.scratch.len() == met {
                self.scratch.push(Region::new(fitted));
                continue;
            }
            self.scratch[met].range.start = fitted.start;
            if let Some(last) = self.scratch.last_mut() {
                last.range.end = fitted.end;
            }
        }
        self.scratch.extend(old);
        core::mem::swap(&mut self.regions, &mut self.scratch);
        for region in &self.regions {
            if let Some(watch) = self.watches.get_mut(region.watch) {
                watch.keep_inside(region.range);
                self.watches.note(region.watch);
            }
        }
        Ok(())
    }

    /// Cuts every region larger than `limit` bytes into pieces of `limit` bytes. The last piece may
    /// be smaller (`damon_apply_min_nr_regions()`).
    pub fn limit_size(&mut self, limit: u64) {
        if self.regions.iter().all(|r| r.len() <= limit) {
            return;
        }
        self.rebuild(|region, out, watches| {
            let mut rest = *region;
            while rest.len() > limit {
                let right = split_off(&mut rest, limit, watches);
                out.push(rest);
                rest = right;
            }
            out.push(rest);
        });
    }

    /// Ages (if `count_age`) and merges neighbours whose counts differ by at most `threshold`, as
    /// long as the result is no larger than `sz_limit` bytes (`damon_merge_regions_of()`).
    pub fn merge(&mut self, threshold: u32, sz_limit: u64, count_age: bool) {
        let mut kept = 0;
        for i in 0..self.regions.len() {
            let (front, back) = self.regions.split_at_mut(i);
            let region = &mut back[0];
            if count_age {
                region.count_age(threshold);
            }
            let Some(prev) = front.get_mut(kept) else { continue };
            let mergeable = prev.range.end == region.range.start
                && prev.unresolved == region.unresolved
                && prev.nr_accesses.abs_diff(region.nr_accesses) <= threshold
                && prev.len() + region.len() <= sz_limit;
            if mergeable {
                merge_watches(prev, region, &mut self.watches);
                prev.merge(region);
            } else {
                kept += 1;
                if kept < i {
                    front[kept] = *region;
                }
            }
        }
        self.regions.truncate(kept + 1);
    }

    /// Cuts every region at random into up to `nr_pieces` pieces of at least `min_region_sz`
    /// (`damon_split_regions_of()`): each cut takes 10 % to 90 % off the left piece.
    pub fn split_randomly(&mut self, nr_pieces: u32, min_region_sz: u64, rng: &mut Rng) {
        // A copy that nothing borrows, so that its state is in registers.
        let mut draws = rng.clone();
        let out = &mut self.scratch;
        out.clear();
        for region in &self.regions {
            let first = out.len();
            out.push(*region);
            for _ in 1..nr_pieces {
                let left = &mut out[first];
                let AddrRange { start, end } = left.range;
                let size = end - start;
                if size <= 2 * min_region_sz {
                    break;
                }
                let at = round_down(draws.range(1, 10) * size / 10, min_region_sz);
                if at == 0 || at >= size {
                    continue;
                }
                left.range.end = start + at;
                let watch = match left.watch {
                    WatchId::NONE => WatchId::NONE,
                    watch => self.watches.split_off(watch, start + at),
                };
                out.push(*region);
                let pieces = &mut out[first + 1..];
                // The new piece lies in front of those that were cut off before.
                if pieces.len() > 1 {
                    pieces.rotate_right(1);
                }
                let right = &mut pieces[0];
                right.range = AddrRange::new(start + at, end);
                right.sampling_addr = 0;
                right.watch = watch;
            }
        }
        *rng = draws;
        core::mem::swap(&mut self.regions, &mut self.scratch);
    }

    /// Cuts region `i` at `at` bytes behind its start. If either part would be empty, the region
    /// stays whole.
    pub(crate) fn cut(&mut self, i: usize, at: u64) {
        let region = &mut self.regions[i];
        if 0 < at && at < region.len() {
            let right = split_off(region, at, &mut self.watches);
            self.regions.insert(i + 1, right);
        }
    }

    /// Forgets all watched pages, because another method takes over.
    pub(crate) fn drop_watches(&mut self) {
        self.watches = Watches::default();
        for region in &mut self.regions {
            region.watch = WatchId::NONE;
        }
    }

    /// Replaces every region by what `f` pushes for it, in address order, without allocating once
    /// the lists have grown.
    pub(crate) fn rebuild(&mut self, mut f: impl FnMut(&Region, &mut Vec<Region>, &mut Watches)) {
        self.scratch.clear();
        for region in &self.regions {
            f(region, &mut self.scratch, &mut self.watches);
        }
        core::mem::swap(&mut self.regions, &mut self.scratch);
    }

    /// Replaces all regions by what `f` makes of them, without allocating once the lists have
    /// grown. The new ones have no watched pages.
    pub(crate) fn replace(&mut self, f: impl FnOnce(&[Region], &mut Vec<Region>)) {
        self.scratch.clear();
        f(&self.regions, &mut self.scratch);
        core::mem::swap(&mut self.regions, &mut self.scratch);
    }

    /// Makes room for `n` regions, so that later passes do not allocate.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.regions.reserve(n.saturating_sub(self.regions.len()));
        self.scratch.reserve(n.saturating_sub(self.scratch.len()));
    }
}

/// The largest size of a region that leaves room for the least wanted number of regions
/// (`damon_region_sz_limit()`), not rounded.
#[must_use]
pub fn region_size_limit(targets: &[Target], attrs: &Attrs) -> u64 {
    size_limit(targets.iter().map(Target::len).sum(), attrs)
}

/// The same limit, for regions of `total` bytes in all.
pub(crate) fn size_limit(total: u64, attrs: &Attrs) -> u64 {
    (total / attrs.min_nr_regions.max(1)).max(attrs.min_region_sz)
}

/// Cuts a region and divides its watched pages; see [`Region::split_off`].
pub(crate) fn split_off(region: &mut Region, at: u64, watches: &mut Watches) -> Region {
    let mut right = region.split_off(at);
    if region.watch != WatchId::NONE {
        right.watch = watches.split_off(region.watch, right.range.start);
    }
    right
}

/// Joins two neighbours with equal counts into the left one. The counts stay, and watched pages are
/// joined.
pub(crate) fn absorb(left: &mut Region, right: &Region, watches: &mut Watches) {
    merge_watches(left, right, watches);
    left.range.end = right.range.end;
}

/// Joins the watched pages of a region that is about to take in its neighbour `right`.
fn merge_watches(left: &mut Region, right: &Region, watches: &mut Watches) {
    if left.watch != WatchId::NONE || right.watch != WatchId::NONE {
        left.watch = watches.merge(left.watch, left.len(), right.watch, right.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_in_any_order() {
        for ids in [vec_of(&[]), vec_of(&[4]), vec_of(&[1, 2, 5, 9]), vec_of(&[5, 9, 1, 7, 2])] {
            for id in (0..11).map(TargetId) {
                let place = ids.iter().position(|other| *other == id);
                assert_eq!(place_of(&ids, id, |id| *id), place, "{id:?} of {ids:?}");
            }
        }
    }

    fn vec_of(ids: &[u32]) -> Vec<TargetId> {
        ids.iter().copied().map(TargetId).collect()
    }
}
