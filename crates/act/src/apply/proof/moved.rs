//! Remembers which pages were moved between nodes, and when, so that no page goes back and forth.
//!
//! Every scheme leaves a moved page where it is for a while. With a hold of half a minute, no page
//! can be moved more than twice in a minute. A page that comes back within a minute to a node that
//! it had left is a ping-pong page; their number shows whether the schemes work against each other.
//! With three or more nodes a page may also be moved on to another node, which is no ping-pong.
//!
//! Pages that the kernel would not move are held for a shorter while: most of them are mapped by
//! other processes or pinned, and will still be at the next try.

use std::collections::VecDeque;

use isotherm_core::{AddrRange, Time};

use crate::apply::pages::{Bits, PageSet, granules};

/// Moves that are no further apart than this, in ns, share one set of pages.
const TOGETHER_NS: u64 = 1_000_000_000;
/// A page that comes back within this time, in ns, is a ping-pong page.
const PING_PONG_NS: u64 = 60_000_000_000;
/// How long a refused page is not asked for again, in ns.
const REFUSED_NS: u64 = 10_000_000_000;

/// Pages that were moved at about the same time.
#[derive(Debug)]
struct Batch {
    at: Time,
    /// From which node; none: the kernel refused.
    from: Option<u32>,
    pages: PageSet,
}

/// The moves of one target's pages.
#[derive(Debug, Default)]
pub(in crate::apply) struct Moved {
    batches: VecDeque<Batch>,
}

impl Moved {
    /// Whether no pages are remembered.
    pub(in crate::apply) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The pages of the granule at `start` that must stay where they are: moved within the last
    /// `hold_ns`, or refused not long ago.
    pub(in crate::apply) fn held(&self, start: u64, hold_ns: u64, now: Time) -> Bits {
        let hold = |b: &Batch| if b.from.is_some() { hold_ns } else { REFUSED_NS };
        let held = self.batches.iter().filter(|b| now.since(b.at) < hold(b));
        held.fold(Bits::default(), |bits, b| bits.or(b.pages.get(start)))
    }

    /// Records that these pages were moved from one node to another. Returns how many of them came
    /// back: they had left the second node within the last minute.
    pub(in crate::apply) fn moved(
        &mut self,
        ranges: &[AddrRange],
        from: u32,
        to: u32,
        now: Time,
    ) -> u64 {
        self.sweep(now);
        let mut back = 0;
        for (start, part) in ranges.iter().flat_map(|r| granules(*r)) {
            let pages = Bits::of(start, part);
            let left = self.batches.iter().filter(|b| b.from == Some(to));
            let left = left.fold(Bits::default(), |bits, b| bits.or(b.pages.get(start)));
            back += pages.and(left).count();
            self.add(start, pages, Some(from), now);
        }
        back
    }

    /// Records that the kernel refused to move these pages.
    pub(in crate::apply) fn refused(&mut self, start: u64, pages: Bits, now: Time) {
        self.add(start, pages, None, now);
    }

    fn add(&mut self, start: u64, pages: Bits, from: Option<u32>, now: Time) {
        let fits = |b: &&mut Batch| b.from == from && now.since(b.at) < TOGETHER_NS;
        match self.batches.iter_mut().rev().find(fits) {
            Some(batch) => batch.pages.insert(start, pages),
            None => {
                let mut set = PageSet::default();
                set.insert(start, pages);
                self.batches.push_back(Batch { at: now, from, pages: set });
            }
        }
    }

    fn sweep(&mut self, now: Time) {
        let old = |b: &Batch| now.since(b.at) > PING_PONG_NS;
        while self.batches.front().is_some_and(old) {
            self.batches.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::pages::GRANULE;

    const S: u64 = 1_000_000_000;
    const HOLD: u64 = 30 * S;

    fn pages(from: u64, to: u64) -> AddrRange {
        AddrRange::new(from << 12, to << 12)
    }

    #[test]
    fn a_page_stays_for_a_while_and_its_return_is_counted() {
        let mut moved = Moved::default();
        assert_eq!(moved.moved(&[pages(0, 600)], 1, 0, Time(0)), 0);
        for (at_s, held) in [(0, 512), (29, 512), (30, 0)] {
            assert_eq!(moved.held(0, HOLD, Time(at_s * S)).count(), held, "after {at_s} s");
        }
        assert_eq!(moved.held(GRANULE, HOLD, Time(S)).count(), 88);
        // 100 of them go back, and 100 others go there for the first time.
        assert_eq!(moved.moved(&[pages(500, 700)], 0, 1, Time(40 * S)), 100);
        assert_eq!(moved.held(0, HOLD, Time(41 * S)).count(), 12);
        // After a minute the first move is forgotten; the second is not.
        assert_eq!(moved.moved(&[pages(590, 610)], 1, 0, Time(80 * S)), 20);
    }

    #[test]
    fn what_the_kernel_refuses_is_asked_for_again_later() {
        let mut moved = Moved::default();
        moved.refused(0, Bits::of(0, pages(0, 10)), Time(0));
        assert_eq!(moved.held(0, HOLD, Time(9 * S)).count(), 10);
        assert_eq!(moved.held(0, HOLD, Time(10 * S)).count(), 0);
        assert_eq!(moved.moved(&[pages(0, 10)], 0, 1, Time(11 * S)), 0, "it never was elsewhere");
    }

    #[test]
    fn a_page_that_moves_on_has_not_come_back() {
        let mut moved = Moved::default();
        for (name, from, to, at_s, back) in [
            ("away", 0, 1, 0, 0),
            ("on to a third node", 1, 2, 20, 0),
            ("on to a fourth", 2, 3, 21, 0),
            ("back, by a detour", 3, 0, 50, 10),
            ("to the second, that it left longer ago than a minute", 0, 1, 81, 0),
            ("to the third, that it left a minute ago", 1, 2, 81, 10),
        ] {
            let came = moved.moved(&[pages(0, 10)], from, to, Time(at_s * S));
            assert_eq!(came, back, "{name}");
        }
    }
}
