//! Sums over the pages of a group.

use isotherm_core::{Lengths, PageBits, RegionInfo, SPANS, Temperature, UnitInfo};
use isotherm_record::once::{SharedUnit, counted_again};

use super::Tiers;

/// What pages are counted for: touched within each span, hot, that and warm, that and cold, all.
const PLANES: usize = SPANS + 4;

/// From this idle time on memory is cold, in ns.
const COLD_NS: u64 = 60_000_000_000;

/// What the pages of a unit are counted for.
pub(super) fn planes(unit: &UnitInfo) -> [PageBits; PLANES] {
    let Temperature { hot, ten, minute, cold, present } = Temperature::of(unit, PageBits::ALL);
    let known = present.minus(unit.unresolved);
    let warm = hot.or(ten).or(minute);
    let mut planes = [PageBits::default(); PLANES];
    for (plane, touched) in planes.iter_mut().zip(unit.touched) {
        *plane = touched.unwrap_or_default().and(known);
    }
    let [.., a, b, c, d] = &mut planes;
    (*a, *b, *c, *d) = (hot, warm, warm.or(cold), present);
    planes
}

/// Bytes by what they are counted for, and how many of these are counted more than once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    bytes: [u64; PLANES],
    again: [u64; PLANES],
}

impl Sums {
    pub(super) fn add_units<'a>(&mut self, units: impl Iterator<Item = &'a UnitInfo>) {
        for unit in units {
            for (sum, plane) in self.bytes.iter_mut().zip(planes(unit)) {
                *sum += plane.count() << 12;
            }
        }
    }

    /// Takes off what these pages, which several processes show, are counted too often.
    pub(super) fn take_off(&mut self, shared: &[SharedUnit<PLANES>]) {
        self.again = counted_again(shared.iter());
        for (sum, again) in self.bytes.iter_mut().zip(self.again) {
            *sum = sum.saturating_sub(again);
        }
    }

    /// By span: what was counted more than once.
    pub(super) fn again(&self) -> [u64; SPANS] {
        std::array::from_fn(|nr| self.again[nr])
    }

    pub(super) fn tiers(&self) -> Tiers {
        let [.., hot, warm, cold, all] = self.bytes;
        Tiers {
            hot,
            warm: warm.saturating_sub(hot),
            cold: cold.saturating_sub(warm),
            unresolved: all.saturating_sub(cold),
        }
    }
}

impl Tiers {
    /// By regions, if single pages are not known.
    pub(super) fn of_regions(regions: &[RegionInfo], lengths: &Lengths) -> Self {
        let cold_age = lengths.windows_in(COLD_NS);
        let mut tiers = Self::default();
        for region in regions {
            let tier = match region {
                region if !region.resolved => &mut tiers.unresolved,
                region if region.nr_accesses > 0 => &mut tiers.hot,
                region if region.age >= cold_age => &mut tiers.cold,
                _ => &mut tiers.warm,
            };
            *tier = tier.saturating_add(region.range.len());
        }
        tiers
    }
}
