//! Sets of pages, 512 at a time: what evidence and proof remember about memory.

use std::collections::BTreeMap;

use isotherm_core::AddrRange;
use isotherm_core::addr::PAGE_SIZE;

/// Bytes of a granule: what one last-level page table, or one huge page, maps.
pub(super) const GRANULE: u64 = 2 << 20;

/// One bit per page of a granule, the first in the lowest bit of the first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bits(pub(super) [u64; 8]);

impl Bits {
    pub(super) const ALL: Self = Self([u64::MAX; 8]);

    /// The pages of the granule at `start` that lie in `range` as a whole.
    pub(super) fn of(start: u64, range: AddrRange) -> Self {
        let nr = |addr: u64| addr.saturating_sub(start).min(GRANULE) / PAGE_SIZE;
        let (from, to) = (nr(range.start.next_multiple_of(PAGE_SIZE)), nr(range.end));
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

    pub(super) fn and(self, other: Self) -> Self {
        self.with(other, |a, b| a & b)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, |a, b| a & !b)
    }

    pub(super) fn or(self, other: Self) -> Self {
        self.with(other, |a, b| a | b)
    }

    fn with(mut self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a = f(*a, b));
        self
    }

    /// Number of pages.
    pub(super) fn count(self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Calls `f` with the numbers of each run of pages, first and behind last.
    pub(super) fn runs(self, mut f: impl FnMut(u64, u64)) {
        let mut open = None;
        for nr in 0..512_u64 {
            let word = self.0[usize::try_from(nr / 64).unwrap_or(0)];
            match (word >> (nr % 64) & 1 == 1, open) {
                (true, None) => open = Some(nr),
                (false, Some(first)) => {
                    f(first, nr);
                    open = None;
                }
                _ => {}
            }
        }
        if let Some(first) = open {
            f(first, 512);
        }
    }

    /// Appends the pages, as ranges, to `out`; joins with the last one there if they touch, or are
    /// no further apart than `gap` pages.
    pub(super) fn append_to(self, start: u64, gap: u64, out: &mut Vec<AddrRange>) {
        self.runs(|first, behind| {
            let range = AddrRange::new(start + first * PAGE_SIZE, start + behind * PAGE_SIZE);
            match out.last_mut() {
                Some(last) if range.start <= last.end + gap * PAGE_SIZE => last.end = range.end,
                _ => out.push(range),
            }
        });
    }
}

/// A set of pages.
#[derive(Debug, Clone, Default)]
pub(super) struct PageSet {
    granules: BTreeMap<u64, Bits>,
}

impl PageSet {
    pub(super) fn insert(&mut self, start: u64, pages: Bits) {
        if !pages.is_empty() {
            let bits = self.granules.entry(start).or_default();
            *bits = bits.or(pages);
        }
    }

    pub(super) fn remove(&mut self, start: u64, pages: Bits) {
        if let Some(bits) = self.granules.get_mut(&start) {
            *bits = bits.minus(pages);
            if bits.is_empty() {
                self.granules.remove(&start);
            }
        }
    }

    /// Takes in all pages of another set.
    pub(super) fn append(&mut self, other: Self) {
        other.granules.into_iter().for_each(|(start, pages)| self.insert(start, pages));
    }

    pub(super) fn get(&self, start: u64) -> Bits {
        self.granules.get(&start).copied().unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.granules.is_empty()
    }

    /// The granules, joined where they touch, as ranges of at most `most` bytes.
    pub(super) fn spans(&self, most: u64) -> Vec<AddrRange> {
        self.spans_from(0, most, u64::MAX).0
    }

    /// The granules from `first` on, as [`PageSet::spans`] gives them: at least one, and at most
    /// `total` bytes. Also returns where the next ones begin, or 0 at the end.
    pub(super) fn spans_from(&self, first: u64, most: u64, total: u64) -> (Vec<AddrRange>, u64) {
        let mut out: Vec<AddrRange> = Vec::new();
        let mut sum = 0;
        for &start in self.granules.range(first..).map(|(start, _)| start) {
            if sum > 0 && sum + GRANULE > total {
                return (out, start);
            }
            sum += GRANULE;
            match out.last_mut() {
                Some(last) if last.end == start && last.len() < most => last.end += GRANULE,
                _ => out.push(AddrRange::new(start, start + GRANULE)),
            }
        }
        (out, 0)
    }
}

/// The granules that `range` touches, with the part of it in each.
pub(super) fn granules(range: AddrRange) -> impl Iterator<Item = (u64, AddrRange)> {
    let first = range.start / GRANULE * GRANULE;
    (first..range.end).step_by(2 << 20).map(move |start| {
        (start, AddrRange::new(start.max(range.start), (start + GRANULE).min(range.end)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_the_whole_pages_of_a_range() {
        let start = 4 * GRANULE;
        for (name, from, to, count) in [
            ("all", 0, GRANULE, 512),
            ("more than all", -4096, GRANULE.cast_signed().cast_unsigned() + 8192, 512),
            ("one page", 8192, 12288, 1),
            ("parts of pages are out", 8000, 12300, 1),
            ("less than a page", 100, 200, 0),
            ("over a word's end", 63 * 4096, 66 * 4096, 3),
            ("before", -8192, 0, 0),
        ] {
            let range = AddrRange::new(start.wrapping_add_signed(from), start + to);
            let bits = Bits::of(start, range);
            assert_eq!(bits.count(), count, "{name}");
            let mut ranges = Vec::new();
            bits.append_to(start, 0, &mut ranges);
            assert_eq!(ranges.iter().map(AddrRange::len).sum::<u64>(), count * 4096, "{name}");
            assert!(ranges.iter().all(|r| range.start <= r.start && r.end <= range.end), "{name}");
        }
    }

    #[test]
    fn near_runs_are_joined() {
        let mut bits = Bits::default();
        bits.0[0] = 0b1101;
        for (gap, expected) in [(0, 2), (1, 1)] {
            let mut out = Vec::new();
            bits.append_to(0, gap, &mut out);
            assert_eq!(out.len(), expected, "gap {gap}");
        }
    }

    #[test]
    fn a_set_gives_back_what_went_in() {
        let mut set = PageSet::default();
        let some = Bits::of(0, AddrRange::new(4096, 16384));
        set.insert(0, some);
        set.insert(GRANULE, Bits::ALL);
        set.insert(4 * GRANULE, some);
        let spans = set.spans(u64::MAX);
        let expected = [(0, 2 * GRANULE), (4 * GRANULE, 5 * GRANULE)];
        assert_eq!(spans, expected.map(|(a, b)| AddrRange::new(a, b)));
        set.remove(0, some);
        assert_eq!(set.get(0), Bits::default());
        assert_eq!(set.get(4 * GRANULE), some);
        set.remove(GRANULE, Bits::ALL);
        set.remove(4 * GRANULE, Bits::ALL);
        assert!(set.is_empty());
    }
}
