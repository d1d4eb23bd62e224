//! Pages of several targets, with shared pages counted once.

use std::collections::{BTreeMap, HashMap};

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::unit::UNIT;
use isotherm_core::{PageBits, SPANS, UnitInfo};

use super::Sharing;

/// Pages of a target that others may show as well, in 2 MiB of an object; by what they are counted
/// for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedUnit<const N: usize> {
    object: u32,
    /// Where the 2 MiB begin in the object, in bytes.
    start: u64,
    planes: [PageBits; N],
}

impl<const N: usize> SharedUnit<N> {
    /// The number of the object, which only means something to the [`Sharing`] that gave it.
    #[must_use]
    pub const fn object(&self) -> u32 {
        self.object
    }

    /// Where the 2 MiB begin in the object, in bytes.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Its pages, by what they are counted for.
    #[must_use]
    pub const fn planes(&self) -> &[PageBits; N] {
        &self.planes
    }
}

impl Sharing {
    /// The pages of a target that are in more than one part of targets. `planes` tells which pages
    /// of a unit count, and for what.
    pub fn shared_units<const N: usize>(
        &self,
        id: u32,
        units: &BTreeMap<u64, UnitInfo>,
        planes: impl Fn(&UnitInfo) -> [PageBits; N],
    ) -> Vec<SharedUnit<N>> {
        self.units(id, units, planes, |object| self.is_shared(object))
    }

    /// The pages of a target that are an object's, also where nobody else maps it.
    pub fn object_units<const N: usize>(
        &self,
        id: u32,
        units: &BTreeMap<u64, UnitInfo>,
        planes: impl Fn(&UnitInfo) -> [PageBits; N],
    ) -> Vec<SharedUnit<N>> {
        self.units(id, units, planes, |_| true)
    }

    fn units<const N: usize>(
        &self,
        id: u32,
        units: &BTreeMap<u64, UnitInfo>,
        planes: impl Fn(&UnitInfo) -> [PageBits; N],
        is_wanted: impl Fn(u32) -> bool,
    ) -> Vec<SharedUnit<N>> {
        let mut out = Vec::new();
        for part in self.parts(id) {
            if !is_wanted(part.object) {
                continue;
            }
            // Where the pages of the part are in the object, relative to their addresses.
            let shift = part.offset.wrapping_sub(part.range.start);
            for (start, unit) in units.range(round_down(part.range.start, UNIT)..part.range.end) {
                let pages = PageBits::of(*start, part.range);
                let planes = planes(unit).map(|plane| plane.and(pages));
                let at = start.wrapping_add(shift);
                for (start, planes) in moved(at, &planes) {
                    if planes.iter().any(|plane| !plane.is_empty()) {
                        out.push(SharedUnit { object: part.object, start, planes });
                    }
                }
            }
        }
        out
    }

    /// Whether [`Sharing::shared_units`] of a target takes in this unit of it.
    #[must_use]
    pub fn takes_in(&self, id: u32, unit: u64) -> bool {
        let parts = self.parts(id);
        let first = parts.partition_point(|part| part.range.end <= unit);
        let end = unit.saturating_add(UNIT);
        let here = parts[first..].iter().take_while(|part| part.range.start < end);
        here.into_iter().any(|part| self.is_shared(part.object))
    }

    /// By span: by how many bytes a sum over these targets counts touched pages more than once.
    #[must_use]
    pub fn touched_again<'a>(
        &self,
        targets: impl Iterator<Item = (u32, &'a BTreeMap<u64, UnitInfo>)>,
    ) -> [u64; SPANS] {
        let touched = |unit: &UnitInfo| {
            let known = unit.present.minus(unit.unresolved);
            unit.touched.map(|plane| plane.unwrap_or_default().and(known))
        };
        let units = targets.flat_map(|(id, units)| self.shared_units(id, units, touched));
        counted_again(units.collect::<Vec<_>>().iter())
    }
}

/// By plane: by how many bytes a sum over these counts pages more than once.
pub fn counted_again<'a, const N: usize>(
    units: impl Iterator<Item = &'a SharedUnit<N>>,
) -> [u64; N] {
    let mut objects: HashMap<(u32, u64), [PageBits; N]> = HashMap::new();
    let mut again = [0; N];
    for unit in units {
        let none = || [PageBits::default(); N];
        let all = objects.entry((unit.object, unit.start)).or_insert_with(none);
        for ((again, all), plane) in again.iter_mut().zip(all).zip(unit.planes) {
            *again += plane.and(*all).count();
            *all = all.or(plane);
        }
    }
    again.map(|pages| pages * PAGE_SIZE)
}

/// The pages of a unit that begins at `at`, by units that begin at multiples of their size. A unit
/// that begins before the object has wrapped; none of its pages are there.
fn moved<const N: usize>(at: u64, planes: &[PageBits; N]) -> [(u64, [PageBits; N]); 2] {
    let first = round_down(at, UNIT);
    let by = usize::try_from((at - first) / PAGE_SIZE).unwrap_or(0);
    let [low, high] = [0, 8].map(|from| planes.map(|plane| moved_up(plane, by, from)));
    [(first, low), (first.wrapping_add(UNIT), high)]
}

/// Eight words, from this one on, of a set of pages that was moved up by so many pages.
fn moved_up(pages: PageBits, by: usize, from: usize) -> PageBits {
    let (words, bits) = (by / 64, by % 64);
    let word = |nr: usize| nr.checked_sub(words).and_then(|nr| pages.0.get(nr)).copied();
    PageBits(std::array::from_fn(|nr| {
        let nr = from + nr;
        let carried = if bits > 0 && nr > 0 { word(nr - 1).unwrap_or(0) >> (64 - bits) } else { 0 };
        word(nr).unwrap_or(0) << bits | carried
    }))
}

#[cfg(test)]
mod tests {
    use isotherm_core::AddrRange;

    use super::*;
    use crate::{Mapping, Object};

    fn touched(start: u64, first: u64, nr: u64) -> BTreeMap<u64, UnitInfo> {
        let range = AddrRange::new(first * PAGE_SIZE, (first + nr) * PAGE_SIZE);
        let touched = [Some(PageBits::of(0, range)), None, None, None, None];
        let unit = UnitInfo { start, present: PageBits::ALL, touched, ..UnitInfo::default() };
        [(start, unit)].into()
    }

    /// Two targets map an object: the first where units begin, the other 7 pages behind that.
    fn sharing() -> Sharing {
        let object = Object { device: 1, inode: 5, offset: 0 };
        let mapping = |start, len| Mapping::new(start, start + len, "rw-s", "/x").of_object(object);
        let mut sharing = Sharing::default();
        sharing.learn(0, 1, &[mapping(4 * UNIT, UNIT)]);
        sharing.learn(1, 1, &[mapping(9 * UNIT + 7 * PAGE_SIZE, UNIT)]);
        sharing
    }

    /// Pages 10 to 29 of the object are touched in one target and 20 to 39 in the other.
    #[test]
    fn pages_that_both_touched_are_counted_again() {
        let (a, b) = (touched(4 * UNIT, 10, 20), touched(9 * UNIT, 27, 20));
        let again = sharing().touched_again([(0, &a), (1, &b)].into_iter());
        assert_eq!(again, [10 * PAGE_SIZE, 0, 0, 0, 0]);
        let none = sharing().touched_again([(0, &a), (2, &b)].into_iter());
        assert_eq!(none, [0; SPANS], "the last target has no mappings");
    }

    #[test]
    fn what_only_one_target_maps_is_in_no_shared_unit() {
        let mut sharing = sharing();
        let planes = |unit: &UnitInfo| [unit.present];
        let units = touched(4 * UNIT, 0, 1);
        let all = sharing.shared_units(0, &units, planes);
        assert_eq!(counted_again(all.iter().chain(&all)), [UNIT]);
        assert_eq!(sharing.generation(), 1);
        let taken_in = [3, 4, 5].map(|nr| sharing.takes_in(0, nr * UNIT));
        assert_eq!(taken_in, [false, true, false]);
        assert!(sharing.takes_in(1, 9 * UNIT) && sharing.takes_in(1, 10 * UNIT));
        sharing.forget(1);
        assert!(!sharing.takes_in(0, 4 * UNIT));
        assert_eq!(sharing.shared_units(0, &units, planes), []);
        let alone = sharing.object_units(0, &units, planes);
        assert_eq!((alone.len(), alone[0].start(), alone[0].planes()[0]), (1, 0, PageBits::ALL));
        let (object, range, of) = sharing.mapped(0).next().unwrap();
        assert_eq!((object, of.inode), (alone[0].object(), 5));
        assert_eq!((range.start, range.len(), of.offset), (4 * UNIT, UNIT, 0));
        assert_eq!(sharing.generation(), 1, "what is shared no more is in no sum");
        // The same part twice in one target counts as two.
        let object = Object { device: 1, inode: 5, offset: 0 };
        let mapping = |start| Mapping::new(start, start + UNIT, "r--s", "/x").of_object(object);
        sharing.learn(0, 2, &[mapping(4 * UNIT)]);
        assert_eq!(sharing.generation(), 1, "the same as before");
        sharing.learn(0, 3, &[mapping(4 * UNIT), mapping(6 * UNIT)]);
        assert_eq!(sharing.generation(), 2);
        sharing.learn(0, 4, &[mapping(4 * UNIT), mapping(7 * UNIT)]);
        assert_eq!(sharing.generation(), 2, "it was shared before");
        assert_eq!(sharing.shared_units(0, &units, planes).len(), 1);
    }

    /// Moves sets by every distance, and compares with moving page by page.
    #[test]
    fn moved_pages_are_where_they_belong() {
        let sets = [
            PageBits::ALL,
            PageBits::page(0).or(PageBits::page(63)).or(PageBits::page(64)).or(PageBits::page(511)),
            PageBits([0xdead_beef_0bad_f00d; 8]),
        ];
        for (pages, by) in sets.into_iter().flat_map(|pages| (0..512).map(move |by| (pages, by))) {
            let [low, high] = moved(5 * UNIT + by * PAGE_SIZE, &[pages]);
            assert_eq!((low.0, high.0), (5 * UNIT, 6 * UNIT));
            let mut want = [PageBits::default(); 2];
            for nr in (0..512_u64).filter(|nr| pages.0[(nr / 64) as usize] >> (nr % 64) & 1 == 1) {
                let to = nr + by;
                let half = &mut want[usize::try_from(to / 512).unwrap()];
                *half = half.or(PageBits::page(u16::try_from(to % 512).unwrap()));
            }
            assert_eq!([low.1[0], high.1[0]], want, "by {by}");
        }
    }
}
