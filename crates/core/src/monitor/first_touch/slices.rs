//! The looks for a window's end, spread over its last samples.
//!
//! At the end of a window every armed page is looked at. A thousand regions watch four thousand
//! pages, and to look at all of them in one tick takes hundreds of microseconds. So the last
//! quarter of the window takes them in slices: a region is *settled* when its armed pages were
//! looked at and its estimate was computed. Rates are of real armed time, so a look that is a few
//! samples early is as good. The last slice is the end's own.
//!
//! A wake-up costs more than a slice. So a slice is taken in a tick that is awake anyway, if there
//! is one. If there is none, it wakes the loop as late as possible. With few pages there are no
//! slices, and the end looks at all of them.

use alloc::vec::Vec;

use crate::watches::slot::NEVER;

/// Pages up to which the end of a window looks at all of them.
const UNSLICED: usize = 256;
/// Pages that the end of a window looks at if there are slices. They are few, because the passes
/// over all regions are in the same tick.
const AT_END: usize = 64;
/// Pages that a tick before the end looks at, unless there are too many for the samples that are
/// left.
const SLICE: usize = 768;
/// The last part of a window in which slices are taken: one in so many.
const LAST_PART: u64 = 4;

/// What of a window is settled.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    /// Pages of regions that are not settled yet, and one for each region. About: regions may
    /// change meanwhile.
    open: usize,
    /// How many of these one tick takes.
    size: usize,
    /// How many of these the end takes.
    at_end: usize,
    /// Number of samples before the end in which slices are taken.
    last: u64,
    /// Target and region of those that this tick settles.
    pub(crate) settling: Vec<(u32, u32)>,
}

impl Slices {
    /// A window of so many samples begins, at whose end so many pages and regions have to be seen.
    pub(crate) fn begin(&mut self, open: usize, window: u64) {
        self.open = open;
        self.at_end = if open <= UNSLICED { UNSLICED } else { AT_END };
        self.last = (window / LAST_PART).max(1);
        let nr_slices = usize::try_from(self.last).unwrap_or(usize::MAX);
        self.size = SLICE.max(open.saturating_sub(self.at_end).div_ceil(nr_slices));
    }

    /// The sample from which on every tick has to take a slice, for the window that ends at sample
    /// `end`.
    pub(crate) fn due(&self, end: u64) -> u64 {
        let before_end = self.open.saturating_sub(self.at_end);
        if before_end == 0 {
            return NEVER;
        }
        end.saturating_sub(before_end.div_ceil(self.size.max(1)) as u64)
    }

    /// How many pages and regions the tick at sample `passed` takes.
    pub(crate) const fn room(&self, passed: u64, end: u64) -> usize {
        if passed >= end {
            return usize::MAX;
        }
        if self.open <= self.at_end || end - passed > self.last { 0 } else { self.size }
    }

    /// Regions with so many pages, and one for each region, are settled.
    pub(crate) const fn settled(&mut self, nr_pages: usize) {
        self.open = self.open.saturating_sub(nr_pages);
    }
}

/// What a region with so many watched pages takes of a slice.
pub(crate) const fn cost(nr_slots: u8) -> usize {
    nr_slots as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples of a window of 20 at which a slice is taken, if the loop wakes only for them,
    /// and what is left for the end.
    fn taken(open: usize) -> (Vec<u64>, usize) {
        let mut slices = Slices::default();
        slices.begin(open, 20);
        let mut at = Vec::new();
        let mut passed = 0;
        while slices.due(20) != NEVER {
            passed = slices.due(20).max(passed + 1);
            assert!(passed < 20, "{open}: {} left at the end", slices.open);
            at.push(passed);
            let mut room = slices.room(passed, 20);
            while room > 0 && slices.open > 0 {
                room = room.saturating_sub(cost(3));
                slices.settled(cost(3));
            }
        }
        (at, slices.open)
    }

    #[test]
    fn few_pages_wake_nobody() {
        assert_eq!(taken(UNSLICED), (Vec::new(), UNSLICED));
        assert_eq!(taken(0), (Vec::new(), 0));
    }

    #[test]
    fn slices_are_as_late_as_possible_and_leave_little_for_the_end() {
        assert_eq!(taken(AT_END + SLICE).0, [19]);
        assert_eq!(taken(AT_END + 2 * SLICE + 4).0, [17, 18, 19]);
        for open in [1000, 5000, 50_000] {
            let (at, left) = taken(open);
            assert!(left <= AT_END && at.first() >= Some(&15), "{open}: {at:?}, {left}");
        }
    }

    #[test]
    fn the_end_takes_all_and_the_time_before_nothing() {
        let mut slices = Slices::default();
        slices.begin(10_000, 20);
        assert_eq!(slices.room(14, 20), 0);
        assert!(slices.room(15, 20) >= SLICE);
        assert_eq!(slices.room(20, 20), usize::MAX);
    }
}
