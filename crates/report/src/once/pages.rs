//! Touched pages of several targets, with shared pages counted once.

use std::collections::BTreeMap;

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, SPANS};

use super::Sharing;
use crate::page_maps::PageMap;

/// By span: the touched pages of a unit of an object.
type Planes = [PageBits; SPANS];

impl Sharing {
    /// By span: by how many bytes a sum over these targets counts touched pages more than once.
    #[must_use]
    pub fn counted_again<'a>(
        &self,
        targets: impl Iterator<Item = (u32, &'a PageMap)>,
    ) -> [u64; SPANS] {
        let mut objects: BTreeMap<(u32, u64), Planes> = BTreeMap::new();
        let mut sums = [0; SPANS];
        for (id, map) in targets {
            for part in self.parts(id) {
                // Where the pages of the part are in the object, relative to their addresses.
                let shift = part.offset.wrapping_sub(part.range.start);
                for (start, unit) in
                    map.units.range(round_down(part.range.start, UNIT)..part.range.end)
                {
                    let pages = PageBits::of(*start, part.range);
                    let known = unit.present.minus(unit.unresolved).and(pages);
                    let touched = unit.touched.map(|plane| plane.unwrap_or_default().and(known));
                    let at = start.wrapping_add(shift);
                    for (nr, plane) in touched.into_iter().enumerate() {
                        sums[nr] += plane.count();
                        for (unit, bits) in moved(at, plane) {
                            let planes = objects.entry((part.object, unit)).or_default();
                            planes[nr] = planes[nr].or(bits);
                        }
                    }
                }
            }
        }
        for planes in objects.values() {
            sums.iter_mut().zip(planes).for_each(|(sum, plane)| *sum -= plane.count());
        }
        sums.map(|pages| pages * PAGE_SIZE)
    }
}

/// The pages of a unit that begins at `at`, by units that begin at multiples of their size. A unit
/// that begins before the object has wrapped; none of its pages are there.
fn moved(at: u64, pages: PageBits) -> impl Iterator<Item = (u64, PageBits)> {
    let first = round_down(at, UNIT);
    let by = (at - first) / PAGE_SIZE;
    let [mut low, mut high] = [PageBits::default(); 2];
    if by == 0 {
        low = pages;
    } else {
        pages.runs(|from, to| {
            let run = |at: u64, from, to| PageBits::of(at, AddrRange::new(from, to));
            let (from, to) = ((from + by) * PAGE_SIZE, (to + by) * PAGE_SIZE);
            low = low.or(run(0, from, to));
            high = high.or(run(UNIT, from, to));
        });
    }
    let both = [(first, low), (first.wrapping_add(UNIT), high)];
    both.into_iter().filter(|(_, pages)| !pages.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::UnitInfo;
    use isotherm_record::{Mapping, Object};

    fn map_of(start: u64, first: u64, nr: u64) -> PageMap {
        let range = AddrRange::new(first * PAGE_SIZE, (first + nr) * PAGE_SIZE);
        let touched = [Some(PageBits::of(0, range)), None, None, None, None];
        let unit = UnitInfo { start, present: PageBits::ALL, touched, ..UnitInfo::default() };
        PageMap { units: [(start, unit)].into(), touched: None }
    }

    /// Pages 10 to 29 of the object are touched in one target and 20 to 39 in the other, which maps
    /// the object 7 pages behind the beginning of a unit.
    #[test]
    fn pages_that_both_touched_are_counted_again() {
        let object = Object { device: 1, inode: 5, offset: 0 };
        let mapping = |start, len| Mapping::new(start, start + len, "rw-s", "/x").of_object(object);
        let mut sharing = Sharing::default();
        sharing.learn(0, 1, &[mapping(4 * UNIT, UNIT)]);
        sharing.learn(1, 1, &[mapping(9 * UNIT + 7 * PAGE_SIZE, UNIT)]);
        let (a, b) = (map_of(4 * UNIT, 10, 20), map_of(9 * UNIT, 27, 20));
        let again = sharing.counted_again([(0, &a), (1, &b)].into_iter());
        assert_eq!(again, [10 * PAGE_SIZE, 0, 0, 0, 0]);
        let none = sharing.counted_again([(0, &a), (2, &b)].into_iter());
        assert_eq!(none, [0; SPANS], "the last target has no mappings");
    }
}
