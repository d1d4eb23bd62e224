//! Bytes of memory by what is known of its pages.

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, SPANS, UnitInfo};

use super::PageMap;

/// The span of a window, among the spans.
const WINDOW: usize = 1;
/// The first span that is long enough to call a page cold: a second.
const LONG: usize = 2;

/// What was touched within one span, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanSum {
    /// Pages that were touched.
    pub bytes: u64,
    /// Pages for which the span was measured.
    pub measured: u64,
}

/// Some memory, in bytes. All numbers but the first count whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageSums {
    /// Address space.
    pub mapped: u64,
    /// Pages that are there.
    pub present: u64,
    /// Those of which nothing can be known.
    pub unresolved: u64,
    /// Address space of which nothing was told, and pages for which no span was measured.
    pub not_measured: u64,
    /// Pages that were not touched in the longest span that was measured, at least a second.
    pub cold: u64,
    /// By span, see [`SPANS`].
    pub touched: [SpanSum; SPANS],
}

/// The units of a page map in `range`, each with its pages there.
pub(super) fn units_in(
    map: &PageMap,
    range: AddrRange,
) -> impl Iterator<Item = (&UnitInfo, PageBits)> {
    let first = round_down(range.start, UNIT).min(range.end);
    let units = map.units.range(first..range.end);
    units.map(move |(start, unit)| (unit, PageBits::of(*start, range)))
}

/// Those of a unit's `known` pages that were not touched in the longest span that was measured.
fn cold(unit: &UnitInfo, known: PageBits) -> PageBits {
    if unit.touched[LONG..].iter().all(Option::is_none) {
        return PageBits::default();
    }
    unit.touched.iter().flatten().fold(known, |cold, plane| cold.minus(*plane))
}

/// What is asked for every second of a record: three of the numbers of [`PageSums`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Brief {
    pub(crate) hot: u64,
    pub(crate) cold: u64,
    pub(crate) present: u64,
}

impl Brief {
    /// The pages of `range` in a page map.
    pub(crate) fn of(map: &PageMap, range: AddrRange) -> Self {
        let [mut hot, mut all_cold, mut there] = [0; 3];
        for (unit, pages) in units_in(map, range) {
            let present = unit.present.and(pages);
            let known = present.minus(unit.unresolved);
            there += present.count();
            hot += unit.touched[WINDOW].unwrap_or_default().and(known).count();
            all_cold += cold(unit, known).count();
        }
        let [hot, cold, present] = [hot, all_cold, there].map(|pages| pages * PAGE_SIZE);
        Self { hot, cold, present }
    }
}

impl PageSums {
    /// The pages of `range` in a page map.
    #[must_use]
    pub fn of(map: &PageMap, range: AddrRange) -> Self {
        let mut sums = Self { mapped: range.len(), ..Self::default() };
        let mut told = 0;
        for (unit, pages) in units_in(map, range) {
            told += pages.count() * PAGE_SIZE;
            sums.add(unit, pages);
        }
        let untold = sums.mapped.saturating_sub(told);
        sums.not_measured = sums.not_measured.saturating_add(untold);
        sums
    }

    /// Adds some pages of a unit, but not their address space.
    pub(crate) fn add(&mut self, unit: &UnitInfo, pages: PageBits) {
        let bytes = |pages: PageBits| pages.count() * PAGE_SIZE;
        let present = unit.present.and(pages);
        let known = present.minus(unit.unresolved);
        self.present += bytes(present);
        self.unresolved += bytes(present) - bytes(known);
        for (sum, plane) in self.touched.iter_mut().zip(unit.touched) {
            if let Some(plane) = plane {
                sum.bytes += bytes(plane.and(known));
                sum.measured += bytes(known);
            }
        }
        if unit.touched.iter().all(Option::is_none) {
            self.not_measured += bytes(known);
        }
        self.cold += bytes(cold(unit, known));
    }

    /// Adds other memory. Sums saturate, as a forged record may have mappings of any size.
    pub fn plus(&mut self, other: &Self) {
        let add = |sum: &mut u64, other: u64| *sum = sum.saturating_add(other);
        add(&mut self.mapped, other.mapped);
        add(&mut self.present, other.present);
        add(&mut self.unresolved, other.unresolved);
        add(&mut self.not_measured, other.not_measured);
        add(&mut self.cold, other.cold);
        for (sum, other) in self.touched.iter_mut().zip(other.touched) {
            add(&mut sum.bytes, other.bytes);
            add(&mut sum.measured, other.measured);
        }
    }

    /// Bytes that were touched within a window.
    #[must_use]
    pub const fn hot(&self) -> u64 {
        self.touched[WINDOW].bytes
    }

    /// Whether a span was measured for only a part of the pages that can be known.
    pub(crate) const fn is_partial(&self, span: usize) -> bool {
        self.touched[span].measured < self.present - self.unresolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(nr: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(0, nr * PAGE_SIZE))
    }

    /// The first unit was measured up to 1 s, the second was seen only, of the third nothing was
    /// told.
    #[test]
    fn what_nobody_looked_at_is_neither_hot_nor_cold() {
        let mut map = PageMap::default();
        let touched = [Some(first(10)), Some(first(20)), Some(first(40)), None, None];
        let unresolved = PageBits::page(511);
        let hot = UnitInfo { present: PageBits::ALL, unresolved, touched, ..UnitInfo::default() };
        map.units.insert(0, hot);
        map.units
            .insert(UNIT, UnitInfo { start: UNIT, present: first(100), ..UnitInfo::default() });
        let pages = |nr: u64| nr * PAGE_SIZE;
        let sums = PageSums::of(&map, AddrRange::new(0, 3 * UNIT));
        assert_eq!((sums.mapped, sums.present), (3 * UNIT, pages(612)));
        assert_eq!((sums.hot(), sums.cold), (pages(20), pages(511 - 40)));
        assert_eq!((sums.unresolved, sums.not_measured), (pages(1), pages(100) + UNIT));
        assert_eq!(sums.touched[2], SpanSum { bytes: pages(40), measured: pages(511) });
        assert_eq!(sums.touched[3], SpanSum::default());
        assert!(sums.is_partial(0));
        let brief = Brief::of(&map, AddrRange::new(0, 3 * UNIT));
        let PageSums { cold, present, .. } = sums;
        assert_eq!(brief, Brief { hot: sums.hot(), cold, present });

        // Cut in the middle of the touched pages, and joined again.
        let mut parts = PageSums::of(&map, AddrRange::new(0, pages(15)));
        assert_eq!((parts.touched[0].bytes, parts.hot(), parts.cold), (pages(10), pages(15), 0));
        parts.plus(&PageSums::of(&map, AddrRange::new(pages(15), 3 * UNIT)));
        assert_eq!(parts, sums);
        assert_eq!(PageSums::of(&map, AddrRange::new(5, 5)), PageSums::default());

        // Mappings of a forged record may be larger than an address space together.
        let mut huge = PageSums::of(&map, AddrRange::new(0, u64::MAX));
        huge.plus(&PageSums::of(&map, AddrRange::new(0, u64::MAX)));
        assert_eq!(huge.mapped, u64::MAX);
    }
}
