//! The units of processes: from pages to frames, and from frames' marks to pages.

use isotherm_core::{PageBits, PageState, UnitCheck};
use isotherm_pages::frames::Flags;
use isotherm_pages::idle::Ask;
use isotherm_pages::tables::PageKey;
use isotherm_sys::clock::now;

use super::super::IdleOps;
use super::super::armed::{PAGES, Was};
use super::bits::{has, is_huge, leaf, numbers, numbers_asked, set};
use super::verdict::{note, verdict};

/// No page is mapped.
const NO_FRAME: u64 = u64::MAX;

/// A page of a unit as the walk found it.
#[derive(Debug, Clone, Copy)]
struct Found {
    frame: u64,
    accessed: Option<bool>,
}

/// What is kept between calls.
#[derive(Debug, Default)]
pub(in super::super) struct Scratch {
    places: Vec<(PageKey, u32)>,
    /// All pages of the units, unit after unit.
    found: Vec<Found>,
    asks: Vec<Ask>,
    /// By unit: pages that this look found young.
    fresh: Vec<PageBits>,
    /// The units of these, and which they are.
    again: Vec<UnitCheck>,
    again_nr: Vec<usize>,
}

impl IdleOps {
    /// Marks pages of one process.
    pub(super) fn mark_pages(&mut self, units: &mut [UnitCheck]) {
        self.find_pages(units);
        let Scratch { found, asks, .. } = &mut self.scratch;
        asks.clear();
        for (nr, unit) in units.iter().enumerate() {
            for page in numbers_asked(unit) {
                let place = nr * PAGES + page;
                if found[place].frame != NO_FRAME {
                    asks.push(found[place].ask(place));
                }
            }
        }
        self.counters.marks += asks.len() as u64;
        if self.folios.mark(asks, now()).is_err() {
            return units.iter_mut().for_each(|unit| unit.answered = false);
        }
        for unit in units.iter().filter(|unit| unit.answered) {
            let armed = self.armed.entry(unit.target, unit.start);
            for nr in numbers(unit.pages) {
                armed.pages[nr] = Was::ABSENT;
            }
            armed.young =
                if is_huge(unit) { PageBits::default() } else { armed.young.minus(unit.pages) };
        }
        for ask in &self.scratch.asks {
            let (unit, page) = (&mut units[ask.nr as usize / PAGES], ask.nr as usize % PAGES);
            let these = leaf(unit, page);
            match ask.state {
                PageState::Old => {}
                PageState::Cleared => unit.young = unit.young.or(these),
                _ if ask.flags.has(Flags::ZERO_PAGE) => unit.present = unit.present.minus(these),
                _ => (unit.young, unit.stuck) = (unit.young.or(these), unit.stuck.or(these)),
            }
            note(self.armed.entry(unit.target, unit.start), unit, page, ask);
        }
        self.tell_folios(units);
    }

    /// Looks at pages of one process.
    pub(super) fn look_at_pages(&mut self, units: &mut [UnitCheck]) {
        self.find_pages(units);
        self.ask_about_the_old(units);
        if self.folios.look(&mut self.scratch.asks).is_err() {
            return units.iter_mut().for_each(|unit| unit.answered = false);
        }
        self.scratch.fresh.clear();
        self.scratch.fresh.resize(units.len(), PageBits::default());
        for nr in 0..self.scratch.asks.len() {
            self.judge_page(nr, units);
        }
        self.confirm_units(units);
        for (nr, unit) in units.iter().enumerate().filter(|(_, unit)| unit.answered) {
            let Some(armed) = self.armed.get_mut(unit.target, unit.start) else { continue };
            armed.young = armed.young.or(self.scratch.fresh[nr]).and(unit.present);
            for page in numbers(unit.pages.minus(unit.present)) {
                armed.pages[page] = Was::ABSENT;
            }
        }
        self.tell_folios(units);
    }

    /// Finds the frames of all pages of the units.
    fn find_pages(&mut self, units: &mut [UnitCheck]) {
        let Scratch { found, places, .. } = &mut self.scratch;
        found.clear();
        found.resize(units.len() * PAGES, Found { frame: NO_FRAME, accessed: None });
        self.walker.find_units(units, places, |unit, nr, page, place| {
            let at = nr as usize * PAGES + usize::from(page);
            found[at] = Found { frame: place.frame, accessed: place.accessed };
            if is_huge(unit) {
                unit.present = PageBits::ALL;
            } else {
                set(&mut unit.present, usize::from(page));
            }
        });
    }

    /// Asks about the pages that have not been found young since they were marked. Those that have
    /// are young.
    fn ask_about_the_old(&mut self, units: &mut [UnitCheck]) {
        // Where the page's own accessed bit is seen, a folio that was split since shows that.
        let known_by_bits = self.reads_page_tables();
        let Scratch { found, asks, .. } = &mut self.scratch;
        asks.clear();
        for (nr, unit) in units.iter_mut().enumerate() {
            let armed = self.armed.get(unit.target, unit.start);
            for page in numbers_asked(unit) {
                let place = nr * PAGES + page;
                let frame = found[place].frame;
                if frame == NO_FRAME {
                    continue;
                }
                let was = armed.map_or(Was::NOT_KNOWN, |unit| unit.pages[page]);
                if was.has(frame) && armed.is_some_and(|unit| has(unit.young, page)) {
                    unit.young = unit.young.or(leaf(unit, page));
                    continue;
                }
                let mut ask = found[place].ask(place);
                if was.has(frame) && (known_by_bits || was.head(frame) == frame) {
                    ask.head = was.head(frame);
                }
                asks.push(ask);
            }
        }
    }

    /// Holds what was found of a frame against what was known of its page.
    fn judge_page(&mut self, nr: usize, units: &mut [UnitCheck]) {
        let ask = self.scratch.asks[nr];
        let (at, page) = (ask.nr as usize / PAGES, ask.nr as usize % PAGES);
        let unit = &mut units[at];
        let these = leaf(unit, page);
        let armed = self.armed.get_mut(unit.target, unit.start);
        let was = armed.as_ref().map_or(Was::NOT_KNOWN, |unit| unit.pages[page]);
        let changed = was.had_other_than(ask.frame);
        self.counters.moved += u64::from(changed);
        match verdict(&ask, was, is_huge(unit)) {
            Some(PageState::Old) => {}
            Some(PageState::Young) => {
                unit.young = unit.young.or(these);
                self.scratch.fresh[at] = self.scratch.fresh[at].or(these);
            }
            Some(_) => return unit.present = unit.present.minus(these),
            None => {
                (unit.young, unit.stuck) = (unit.young.or(these), unit.stuck.or(these));
                return;
            }
        }
        if let Some(armed) = armed.filter(|_| changed) {
            note(armed, unit, page, &ask);
        }
    }

    /// Checks whether pages found young still have the frame that was looked at. If not, the mark
    /// was that of another page.
    fn confirm_units(&mut self, units: &mut [UnitCheck]) {
        let Scratch { found, places, fresh, again, again_nr, .. } = &mut self.scratch;
        again.clear();
        again_nr.clear();
        for (nr, unit) in units.iter().enumerate().filter(|(nr, _)| !fresh[*nr].is_empty()) {
            again.push(UnitCheck::new(unit.target, unit.start, unit.pages));
            again_nr.push(nr);
        }
        self.walker.find_units(again, places, |unit, nr, page, place| {
            let page = usize::from(page);
            if found[again_nr[nr as usize] * PAGES + page].frame != place.frame {
                return;
            }
            if is_huge(unit) {
                unit.present = PageBits::ALL;
            } else {
                set(&mut unit.present, page);
            }
        });
        for (nr, again) in again_nr.iter().zip(&*again) {
            let unit = &mut units[*nr];
            let other = fresh[*nr].minus(again.present);
            unit.stuck = unit.stuck.or(other);
            fresh[*nr] = fresh[*nr].and(again.present);
        }
    }

    /// By `pagemap`, a huge page is known by its folio.
    fn tell_folios(&self, units: &mut [UnitCheck]) {
        if self.reads_page_tables() {
            return;
        }
        for (unit, found) in units.iter_mut().zip(self.scratch.found.chunks_exact(PAGES)) {
            let first = found[0].frame;
            let armed = self.armed.get(unit.target, unit.start);
            let is_one = armed.filter(|_| unit.present == PageBits::ALL).is_some_and(|armed| {
                let pages = (first..).zip(found).zip(armed.pages.iter());
                pages.into_iter().all(|((frame, found), was)| {
                    found.frame == frame
                        && was.has(frame)
                        && was.is_large()
                        && was.head(frame) == first
                })
            });
            if is_one {
                unit.leaf_shift = 21;
            }
        }
    }
}

impl Found {
    fn ask(self, place: usize) -> Ask {
        // Places are at most PIECE * PAGES.
        let nr = u32::try_from(place).unwrap_or(u32::MAX);
        Ask { accessed: self.accessed, ..Ask::new(self.frame, nr) }
    }
}
