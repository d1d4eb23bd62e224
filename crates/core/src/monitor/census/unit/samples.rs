//! What sentinels tell of single samples: whether a cell is touched in each of them.
//!
//! If the first look after an arming finds all pages of a cell touched, that may be one burst,
//! which comes in every fifth sample only. All memory that was armed with it would be called hot
//! until its next turn, up to a minute later. A sentinel is armed at another time, so it meets
//! another part of the burst. So it is looked at after one sample as well, and after 2, 4 and 8 if
//! it was not touched, until enough sentinels were touched within one sample.
//!
//! Invariants: a sentinel tells of its first touch only. A level that sentinels tell is a guess.
//! Absent: units with cells of which a sample finds a part. Their pages are touched at random, and
//! each of them is a sample. Huge pages, of which a sample always finds all or nothing: mostly they
//! are touched at random as well, and then a wait is twice what it is for a burst.

use super::levels::{LONGER, NEARLY_ALL};
use super::sentinel::{NO_PAGE, PAGES_PER_CELL};
use super::waits::NO_WAIT;
use super::{CELLS, News, Unit, ratio, share};
use crate::snapshot::SPANS;
use crate::time::Time;
use crate::unit::PageBits;

/// So many sentinels in a row have to be touched at once. What is touched in every second sample is
/// found so once in 32 times, and what is touched in every fifth hardly ever.
const CONFIRMED: u8 = 5;
/// So many have to be waited for until a unit has bursts. A program that did not run for a sample
/// is waited for as well.
const WAITED: u8 = 2;

/// What sentinels have told since the levels were measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Samples {
    /// How many sentinels were touched within a sample, in a row.
    at_once: u8,
    /// How many were waited for.
    waited: u8,
    /// The wait for all of them, in samples, and how many they are.
    wait: f32,
    nr: u8,
    /// Whether the mean wait has become the level.
    are_bursts: bool,
    /// Whether there is a sentinel that was made old, and has not told yet.
    is_open: bool,
}

impl Samples {
    /// A sentinel was made old.
    pub(super) const fn begin(&mut self) {
        self.is_open = true;
    }

    /// Whether the levels are what sentinels have told. From now on they are something else.
    pub(super) const fn end_bursts(&mut self) -> bool {
        core::mem::replace(&mut self.are_bursts, false)
    }
}

impl Unit {
    /// Whether its sentinel is to be looked at after one sample.
    pub(in super::super) fn asks_for_sample(&self) -> bool {
        self.samples.is_open
            && self.samples.at_once < CONFIRMED
            && self.sentinel != NO_PAGE
            && self.waking == 0
            && !self.is_huge()
            && self.is_full(usize::from(self.sentinel) / PAGES_PER_CELL)
            && self.is_all_or_nothing()
    }

    /// Whether nearly all cells that were touched in a sample are full. Where pages are touched at
    /// random in most samples, some cells are full by chance.
    fn is_all_or_nothing(&self) -> bool {
        let touched = (0..CELLS).filter(|cell| self.levels[*cell] > 0);
        let (mut nr, mut nr_full) = (0, 0);
        for cell in touched {
            nr += 1;
            nr_full += u32::from(self.is_full(cell));
        }
        share(nr_full, nr) > NEARLY_ALL
    }

    /// A look at `now` has found these pages touched.
    pub(super) fn hear_sample(
        &mut self,
        touched: PageBits,
        now: Time,
        spans: &[u64; SPANS],
        news: &mut News,
    ) {
        if !self.asks_for_sample() {
            return;
        }
        let watched = now.since(self.sentinel_since);
        if PageBits::page(self.sentinel).and(touched).is_empty() {
            // The next look is at twice the time, and the last one when half of the window is over.
            if watched * 4 <= spans[1] {
                news.look_in = Some(watched.max(spans[0]));
            }
            return;
        }
        let samples = &mut self.samples;
        samples.is_open = false;
        let times = ratio(watched, spans[0]);
        let earlier = ratio(self.looked.since(self.sentinel_since), spans[0]);
        if times < LONGER {
            samples.at_once += 1;
            samples.wait += NO_WAIT;
        } else if earlier >= 1.0 {
            samples.at_once = 0;
            samples.waited += 1;
            samples.wait += f32::midpoint(earlier, times);
        } else {
            // The first look came late, and the page was touched at any time before.
            return;
        }
        samples.nr += 1;
        if samples.waited < WAITED {
            return;
        }
        let mean = samples.wait / f32::from(samples.nr);
        *samples = Samples { are_bursts: true, ..Samples::default() };
        self.take_bursts(mean, now);
        self.guessed = true;
        (news.again, news.published) = (true, true);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::target::TargetId;
    use crate::unit::UnitCheck;

    const MS: u64 = 1_000_000;
    const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];

    fn answer(pages: PageBits, young: PageBits) -> UnitCheck {
        UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young,
            ..UnitCheck::new(TargetId(1), 0, pages)
        }
    }

    fn look(unit: &mut Unit, at_ms: u64, young: PageBits) -> News {
        let check = answer(PageBits::ALL, young);
        unit.was_looked_at(&check, Time(at_ms * MS), &SPANS_NS, false)
    }

    /// A unit of which these pages were found touched by the first look, after so many ms.
    fn measured(touched: PageBits, first_ms: u64) -> Unit {
        let mut unit = Unit::new(0, PageBits::ALL, Time(0));
        unit.is_turn = true;
        unit.was_armed(&answer(PageBits::ALL, PageBits::ALL), Time(10_000 * MS));
        for ms in [first_ms, 100, 1000] {
            look(&mut unit, 10_000 + ms, touched);
        }
        unit
    }

    /// A sentinel is armed, and its page is touched so many ms later. The unit is looked at when it
    /// asks for it, and at the end of the window. Returns the times of the looks, and whether one
    /// of them makes the unit armed again.
    fn sentinel(unit: &mut Unit, at_ms: u64, touched_ms: u64) -> (Vec<u64>, bool) {
        let page = unit.choose_sentinel(7).unwrap();
        unit.was_armed(&answer(page, page), Time(at_ms * MS));
        let (mut ms, mut looks, mut again) = (5, Vec::new(), false);
        if !unit.asks_for_sample() {
            ms = 100;
        }
        while ms <= 100 {
            let young = if ms >= touched_ms { PageBits::ALL } else { PageBits::ALL.minus(page) };
            let news = look(unit, at_ms + ms, young);
            looks.push(ms);
            again |= news.again;
            ms = news.look_in.map_or(if ms == 100 { 101 } else { 100 }, |ns| ms + ns / MS);
        }
        (looks, again)
    }

    #[test]
    fn two_sentinels_that_are_waited_for_tell_of_bursts() {
        for (touched_ms, level, looks) in [
            // Between 5 and 10 ms: a wait of 1.5 samples.
            ([8, 8], 0.333, vec![vec![5, 10, 100], vec![5, 10, 100]]),
            // And between 10 and 20 ms: 3 samples.
            ([8, 12], 0.222, vec![vec![5, 10, 100], vec![5, 10, 20, 100]]),
            ([22, 12], 0.111, vec![vec![5, 10, 20, 40, 100], vec![5, 10, 20, 100]]),
        ] {
            let mut unit = measured(PageBits::ALL, 5);
            assert_eq!(unit.rate(3), 1.0);
            let (first, again) = sentinel(&mut unit, 20_000, touched_ms[0]);
            assert!(!again && unit.rate(3) == 1.0, "one may have been kept from running");
            let (second, again) = sentinel(&mut unit, 21_000, touched_ms[1]);
            assert_eq!(vec![first, second], looks, "{touched_ms:?}");
            assert!(again && !unit.is_sure(), "{touched_ms:?}");
            assert!((unit.rate(3) - level).abs() < 0.005, "{touched_ms:?}: {}", unit.rate(3));
            // When it is armed, one more sample that touches all of it adds to the mean.
            unit.was_armed(&answer(PageBits::ALL, PageBits::ALL), Time(22_000 * MS));
            look(&mut unit, 22_005, PageBits::ALL);
            assert!((level..0.5).contains(&unit.rate(3)), "{touched_ms:?}: {}", unit.rate(3));
        }
    }

    #[test]
    fn what_is_touched_in_five_samples_in_a_row_is_not_asked_again() {
        let mut unit = measured(PageBits::ALL, 5);
        let mut at_ms = 20_000;
        let mut next = |unit: &mut Unit, touched_ms| {
            at_ms += 1000;
            sentinel(unit, at_ms, touched_ms)
        };
        for touched_ms in [1, 1, 1, 1, 12, 1, 1, 1, 1, 1] {
            assert!(!next(&mut unit, touched_ms).1);
        }
        // It is only asked whether it is still in use.
        assert_eq!(next(&mut unit, 40), (vec![100], false));
        assert_eq!(unit.rate(3), 1.0);
    }

    #[test]
    fn what_a_late_look_has_found_is_asked_about_and_what_is_touched_in_part_is_not() {
        let unit = |touched, ms| {
            let mut unit = measured(touched, ms);
            let page = unit.choose_sentinel(7).unwrap();
            unit.was_armed(&answer(page, page), Time(20_000 * MS));
            unit
        };
        let late = unit(PageBits::ALL, 9);
        assert!(late.rate(3) < 0.9 && late.asks_for_sample(), "{}", late.rate(3));
        // Twelve of the sixteen pages of each cell.
        let part = unit(PageBits([0x0fff_0fff_0fff_0fff; 8]), 5);
        assert!(part.rate(3) < 0.8 && !part.asks_for_sample(), "{}", part.rate(3));
        // The same of all cells but the one that has the sentinel.
        let mut one = PageBits([0x0fff_0fff_0fff_0fff; 8]);
        one.0[0] |= 0xffff;
        let mut one = measured(one, 5);
        assert!(one.rate(0) == 1.0 && one.rate(3) < 0.8);
        let page = one.choose_sentinel(7).unwrap();
        one.was_armed(&answer(page, page), Time(20_000 * MS));
        assert!(page == PageBits::page(7) && !one.asks_for_sample());
        let huge = Unit { leaf_shift: 21, ..unit(PageBits::ALL, 5) };
        assert!(unit(PageBits::ALL, 5).asks_for_sample() && !huge.asks_for_sample());
    }

    #[test]
    fn a_sentinel_that_was_not_made_old_tells_nothing() {
        let mut unit = measured(PageBits::ALL, 5);
        for at_ms in [20_000, 21_000, 22_000] {
            let page = unit.choose_sentinel(7).unwrap();
            let check = UnitCheck { answered: false, ..answer(page, page) };
            unit.was_armed(&check, Time(at_ms * MS));
            assert!(!unit.asks_for_sample());
            look(&mut unit, at_ms + 10, PageBits::ALL);
            look(&mut unit, at_ms + 100, PageBits::ALL);
        }
        assert!(unit.rate(3) == 1.0 && unit.is_sure());
    }

    #[test]
    fn a_look_that_comes_late_tells_nothing_of_a_touch() {
        let mut unit = measured(PageBits::ALL, 5);
        for at_ms in [20_000, 21_000, 22_000] {
            let page = unit.choose_sentinel(7).unwrap();
            unit.was_armed(&answer(page, page), Time(at_ms * MS));
            assert!(!look(&mut unit, at_ms + 30, PageBits::ALL).again);
            look(&mut unit, at_ms + 100, PageBits::ALL);
        }
        assert!(unit.rate(3) == 1.0 && unit.is_sure());
    }
}
