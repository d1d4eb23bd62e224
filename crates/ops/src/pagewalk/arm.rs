//! Makes the pages of whole units old.
//!
//! ```text
//! look -> nothing young                 -> done
//!      -> known to be stuck, or `Only`  -> all of the process if allowed and due; else no answer
//!      -> all of the process is cleared -> done, without advice
//!      -> advice on ranges -> look      -> old: done
//!                                       -> stuck: remembered; all of the process as above
//! ```
//!
//! A flush of the TLB is paid per range. So neighbouring units become one range, of at most 16 MiB:
//! the call holds the target's mmap lock from its first range to its last.
//!
//! Advice makes no page old that several processes map, or that is locked. Such a page is young
//! directly afterwards. So is a page in use, and the kernel's flags tell the two apart. Where the
//! process is small enough, all of its memory is cleared for such pages (`fallback`), rarely, and
//! only if the caller allows it for one of them ([`AllMemory`]). The caller knows its budget, and
//! all units that can make use of it. So units that wait for that are cleared together, and those
//! that it does not come to now are left as they were: their clock runs on.

use isotherm_core::{AddrRange, AllMemory, Check, PageBits, PageState, Time, UnitCheck};
use isotherm_pages::advice::MOST_COLD;
use isotherm_pages::tables::PageKey;
use isotherm_sys::clock::now;

use super::PageWalk;
use super::barred::Mapped;
use super::fallback::Asked;
use super::stuck::Stuck;

/// Says of each unit that advice has made old when that was. One call takes a fifth of a sample on
/// a slow machine, and goes from the first unit to the last.
fn date(units: &mut [UnitCheck], begin: Time, end: Time) {
    let is_new = |unit: &UnitCheck| unit.answered && !unit.all_cleared && !is_single(unit);
    let nr = units.iter().filter(|unit| is_new(unit)).count() as u64;
    let each_ns = end.since(begin) / nr.max(1);
    for (unit, i) in units.iter_mut().filter(|unit| is_new(unit)).zip(0..) {
        unit.made_old = Some(begin + (each_ns * i + each_ns / 2));
    }
}

/// Pages of a unit of which the kernel's flags are read to find out whether any is shared.
const ASKED: u64 = 3;

impl PageWalk {
    /// Makes the young pages of units old.
    pub(super) fn make_units_old(&mut self, batch: &mut [UnitCheck]) {
        self.look_at_units(batch);
        let begin = now();
        for unit in batch.iter_mut() {
            (unit.stuck, unit.together) = (PageBits::default(), false);
            (unit.all_cleared, unit.made_old) = (false, None);
        }
        for of_target in batch.chunk_by_mut(|a, b| a.target == b.target) {
            let target = of_target.first().map(|unit| unit.target);
            if let Some(slot) = target.and_then(|target| self.tables.slot(target)) {
                self.make_space_old(slot, of_target, begin);
            }
        }
        self.counters.clear_ns += now().since(begin);
    }

    /// Makes the young pages of units of one address space old.
    fn make_space_old(&mut self, slot: u16, units: &mut [UnitCheck], at: Time) {
        let ranges = self.plan(slot, units, at);
        self.forget_kept(slot, units.iter().filter(|unit| unit.answered));
        self.clear_singles(slot, units);
        let is_done = self.clear_together(slot, units, true, at);
        let ranges = if is_done { self.ranges_left(slot, units, at) } else { ranges };
        let begin = now();
        if !ranges.is_empty() && !self.advise(slot, &ranges, units, at) {
            // The process has just ended, or we lost the right: nothing is known.
            units.iter_mut().for_each(|unit| unit.answered = false);
            return;
        }
        if !ranges.is_empty() {
            let end = now();
            self.judge_units(slot, units, at);
            date(units, begin, end);
        }
        if !is_done {
            self.clear_together(slot, units, false, at);
        }
    }

    /// The ranges that advice is still to make old after all memory of the process was cleared.
    fn ranges_left(&mut self, slot: u16, units: &[UnitCheck], at: Time) -> Vec<AddrRange> {
        let mut ranges = Vec::new();
        for unit in units.iter().filter(|unit| !unit.all_cleared && !is_single(unit)) {
            let known = self.known(slot, unit, at);
            append_ranges(unit, &known, &mut ranges);
        }
        ranges
    }

    /// Decides what is to be done about each unit, and returns the ranges that advice is to make
    /// old. Units that wait for the clearing of all memory are not answered yet.
    fn plan(&mut self, slot: u16, units: &mut [UnitCheck], at: Time) -> Vec<AddrRange> {
        let may_clear_all = self.may_clear_whole_space(slot, at);
        let mut ranges = Vec::new();
        for unit in units.iter_mut().filter(|unit| !is_single(unit)) {
            if unit.all_memory == AllMemory::Only {
                self.find_shared(slot, unit, at);
            }
            let known = self.known(slot, unit, at);
            unit.stuck = unit.young.and(unit.pages).and(known.pages);
            unit.together = may_clear_all && has_hope(unit, &known) && !unit.stuck.is_empty();
            if unit.together || unit.all_memory == AllMemory::Only {
                unit.answered = false;
            } else {
                append_ranges(unit, &known, &mut ranges);
            }
        }
        ranges
    }

    /// Finds out which pages of a unit other processes map, too, before advice was ever given. Only
    /// young ones have to be made old.
    fn find_shared(&mut self, slot: u16, unit: &UnitCheck, at: Time) {
        if !self.known(slot, unit, at).pages.is_empty() || unit.leaf_shift > 12 {
            return;
        }
        let shared = self.shared_of(slot, unit, unit.young.and(unit.pages));
        if !shared.is_empty() {
            self.fallback(slot).stuck.tried(unit.start, shared, PageBits::default(), at);
        }
    }

    /// What is known of a unit before it is tried.
    fn known(&mut self, slot: u16, unit: &UnitCheck, at: Time) -> Stuck {
        let space = self.fallback(slot);
        space.stuck.get(unit.start, at).barred(space.barred.pages(unit))
    }

    /// Gives the advice. Returns whether that was possible at all.
    fn advise(
        &mut self,
        slot: u16,
        ranges: &[AddrRange],
        units: &mut [UnitCheck],
        at: Time,
    ) -> bool {
        let Some(space) = self.tables.space(slot) else { return false };
        self.counters.flushes += ranges.len() as u64;
        if let Err(err) = self.clearer.clear_ranges(space, ranges) {
            self.note_refusal(slot, &err);
            return false;
        }
        self.fallback(slot).told_refusal = false;
        let refused: Vec<_> = ranges.iter().copied().filter(|r| self.clearer.refuses(r)).collect();
        if refused.is_empty() {
            return true;
        }
        // Of several mappings in a range one was locked since they were read.
        self.read_barred(slot, Mapped::Changed);
        let is_refused = |unit: &&mut UnitCheck| refused.iter().any(|r| r.intersects(&hull(unit)));
        for unit in units.iter_mut().filter(|u| u.answered && !is_single(u)).filter(is_refused) {
            self.advise_again(slot, unit, at);
        }
        true
    }

    /// Gives advice on a unit that was part of a refused range. What is refused again is stuck.
    fn advise_again(&mut self, slot: u16, unit: &mut UnitCheck, at: Time) {
        let known = self.known(slot, unit, at);
        let young = unit.young.and(unit.pages);
        unit.stuck = young.and(known.pages);
        let mut ranges = Vec::new();
        append_ranges(unit, &known, &mut ranges);
        let Some(space) = self.tables.space(slot).filter(|_| !ranges.is_empty()) else { return };
        self.counters.flushes += ranges.len() as u64;
        let failed = self.clearer.clear_ranges(space, &ranges).is_err();
        for range in ranges.iter().filter(|range| failed || self.clearer.refuses(range)) {
            unit.stuck = unit.stuck.or(young.and(PageBits::of(unit.start, *range)));
        }
    }

    /// Looks again, and finds out which pages advice did not make old.
    fn judge_units(&mut self, slot: u16, units: &mut [UnitCheck], at: Time) {
        let may_clear_all = self.may_clear_whole_space(slot, at);
        let after = self.look_after(units);
        let is_new = |unit: &UnitCheck| unit.answered && !unit.all_cleared;
        for (unit, after) in units.iter_mut().zip(&after).filter(|(unit, _)| is_new(unit)) {
            let was = unit.young.and(unit.pages);
            let still = was.and(after.young);
            if is_single(unit) {
                unit.stuck = unit.stuck.and(still);
                continue;
            }
            let known = self.known(slot, unit, at);
            // What was refused is in `stuck` already, and was not found out before.
            let refused = unit.stuck.minus(known.pages).or(known.cut).and(still);
            let shared = self.shared_of(slot, unit, still);
            unit.stuck = unit.stuck.or(shared).and(still);
            let stuck = &mut self.fallback(slot).stuck;
            stuck.tried(unit.start, unit.stuck, refused, at);
            let known = stuck.get(unit.start, at);
            unit.together = may_clear_all && has_hope(unit, &known) && !unit.stuck.is_empty();
            self.counters.unresolved += unit.stuck.count();
            self.counters.clears += was.minus(unit.stuck).count();
        }
        self.units_after = after;
    }

    /// How the units are now.
    fn look_after(&mut self, units: &[UnitCheck]) -> Vec<UnitCheck> {
        let mut after = std::mem::take(&mut self.units_after);
        after.clear();
        after.extend_from_slice(units);
        self.look_at_units(&mut after);
        after
    }

    /// Those of these pages that other processes map, too.
    fn shared_of(&self, slot: u16, unit: &UnitCheck, pages: PageBits) -> PageBits {
        let none = PageBits::default();
        let Some(space) = self.tables.space(slot) else { return none };
        let step = (pages.count() / ASKED).max(1);
        let asked = (0..ASKED).filter_map(|i| pages.nth(i * step));
        let mut flags = asked.filter_map(|nr| space.page_flags(unit.start + u64::from(nr) * 4096));
        if !flags.any(|flags| !flags.exclusive) {
            return none;
        }
        if unit.leaf_shift > 12 {
            return pages;
        }
        space.shared_pages(unit.start, pages.0).map_or(none, PageBits)
    }

    /// Clears all memory of the process for units with pages that nothing else makes old, if there
    /// are any. Returns whether that was done. `before_advice`: the other units have not been made
    /// old yet, so that makes them old as well.
    fn clear_together(
        &mut self,
        slot: u16,
        units: &mut [UnitCheck],
        before_advice: bool,
        at: Time,
    ) -> bool {
        if !units.iter().any(|unit| unit.together && unit.all_memory == AllMemory::IfStuck) {
            return false;
        }
        let leaves = |unit: &UnitCheck, pages: PageBits| match unit.leaf_shift {
            12 => pages.count(),
            _ => 1,
        };
        let mut asked = Asked { needed: 0, known: 0 };
        for unit in units.iter().filter(|unit| unit.together) {
            asked.needed += leaves(unit, unit.stuck);
            asked.known += leaves(unit, unit.present);
        }
        let Some(made_old) = self.clear_whole_space(slot, asked, at) else { return false };
        let rides = |unit: &UnitCheck| rides(unit, before_advice);
        for unit in units.iter_mut().filter(|unit| unit.together || rides(unit)) {
            // What was touched up to the clearing.
            self.add_kept(slot, unit);
            (unit.answered, unit.all_cleared, unit.made_old) = (true, true, Some(made_old));
        }
        self.forget_kept(slot, units.iter().filter(|unit| unit.together || rides(unit)));
        let after = self.look_after(units);
        let later_ns = now().since(made_old);
        for (unit, after) in units.iter_mut().zip(&after).filter(|(unit, _)| unit.together) {
            // A page in use is young again at once. Of small pages that is the only reason, since
            // all that are seen can be cleared.
            let is_old = unit.leaf_shift == 12 || !unit.stuck.minus(after.young).is_empty();
            let stuck = &mut self.fallback(slot).stuck;
            if !is_old {
                stuck.clearing_is_doubted(unit.start, unit.stuck, later_ns, at);
                continue;
            }
            stuck.clearing_has_worked(unit.start);
            self.counters.clears += unit.stuck.count();
            unit.stuck = PageBits::default();
        }
        self.units_after = after;
        true
    }

    /// The monitor makes these pages old itself.
    fn forget_kept<'a>(&mut self, slot: u16, units: impl Iterator<Item = &'a UnitCheck>) {
        let mut ranges: Vec<(PageKey, PageKey)> = Vec::new();
        for unit in units.filter(|unit| !unit.young.is_empty()) {
            let hull = hull(unit);
            let (first, behind) = (PageKey::new(slot, hull.start), PageKey::new(slot, hull.end));
            match ranges.last_mut() {
                Some((_, last)) if *last == first => *last = behind,
                _ => ranges.push((first, behind)),
            }
        }
        self.fallback(slot).forget(&ranges);
    }

    /// Makes single pages old, each by its own unit's question.
    fn clear_singles(&mut self, slot: u16, units: &mut [UnitCheck]) {
        let mut singles = Vec::new();
        for (nr, unit) in (0_u32..).zip(units.iter_mut()) {
            if !is_single(unit) || unit.young.and(unit.pages).is_empty() {
                continue;
            }
            if !self.fallback(slot).barred.pages(unit).and(unit.pages).is_empty() {
                unit.stuck = unit.pages;
            } else {
                // A single page may be a part of a piece that has to stay whole.
                let page = u64::from(unit.pages.nth(0).unwrap_or(0));
                singles.push(Check::new(unit.target, unit.start + page * 4096, nr));
            }
        }
        if singles.is_empty() {
            return;
        }
        // What cannot be cleared stays as it is: all pages of the process are not worth one.
        let limit = std::mem::replace(&mut self.fallback_limit, 0);
        self.tables.look_at(&mut singles);
        self.make_old(&mut singles);
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

/// Whether the clearing of all memory may help. Only hugetlb and devices have leaves of 1 GiB, and
/// it leaves both out.
fn has_hope(unit: &UnitCheck, known: &Stuck) -> bool {
    known.has_hope() && unit.leaf_shift < 30
}

/// Whether a unit does not need the clearing of all memory, and makes use of it. Of a huge page it
/// is not known whether that makes it old.
fn rides(unit: &UnitCheck, before_advice: bool) -> bool {
    let has_use = unit.all_memory == AllMemory::Only || before_advice && !is_single(unit);
    has_use && !unit.together && unit.leaf_shift == 12
}

/// Whether only one page is asked about.
fn is_single(unit: &UnitCheck) -> bool {
    unit.pages.count() == 1
}

/// Appends the ranges that make a unit old by advice, joined with those before.
fn append_ranges(unit: &UnitCheck, known: &Stuck, ranges: &mut Vec<AddrRange>) {
    let young = unit.young.and(unit.pages);
    if young.minus(known.pages).is_empty() {
        return;
    }
    let mut push = |range: AddrRange| match ranges.last_mut() {
        Some(last) if last.end == range.start && last.len() + range.len() <= MOST_COLD => {
            last.end = range.end;
        }
        _ => ranges.push(range),
    };
    if known.cut.is_empty() || unit.leaf_shift > 12 {
        return push(hull(unit));
    }
    let mut parts = Vec::new();
    unit.pages.minus(known.cut).append_to(unit.start, 0, &mut parts);
    parts.into_iter().for_each(push);
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

#[cfg(test)]
mod tests {
    use isotherm_core::TargetId;

    use super::*;

    #[test]
    fn units_that_advice_has_made_old_are_dated_from_the_first_to_the_last() {
        let of = |nr: u64, pages| UnitCheck {
            answered: true,
            ..UnitCheck::new(TargetId(1), nr << 21, pages)
        };
        let cleared =
            UnitCheck { all_cleared: true, made_old: Some(Time(7)), ..of(1, PageBits::ALL) };
        let mut units = [
            of(0, PageBits::ALL),
            cleared,
            UnitCheck { answered: false, ..of(2, PageBits::ALL) },
            of(3, PageBits::page(9)),
            // Some of its pages are shared. The others were made old.
            UnitCheck { together: true, ..of(4, PageBits::ALL) },
        ];
        date(&mut units, Time(1000), Time(1400));
        let dates = units.map(|unit| unit.made_old.map(|at| at.0));
        assert_eq!(dates, [Some(1100), Some(7), None, None, Some(1300)]);
        assert_eq!(units.map(|unit| unit.all_cleared), [false, true, false, false, false]);
    }
}
