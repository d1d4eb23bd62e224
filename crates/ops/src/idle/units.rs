//! Whole units of 2 MiB: all pages of a unit are marked, or looked at, at once.
//!
//! ```text
//! process:  one copy of the page table (or one read of `pagemap`) -> frames
//!           -> first frames of folios -> words of the bitmap, sorted: neighbours share calls
//!           -> held against the frames of when the unit was marked (`armed`)
//! physical: 512 frames are 8 words of the bitmap and one read of the flags
//! ```
//!
//! What was touched stays so until it is marked again, so a unit in use costs little to look at:
//! only the pages that were old at the last look are asked about.
//!
//! Invariants: a page whose frame has changed is not judged by the old frame's mark. A page that
//! lost its mark for another reason than an access (it was joined with others) is `stuck`, and so
//! is what cannot be tracked, until it is marked again. Buffers are kept.
//!
//! Absent: several targets that map the same page. A mark is the page's, so marking it for one
//! target hides from the other that it was touched before.

mod bits;
mod pages;
mod verdict;

use isotherm_core::{PageBits, Time, UnitCheck};
use isotherm_pages::idle::Block;
use isotherm_sys::clock::now;

use self::bits::set;
pub(super) use self::pages::Scratch;
use super::IdleOps;

/// Units that are asked about at once. A unit takes up to a millisecond, so the times of many
/// together would be too coarse.
const PIECE: usize = 8;
/// What was done longer than this before the answer, in ns, is told with its time.
const WELL_BEFORE_NS: u64 = 1_000_000;

impl IdleOps {
    /// Makes the pages of units old.
    pub(super) fn mark_units(&mut self, batch: &mut [UnitCheck]) {
        let begin = now();
        self.by_piece(batch, Self::mark_frames, Self::mark_pages, |unit| &mut unit.made_old);
        self.counters.mark_ns += now().since(begin);
    }

    /// Looks at units.
    pub(super) fn look_at_units(&mut self, batch: &mut [UnitCheck]) {
        let begin = now();
        self.by_piece(batch, Self::look_at_frames, Self::look_at_pages, |unit| &mut unit.looked);
        self.counters.looks +=
            batch.iter().map(|unit| unit.present.and(unit.pages).count()).sum::<u64>();
        self.counters.look_ns += now().since(begin);
    }

    /// Asks about units, a few at a time: about each in physical memory, and about all of these in
    /// a process. `at` is where a unit says when that was, if it was well before the answer.
    fn by_piece(
        &mut self,
        batch: &mut [UnitCheck],
        of_frames: fn(&mut Self, &mut UnitCheck),
        of_pages: fn(&mut Self, &mut [UnitCheck]),
        at: fn(&mut UnitCheck) -> &mut Option<Time>,
    ) {
        for of_target in batch.chunk_by_mut(|a, b| a.target == b.target) {
            let is_memory = of_target.first().is_some_and(|unit| self.is_memory(unit.target));
            for piece in of_target.chunks_mut(PIECE) {
                piece.iter_mut().for_each(forget_answers);
                if is_memory {
                    piece.iter_mut().for_each(|unit| of_frames(self, unit));
                } else {
                    of_pages(self, piece);
                }
                let asked = now();
                piece.iter_mut().for_each(|unit| *at(unit) = Some(asked));
            }
        }
        let end = now();
        for unit in batch {
            let time = at(unit);
            *time = time.filter(|at| end.since(*at) >= WELL_BEFORE_NS);
            self.counters.unresolved += unit.stuck.count();
        }
    }

    /// Pages of the unit that were part of a large folio when they were marked. Each such folio has
    /// one mark.
    #[must_use]
    pub fn large_pages(&self, unit: &UnitCheck) -> PageBits {
        let mut large = PageBits::default();
        let armed = self.armed.get(unit.target, unit.start);
        for (nr, was) in (0..).zip(armed.iter().flat_map(|unit| unit.pages.iter())) {
            if was.is_large() {
                set(&mut large, nr);
            }
        }
        large
    }

    fn mark_frames(&mut self, unit: &mut UnitCheck) {
        let block = self.folios.mark_block(unit.start >> 12, unit.pages, now());
        self.counters.marks += unit.pages.count();
        answer_block(unit, block.ok());
    }

    fn look_at_frames(&mut self, unit: &mut UnitCheck) {
        let block = self.folios.look_block(unit.start >> 12);
        answer_block(unit, block.ok());
    }
}

fn forget_answers(unit: &mut UnitCheck) {
    let none = PageBits::default();
    (unit.answered, unit.together) = (false, false);
    (unit.made_old, unit.looked) = (None, None);
    (unit.present, unit.young, unit.stuck) = (none, none, none);
}

fn answer_block(unit: &mut UnitCheck, block: Option<Block>) {
    unit.answered = block.is_some();
    let block = block.unwrap_or_default();
    unit.leaf_shift = if block.is_huge { 21 } else { 12 };
    (unit.present, unit.young, unit.stuck) = (block.present, block.young, block.stuck);
}

#[cfg(test)]
mod tests;
