//! Bytes of a target by how long ago they were touched, from page maps or from regions.
//!
//! With page maps (method `census`), a page is
//!
//! * *hot* if it was touched within a second,
//! * *warm* if it was touched within a longer span, up to a minute,
//! * *cold* if the longest span that was measured, at least a second, saw no touch,
//! * *unresolved* otherwise: it cannot be made old, or was not looked at yet.
//!
//! Regions know rates and ages instead: accessed in the window, not accessed for less than a
//! minute, or for longer.

use isotherm::raw::core::addr::round_down;
use isotherm::raw::core::unit::UNIT;
use isotherm::raw::core::{AddrRange, PageBits, RegionInfo, Temperature, UnitInfo};
use isotherm::raw::report::page_maps::PageMap;

/// From this age on a region without accesses counts as cold, in µs.
const COLD_US: u64 = 60_000_000;

/// Bytes by temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tiers {
    pub(crate) hot: u64,
    pub(crate) warm: u64,
    pub(crate) cold: u64,
    pub(crate) unresolved: u64,
}

impl Tiers {
    pub(crate) fn add(&mut self, other: Self) {
        self.hot = self.hot.saturating_add(other.hot);
        self.warm = self.warm.saturating_add(other.warm);
        self.cold = self.cold.saturating_add(other.cold);
        self.unresolved = self.unresolved.saturating_add(other.unresolved);
    }

    /// Takes away what was counted too often.
    pub(crate) fn take_away(&mut self, other: Self) {
        self.hot = self.hot.saturating_sub(other.hot);
        self.warm = self.warm.saturating_sub(other.warm);
        self.cold = self.cold.saturating_sub(other.cold);
        self.unresolved = self.unresolved.saturating_sub(other.unresolved);
    }

    /// All bytes.
    pub(crate) const fn total(self) -> u64 {
        self.hot.saturating_add(self.warm).saturating_add(self.cold).saturating_add(self.unresolved)
    }

    /// The regions of a window of `aggr_us`.
    pub(crate) fn of_regions(regions: &[RegionInfo], aggr_us: u64) -> Self {
        let mut tiers = Self::default();
        for region in regions {
            let bytes = region.range.len();
            let age_us = u64::from(region.age).saturating_mul(aggr_us);
            let tier = match region {
                region if !region.resolved => &mut tiers.unresolved,
                region if region.nr_accesses > 0 => &mut tiers.hot,
                _ if age_us >= COLD_US => &mut tiers.cold,
                _ => &mut tiers.warm,
            };
            *tier = tier.saturating_add(bytes);
        }
        tiers
    }
}

/// Bytes by the time since they were touched last, as far as that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ages {
    /// Touched within 1 s; 1 to 10 s ago; 10 s to 1 min ago.
    pub(crate) touched: [u64; 3],
    /// Not touched for a minute at least.
    pub(crate) minute: u64,
    /// Not touched for at least a second; what happened before that was not measured yet.
    pub(crate) idle: u64,
    pub(crate) unresolved: u64,
}

impl From<Ages> for Tiers {
    fn from(ages: Ages) -> Self {
        let [hot, ten, minute] = ages.touched;
        let cold = ages.minute.saturating_add(ages.idle);
        Self { hot, warm: ten.saturating_add(minute), cold, unresolved: ages.unresolved }
    }
}

impl Ages {
    /// The pages of these ranges.
    pub(crate) fn of_pages(map: &PageMap, ranges: impl IntoIterator<Item = AddrRange>) -> Self {
        let mut ages = Self::default();
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            for (start, unit) in map.units.range(round_down(range.start, UNIT)..range.end) {
                ages.add(unit, PageBits::of(*start, range));
            }
        }
        ages
    }

    /// Adds these pages of a unit.
    pub(crate) fn add(&mut self, unit: &UnitInfo, pages: PageBits) {
        let bytes = |pages: PageBits| pages.count() << 12;
        let Temperature { hot, ten, minute, cold, present } = Temperature::of(unit, pages);
        self.touched[0] += bytes(hot);
        self.touched[1] += bytes(ten.minus(hot));
        self.touched[2] += bytes(minute.minus(ten.or(hot)));
        let age = if unit.touched[4].is_some() { &mut self.minute } else { &mut self.idle };
        *age += bytes(cold);
        self.unresolved += bytes(present.minus(hot.or(ten).or(minute).or(cold)));
    }

    /// Adds other memory.
    pub(crate) fn plus(&mut self, other: &Self) {
        let add = |sum: &mut u64, other: u64| *sum = sum.saturating_add(other);
        self.touched.iter_mut().zip(other.touched).for_each(|(sum, other)| add(sum, other));
        add(&mut self.minute, other.minute);
        add(&mut self.idle, other.idle);
        add(&mut self.unresolved, other.unresolved);
    }

    /// Adds a region of a window of `aggr_us`.
    pub(crate) fn add_region(&mut self, region: &RegionInfo, aggr_us: u64) {
        let age_us = u64::from(region.age).saturating_mul(aggr_us);
        let place = match age_us {
            _ if !region.resolved => &mut self.unresolved,
            _ if region.nr_accesses > 0 => &mut self.touched[0],
            0..1_000_000 => &mut self.touched[0],
            1_000_000..10_000_000 => &mut self.touched[1],
            10_000_000..COLD_US => &mut self.touched[2],
            _ => &mut self.minute,
        };
        *place = place.saturating_add(region.range.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(pages: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(0, pages << 12))
    }

    fn unit(touched: [Option<PageBits>; 5]) -> UnitInfo {
        UnitInfo {
            present: PageBits::ALL,
            touched,
            unresolved: PageBits::page(511),
            ..UnitInfo::default()
        }
    }

    #[test]
    fn pages_are_hot_warm_cold_or_nobody_knows() {
        let all = AddrRange::new(0, UNIT);
        let whole =
            [Some(first(1)), Some(first(2)), Some(first(4)), Some(first(8)), Some(first(16))];
        for (name, touched, [hot, warm, cold, unresolved]) in [
            ("all spans", whole, [4, 12, 495, 1]),
            ("a second", [None, None, Some(first(4)), None, None], [4, 0, 507, 1]),
            ("a sample only", [Some(first(4)), None, None, None, None], [4, 0, 0, 508]),
            ("nothing", [None; 5], [0, 0, 0, 512]),
        ] {
            let mut map = PageMap::default();
            map.units.insert(0, unit(touched));
            let tiers = Tiers::from(Ages::of_pages(&map, [all]));
            let want = Tiers {
                hot: hot << 12,
                warm: warm << 12,
                cold: cold << 12,
                unresolved: unresolved << 12,
            };
            assert_eq!(tiers, want, "{name}");
            assert_eq!(tiers.total(), UNIT, "{name}");
        }
    }

    #[test]
    fn what_was_not_measured_for_a_minute_is_not_a_minute_old() {
        let mut ages = Ages::default();
        ages.add(&unit([None, None, Some(first(4)), Some(first(8)), None]), PageBits::ALL);
        assert_eq!((ages.touched, ages.minute, ages.idle), ([4 << 12, 4 << 12, 0], 0, 503 << 12));
        ages.add(
            &unit([None, None, Some(first(4)), Some(first(8)), Some(first(9))]),
            PageBits::ALL,
        );
        assert_eq!((ages.touched[2], ages.minute), (1 << 12, 502 << 12));
        ages.add(&unit([None; 5]), PageBits::ALL);
        assert_eq!(ages.unresolved, (1 + 1 + 512) << 12);
    }

    #[test]
    fn regions_tell_by_rate_and_age() {
        let region = |mib: u64, nr_accesses, age, resolved| RegionInfo {
            range: AddrRange::new(0, mib << 20),
            nr_accesses,
            age,
            resolved,
            ..RegionInfo::default()
        };
        let regions = [
            region(1, 3, 0, true),
            region(2, 0, 50, true),
            region(4, 0, 700, true),
            region(8, 0, 9, false),
        ];
        let tiers = Tiers::of_regions(&regions, 100_000);
        assert_eq!(
            tiers,
            Tiers { hot: 1 << 20, warm: 2 << 20, cold: 4 << 20, unresolved: 8 << 20 }
        );
        let mut ages = Ages::default();
        regions.iter().for_each(|region| ages.add_region(region, 100_000));
        assert_eq!((ages.touched, ages.minute), ([1 << 20, 2 << 20, 0], 4 << 20));
    }
}
