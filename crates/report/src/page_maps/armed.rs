//! For how long what is known of pages has been collected: the time since they were made old last.

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, PageBits, Time, UnitInfo};

use super::PageMap;
use super::sums::units_in;

/// Pages by when they were made old last. All spans that are known of a page began at that time or
/// before, so it is the age of the knowledge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Armed {
    /// When, and how many bytes.
    parts: Vec<(Time, u64)>,
}

/// The age of what is known of some memory, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownAge {
    /// Half of the pages were made old at most so long ago.
    pub median_ns: u64,
    /// All of them were.
    pub oldest_ns: u64,
}

impl Armed {
    /// Adds some pages of a unit. Those that are not there, that cannot be made old, and those of a
    /// unit of which no span was measured do not count: nothing is known of them.
    pub(crate) fn add(&mut self, unit: &UnitInfo, pages: PageBits) {
        let known = unit.present.minus(unit.unresolved).and(pages).count() * PAGE_SIZE;
        if known > 0 && unit.touched.iter().any(Option::is_some) {
            self.parts.push((unit.since, known));
        }
    }

    /// The pages of `range` in a page map.
    pub(crate) fn of(map: &PageMap, range: AddrRange) -> Self {
        let mut armed = Self::default();
        units_in(map, range).for_each(|(unit, pages)| armed.add(unit, pages));
        armed
    }

    /// Adds other memory.
    pub(crate) fn plus(&mut self, other: &Self) {
        self.parts.extend(&other.parts);
    }

    /// The ages at `now`; none if nothing is known of any page.
    pub(crate) fn age(mut self, now: Time) -> Option<KnownAge> {
        self.parts.sort_unstable_by_key(|(since, _)| std::cmp::Reverse(*since));
        let sum = |sum: u128, (_, bytes): &(Time, u64)| sum + u128::from(*bytes);
        let all = self.parts.iter().fold(0, sum);
        let mut seen = 0;
        let median = self.parts.iter().find(|part| {
            seen = sum(seen, part);
            seen * 2 >= all
        });
        let [median_ns, oldest_ns] =
            [median?, self.parts.last()?].map(|(since, _)| now.since(*since));
        Some(KnownAge { median_ns, oldest_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_by_bytes_and_what_is_not_known_does_not_count() {
        let pages = |nr| PageBits::of(0, AddrRange::new(0, nr * PAGE_SIZE));
        let unit = |since, present| UnitInfo {
            since: Time(since),
            present,
            touched: [Some(PageBits::default()), None, None, None, None],
            ..UnitInfo::default()
        };
        let mut armed = Armed::default();
        assert_eq!(armed.clone().age(Time(100)), None);
        armed.add(&UnitInfo { touched: Default::default(), ..unit(1, PageBits::ALL) }, pages(512));
        armed.add(&UnitInfo { unresolved: PageBits::ALL, ..unit(2, pages(9)) }, pages(512));
        assert_eq!(armed.clone().age(Time(100)), None, "nothing is known of these");
        armed.add(&unit(60, pages(100)), pages(512));
        let mut others = Armed::default();
        others.add(&unit(90, pages(300)), pages(199));
        others.add(&unit(40, pages(100)), pages(512));
        assert_eq!(others.clone().age(Time(100)), Some(KnownAge { median_ns: 10, oldest_ns: 60 }));
        armed.plus(&others);
        // 199 pages since 10 ns, 100 since 40, 100 since 60.
        assert_eq!(armed.age(Time(100)), Some(KnownAge { median_ns: 40, oldest_ns: 60 }));
    }
}
