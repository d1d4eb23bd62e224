//! What was found touched when units were made old, until a snapshot tells it.
//!
//! Spans begin when a unit is made old. What was touched after the longest span is in none, and for
//! memory that is gone over slowly that is nearly all of it. Later looks see it, and so does the
//! next question that makes the unit old. It is kept here and not in the units: it is told soon, so
//! there is little of it at a time.

use alloc::vec::Vec;

use crate::unit::{PageBits, UnitCheck};

/// From so many pages on, what a look finds is news by itself: 64 KiB.
const MANY: u64 = 16;

/// Pages by the start of their unit, sorted.
#[derive(Debug, Default)]
pub(in crate::monitor::census) struct Found {
    pages: Vec<(u64, PageBits)>,
}

impl Found {
    /// Takes in the answer to a question that makes pages old. A single page that is used as a
    /// sentinel adds to what is told with the unit next, and is no news by itself.
    pub(in crate::monitor::census) fn note(&mut self, check: &UnitCheck) {
        if !check.answered {
            return;
        }
        let found = check.young.and(check.pages).and(check.present).minus(check.stuck);
        let is_whole = check.pages.count() > 1;
        match self.pages.binary_search_by_key(&check.start, |(start, _)| *start) {
            Ok(at) => self.pages[at].1 = self.pages[at].1.or(found),
            Err(at) if is_whole || !found.is_empty() => {
                self.pages.insert(at, (check.start, found));
            }
            Err(_) => {}
        }
    }

    /// Takes in the pages that a look found touched since the look before. Returns whether they are
    /// news. Fewer are told with what is told next, or when the unit is made old.
    pub(in crate::monitor::census) fn note_look(&mut self, start: u64, newly: PageBits) -> bool {
        let is_news = newly.count() >= MANY;
        match self.pages.binary_search_by_key(&start, |(start, _)| *start) {
            Ok(at) => self.pages[at].1 = self.pages[at].1.or(newly),
            Err(at) if is_news => self.pages.insert(at, (start, newly)),
            Err(_) => {}
        }
        is_news
    }

    /// What was found of a unit, which is told now.
    pub(in crate::monitor::census) fn take(&mut self, start: u64) -> Option<PageBits> {
        let at = self.pages.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        Some(self.pages.remove(at).1)
    }

    /// Forgets units that are not there any more.
    pub(in crate::monitor::census) fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        self.pages.retain(|(start, _)| is_there(*start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetId;
    use crate::unit::UNIT;

    #[test]
    fn it_is_told_once_and_added_up_until_then() {
        let mut found = Found::default();
        let page = |nr: u16| PageBits::page(nr);
        let answer = |nr: u64, pages: PageBits, young: PageBits| UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young,
            ..UnitCheck::new(TargetId(1), nr * UNIT, pages)
        };
        found.note(&answer(2, PageBits::ALL, PageBits::default()));
        found.note(&answer(1, PageBits::ALL, page(7)));
        found.note(&answer(1, page(9), page(9)));
        found.note(&answer(3, page(9), PageBits::default()));
        found.note(&UnitCheck { stuck: page(4), ..answer(1, PageBits::ALL, page(4)) });
        found.note(&UnitCheck { answered: false, ..answer(4, PageBits::ALL, page(4)) });
        assert_eq!(found.take(UNIT), Some(page(7).or(page(9))));
        assert_eq!(found.take(UNIT), None, "told once");
        assert_eq!(found.take(2 * UNIT), Some(PageBits::default()), "nothing was found");
        assert_eq!(found.take(3 * UNIT), None, "a sentinel that is quiet is no news");
        found.note(&answer(5, PageBits::ALL, page(1)));
        let block = |pages: core::ops::Range<u16>| pages.map(page).fold(page(0), PageBits::or);
        assert!(!found.note_look(6 * UNIT, block(1..15)), "few pages are no news");
        assert_eq!(found.take(6 * UNIT), None);
        assert!(found.note_look(6 * UNIT, block(1..16)));
        assert!(!found.note_look(6 * UNIT, page(20)));
        assert_eq!(found.take(6 * UNIT), Some(block(1..16).or(page(20))));
        found.keep(|start| start != 5 * UNIT);
        assert_eq!(found.take(5 * UNIT), None);
    }
}
