//! How much of any range was touched within a window and within a second, by page maps.
//!
//! Sums over all units are made now and then, so that a region costs two searches and not a walk
//! over all of its pages.

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, TargetInfo, TouchedShare, UnitInfo};

use super::PageMap;
use crate::shown::float;

/// Time between two sums, in ns of the record for each unit, since that is what a sum costs: a
/// window at 1.6 GiB, a second at 16 GiB.
const NS_PER_UNIT: u64 = 1_000_000_000 / 8192;
/// The window and the second, in the spans of a unit.
const KINDS: [usize; 2] = [1, 2];

/// Sums over the units of one target.
#[derive(Debug, Clone, Default)]
pub(super) struct Within {
    summed_ns: Option<u64>,
    /// Where each unit starts, and which of its pages were touched within the window, and within
    /// the second or the window.
    units: Vec<(u64, [PageBits; KINDS.len()])>,
    /// For each unit: the pages of all units before it. The last is of all.
    before: Vec<[u64; KINDS.len()]>,
}

impl Within {
    /// Sums up the units as they are known now, if that was not done a short time ago.
    pub(super) fn refresh(&mut self, now_ns: u64, map: &PageMap) {
        let pause = NS_PER_UNIT * self.units.len() as u64;
        if self.summed_ns.is_some_and(|last| now_ns.saturating_sub(last) < pause) {
            return;
        }
        self.summed_ns = Some(now_ns);
        let touched = |unit: &UnitInfo| {
            let known = unit.present.minus(unit.unresolved);
            let [window, second] = KINDS.map(|nr| unit.touched[nr].unwrap_or_default().and(known));
            [window, second.or(window)]
        };
        self.units.clear();
        self.units.extend(map.units.values().map(|unit| (unit.start, touched(unit))));
        self.before.clear();
        let mut sums = [0; KINDS.len()];
        self.before.push(sums);
        self.before.extend(self.units.iter().map(|(_, touched)| {
            sums.iter_mut().zip(touched).for_each(|(sum, touched)| *sum += touched.count());
            sums
        }));
    }

    /// The shares of the range that are known to have been touched.
    pub(super) fn shares(&self, range: AddrRange) -> [f64; KINDS.len()] {
        let first =
            self.units.partition_point(|(start, _)| start.saturating_add(UNIT) <= range.start);
        let end = self.units.partition_point(|(start, _)| *start < range.end);
        if end <= first || range.is_empty() {
            return [0.0; KINDS.len()];
        }
        let ends = [first, end - 1];
        let ends = ends[..if end - first > 1 { 2 } else { 1 }].iter().map(|nr| self.units[*nr]);
        std::array::from_fn(|kind| {
            let outside = |(start, touched): (u64, [PageBits; KINDS.len()])| {
                touched[kind].minus(PageBits::of(start, range)).count()
            };
            let pages = self.before[end][kind] - self.before[first][kind];
            let pages = pages - ends.clone().map(outside).sum::<u64>();
            float(pages * PAGE_SIZE) / float(range.len())
        })
    }

    /// Tells the regions of a target what was touched within the window and within a second, where
    /// the record itself does not: versions before it was kept with the regions. If the sample saw
    /// something where the maps show nothing, the maps are older.
    pub(super) fn tell(&self, target: &mut TargetInfo) {
        for r in target.regions.iter_mut().filter(|r| r.resolved && r.touched.is_none()) {
            #[expect(clippy::cast_possible_truncation, reason = "a share")]
            let [window, second] = self.shares(r.range).map(|share| share as f32);
            if r.nr_accesses == 0 || second > 0.0 {
                let (window, second) = (Some(window), Some(second));
                r.touched = Some(TouchedShare { window, second, ..TouchedShare::default() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn pages(from: u64, to: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(from * PAGE_SIZE, to * PAGE_SIZE))
    }

    #[test]
    fn a_range_is_summed_up_over_whole_units_and_parts() {
        let unit = |nr: u64, touched| UnitInfo {
            start: nr * UNIT,
            present: pages(0, 256),
            unresolved: pages(0, 1),
            touched: [None, touched, touched.map(|t| t.or(PageBits::page(66))), None, None],
            ..UnitInfo::default()
        };
        let units = [unit(1, Some(pages(0, 65))), unit(2, None), unit(3, Some(pages(300, 512)))];
        let units: BTreeMap<_, _> = units.into_iter().map(|unit| (unit.start, unit)).collect();
        let map = PageMap { units, touched: None };
        let mut within = Within::default();
        within.refresh(5, &map);
        let shares =
            |from: u64, to: u64| within.shares(AddrRange::new(from * PAGE_SIZE, to * PAGE_SIZE));
        let share = |from, to| shares(from, to)[0];
        let cases = [
            ("all", 0, 4096, 64.0 / 4096.0),
            ("one unit", 512, 1024, 64.0 / 512.0),
            ("a part that was touched", 512 + 1, 512 + 65, 1.0),
            ("parts of two", 512 + 33, 1536 + 479, 32.0 / 1470.0),
            ("one that is not measured", 1024, 1536, 0.0),
            ("one whose touched pages are gone", 1536, 2048, 0.0),
            ("before", 0, 512, 0.0),
            ("behind", 2048, 4096, 0.0),
            ("nothing", 520, 520, 0.0),
        ];
        for (name, from, to, want) in cases {
            assert!((share(from, to) - want).abs() < 1e-12, "{name}: {}", share(from, to));
        }
        assert!((shares(512, 1024)[1] - 65.0 / 512.0).abs() < 1e-12, "{:?}", shares(512, 1024));
        // Sums are kept for a while.
        let all = AddrRange::new(0, 9 * UNIT);
        within.refresh(4 + 3 * NS_PER_UNIT, &PageMap::default());
        assert!(within.shares(all)[0] > 0.0);
        within.refresh(5 + 3 * NS_PER_UNIT, &PageMap::default());
        assert!(within.shares(all)[0] <= 0.0);
    }
}
