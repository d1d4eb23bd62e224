//! A region: a range of an address space whose pages are believed to be accessed alike.

use crate::addr::AddrRange;
use crate::math::{Divisor, moving_sum, weighted};

/// The index of a region's watched pages in the store of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchId(u32);

impl WatchId {
    /// The region has no watched pages.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// The id of a place in the store.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX - 1))
    }

    /// The place in the store.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Default for WatchId {
    fn default() -> Self {
        Self::NONE
    }
}

/// One region (`struct damon_region`, Linux 7.2). It has 64 bytes, as in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Region {
    /// The region's addresses. Never empty.
    pub range: AddrRange,
    /// The address chosen for the current sample interval, undefined before `prepare`. `resample`
    /// only.
    pub sampling_addr: u64,
    /// Positive samples so far in the current window (`resample`), or the estimate of their number
    /// (other methods).
    pub nr_accesses: u32,
    /// Pseudo moving sum of `nr_accesses`, times 10,000.
    pub nr_accesses_bp: u32,
    /// For how many windows the region has looked like this.
    pub age: u32,
    /// `nr_accesses` of the previous window.
    pub last_nr_accesses: u32,
    /// Samples of this window that gave no evidence, because the page could not be made old.
    pub nr_unresolved: u32,
    /// Whether the window gave too little evidence to estimate the count. Such regions are merged
    /// with each other only.
    pub unresolved: bool,
    /// Whether pages of it are in use although the count may be 0: they were touched within a
    /// second or a window, or have woken up and are touched too rarely to count. Only `census`
    /// tells, and whoever plays back what it saw.
    pub in_use: bool,
    /// Windows since a scheme acted on the region, while they are fewer than its age. Not used with
    /// `strict`, where an action resets the age.
    pub since_action: Option<u32>,
    /// Whether the current sample can give evidence at all.
    pub(crate) blind: bool,
    /// The index of its watched pages in the store of its target. `first_touch` only.
    pub(crate) watch: WatchId,
}

// A region fills one cache line, because passes over all regions are bound by memory.
const _: () = assert!(size_of::<Region>() == 64);

impl Region {
    /// A new region without history.
    #[must_use]
    pub fn new(range: AddrRange) -> Self {
        Self { range, ..Self::default() }
    }

    /// Size in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.range.len()
    }

    /// Whether the region is empty. Regions of a target never are.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Cuts the region `at` bytes behind its start, keeps the left part and returns the right one.
    /// The right part has the same counts and history (`damon_split_region_at()`). The watched
    /// pages stay with the left part until [`Target`](crate::target::Target) divides them.
    ///
    /// # Panics
    ///
    /// If either part would be empty.
    #[must_use]
    pub fn split_off(&mut self, at: u64) -> Self {
        assert!(0 < at && at < self.len(), "cut {at} outside of a region of {} bytes", self.len());
        let cut = self.range.start + at;
        let right = Self {
            range: AddrRange::new(cut, self.range.end),
            sampling_addr: 0,
            watch: WatchId::NONE,
            ..*self
        };
        self.range.end = cut;
        right
    }

    /// Takes in the region that follows immediately. Counts and age become means weighted by size,
    /// and the left `last_nr_accesses` stays (`damon_merge_two_regions()`).
    #[inline]
    pub fn merge(&mut self, right: &Self) {
        let (l, r) = (self.len(), right.len());
        self.nr_accesses = weighted(self.nr_accesses, l, right.nr_accesses, r);
        self.nr_accesses_bp = self.nr_accesses.wrapping_mul(10_000);
        if self.since_action.is_some() || right.since_action.is_some() {
            self.since_action = Some(weighted(self.quiet_age(), l, right.quiet_age(), r));
        }
        self.age = weighted(self.age, l, right.age, r);
        self.nr_unresolved = weighted(self.nr_unresolved, l, right.nr_unresolved, r);
        self.in_use |= right.in_use;
        self.range.end = right.range.end;
    }

    /// Counts one sample (`damon_update_region_access_rate()`). `window` is the number of samples
    /// per aggregation.
    #[inline]
    pub fn count_sample(&mut self, accessed: bool, window: Divisor) {
        let last = self.last_nr_accesses.wrapping_mul(10_000);
        let new = u32::from(accessed) * 10_000;
        self.nr_accesses_bp = moving_sum(self.nr_accesses_bp, last, window, new);
        self.nr_accesses += u32::from(accessed);
    }

    /// Ends the window: its count becomes the last one (`kdamond_reset_aggregated()`).
    pub fn reset_aggregated(&mut self) {
        self.last_nr_accesses = self.nr_accesses;
        self.nr_accesses_bp = self.nr_accesses.wrapping_mul(10_000);
        self.nr_accesses = 0;
        self.nr_unresolved = 0;
    }

    /// Ages the region by one window. It gets older if its count is within `threshold` of the last
    /// window's. Its age becomes 0 if the count changed more, or changed from or to 0.
    pub fn count_age(&mut self, threshold: u32) {
        let moved = self.nr_accesses.abs_diff(self.last_nr_accesses) > threshold;
        let crossed_zero = (self.nr_accesses == 0) != (self.last_nr_accesses == 0);
        self.age = if moved | crossed_zero { 0 } else { self.age.saturating_add(1) };
        if let Some(since) = self.since_action {
            let since = since.saturating_add(1);
            self.since_action = (since < self.age).then_some(since);
        }
    }
}
