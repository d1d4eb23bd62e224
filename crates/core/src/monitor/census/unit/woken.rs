//! What single pages have told of units that have woken up: how many of them are touched all the
//! time.
//!
//! Where a program begins to use other memory, nearly all pages that wake up are touched again at
//! once. Where it uses its memory at random, pages wake up everywhere and all the time. Then the
//! few that are touched again at once are hot ones among many that are not, and say nothing of
//! their neighbours.

use super::Unit;

/// What the last pages have told, one bit each: whether the page was touched again at once. Before
/// anything is known, all of them were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Woken(u16);

impl Default for Woken {
    fn default() -> Self {
        Self(u16::MAX)
    }
}

/// A share of the last pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lasting(u32);

impl Woken {
    /// A page of this unit has told. If it was touched again at once, others of the unit are
    /// expected to be. Returns whether a plane of it is not what it was.
    pub(in super::super) fn expect(&mut self, lasts: bool, unit: &mut Unit) -> bool {
        let lasting = self.hear(lasts);
        lasts && unit.expect_woken(lasting)
    }

    /// A page has told. Returns the share of the last ones that were touched again at once.
    fn hear(&mut self, lasts: bool) -> Lasting {
        self.0 = self.0 << 1 | u16::from(lasts);
        Lasting(self.0.count_ones())
    }
}

impl Lasting {
    /// All of them.
    #[cfg(test)]
    pub(super) const ALL: Self = Self(u16::BITS);

    /// Pages that are touched within a span, if so many were before, and so many have been seen to
    /// be touched now.
    pub(super) fn between(self, before: u64, seen: u64) -> u64 {
        let newly = seen.saturating_sub(before) * u64::from(self.0);
        before.min(seen) + (newly + u64::from(u16::BITS / 2)) / u64::from(u16::BITS)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn what_wakes_up_counts_as_far_as_such_pages_were_touched_again_lately() {
        let mut woken = Woken::default();
        assert_eq!(woken.hear(true), Lasting::ALL);
        assert_eq!(Lasting::ALL.between(60, 280), 280);
        assert_eq!(Lasting::ALL.between(60, 20), 20, "fewer than before");
        let told: Vec<_> = (0..16).map(|nr| woken.hear(nr == 15).between(60, 280)).collect();
        assert_eq!((told[0], told[7], told[14], told[15]), (266, 170, 74, 74));
        for (lasts, pages) in [(false, 60), (true, 280)] {
            let told = (0..16).map(|_| woken.hear(lasts));
            assert_eq!(told.last().map(|lasting| lasting.between(60, 280)), Some(pages));
        }
    }
}
