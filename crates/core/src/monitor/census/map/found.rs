//! What was found touched when units were made old, until a snapshot tells it.
//!
//! Spans begin when a unit is made old. What was touched after the longest span is in none, and for
//! memory that is gone over slowly that is nearly all of it. Later looks see it, and so does the
//! next question that makes the unit old. It is kept here and not in the units: it is told soon, so
//! there is little of it at a time.
//!
//! That memory is idle again is news as well: spans say the same before and after a touch that came
//! between them, so a record would not tell that the unit was made old since. It is told a second
//! later. What is touched all the time is young again by then.

use alloc::vec::Vec;

use crate::time::Time;
use crate::unit::{PageBits, UnitCheck};

/// From so many pages on, what a look finds is news by itself: 64 KiB.
const MANY: u64 = 16;

/// Pages by the start of their unit, sorted, and when a look had seen none of their touches.
#[derive(Debug, Default)]
pub(in crate::monitor::census) struct Found {
    units: Vec<(u64, PageBits, Time)>,
}

impl Found {
    /// Takes in the answer to a question that makes pages old, of a unit that was looked at last at
    /// `looked`. A single page that is used as a sentinel adds to what is told with the unit next,
    /// and is no news by itself.
    pub(in crate::monitor::census) fn note(&mut self, check: &UnitCheck, looked: Time) {
        if !check.answered {
            return;
        }
        let found = check.young.and(check.pages).and(check.present).minus(check.stuck);
        let is_whole = check.pages.count() > 1;
        match self.find(check.start) {
            Ok(at) => self.add(at, found, looked),
            Err(at) if is_whole || !found.is_empty() => {
                self.units.insert(at, (check.start, found, looked));
            }
            Err(_) => {}
        }
    }

    /// Takes in the pages that a look found touched since the look before, which was at `looked`.
    /// Returns whether they are news. Fewer are told with what is told next, or when the unit is
    /// made old.
    pub(in crate::monitor::census) fn note_look(
        &mut self,
        start: u64,
        newly: PageBits,
        looked: Time,
    ) -> bool {
        let is_news = newly.count() >= MANY;
        match self.find(start) {
            Ok(at) => self.add(at, newly, looked),
            Err(at) if is_news => self.units.insert(at, (start, newly, looked)),
            Err(_) => {}
        }
        is_news
    }

    /// Whether much of what was found in this unit has not been touched since: all but `young`.
    pub(in crate::monitor::census) fn is_past(&self, start: u64, young: PageBits) -> bool {
        self.find(start).is_ok_and(|at| self.units[at].1.minus(young).count() >= MANY)
    }

    /// What was found of a unit, which is told now, and when a look had seen none of it.
    pub(in crate::monitor::census) fn take(&mut self, start: u64) -> Option<(PageBits, Time)> {
        let (_, pages, after) = self.units.remove(self.find(start).ok()?);
        Some((pages, after))
    }

    fn add(&mut self, at: usize, pages: PageBits, looked: Time) {
        let (_, known, after) = &mut self.units[at];
        if known.is_empty() {
            *after = looked;
        }
        *known = known.or(pages);
    }

    fn find(&self, start: u64) -> Result<usize, usize> {
        self.units.binary_search_by_key(&start, |(start, ..)| *start)
    }

    /// Forgets units that are not there any more.
    pub(in crate::monitor::census) fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        self.units.retain(|(start, ..)| is_there(*start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetId;
    use crate::unit::UNIT;

    const S: u64 = 1_000_000_000;

    fn answer(nr: u64, pages: PageBits, young: PageBits) -> UnitCheck {
        UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young,
            ..UnitCheck::new(TargetId(1), nr * UNIT, pages)
        }
    }

    fn block(pages: core::ops::Range<u16>) -> PageBits {
        pages.map(PageBits::page).fold(PageBits::default(), PageBits::or)
    }

    #[test]
    fn it_is_told_once_and_added_up_until_then() {
        let (mut found, at) = (Found::default(), Time(S));
        let page = PageBits::page;
        found.note(&answer(2, PageBits::ALL, PageBits::default()), at);
        found.note(&answer(1, PageBits::ALL, page(7)), at);
        found.note(&answer(1, page(9), page(9)), Time(2 * S));
        found.note(&answer(3, page(9), PageBits::default()), at);
        found.note(&UnitCheck { stuck: page(4), ..answer(1, PageBits::ALL, page(4)) }, at);
        found.note(&UnitCheck { answered: false, ..answer(4, PageBits::ALL, page(4)) }, at);
        assert_eq!(found.take(UNIT), Some((page(7).or(page(9)), at)));
        assert_eq!(found.take(UNIT), None, "told once");
        let nothing = found.take(2 * UNIT).map(|(pages, _)| pages);
        assert_eq!(nothing, Some(PageBits::default()), "nothing was found");
        assert_eq!(found.take(3 * UNIT), None, "a sentinel that is quiet is no news");
        found.note(&answer(5, PageBits::ALL, page(1)), at);
        assert!(!found.note_look(6 * UNIT, block(0..15), at), "few pages are no news");
        assert_eq!(found.take(6 * UNIT), None);
        assert!(found.note_look(6 * UNIT, block(0..16), at));
        assert!(!found.note_look(6 * UNIT, page(20), Time(3 * S)));
        assert_eq!(found.take(6 * UNIT), Some((block(0..16).or(page(20)), at)));
        found.keep(|start| start != 5 * UNIT);
        assert_eq!(found.take(5 * UNIT), None);
    }

    #[test]
    fn what_a_look_finds_after_a_quiet_arming_was_touched_after_it() {
        let mut found = Found::default();
        found.note(&answer(1, PageBits::ALL, PageBits::default()), Time(S));
        assert!(found.note_look(UNIT, block(0..30), Time(7 * S)));
        assert!(found.is_past(UNIT, block(0..14)), "16 of them are not touched any more");
        assert!(!found.is_past(UNIT, block(0..15)), "15 of them are not");
        assert_eq!(found.take(UNIT), Some((block(0..30), Time(7 * S))));
        assert!(!found.is_past(UNIT, PageBits::default()), "it was told");
    }
}
