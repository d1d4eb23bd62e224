//! Bursts: cells of which a sample sees all pages or none.
//!
//! A program that goes over the same memory forty times a second touches all pages of a cell
//! within less than a millisecond, and none for the next 25. The first look after an arming, one
//! sample later, finds all of them or none by chance, and as the whole buffer is armed together,
//! the same everywhere. So it tells little. *How long* the pages are waited for tells more: if that
//! comes at an even pace, half a period on average. Looks cost next to nothing, so cells that are
//! waited for are looked at after 2, 4, 8 and 16 samples, and their levels follow from the mean
//! wait over their armings.
//!
//! A cell counts as a burst if nearly all of it was touched within the last window that was
//! measured, and a sample found nearly all or nearly nothing of it. Where a sample finds a part of
//! most cells, pages are touched at random, and some cells are missed by chance. To wait for those
//! and count the others as they were found would count too much.
//!
//! Invariants: what is waited for keeps its level until it was touched, or until the window is
//! over: then it is idle. Absent: bursts that are further apart than a window. Their cells are
//! touched in some windows only, and turns tell in which.

use super::levels::{FULL, NEARLY_ALL, level};
use super::rates::within;
use super::sentinel::cells;
use super::{CELLS, Unit, ratio, share, tick};
use crate::snapshot::SPANS;
use crate::time::Time;
use crate::unit::PageBits;

/// Up to this share of a cell's pages, nearly none of them were touched.
const NEARLY_NONE: f32 = 1.0 - NEARLY_ALL;
/// From this share on, the pages that were waited for have come.
const MOST: f32 = 0.5;
/// From this level on, a cell is touched in most samples.
const MOSTLY: u8 = 192;
/// The mean wait for what is touched in every sample, in samples.
pub(super) const NO_WAIT: f32 = 0.5;
/// So many waits make a mean. Later ones count as much as the last of these. Until then a unit has
/// its turns as often as one that changes.
const ENOUGH: u8 = 4;
/// Cells that a look may find half gone over, beside those that were touched all over.
const PASSED_BY: u32 = 2;
/// In so many armings in a row a unit has to have bursts.
const PROVEN: u8 = 2;

/// The mean wait for a cell of this level, in samples: half the time between two bursts.
fn wait_of(level: u8) -> f32 {
    NO_WAIT * FULL / f32::from(level.max(1))
}

impl Unit {
    /// Takes in what the first look, `times` samples after the arming, tells of a cell: the share
    /// of its pages that were touched. Returns whether it is a burst.
    pub(super) fn judge_burst(
        &mut self,
        cell: usize,
        touched: f32,
        times: f32,
        was_guessed: bool,
        now: Time,
    ) -> bool {
        let is_all = touched > NEARLY_ALL;
        if !is_all && touched > NEARLY_NONE || !self.is_used_in_windows(cell) {
            return false;
        }
        // Where most samples touch most pages, or nothing is known, one more that touches all of
        // them is no burst.
        let old = self.levels[cell];
        if is_all && (was_guessed || old == 0 || old >= MOSTLY) {
            return false;
        }
        self.bursts |= 1 << cell;
        if is_all {
            // A look that comes late does not tell that it was waited for.
            self.take_wait(cell, (times * NO_WAIT).min(wait_of(old)), self.nr_bursts, now);
        } else {
            if was_guessed {
                self.levels[cell] = 0;
            }
            self.waiting |= 1 << cell;
        }
        true
    }

    /// Whether the first look has found a part of the pages of most cells that it found touched.
    pub(super) fn is_at_random(&self, plane: PageBits) -> bool {
        let shares = (0..CELLS).map(|cell| {
            let there = self.present.cell(cell);
            share((plane.cell(cell) & there).count_ones(), there.count_ones())
        });
        let (mut nr_parts, mut nr_full) = (0, 0);
        for touched in shares.filter(|touched| *touched > 0.0) {
            let nr = if touched > NEARLY_ALL { &mut nr_full } else { &mut nr_parts };
            *nr += 1;
        }
        // A burst that goes on while it is looked at has come to one cell, or to two.
        nr_parts > PASSED_BY.max(nr_full)
    }

    /// Whether nearly all of a cell's pages were touched within the last window that was measured.
    fn is_used_in_windows(&self, cell: usize) -> bool {
        let there = self.present.cell(cell);
        let within = self.planes.get(1).map_or(0, |plane| (plane.cell(cell) & there).count_ones());
        share(within, there.count_ones()) > NEARLY_ALL
    }

    /// The pages of a cell were waited for so long, in samples, and in so many armings before. Of a
    /// cell of which nothing is known this is all that is known, else it changes the mean.
    fn take_wait(&mut self, cell: usize, wait: f32, earlier: u8, now: Time) {
        let old = self.levels[cell];
        if old == 0 {
            self.steady[cell] = tick(now);
        }
        let before = wait_of(old);
        let part = 1.0 / f32::from((earlier + 1).clamp(2, ENOUGH));
        let wait = if old == 0 { wait } else { before + (wait - before) * part };
        self.levels[cell] = level(NO_WAIT / wait.max(NO_WAIT));
    }

    /// Whether nearly all pages of a cell were touched before the first look, even if that came
    /// late.
    pub(super) fn is_full(&self, cell: usize) -> bool {
        within(self.rate(cell), self.times()) > NEARLY_ALL
    }

    /// Full cells are bursts that are waited for so long on average, in samples.
    pub(super) fn take_bursts(&mut self, wait: f32, now: Time) {
        for cell in 0..CELLS {
            if self.is_full(cell) {
                self.levels[cell] = level(NO_WAIT / wait.max(NO_WAIT));
                self.steady[cell] = tick(now);
                self.bursts |= 1 << cell;
            }
        }
        self.nr_bursts = PROVEN;
    }

    /// The first look has judged all cells.
    pub(super) fn end_judging(&mut self) {
        self.nr_bursts = if self.bursts == 0 { 0 } else { (self.nr_bursts + 1).min(ENOUGH) };
    }

    /// The bursts; none as long as what was a burst once may have been something that passed by.
    pub(super) const fn proven_bursts(&self) -> u32 {
        if self.nr_bursts < PROVEN { 0 } else { self.bursts }
    }

    /// Whether bursts were found for the first time. A program that did not run for some samples
    /// looks like that. So their levels are guesses.
    pub(super) fn doubts_bursts(&mut self) -> bool {
        let is_doubtful = self.nr_bursts < PROVEN && self.at_once_in(self.bursts) > 0;
        self.guessed |= is_doubtful;
        is_doubtful
    }

    /// Whether there are bursts of which a few more waits would tell more.
    pub(super) const fn asks_for_waits(&self) -> bool {
        self.proven_bursts() != 0 && self.nr_bursts < ENOUGH
    }

    /// A look, `elapsed` ns after the arming, has found these pages touched. What of them is waited
    /// for came between the look before and this one. Returns how many pages of proven bursts did
    /// not come within the window, if it is over.
    pub(super) fn hear_waits(
        &mut self,
        touched: PageBits,
        elapsed: u64,
        spans: &[u64; SPANS],
    ) -> u64 {
        let before = ratio(self.looked.since(self.since), spans[0]);
        let now = ratio(elapsed, spans[0]);
        let is_last = !self.is_window_open();
        // Within a window it was touched once at least.
        let longest = ratio(spans[1], spans[0]) * NO_WAIT;
        let (waiting, proven, mut idle) = (self.waiting, self.proven_bursts(), 0);
        for cell in (0..CELLS).filter(|cell| waiting >> cell & 1 == 1) {
            let there = self.present.cell(cell).count_ones();
            let touched = share(touched.cell(cell).count_ones(), there);
            if touched >= MOST {
                self.waiting &= !(1 << cell);
                let at = self.since + elapsed;
                let wait = f32::midpoint(before, now).min(longest);
                self.take_wait(cell, wait, self.nr_bursts.saturating_sub(1), at);
            } else if is_last && touched == 0.0 {
                (self.levels[cell], self.steady[cell]) = (0, tick(self.since));
                idle += u64::from(there) * u64::from(proven >> cell & 1);
            }
        }
        if is_last {
            self.waiting = 0;
        }
        idle
    }

    /// How many pages are touched within a sample in bursts.
    pub(in super::super) fn in_bursts(&self) -> u64 {
        self.at_once_in(self.proven_bursts())
    }

    /// Counts what is touched in bursts, in place of what the first look has found of them.
    pub(super) fn count_bursts(&mut self) {
        let proven = self.proven_bursts();
        if proven != 0 {
            let others = self.plane(0).minus(cells(|cell| proven >> cell & 1 == 1));
            self.planes.correct(0, others.count() + self.in_bursts());
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::target::TargetId;
    use crate::unit::UnitCheck;

    const MS: u64 = 1_000_000;
    const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];

    /// An answer that finds all pages mapped and these young.
    fn check(young: PageBits) -> UnitCheck {
        UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young,
            ..UnitCheck::new(TargetId(1), 0, PageBits::ALL)
        }
    }

    /// The unit is armed in its turn, and touched all over so many ms later, if at all. It is
    /// looked at when it asks for it, and when the window is over. Returns the times of the looks.
    fn turn(unit: &mut Unit, at_ms: u64, touched_ms: Option<u64>) -> Vec<u64> {
        unit.is_turn = true;
        unit.was_armed(&check(PageBits::ALL), Time(at_ms * MS));
        let (mut ms, mut looks) = (5, Vec::new());
        while ms <= 100 {
            let is_touched = touched_ms.is_some_and(|touched| ms >= touched);
            let young = if is_touched { PageBits::ALL } else { PageBits::default() };
            let now = Time((at_ms + ms) * MS);
            let news = unit.was_looked_at(&check(young), now, &SPANS_NS, false);
            looks.push(ms);
            ms = match ms {
                100 => break,
                _ if news.look_in.is_some() => ms * 2,
                _ => 100,
            };
        }
        looks
    }

    #[test]
    fn how_long_a_burst_is_waited_for_tells_how_often_it_comes() {
        for (waits, rates, looks) in [
            // In every sample; and nobody is asked again.
            (&[Some(1), Some(2), Some(3)][..], &[1.0, 1.0, 1.0][..], &[5, 100][..]),
            // Between 10 and 20 ms after the second arming: every 30 ms, of which a sample is 1/6.
            (&[Some(1), Some(15)], &[1.0, 1.0 / 3.5], &[5, 10, 20, 100]),
            // At first only the window tells that it is touched, then a wait, which is doubted, ...
            (&[Some(60), Some(15), Some(35)], &[0.05, 0.167, 0.083], &[5, 10, 20, 40, 100]),
            // ... and then their mean.
            (&[Some(60), Some(15), Some(35), Some(1)], &[0.05, 0.167, 0.083, 0.12], &[5, 100]),
            // A program did not run for three samples. It was no burst.
            (&[Some(1), Some(15), Some(1)], &[1.0, 1.0 / 3.5, 1.0], &[5, 100]),
            // It is idle as soon as a window has passed.
            (&[Some(1), Some(15), None], &[1.0, 1.0 / 3.5, 0.0], &[5, 10, 20, 40, 80, 100]),
        ] {
            let mut unit = Unit::new(0, PageBits::ALL, Time(0));
            let mut last = Vec::new();
            for (nr, (wait, rate)) in waits.iter().zip(rates).enumerate() {
                last = turn(&mut unit, 10_000 * (nr as u64 + 1), *wait);
                let got = unit.rate(3);
                assert!((got - rate).abs() < 0.01, "{waits:?}, {nr}: {got} of {rate}");
            }
            assert_eq!(last, looks, "{waits:?}");
        }
    }

    /// Four turns, in each of which the first look finds these pages touched, and the end of the
    /// window all. Returns how many pages are counted within a sample, and the bursts.
    fn turns(found: PageBits) -> (u64, u32) {
        let mut unit = Unit::new(0, PageBits::ALL, Time(0));
        for turn in 1..=4 {
            let at_ms = turn * 10_000;
            unit.is_turn = true;
            unit.was_armed(&check(PageBits::ALL), Time(at_ms * MS));
            for (ms, young) in [(5, found), (100, PageBits::ALL)] {
                unit.was_looked_at(&check(young), Time((at_ms + ms) * MS), &SPANS_NS, false);
            }
        }
        (unit.planes().counted(0).unwrap_or_default(), unit.proven_bursts().count_ones())
    }

    #[test]
    fn empty_cells_among_cells_touched_in_part_are_chance() {
        // Three pages of each cell, and none of each eighth one.
        let at_random =
            PageBits([0x0111_0111_0111_0111, 0x0111_0111_0111_0000].repeat(4).try_into().unwrap());
        assert_eq!(turns(at_random), (84, 0));
        // All of half of the cells, up to a cell and a half.
        let burst = PageBits([u64::MAX, u64::MAX, u64::MAX, 0x00ff_ffff_ffff_ffff, 0x3, 0, 0, 0]);
        let (counted, bursts) = turns(burst);
        assert!(bursts >= 15 && counted > 0, "{counted} {bursts}");
    }

    #[test]
    fn what_is_counted_within_a_sample_is_the_mean_of_many() {
        let mut unit = Unit::new(0, PageBits::ALL, Time(0));
        for (nr, wait) in [1, 15, 15, 15, 1, 15].into_iter().enumerate() {
            turn(&mut unit, 10_000 * (nr as u64 + 1), Some(wait));
            let counted = unit.planes().counted(0).unwrap_or_default();
            let level = unit.at_once_in(u32::MAX);
            // What came once may only have passed by.
            let pages = if nr == 1 { 0 } else { level };
            assert_eq!(counted, pages, "{nr}: {}", unit.rate(0));
            assert!(nr < 2 || (60..200).contains(&counted), "{nr}: {counted}");
        }
    }
}
