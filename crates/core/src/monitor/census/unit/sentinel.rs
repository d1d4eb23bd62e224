//! Sentinels: one page of a hot unit, armed alone.
//!
//! Hot memory that goes cold shows in no look, since the bits stay set until the unit is armed
//! again. A page that was touched at once in a cell where nearly all samples touch it will be
//! touched again within half a window. If it is not, something has changed.

use super::Unit;
use crate::unit::PageBits;

/// What stands for no page.
pub(super) const NO_PAGE: u16 = u16::MAX;
/// A level from which on a page that was touched is missed in half a window once in a thousand
/// times.
const HOT: u8 = 128;

impl Unit {
    /// A page that is touched in every sample as far as is known, to be armed alone; `nr` says
    /// which one of them.
    pub(in super::super) fn choose_sentinel(&mut self, nr: u64) -> Option<PageBits> {
        if !self.can_have_sentinel() {
            return None;
        }
        let hot = self.hot_pages();
        self.sentinel = hot.nth(nr % hot.count().max(1))?;
        Some(PageBits::page(self.sentinel))
    }

    /// Whether a sentinel would tell whether it has gone cold, and there is none yet.
    pub(in super::super) fn can_have_sentinel(&self) -> bool {
        !self.together
            && self.sentinel == NO_PAGE
            && !self.is_first_open()
            && self.levels.iter().any(|level| *level >= HOT)
            && !self.hot_pages().is_empty()
    }

    /// Pages that were touched at once, in cells where nearly every window would see them again.
    fn hot_pages(&self) -> PageBits {
        let mut cells = PageBits::default();
        for (nr, level) in self.levels.iter().enumerate() {
            let bits = if *level >= HOT { 0xffff } else { 0 };
            cells.0[nr / 4] |= bits << (nr % 4 * 16);
        }
        self.seen_soon().and(cells)
    }

    /// Pages that were touched within the shortest span that was measured, and are not sentinels.
    fn seen_soon(&self) -> PageBits {
        // Where the first look came late, the span of a sample is not known.
        let plane = self.planes.get(0).or_else(|| self.planes.get(1)).unwrap_or(self.young);
        plane.and(self.young).and(self.present)
    }

    /// Whether half of its pages or more were touched at once.
    pub(super) fn is_mostly_hot(&self) -> bool {
        self.seen_soon().count() * 2 >= self.present.count().max(1)
    }
}
