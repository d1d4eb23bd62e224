//! A look at one process: notes all of its pages, and makes touched units old.
//!
//! ```text
//! table -> nothing touched, or not drawn                       -> noted
//!       -> to be made old: 16 MiB, pause, 16 MiB ... -> again  -> noted
//!                          some stuck, process small -> all of it, once -> again -> noted
//! ```
//!
//! A unit is 2 MiB of addresses. Which of the touched units are made old is drawn anew in each
//! round, each with the same probability, whatever happened before. Two kinds of units are not
//! drawn but taken, because they are cheap or because a draw would say nothing: huge pages, and
//! units with pages that several processes map.

use std::mem::take;

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, AllMemory, Operations, PageBits, TargetId, UnitCheck};
use isotherm_host::error::{SetError, SetKind};
use isotherm_ops::pagewalk::PageWalk;
use isotherm_ops::targets::Claim;
use isotherm_pages::tables::{Dense, PageKey};
use isotherm_sys::clock::{now, process_cpu_ns};

use super::units::{How, Pages, pages_in, whole_units};
use super::{Walk, resident};
use crate::scanning::scan::sleep_to;

/// Units that are made old in one call: 16 MiB. The kernel holds the process's mmap lock meanwhile.
const UNITS_PER_CALL: usize = 8;
/// Pause between two calls, in which the process may have the lock.
const PAUSE_NS: u64 = 1_000_000;
/// Resident memory, in bytes, up to which all pages of a process may be made old at once, if some
/// cannot be made old singly. As by default in `pagewalk`.
const SMALL: u64 = 640 << 20;
/// log2 of the rounds, at most, until it is tried again to make shared pages old.
const MOST_FAILS: u32 = 4;

/// A process.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) id: TargetId,
    /// What it had mapped in the last visit.
    maps: Vec<AddrRange>,
    /// Times in a row that shared pages could not be made old, and rounds to go until the next try.
    fails: u32,
    rest: u32,
}

impl Target {
    pub(super) const fn new(id: TargetId) -> Self {
        Self { id, maps: Vec::new(), fails: 0, rest: 0 }
    }
}

/// What became of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visited {
    Looked,
    /// Another program watches it, so nothing was made old.
    Watched,
    /// It has ended or has no memory.
    Nothing,
    /// The scan is to stop.
    Stopped,
}

/// A unit that is to be made old.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    unit: UnitCheck,
    how: How,
}

impl Walk {
    /// Looks at a process.
    pub(super) fn visit(
        &mut self,
        pid: u32,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Visited, SetError> {
        let Some(id) = self.target(pid)? else { return Ok(Visited::Nothing) };
        let mut maps = Vec::new();
        match self.walk.update(id, &mut maps) {
            Ok(()) => {}
            Err(UpdateError::Gone) => {
                self.let_go(pid);
                return Ok(Visited::Nothing);
            }
            // Mappings that cost much to read are read rarely.
            Err(UpdateError::NotNow) => {
                maps = self.targets.get_mut(&pid).map(|t| take(&mut t.maps)).unwrap_or_default();
            }
        }
        if maps.is_empty() {
            return Ok(Visited::Nothing);
        }
        let is_watched = self.claim(pid).is_none();
        let rests = self.targets.get_mut(&pid).is_some_and(|target| {
            target.rest = target.rest.saturating_sub(1);
            target.rest > 0
        });
        let mut wanted = self.look(id, &maps, is_watched, rests);
        let begin = process_cpu_ns();
        let goes_on = self.make_old(pid, id, &mut wanted, stop);
        self.round.arm_ns += process_cpu_ns().saturating_sub(begin);
        self.note_success(pid, &wanted);
        if let Some(target) = self.targets.get_mut(&pid) {
            target.maps = maps;
        }
        Ok(match goes_on {
            false => Visited::Stopped,
            true if is_watched => Visited::Watched,
            true => Visited::Looked,
        })
    }

    /// The right to make a process's pages old, unless another program has it.
    fn claim(&self, pid: u32) -> Option<Claim> {
        match Claim::take(&self.proc, pid) {
            Err(e) if e.kind() == SetKind::Busy => None,
            claim => claim.ok(),
        }
    }

    /// Reads the tables of a process, notes what is not to be made old, and returns the rest.
    fn look(
        &mut self,
        id: TargetId,
        maps: &[AddrRange],
        is_watched: bool,
        rests: bool,
    ) -> Vec<Wanted> {
        let (memory, round) = (&mut self.memory, &mut self.round);
        let mut wanted = Vec::new();
        for range in whole_units(maps) {
            let mut each = |start: u64, found: Dense<'_>| {
                let mut unit = UnitCheck::new(id, start, pages_in(maps, start));
                let pages = Pages::of(&mut unit, &found);
                let touched = !unit.young.is_empty();
                let how = match () {
                    () if is_watched => How::Watched,
                    () if !touched => How::Left,
                    // 1 GiB is of hugetlb or of a device, which nothing makes old.
                    () if unit.leaf_shift > 21 => How::InVain,
                    () if unit.leaf_shift > 12 => How::Huge,
                    () if pages.are_shared(&unit, memory) && rests => How::InVain,
                    () if pages.are_shared(&unit, memory) => How::Shared,
                    () if round.draws(&unit) => How::Drawn,
                    () => How::Left,
                };
                if touched && matches!(how, How::Drawn | How::Huge | How::Shared) {
                    wanted.push(Wanted { unit, how });
                } else {
                    round.note(&unit, how, &pages, memory);
                }
            };
            // A process that ends meanwhile has no more pages.
            self.walk.tables().dense_tables(id, range, &mut each).ok();
        }
        wanted
    }

    /// Makes units old, and notes them. Returns `false` if the scan is to stop.
    fn make_old(
        &mut self,
        pid: u32,
        id: TargetId,
        wanted: &mut [Wanted],
        stop: &mut dyn FnMut() -> bool,
    ) -> bool {
        let is_small = resident(&self.proc, pid) * 4096 <= SMALL;
        let mut stuck = Vec::new();
        // First by ranges alone. All memory of a process is made old once in a visit, at its end.
        self.walk.set_fallback_limit(0);
        for (nr, batch) in wanted.chunks_mut(UNITS_PER_CALL).enumerate() {
            if nr > 0 && !sleep_to(now() + PAUSE_NS, stop) {
                return false;
            }
            // Claimed for a moment only, so that nobody who wants to watch it is kept waiting.
            if let Some(_claim) = self.claim(pid) {
                prepare(&mut self.walk, batch);
            } else {
                batch.iter_mut().for_each(|wanted| wanted.how = How::Watched);
            }
            let is_stuck = |w: &&mut Wanted| is_small && !w.unit.stuck.is_empty();
            let first = nr * UNITS_PER_CALL;
            let nrs = batch.iter_mut().enumerate().filter(|(_, wanted)| is_stuck(wanted));
            let nrs: Vec<usize> = nrs.map(|(nr, _)| first + nr).collect();
            if nrs.is_empty() {
                self.note_after(id, batch);
            } else {
                let done = (first..).zip(batch.iter()).filter(|(nr, _)| !nrs.contains(nr));
                let done: Vec<Wanted> = done.map(|(_, wanted)| *wanted).collect();
                self.note_after(id, &done);
                stuck.extend(nrs);
            }
        }
        if !stuck.is_empty() {
            self.make_all_old(pid, id, &stuck, wanted);
        }
        true
    }

    /// Makes old what ranges could not, together with all other memory of the process.
    fn make_all_old(&mut self, pid: u32, id: TargetId, stuck: &[usize], wanted: &mut [Wanted]) {
        let ask = |nr: &usize| {
            let Wanted { unit, how } = wanted[*nr];
            let unit = UnitCheck::new(id, unit.start, unit.pages).with(AllMemory::IfStuck);
            Wanted { unit, how }
        };
        let mut again: Vec<Wanted> = stuck.iter().map(ask).collect();
        if let Some(_claim) = self.claim(pid) {
            self.walk.set_fallback_limit(SMALL);
            prepare(&mut self.walk, &mut again);
        }
        for (nr, again) in stuck.iter().zip(&again) {
            let unit = &mut wanted[*nr].unit;
            unit.young = unit.young.or(again.unit.young);
            if again.unit.answered {
                unit.stuck = again.unit.stuck;
            }
        }
        let units: Vec<Wanted> = stuck.iter().map(|nr| wanted[*nr]).collect();
        self.note_after(id, &units);
    }

    /// Reads the tables of units again, and notes what became of their pages.
    fn note_after(&mut self, id: TargetId, units: &[Wanted]) {
        let Some(slot) = self.walk.tables().slot(id) else { return };
        let key = |wanted: &Wanted| PageKey::new(slot, wanted.unit.start);
        let places: Vec<_> = units.iter().map(key).zip(0_u32..).collect();
        let (memory, round) = (&mut self.memory, &mut self.round);
        let mut each = |nr: u32, found: Dense<'_>| {
            let Wanted { unit: before, how } = units[nr as usize];
            let mut unit = UnitCheck::new(id, before.start, before.pages);
            let pages = Pages::of(&mut unit, &found);
            unit.young = if unit.leaf_shift > 12 && !before.young.is_empty() {
                PageBits::ALL
            } else {
                unit.young.or(before.young).and(unit.present)
            };
            unit.stuck = before.stuck;
            round.note(&unit, how, &pages, memory);
        };
        // A process that ends meanwhile has no more pages.
        self.walk.tables().tables_at(&places, &mut each).ok();
    }

    /// Remembers whether it was of use to make shared pages old, and counts the units.
    fn note_success(&mut self, pid: u32, wanted: &[Wanted]) {
        let of = |how: How| wanted.iter().filter(move |wanted| wanted.how == how);
        let shared = of(How::Shared).count() as u64;
        self.round.drawn += of(How::Drawn).count() as u64;
        self.round.taken += shared;
        let failed = of(How::Shared).filter(|wanted| !wanted.unit.stuck.is_empty()).count() as u64;
        let Some(target) = self.targets.get_mut(&pid).filter(|_| shared > 0) else { return };
        target.fails = if failed * 2 >= shared { (target.fails + 1).min(MOST_FAILS) } else { 0 };
        target.rest = if target.fails > 0 { 1 << target.fails } else { 0 };
    }
}

/// Makes units old by one call. Of a unit without an answer nothing was made old.
fn prepare(walk: &mut PageWalk, wanted: &mut [Wanted]) {
    let mut units: Vec<UnitCheck> = wanted.iter().map(|wanted| wanted.unit).collect();
    walk.prepare_units(&mut units);
    for (wanted, mut unit) in wanted.iter_mut().zip(units) {
        if !unit.answered {
            unit.young = unit.young.or(wanted.unit.young);
            unit.stuck = PageBits::ALL;
        }
        wanted.unit = unit;
    }
}
