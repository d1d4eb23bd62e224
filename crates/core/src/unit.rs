//! Units: 2 MiB of a target, answered at once.
//!
//! A unit is what one last-level page table or one huge page maps. To make a whole unit old costs
//! little more than to make one of its pages old, and to look at all of its pages costs as much as
//! to look at some. So a set that can do so answers for 512 pages at a time, one bit per page.
//!
//! Absent: when a unit is looked at. That is the method's affair; see `monitor::census`.

use alloc::vec::Vec;

use crate::addr::{AddrRange, PAGE_SIZE};
use crate::target::TargetId;
use crate::time::Time;

/// Bytes of a unit: 512 pages of 4 KiB.
pub const UNIT: u64 = 2 << 20;

/// One bit per page of a unit, the first page in the lowest bit of the first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageBits(pub [u64; 8]);

impl PageBits {
    /// All 512 pages.
    pub const ALL: Self = Self([u64::MAX; 8]);

    /// The pages of the unit at `start` that lie in `range` as a whole.
    #[must_use]
    #[inline]
    pub fn of(start: u64, range: AddrRange) -> Self {
        let nr = |addr: u64| addr.saturating_sub(start).min(UNIT) / PAGE_SIZE;
        let first = range.start.checked_next_multiple_of(PAGE_SIZE).unwrap_or(u64::MAX);
        let (from, to) = (nr(first), nr(range.end));
        let mut bits = Self::default();
        for (word, first) in bits.0.iter_mut().zip((0..512).step_by(64)) {
            let (lo, hi) =
                (from.clamp(first, first + 64) - first, to.clamp(first, first + 64) - first);
            if lo < hi {
                *word = (u64::MAX >> (64 - (hi - lo))) << lo;
            }
        }
        bits
    }

    /// The page with this number, from 0 to 511; none for another number.
    #[must_use]
    pub fn page(nr: u16) -> Self {
        let mut bits = Self::default();
        if let Some(word) = bits.0.get_mut(usize::from(nr / 64)) {
            *word = 1 << (nr % 64);
        }
        bits
    }

    /// Pages in both sets.
    #[must_use]
    #[inline]
    pub fn and(self, other: Self) -> Self {
        self.with(other, |a, b| a & b)
    }

    /// Pages that are not in `other`.
    #[must_use]
    #[inline]
    pub fn minus(self, other: Self) -> Self {
        self.with(other, |a, b| a & !b)
    }

    /// Pages in either set.
    #[must_use]
    #[inline]
    pub fn or(self, other: Self) -> Self {
        self.with(other, |a, b| a | b)
    }

    #[inline]
    fn with(mut self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a = f(*a, b));
        self
    }

    /// Number of pages, at most 512.
    #[must_use]
    #[inline]
    pub fn count(self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether there is no page.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Calls `f` with the numbers of each run of pages, first and behind last.
    pub fn runs(self, mut f: impl FnMut(u64, u64)) {
        let mut next = self.next_from(0, 0);
        while next < 512 {
            let behind = self.next_from(next, u64::MAX);
            f(next, behind);
            next = self.next_from(behind, 0);
        }
    }

    /// The number of the first page from `nr` on whose bit is not that of `skip`; 512 if there is
    /// none.
    fn next_from(self, nr: u64, skip: u64) -> u64 {
        let from = usize::try_from(nr / 64).unwrap_or(0).min(8);
        let mut keep = u64::MAX << (nr % 64);
        for (first, word) in (nr / 64 * 64..).step_by(64).zip(&self.0[from..]) {
            let others = (word ^ skip) & keep;
            if others != 0 {
                return first + u64::from(others.trailing_zeros());
            }
            keep = u64::MAX;
        }
        512
    }

    /// Appends the pages of the unit at `start`, as ranges, to `out`. A range is joined with the
    /// last one there if they touch, or are no further apart than `gap` pages.
    pub fn append_to(self, start: u64, gap: u64, out: &mut Vec<AddrRange>) {
        self.runs(|first, behind| {
            let range = AddrRange::new(start + first * PAGE_SIZE, start + behind * PAGE_SIZE);
            match out.last_mut() {
                Some(last) if range.start <= last.end + gap * PAGE_SIZE => last.end = range.end,
                _ => out.push(range),
            }
        });
    }

    /// The bits of 16 pages, 64 KiB: cell `nr` of the 32 cells of a unit.
    #[must_use]
    pub fn cell(self, nr: usize) -> u16 {
        let word = self.0.get(nr / 4).copied().unwrap_or(0) >> (nr % 4 * 16) & 0xffff;
        u16::try_from(word).unwrap_or(0)
    }

    /// The number of the `n`th page of the set, counted from 0.
    #[must_use]
    pub fn nth(self, mut n: u64) -> Option<u16> {
        for (first, mut word) in (0_u16..).step_by(64).zip(self.0) {
            if n >= u64::from(word.count_ones()) {
                n -= u64::from(word.count_ones());
                continue;
            }
            for _ in 0..n {
                word &= word - 1;
            }
            return Some(first + u16::try_from(word.trailing_zeros()).unwrap_or(0));
        }
        None
    }
}

/// Whether all memory of a target may be made old for the sake of a unit.
///
/// That takes long, and the target pays for all that it touches again. So who asks says when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllMemory {
    /// It may not. Pages that nothing else makes old are stuck.
    #[default]
    Never,
    /// It may, for pages that nothing else makes old.
    IfStuck,
    /// Nothing is made old for this unit. If all memory is made old for another one, so is this
    /// one; else it is not answered, but told whether it needs that.
    Only,
}

/// One unit that the core wants looked at or made old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitCheck {
    /// Whose memory.
    pub target: TargetId,
    /// Where the unit starts: a multiple of [`UNIT`].
    pub start: u64,
    /// In: the pages that are asked about. The answers about other pages mean nothing.
    pub pages: PageBits,
    /// In, for `prepare_units`: whether all memory of the target may be made old for the pages.
    pub all_memory: AllMemory,
    /// Out: whether the set could answer. If not, the other answers mean nothing.
    pub answered: bool,
    /// Out: pages that are mapped.
    pub present: PageBits,
    /// Out: pages that were touched since they were last made old. From `prepare_units`: how they
    /// were found, before any was made old.
    pub young: PageBits,
    /// Out of `prepare_units`: pages that this set cannot make old now, for example because they
    /// are shared or locked. Out of `check_units`: pages that have lost what was known of them, for
    /// example because they were joined with others. Nothing can be known of either until they are
    /// made old.
    pub stuck: PageBits,
    /// Out of `prepare_units`: whether some pages can be made old only together with all memory of
    /// the target. The set does that rarely, so such units are best asked about in one batch. If
    /// such a unit is not `answered`, it is as it was found, in `present` and `young`, and may be
    /// asked about again later.
    pub together: bool,
    /// Out of `prepare_units`: whether all memory of the target was made old for the unit, or the
    /// unit along with it.
    pub all_cleared: bool,
    /// Out of `prepare_units`: when the pages became old, if the set knows that better than that it
    /// was before the answer.
    pub made_old: Option<Time>,
    /// Out of `check_units`: when the pages were looked at, if that was well before the answer.
    pub looked: Option<Time>,
    /// Out: log2 of the size in bytes of the page-table leaves: 12, 21 or 30.
    pub leaf_shift: u8,
}

impl UnitCheck {
    /// A question about these pages of the unit at `start`.
    #[must_use]
    pub const fn new(target: TargetId, start: u64, pages: PageBits) -> Self {
        const NONE: PageBits = PageBits([0; 8]);
        Self {
            target,
            start,
            pages,
            all_memory: AllMemory::Never,
            answered: false,
            present: NONE,
            young: NONE,
            stuck: NONE,
            together: false,
            all_cleared: false,
            made_old: None,
            looked: None,
            leaf_shift: 12,
        }
    }

    /// The same question, by which all memory of the target may be made old.
    #[must_use]
    pub const fn with(self, all_memory: AllMemory) -> Self {
        Self { all_memory, ..self }
    }

    /// The addresses of the unit.
    #[must_use]
    pub const fn range(&self) -> AddrRange {
        AddrRange::new(self.start, self.start.saturating_add(UNIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_the_whole_pages_of_a_range() {
        let start = 4 * UNIT;
        for (name, from, to, count) in [
            ("all", 0, UNIT, 512),
            ("more than all", -4096, UNIT.cast_signed().cast_unsigned() + 8192, 512),
            ("one page", 8192, 12288, 1),
            ("parts of pages are out", 8000, 12300, 1),
            ("less than a page", 100, 200, 0),
            ("over a word's end", 63 * 4096, 66 * 4096, 3),
            ("before", -8192, 0, 0),
        ] {
            let range = AddrRange::new(start.wrapping_add_signed(from), start + to);
            let bits = PageBits::of(start, range);
            assert_eq!(bits.count(), count, "{name}");
            let mut ranges = Vec::new();
            bits.append_to(start, 0, &mut ranges);
            assert_eq!(ranges.iter().map(AddrRange::len).sum::<u64>(), count * 4096, "{name}");
            assert!(ranges.iter().all(|r| range.start <= r.start && r.end <= range.end), "{name}");
        }
    }

    #[test]
    fn the_last_bytes_of_the_address_space_are_no_whole_page() {
        let last = u64::MAX - UNIT + 1;
        assert!(PageBits::of(last, AddrRange::new(u64::MAX - 5, u64::MAX)).is_empty());
    }

    #[test]
    fn near_runs_are_joined() {
        let mut bits = PageBits::default();
        bits.0[0] = 0b1101;
        for (gap, expected) in [(0, 2), (1, 1)] {
            let mut out = Vec::new();
            bits.append_to(0, gap, &mut out);
            assert_eq!(out.len(), expected, "gap {gap}");
        }
    }

    #[test]
    fn bits_of_ranges_cells_and_single_pages() {
        let range = AddrRange::new(UNIT + 4096 * 15, UNIT + 4096 * 70 + 1);
        let bits = PageBits::of(UNIT, range);
        assert_eq!(bits.count(), 55, "page 70 is not in it as a whole");
        assert_eq!((bits.cell(0), bits.cell(1), bits.cell(4)), (0x8000, 0xffff, 0x3f));
        assert_eq!((bits.nth(0), bits.nth(49), bits.nth(55)), (Some(15), Some(64), None));
        assert_eq!(PageBits::page(64).and(bits).count(), 1);
        assert!(PageBits::page(512).is_empty() && PageBits::page(14).and(bits).is_empty());
        assert_eq!(PageBits::ALL.minus(bits).or(bits), PageBits::ALL);
    }
}
