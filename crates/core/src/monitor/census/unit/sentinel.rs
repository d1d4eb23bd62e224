//! Sentinels: one page of a hot unit, armed alone.
//!
//! Hot memory that goes cold shows in no look, since the bits stay set until the unit is armed
//! again. A page that was touched at once in a cell where nearly all samples touch it will be
//! touched again within half a window, or ten samples. If it is not, something has changed.
//!
//! A quiet unit of which pages are touched shows at a look, and not whether they are touched all
//! the time from now on. To arm the unit tells that, and the target pays for each of its pages. One
//! page that is armed alone tells it after one to three samples, for a tenth of that.

use super::super::planes::is_over;
use super::{CELLS, JUDGED, News, TICK_NS, Unit, ratio};
use crate::snapshot::SPANS;
use crate::time::Time;
use crate::unit::PageBits;

/// What stands for no page.
pub(super) const NO_PAGE: u16 = u16::MAX;
/// A level from which on a page that was touched is missed in half a window once in a thousand
/// times.
pub(super) const HOT: u8 = 128;
/// For so many samples it has to be missed at least. Where a window has few samples, half of one
/// is too short: in five samples, one page in thirty of such a cell is missed. (Nine, since it is
/// armed a little after the window has begun and looked at when it ends.)
const MISSED: u64 = 9;
/// What was hot for less than so many windows has only passed by.
const PASSED: u64 = 4;

/// Pages of a cell.
pub(super) const PAGES_PER_CELL: usize = 512 / CELLS;

impl Unit {
    /// Whether a page is armed alone that tells whether what has woken up is touched all the time.
    pub(in super::super) const fn is_waking(&self) -> bool {
        self.waking != 0 && self.sentinel != NO_PAGE
    }

    /// Whether a look at that page tells it now.
    pub(in super::super) const fn is_waking_over(&self, now: Time, spans: &[u64; SPANS]) -> bool {
        is_over(now.since(self.sentinel_since), spans[0], spans)
    }

    /// Whether one more sample could still tell it.
    pub(in super::super) const fn has_time_to_wake(&self, now: Time, spans: &[u64; SPANS]) -> bool {
        now.since(self.sentinel_since).saturating_add(spans[0]) <= spans[0] * JUDGED
    }

    /// A page that is touched in every sample as far as is known, to be armed alone; `nr` says
    /// which one of them.
    pub(in super::super) fn choose_sentinel(&mut self, nr: u64) -> Option<PageBits> {
        if !self.can_have_sentinel() {
            return None;
        }
        let hot = self.hot_pages();
        self.sentinel = hot.nth(nr % hot.count().max(1))?;
        // What has woken up since did not get its page.
        self.waking = 0;
        Some(PageBits::page(self.sentinel))
    }

    /// A look has found these pages touched. What it tells of the page that was armed alone, if
    /// enough time has passed, is added to the news.
    pub(super) fn hear_sentinel(
        &mut self,
        touched: PageBits,
        now: Time,
        spans: &[u64; SPANS],
        news: &mut News,
    ) {
        let watched = now.since(self.sentinel_since);
        self.hear_sample(touched, now, spans, news);
        let is_due = if self.is_waking() {
            self.is_waking_over(now, spans)
        } else {
            // A page that is touched in half of the samples is missed by ten of them once in a
            // thousand times.
            watched * 2 >= spans[1] && watched >= spans[0] * MISSED
        };
        if self.sentinel == NO_PAGE || !is_due {
            return;
        }
        let is_missed = PageBits::page(self.sentinel).and(touched).is_empty();
        if self.is_waking() {
            // One sample misses a third of what is touched two hundred times a second. To look
            // again costs less than to arm the unit, which waits while the budget is spent.
            if is_missed && self.has_time_to_wake(now, spans) {
                return;
            }
            let lasts = !is_missed && watched <= spans[0] * JUDGED;
            news.lasts = Some(lasts);
            self.end_waking(lasts, ratio(watched, spans[0]));
            return;
        }
        let cell = usize::from(core::mem::replace(&mut self.sentinel, NO_PAGE)) / PAGES_PER_CELL;
        let since = u64::from(self.steady[cell]).saturating_mul(TICK_NS);
        // Of what has been hot for long, nobody thought that it might pass by.
        let is_new = now.0.saturating_sub(since) < spans[1] * PASSED;
        let has_passed = is_missed && is_new;
        news.alarm = is_new.then_some(has_passed);
        if has_passed {
            self.has_passed(spans);
        } else if is_new && !is_missed {
            news.published |= self.expect_seen();
        }
        // One page stands for a unit that was hot all over. Else all of it has to be seen.
        let is_calm = is_missed && self.is_mostly_hot();
        news.again |= is_missed && !is_calm;
        // What passes by is no news for its neighbours.
        news.calmed = is_calm && !has_passed;
        if is_calm {
            news.published = true;
            if !has_passed {
                // It stayed after it had woken up, however late the unit is armed now.
                self.woken = 0;
            }
            self.calm(now);
        }
    }

    /// Whether a sentinel would tell whether it has gone cold, and there is none yet.
    pub(in super::super) fn can_have_sentinel(&self) -> bool {
        !self.together
            && self.sentinel == NO_PAGE
            && !self.is_first_open()
            && self.levels.iter().any(|level| *level >= HOT)
            && !self.hot_pages().is_empty()
    }

    /// A page of what has woken up, to be armed alone; `nr` says which one of them. Of a huge page,
    /// all is armed for the same price.
    pub(in super::super) fn choose_woken(&mut self, nr: u64) -> Option<PageBits> {
        if self.together || self.is_huge() || self.sentinel != NO_PAGE || self.is_first_open() {
            return None;
        }
        let woken = self.young.and(*self.present).and(cells(|cell| self.waking >> cell & 1 == 1));
        self.sentinel = woken.nth(nr % woken.count().max(1))?;
        Some(PageBits::page(self.sentinel))
    }

    /// Pages that were touched at once, in cells where nearly every window would see them again.
    fn hot_pages(&self) -> PageBits {
        self.seen_soon().and(cells(|cell| self.levels[cell] >= HOT))
    }

    /// Pages that were touched within the shortest span that was measured, and are not sentinels.
    /// Of a cell that has become hot since then, those that were touched since the arming.
    fn seen_soon(&self) -> PageBits {
        let young = self.young.and(*self.present);
        // Where the first look came late, the span of a sample is not known.
        let plane = self.planes.get(0).or_else(|| self.planes.get(1)).unwrap_or(young).and(young);
        let is_newer = |cell| plane.cell(cell) == 0 && self.levels[cell] >= HOT;
        plane.or(young.and(cells(is_newer)))
    }

    /// Whether half of its pages or more were touched at once.
    pub(super) fn is_mostly_hot(&self) -> bool {
        self.seen_soon().count() * 2 >= self.present.count().max(1)
    }
}

/// The pages of some cells.
pub(super) fn cells(are_in: impl Fn(usize) -> bool) -> PageBits {
    let mut pages = PageBits::default();
    for cell in (0..CELLS).filter(|cell| are_in(*cell)) {
        pages.0[cell / 4] |= 0xffff << (cell % 4 * 16);
    }
    pages
}
