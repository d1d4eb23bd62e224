//! What was known of the pages of units when they were made old: each page's frame, and how large
//! its folio is at least.
//!
//! Four bytes per page, 2 KiB per armed unit. The low 28 bits are those of the frame; two frames
//! with the same are a TiB apart. The high 4 bits say at which power of two of frames the folio
//! begins, as far as that matters to find its first frame from this one:
//!
//! ```text
//! frame 0x12345 of the folio that begins at 0x12340 -> 3, as 0x12345 & !7 = 0x12340
//! frame 0x12345, all of its folio                   -> 0
//! first frame of a folio of several                 -> 1
//! mapped as a huge page                             -> 9
//! ```
//!
//! Invariant: only units that were asked to be made old are kept, and only while they are mapped.

use std::collections::BTreeMap;

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, TargetId, Time};

/// Time between two removals of what is mapped no more, in ns.
const TIDY_EVERY_NS: u64 = 1_000_000_000;
/// Pages of a unit.
pub(super) const PAGES: usize = 512;
/// 512 frames, as a power of two.
const HUGE_ORDER: u32 = 9;
/// Bits of a frame that are kept.
const FRAME_BITS: u32 = 28;

/// A page as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Was(u32);

impl Was {
    /// Nothing is known of it.
    pub(super) const NOT_KNOWN: Self = Self(u32::MAX);
    /// It was not mapped.
    pub(super) const ABSENT: Self = Self(u32::MAX - 1);
    /// The largest power of two; more are not known.
    const MOST: u32 = 14;

    /// A page with this frame, of the folio that begins at `head`. `is_large`: the folio has
    /// several frames.
    pub(super) fn new(frame: u64, head: u64, is_large: bool) -> Self {
        let order = (u32::from(is_large)..=Self::MOST).find(|o| frame & !((1 << o) - 1) == head);
        order.map_or(Self::NOT_KNOWN, |order| Self(order << FRAME_BITS | low(frame)))
    }

    /// A part of a huge page, with this frame.
    pub(super) fn huge(frame: u64) -> Self {
        Self(HUGE_ORDER << FRAME_BITS | low(frame))
    }

    fn is_known(self) -> bool {
        self.0 >> FRAME_BITS <= Self::MOST
    }

    /// Whether it had a frame, and not this one.
    pub(super) fn had_other_than(self, frame: u64) -> bool {
        self.is_known() && !self.has(frame) || self == Self::ABSENT
    }

    /// Whether it had this frame.
    pub(super) fn has(self, frame: u64) -> bool {
        self.is_known() && self.0 & low(u64::MAX) == low(frame)
    }

    /// The first frame of the folio of `frame`, which it has.
    pub(super) fn head(self, frame: u64) -> u64 {
        frame & !((1 << self.order()) - 1)
    }

    /// Whether its folio has several frames.
    pub(super) fn is_large(self) -> bool {
        self.is_known() && self.order() > 0
    }

    /// Whether a huge page was mapped there.
    pub(super) fn is_huge(self) -> bool {
        self.order() == HUGE_ORDER
    }

    fn order(self) -> u32 {
        if self.is_known() { self.0 >> FRAME_BITS } else { 0 }
    }
}

fn low(frame: u64) -> u32 {
    u32::try_from(frame & ((1 << FRAME_BITS) - 1)).unwrap_or(0)
}

/// One unit.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) pages: Box<[Was; PAGES]>,
    /// Found young since they were made old. That does not change until they are made old again, so
    /// nobody has to look.
    pub(super) young: PageBits,
}

impl Default for Unit {
    fn default() -> Self {
        Self { pages: Box::new([Was::NOT_KNOWN; PAGES]), young: PageBits::default() }
    }
}

/// The units of one target.
#[derive(Debug, Default)]
struct Space {
    units: BTreeMap<u64, Unit>,
    /// When those that are mapped no more are forgotten next.
    next_tidy: Time,
}

/// The units that were made old.
#[derive(Debug, Default)]
pub(super) struct Armed {
    spaces: BTreeMap<TargetId, Space>,
}

impl Armed {
    /// What is known of the unit at `start`.
    pub(super) fn get(&self, target: TargetId, start: u64) -> Option<&Unit> {
        self.spaces.get(&target)?.units.get(&start)
    }

    pub(super) fn get_mut(&mut self, target: TargetId, start: u64) -> Option<&mut Unit> {
        self.spaces.get_mut(&target)?.units.get_mut(&start)
    }

    /// The unit at `start`, which was just made old.
    pub(super) fn entry(&mut self, target: TargetId, start: u64) -> &mut Unit {
        self.spaces.entry(target).or_default().units.entry(start).or_default()
    }

    /// Forgets a target.
    pub(super) fn forget(&mut self, target: TargetId) {
        self.spaces.remove(&target);
    }

    /// Forgets units of a target that lie outside of its mappings, which are sorted. This is done
    /// once per second at most.
    pub(super) fn tidy(&mut self, target: TargetId, maps: &[AddrRange], now: Time) {
        let Some(space) = self.spaces.get_mut(&target).filter(|space| now >= space.next_tidy)
        else {
            return;
        };
        space.next_tidy = now + TIDY_EVERY_NS;
        space.units.retain(|start, _| {
            let next = maps.partition_point(|range| range.end <= *start);
            maps.get(next).is_some_and(|range| range.start < *start + UNIT)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_its_frame_and_leads_to_its_folio() {
        for (name, frame, head, is_large) in [
            ("small", 0x12345, 0x12345, false),
            ("first of several", 0x12340, 0x12340, true),
            ("behind the first", 0x12345, 0x12340, true),
            ("the last of 2 MiB", 0x123ff, 0x12200, true),
            ("above 1 TiB", 0x4_0001_2345, 0x4_0001_2340, true),
        ] {
            let was = Was::new(frame, head, is_large);
            assert!(was.has(frame) && !was.had_other_than(frame), "{name}");
            assert!(!was.has(frame + 1) && was.had_other_than(frame + 1), "{name}");
            assert_eq!((was.head(frame), was.is_large()), (head, is_large), "{name}");
        }
    }

    #[test]
    fn what_is_not_known_proves_nothing() {
        assert!(!Was::NOT_KNOWN.has(5) && !Was::NOT_KNOWN.had_other_than(5));
        assert!(!Was::ABSENT.has(5) && Was::ABSENT.had_other_than(5));
        // A folio that does not begin where a folio of this frame can.
        assert_eq!(Was::new(0x12345, 0x12346, true), Was::NOT_KNOWN);
        let all_bits = (1 << FRAME_BITS) - 1;
        assert!(Was::new(all_bits, all_bits, false).has(all_bits));
    }

    #[test]
    fn units_outside_of_the_mappings_are_forgotten() {
        let (a, b) = (TargetId(1), TargetId(2));
        let mut armed = Armed::default();
        for (target, nr) in [(a, 0), (a, 1), (a, 5), (b, 5)] {
            armed.entry(target, nr * UNIT);
        }
        let maps = [AddrRange::new(UNIT + 4096, 3 * UNIT), AddrRange::new(7 * UNIT, 8 * UNIT)];
        let kept = |armed: &Armed, target, nr| armed.get(target, nr * UNIT).is_some();
        armed.tidy(a, &maps, Time(TIDY_EVERY_NS));
        assert_eq!([0, 1, 5].map(|nr| kept(&armed, a, nr)), [false, true, false]);
        assert!(kept(&armed, b, 5));
        // Not again at once.
        armed.tidy(a, &[], Time(TIDY_EVERY_NS + 1));
        assert!(kept(&armed, a, 1));
        armed.tidy(a, &[], Time(2 * TIDY_EVERY_NS));
        armed.forget(b);
        assert!(!kept(&armed, a, 1) && !kept(&armed, b, 5));
    }
}
