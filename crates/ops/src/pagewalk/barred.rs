//! Where units get no advice: in locked memory it is refused. And in mappings whose accessed bits
//! reclaim ignores, a page that `MADV_COLD` has made old is the next to be reclaimed, also if it is
//! in use. Measured: 4 to 6 times the faults under memory pressure.

use isotherm_core::{AddrRange, PageBits, Time, UnitCheck};
use isotherm_sys::clock::now;

use super::PageWalk;

/// Least time between two readings of the mappings, in ns.
const EVERY_NS: u64 = 1_000_000_000;
/// The same, as a multiple of what a reading costs: 0.1 %. Of a target that maps as much as before
/// only advice to the kernel can have changed, so what a reading of all targets costs counts.
const REST: u64 = 1000;

/// What is known of a target's mappings, compared with the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapped {
    /// It maps as much.
    AsMuch,
    /// It may map other memory.
    Anew,
    /// They must have changed.
    Changed,
}

/// The mappings of one address space that must get no advice, sorted.
#[derive(Debug, Default)]
pub(super) struct Barred {
    ranges: Vec<AddrRange>,
    /// When the last reading ended, and what it cost, in ns.
    read: Time,
    pub(super) cost_ns: u64,
}

impl Barred {
    /// The pages of a unit that must get no advice; all of a huge page, if any.
    pub(super) fn pages(&self, unit: &UnitCheck) -> PageBits {
        let range = unit.range();
        let first = self.ranges.partition_point(|r| r.end <= range.start);
        let of_unit = self.ranges[first..].iter().take_while(|r| r.start < range.end);
        let none = PageBits::default();
        let pages = of_unit.fold(none, |pages, r| pages.or(PageBits::of(unit.start, *r)));
        if pages.is_empty() || unit.leaf_shift == 12 { pages } else { PageBits::ALL }
    }
}

impl PageWalk {
    /// Reads the mappings of an address space again, if it is time to or if they must have changed.
    pub(super) fn read_barred(&mut self, slot: u16, mapped: Mapped) {
        let (begin, of_all_ns) = (now(), self.all_barred_ns);
        let barred = &mut self.fallback(slot).barred;
        let cost_ns = if mapped == Mapped::AsMuch { of_all_ns } else { barred.cost_ns };
        let rest_ns = cost_ns.saturating_mul(REST).max(EVERY_NS);
        let was_read = barred.cost_ns > 0 && begin.since(barred.read) < rest_ns;
        if was_read && mapped != Mapped::Changed {
            return;
        }
        let mut ranges = std::mem::take(&mut barred.ranges);
        ranges.clear();
        self.tables.barred_from_cold(slot, &mut ranges);
        let read = now();
        let cost_ns = read.since(begin).max(1);
        let before =
            std::mem::replace(&mut self.fallback(slot).barred, Barred { ranges, read, cost_ns });
        self.all_barred_ns = (self.all_barred_ns + cost_ns).saturating_sub(before.cost_ns);
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::TargetId;
    use isotherm_core::unit::UNIT;

    use super::*;

    #[test]
    fn pages_of_a_unit_in_such_mappings() {
        let range =
            |first: u64, behind: u64| AddrRange::new(UNIT + first * 4096, UNIT + behind * 4096);
        let ranges = vec![range(0, 3), range(10, 12), range(500, 1000), range(4000, 4001)];
        let barred = Barred { ranges, ..Barred::default() };
        for (nr, shift, expected) in
            [(1, 12, 17), (2, 12, 488), (3, 12, 0), (1, 21, 512), (0, 12, 0)]
        {
            let mut unit = UnitCheck::new(TargetId(1), nr * UNIT, PageBits::ALL);
            unit.leaf_shift = shift;
            assert_eq!(barred.pages(&unit).count(), expected, "unit {nr}, leaf 2^{shift}");
        }
    }
}
