//! Sets of pages, 512 at a time: what evidence and proof remember about memory.

use std::collections::BTreeMap;

use isotherm_core::AddrRange;
pub(super) use isotherm_core::PageBits as Bits;
use isotherm_core::unit::UNIT;

/// Bytes of a granule: what one last-level page table, or one huge page, maps.
pub(super) const GRANULE: u64 = UNIT;

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
