//! For how long pages have been idle, unit by unit, as a record tells it.
//!
//! A page that was touched within the window is accessed now. One that was touched within a longer
//! span, and not within the span before, is touched again and again after about that time. So it
//! counts as idle for the middle of the two spans, by factors: within 10 s and not within 1 s is
//! 3.2 s. A page that no span shows has been idle since its unit was made old when it was last
//! found touched, or since it was mapped. Pages that nobody has looked at for a whole span yet are
//! unresolved.
//!
//! Invariant: what is touched after the longest span counts as touched when its unit is made old
//! again, if the record tells it (format version 2).

use std::collections::BTreeMap;

use isotherm_core::unit::UNIT;
use isotherm_core::{PageBits, SPANS, TargetId, Time, UnitInfo};

use super::PageMaps;

/// Bytes of a cell, and the number of them in a unit.
pub(crate) const CELL: u64 = 64 << 10;
pub(crate) const CELLS: usize = (UNIT / CELL) as usize;
/// Times since when pages of a unit are idle that are told apart.
const MOST_TIMES: usize = 6;

/// For how long pages have been idle, by target and start of the unit.
pub(crate) type Idle = BTreeMap<TargetId, BTreeMap<u64, IdleUnit>>;

/// Takes in what a window that ended at `now` told of a target's pages.
pub(crate) fn learn(idle: &mut Idle, maps: &PageMaps, id: TargetId, now: Time) {
    let Some(map) = maps.get(id) else {
        idle.remove(&id);
        return;
    };
    let Some(units) = idle.get_mut(&id) else {
        let units = map.units.iter().map(|(start, info)| (*start, IdleUnit::new(*info)));
        idle.insert(id, units.collect());
        return;
    };
    for (_, start) in maps.changed().iter().filter(|(of, _)| *of == id) {
        let Some(info) = map.units.get(start).copied() else { continue };
        match units.get_mut(start) {
            Some(unit) => unit.learn(info, now),
            None => drop(units.insert(*start, IdleUnit::new(info))),
        }
    }
}

/// What is known of one unit.
#[derive(Debug, Clone)]
pub(crate) struct IdleUnit {
    pub(crate) info: UnitInfo,
    /// Pages that were found touched since it was made old.
    used: PageBits,
    /// Since when other pages are idle, in ns, the oldest first. No page is in two of them.
    idle: Vec<(u64, PageBits)>,
}

impl IdleUnit {
    pub(crate) fn new(info: UnitInfo) -> Self {
        let idle = vec![(info.since.0, info.present)];
        Self { info, used: found(&info), idle }
    }

    /// Takes in what a window that ended at `now` told.
    pub(crate) fn learn(&mut self, info: UnitInfo, now: Time) {
        let new = info.present.minus(self.info.present);
        if info.since == self.info.since {
            self.used = self.used.or(found(&info));
        } else {
            // What was found when it was made old was touched before.
            let woke = self.used.or(info.found_before()).and(info.present);
            self.idle_since(woke, info.since.0);
            self.used = found(&UnitInfo { found: None, ..info });
        }
        self.idle_since(new, now.0);
        self.idle.iter_mut().for_each(|(_, pages)| *pages = pages.and(info.present));
        self.idle.retain(|(_, pages)| !pages.is_empty());
        if self.idle.len() > MOST_TIMES {
            let (_, oldest) = self.idle.remove(0);
            self.idle[0].1 = self.idle[0].1.or(oldest);
        }
        self.info = info;
    }

    fn idle_since(&mut self, pages: PageBits, since_ns: u64) {
        if !pages.is_empty() {
            self.idle.iter_mut().for_each(|(_, older)| *older = older.minus(pages));
            self.idle.push((since_ns, pages));
        }
    }

    /// Pages by how long they have been idle, in ms, and those of which nothing is known. No page
    /// is in two sets; 0: accessed now.
    pub(crate) fn ages(
        &self,
        spans_us: [u64; SPANS],
        now_ns: u64,
    ) -> (Vec<(u64, PageBits)>, PageBits) {
        let UnitInfo { present, unresolved, touched, .. } = self.info;
        let unresolved = unresolved.and(present);
        let mut left = present.minus(unresolved);
        let (mut out, mut longest_ms) = (Vec::new(), None);
        for (nr, plane) in touched.iter().enumerate() {
            let Some(plane) = plane else { continue };
            out.push((idle_within_ms(nr, spans_us), left.and(*plane)));
            left = left.minus(*plane);
            longest_ms = Some(spans_us[nr] / 1000);
        }
        let Some(longest_ms) = longest_ms else { return (out, unresolved.or(left)) };
        // Touched after the longest span.
        out.push((longest_ms, left.and(self.used)));
        left = left.minus(self.used);
        for (since_ns, pages) in &self.idle {
            let idle_ms = now_ns.saturating_sub(*since_ns) / 1_000_000;
            out.push((idle_ms.max(1), left.and(*pages)));
        }
        out.retain(|(_, pages)| !pages.is_empty());
        (out, unresolved)
    }

    /// By cell of 64 KiB: for how long none of its pages was touched, in ms. `None`: none of its
    /// pages is mapped, or nothing is known of one of them.
    pub(crate) fn cells_ms(&self, spans_us: [u64; SPANS], now_ns: u64) -> [Option<u64>; CELLS] {
        let (ages, unknown) = self.ages(spans_us, now_ns);
        std::array::from_fn(|cell| {
            let here = ages.iter().filter(|(_, pages)| pages.cell(cell) != 0).map(|(ms, _)| *ms);
            if unknown.cell(cell) == 0 { here.min() } else { None }
        })
    }
}

/// The pages that were found touched, by spans and otherwise.
fn found(info: &UnitInfo) -> PageBits {
    let planes = info.touched.into_iter().flatten();
    let found = info.found.unwrap_or_default().or(info.young.unwrap_or_default());
    planes.fold(found, PageBits::or).and(info.present)
}

/// For how long a page is idle that a span shows, and no shorter one, in ms.
fn idle_within_ms(nr: usize, spans_us: [u64; SPANS]) -> u64 {
    let window_us = spans_us[1];
    if nr <= 1 || spans_us[nr] <= window_us {
        return 0;
    }
    let shorter_us = spans_us[nr - 1].max(window_us);
    ((shorter_us / 1000) * (spans_us[nr] / 1000)).isqrt()
}

#[cfg(test)]
mod tests {
    use isotherm_core::AddrRange;
    use isotherm_core::addr::PAGE_SIZE;

    use super::*;

    const S: u64 = 1_000_000_000;
    const SPANS_US: [u64; SPANS] = [5_000, 100_000, 1_000_000, 10_000_000, 60_000_000];

    fn first(nr: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(0, nr * PAGE_SIZE))
    }

    fn info(since_s: u64, touched: [Option<PageBits>; SPANS]) -> UnitInfo {
        let present = first(100);
        UnitInfo { since: Time(since_s * S), present, touched, ..UnitInfo::default() }
    }

    /// Pages by the time for which they have been idle, in ms; `None` stands for unresolved ones.
    fn ages(unit: &IdleUnit, now_s: u64) -> Vec<(Option<u64>, u64)> {
        let (ages, unknown) = unit.ages(SPANS_US, now_s * S);
        let mut out: BTreeMap<Option<u64>, u64> = BTreeMap::default();
        ages.iter().for_each(|(ms, pages)| *out.entry(Some(*ms)).or_default() += pages.count());
        *out.entry(None).or_default() += unknown.count();
        let mut out: Vec<_> = out.into_iter().filter(|(_, nr)| *nr > 0).collect();
        out.sort_by_key(|(ms, _)| ms.unwrap_or(u64::MAX));
        out
    }

    #[test]
    fn a_cell_is_idle_for_as_long_as_its_page_that_was_touched_last() {
        let spans = [Some(first(10)), Some(first(20)), Some(first(40)), None, None];
        let mut unit = IdleUnit::new(info(10, spans));
        unit.learn(info(10, spans), Time(12 * S));
        let cells = unit.cells_ms(SPANS_US, 12 * S);
        let cold = Some(2000);
        assert_eq!(cells[..8], [Some(0), Some(0), Some(316), cold, cold, cold, cold, None]);
        // Of one page nobody knows.
        let unresolved = UnitInfo { unresolved: PageBits::page(50), ..info(10, spans) };
        unit.learn(unresolved, Time(13 * S));
        assert_eq!(unit.cells_ms(SPANS_US, 13 * S)[2..5], [Some(316), None, Some(3000)]);
    }

    #[test]
    fn a_page_is_idle_for_as_long_as_the_spans_and_the_times_before_tell() {
        let mut unit = IdleUnit::new(info(10, [None; SPANS]));
        assert_eq!(ages(&unit, 11), [(None, 100)], "nobody has looked");
        let spans = [Some(first(10)), Some(first(20)), Some(first(40)), None, None];
        unit.learn(info(10, spans), Time(12 * S));
        assert_eq!(ages(&unit, 12), [(Some(0), 20), (Some(316), 20), (Some(2000), 60)]);
        // Gone over once per second: in use, however long ago it was made old.
        assert_eq!(ages(&unit, 40)[..2], [(Some(0), 20), (Some(316), 20)]);
        // Made old again. Ten more pages were touched meanwhile, late; the others never.
        let found = UnitInfo { found: Some(first(50)), ..info(70, spans) };
        unit.learn(found, Time(71 * S));
        let later = [(Some(0), 20), (Some(316), 20), (Some(3000), 10), (Some(63_000), 50)];
        assert_eq!(ages(&unit, 73), later);
        // What was hot is not touched any more: it is idle since it was made old.
        let none = [Some(PageBits::default()); SPANS];
        unit.learn(info(200, none), Time(261 * S));
        assert_eq!(
            ages(&unit, 261),
            [(Some(61_000), 40), (Some(191_000), 10), (Some(251_000), 50)]
        );
    }

    #[test]
    fn pages_that_are_mapped_later_are_young_and_the_oldest_times_become_one() {
        let none = [Some(PageBits::default()); SPANS];
        let mut unit = IdleUnit::new(UnitInfo { present: first(1), ..info(0, none) });
        for nr in 1..20 {
            let more = UnitInfo { present: first(nr + 1), ..info(0, none) };
            unit.learn(more, Time(nr * 100 * S));
        }
        assert_eq!(unit.idle.len(), MOST_TIMES);
        assert_eq!(ages(&unit, 2000).iter().map(|(_, nr)| nr).sum::<u64>(), 20);
        assert_eq!(ages(&unit, 2000)[0], (Some(100_000), 1), "{:?}", ages(&unit, 2000));
        // Some are gone.
        unit.learn(UnitInfo { present: first(5), ..info(0, none) }, Time(3000 * S));
        assert_eq!(ages(&unit, 3000).iter().map(|(_, nr)| nr).sum::<u64>(), 5);
    }
}
