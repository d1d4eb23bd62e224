//! Memory of a target that is spared, since the kernel reclaims it and needs its accessed bits.
//!
//! A machine that reads files reclaims their pages all day long, and that is no reason to make less
//! anonymous memory old. So a set may say that only a part of a target's memory is reclaimed.

use alloc::vec::Vec;

use crate::addr::AddrRange;
use crate::ops::Reclaimed;
use crate::time::Time;
use crate::unit::UNIT;

/// For how long memory is spared after it was reclaimed, in ns.
const SPARED_NS: u64 = 10_000_000_000;

/// What is spared of a target.
#[derive(Debug, Default)]
pub(in crate::monitor::census) struct Spared {
    /// Until when all of it is.
    all_until: Time,
    /// Until when these ranges are, sorted and not overlapping.
    part_until: Time,
    part: Vec<AddrRange>,
}

impl Spared {
    /// Takes in what is being reclaimed at this time.
    pub(in crate::monitor::census) fn note(&mut self, reclaimed: Reclaimed<'_>, now: Time) {
        match reclaimed {
            Reclaimed::Nothing => {}
            Reclaimed::Over => (self.all_until, self.part_until) = (now, now),
            Reclaimed::All => self.all_until = now + SPARED_NS,
            Reclaimed::Part(ranges) => {
                self.part_until = now + SPARED_NS;
                self.part.clear();
                self.part.extend_from_slice(ranges);
            }
        }
    }

    /// Whether all of it is spared now.
    pub(in crate::monitor::census) fn all(&self, now: Time) -> bool {
        now < self.all_until
    }

    /// Whether any of it may be spared now.
    pub(in crate::monitor::census) fn any(&self, now: Time) -> bool {
        self.all(now) || now < self.part_until
    }

    /// Whether the unit that begins at this address is spared now: all of it, or a part.
    pub(in crate::monitor::census) fn unit(&self, start: u64, now: Time) -> bool {
        let is_in_part = || {
            let at = self.part.partition_point(|range| range.end <= start);
            self.part.get(at).is_some_and(|range| range.start < start.saturating_add(UNIT))
        };
        self.all(now) || (now < self.part_until && is_in_part())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_or_all_for_ten_seconds() {
        let s = |s: u64| Time(s * 1_000_000_000);
        let mut spared = Spared::default();
        let units = |spared: &Spared, now: Time| [1, 2, 3, 4].map(|nr| spared.unit(nr * UNIT, now));
        assert_eq!(units(&spared, s(0)), [false; 4]);
        let part = [AddrRange::new(0, UNIT), AddrRange::new(3 * UNIT - 4096, 3 * UNIT)];
        spared.note(Reclaimed::Part(&part), s(1));
        assert_eq!(units(&spared, s(10)), [false, true, false, false], "a unit is spared whole");
        assert!(spared.any(s(10)) && !spared.all(s(10)));
        spared.note(Reclaimed::Nothing, s(10));
        assert_eq!(units(&spared, s(10)), [false, true, false, false], "for a while");
        spared.note(Reclaimed::All, s(10));
        assert_eq!(units(&spared, s(19)), [true; 4]);
        assert_eq!(units(&spared, s(20)), [false; 4]);
        assert!(!spared.any(s(20)));
        spared.note(Reclaimed::All, s(30));
        spared.note(Reclaimed::Part(&part), s(31));
        spared.note(Reclaimed::Over, s(32));
        assert!(!spared.any(s(32)), "at once, where there is room again");
    }
}
