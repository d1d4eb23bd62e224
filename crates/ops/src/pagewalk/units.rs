//! Whole units of 2 MiB: looked at by a copy of their page tables, made old by ranges.
//!
//! A flush of the TLB is paid per range. So neighbouring units become one range, of at most 16 MiB:
//! the call holds the target's mmap lock from its first range to its last.
//!
//! Pages that several processes map, and locked ones, cannot be made old in this way. They show by
//! being young directly afterwards. A page in use does so, too, but in a unit of which nearly all
//! pages are young at once that is unlikely, and the kernel's flags for some of them decide.

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, Check, PageBits, PageState, UnitCheck};
use isotherm_pages::tables::{Dense, PageKey};
use isotherm_sys::clock::now;

use super::PageWalk;

/// The largest range that is cleared at once, in bytes.
const MOST: u64 = 16 << 20;
/// Pages that were young and still are, from which on the kernel is asked why, if they are also
/// nine tenths of those that were young.
const STILL_YOUNG: u64 = 4;
/// Pages of a unit of which the kernel's flags are read.
const ASKED: u64 = 3;

impl PageWalk {
    /// Looks at whole units.
    pub(super) fn look_at_units(&mut self, batch: &mut [UnitCheck]) {
        let begin = now();
        for run in batch.chunk_by_mut(follows) {
            self.look_at_run(run);
        }
        self.counters.unit_looks += batch.len() as u64;
        self.counters.unit_look_ns += now().since(begin);
    }

    /// Looks at units without a gap between them.
    fn look_at_run(&mut self, run: &mut [UnitCheck]) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let (target, start, end) = (first.target, first.start, last.range().end);
        let is_known = self.tables.slot(target).is_some();
        for unit in run.iter_mut() {
            (unit.answered, unit.leaf_shift) = (is_known, 12);
            (unit.present, unit.young) = (PageBits::default(), PageBits::default());
        }
        let looked =
            self.tables.dense_tables(target, AddrRange::new(start, end), &mut |at, found| {
                let at = at.max(start);
                let nr = usize::try_from((at - start) / UNIT).unwrap_or(usize::MAX);
                let Some(units) = run.get_mut(nr..) else { return };
                match found {
                    Dense::Table(table) => {
                        if let Some(unit) = units.first_mut() {
                            unit.present = PageBits(table.present());
                            unit.young = PageBits(table.young());
                        }
                    }
                    Dense::Huge(entry) => {
                        // A leaf of 1 GiB is told once and is in many units.
                        let behind = (at | ((1 << entry.leaf_shift()) - 1)).saturating_add(1);
                        for unit in units.iter_mut().take_while(|unit| unit.start < behind) {
                            unit.leaf_shift = entry.leaf_shift();
                            unit.present = PageBits::ALL;
                            if entry.is_young() {
                                unit.young = PageBits::ALL;
                            }
                        }
                    }
                }
            });
        if looked.is_err() {
            run.iter_mut().for_each(|unit| unit.answered = false);
        }
        if let Some(slot) = self.tables.slot(target) {
            self.add_kept(slot, run);
        }
    }

    /// Pages that others have made old since they were touched still count as touched.
    fn add_kept(&mut self, slot: u16, run: &mut [UnitCheck]) {
        let fallback = self.fallback(slot);
        for unit in run {
            let key = |addr| PageKey::new(slot, addr);
            for leaf in fallback.between(key(unit.start), key(unit.range().end)) {
                let page = (leaf.addr() - unit.start) / 4096;
                let page = PageBits::page(u16::try_from(page).unwrap_or(u16::MAX));
                let pages = if unit.leaf_shift > 12 { PageBits::ALL } else { page };
                unit.young = unit.young.or(pages.and(unit.present));
            }
        }
    }

    /// Makes the young pages of units old.
    pub(super) fn make_units_old(&mut self, batch: &mut [UnitCheck]) {
        self.look_at_units(batch);
        let begin = now();
        for of_target in batch.chunk_by_mut(|a, b| a.target == b.target) {
            self.clear_units(of_target);
        }
        self.counters.clear_ns += now().since(begin);
    }

    /// Makes young pages of one target old.
    fn clear_units(&mut self, units: &mut [UnitCheck]) {
        let Some((target, slot)) =
            units.first().and_then(|unit| Some((unit.target, self.tables.slot(unit.target)?)))
        else {
            return;
        };
        let mut ranges: Vec<AddrRange> = Vec::new();
        let mut singles = Vec::new();
        for (nr, unit) in (0_u32..).zip(units.iter()) {
            let young = unit.young.and(unit.pages);
            if young.is_empty() {
                continue;
            }
            if unit.pages.count() == 1 {
                // A single page may be a part of a piece that has to stay whole.
                let page = u64::from(unit.pages.nth(0).unwrap_or(0));
                singles.push(Check::new(target, unit.start + page * 4096, nr));
                continue;
            }
            let range = hull(unit);
            match ranges.last_mut() {
                Some(last) if last.end == range.start && last.len() < MOST => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        self.forget_kept(slot, units);
        self.clear_singles(&mut singles, units);
        if ranges.is_empty() {
            return;
        }
        let Some(space) = self.tables.space(slot) else { return };
        let cleared = self.clearer.clear_ranges(space, &ranges);
        self.counters.flushes += ranges.len() as u64;
        if cleared.is_err() {
            // The process has just ended, or we lost the right: nothing is known.
            units.iter_mut().for_each(|unit| unit.answered = false);
            return;
        }
        self.clear_refused(slot, &ranges, units);
        self.judge_units(slot, units);
    }

    /// Ranges that were refused are tried unit by unit: of several mappings in a range one may be
    /// locked.
    fn clear_refused(&mut self, slot: u16, ranges: &[AddrRange], units: &mut [UnitCheck]) {
        let refused: Vec<_> = ranges.iter().copied().filter(|r| self.clearer.refuses(r)).collect();
        if refused.is_empty() {
            return;
        }
        let Some(space) = self.tables.space(slot) else { return };
        let is_refused = |unit: &&mut UnitCheck| refused.iter().any(|r| r.intersects(&hull(unit)));
        for unit in units.iter_mut().filter(is_refused) {
            let range = hull(unit);
            if self.clearer.clear_ranges(space, &[range]).is_err() || self.clearer.refuses(&range) {
                unit.stuck = unit.young.and(unit.pages);
            }
            self.counters.flushes += 1;
        }
    }

    /// Looks again, and finds out which pages were not made old.
    fn judge_units(&mut self, slot: u16, units: &mut [UnitCheck]) {
        let mut after = std::mem::take(&mut self.units_after);
        after.clear();
        after.extend_from_slice(units);
        for run in after.chunk_by_mut(follows) {
            self.look_at_run(run);
        }
        for (unit, after) in units.iter_mut().zip(&after) {
            let was = unit.young.and(unit.pages);
            let still = was.and(after.young);
            let nearly_all = still.count() * 10 >= was.count() * 9;
            if still.count() >= STILL_YOUNG && nearly_all && unit.pages.count() > 1 {
                let shared = self.space_says_shared(slot, unit, still);
                unit.stuck = if shared { still } else { unit.stuck.and(still) };
            } else {
                unit.stuck = unit.stuck.and(still);
            }
            self.counters.unresolved += unit.stuck.count();
            self.counters.clears += was.minus(unit.stuck).count();
        }
        self.units_after = after;
    }

    /// Whether some of these pages are mapped by other processes, too.
    fn space_says_shared(&self, slot: u16, unit: &UnitCheck, pages: PageBits) -> bool {
        let Some(space) = self.tables.space(slot) else { return false };
        let step = (pages.count() / ASKED).max(1);
        let asked = (0..ASKED).filter_map(|i| pages.nth(i * step));
        let mut flags = asked.filter_map(|nr| space.page_flags(unit.start + u64::from(nr) * 4096));
        flags.any(|flags| !flags.exclusive)
    }

    /// The monitor makes these pages old itself.
    fn forget_kept(&mut self, slot: u16, units: &[UnitCheck]) {
        let fallback = self.fallback(slot);
        for unit in units {
            let hull = hull(unit);
            let key = |addr| PageKey::new(slot, addr);
            for leaf in fallback.between(key(hull.start), key(hull.end)).to_vec() {
                fallback.take(leaf);
            }
        }
    }

    /// Makes single pages old, each by its own unit's question.
    fn clear_singles(&mut self, singles: &mut [Check], units: &mut [UnitCheck]) {
        if singles.is_empty() {
            return;
        }
        // What cannot be cleared stays as it is: all pages of the process are not worth one.
        let limit = std::mem::replace(&mut self.fallback_limit, 0);
        self.tables.look_at(singles);
        self.make_old(singles);
        self.fallback_limit = limit;
        for check in singles {
            let unit = &mut units[check.tag as usize];
            match check.state {
                PageState::Cleared | PageState::Old | PageState::Absent => {}
                _ => unit.stuck = unit.pages,
            }
        }
    }
}

/// Whether a unit comes directly behind another.
fn follows(a: &UnitCheck, b: &UnitCheck) -> bool {
    a.target == b.target && a.range().end == b.start
}

/// From the first to the last page that is asked about; all of a huge page.
fn hull(unit: &UnitCheck) -> AddrRange {
    if unit.leaf_shift > 12 {
        return unit.range();
    }
    let last = unit.pages.count().checked_sub(1).and_then(|nr| unit.pages.nth(nr));
    let at = |nr: Option<u16>| unit.start + u64::from(nr.unwrap_or(0)) * 4096;
    AddrRange::new(at(unit.pages.nth(0)), at(last) + 4096)
}
