//! Sums over the pages of a group.
//!
//! A page that several processes show is as hot as where it is hottest. So sums are made of what is
//! *not* idle, each page once, and what is idle is the difference.

use isotherm_core::{Lengths, PageBits, RegionInfo, SPANS, Temperature, Time, UnitInfo};
use isotherm_record::once::{SharedUnit, counted_again};

use super::ages::{IDLE_MIN, UnitAges};
use super::{Ages, Tiers};

/// What pages are counted for: touched within each span, hot, that and warm, that and cold, all;
/// and those of [`AGED`].
const PLANES: usize = SPANS + 4 + AGED;
/// By idle time: not proven to be idle for so long; the same without those that came back after so
/// long; and likely not idle for so long. Before them, all of which anything is known.
const AGED: usize = 1 + 3 * IDLE_MIN.len();

/// From this idle time on memory is cold, in ns.
const COLD_NS: u64 = 60_000_000_000;

/// What the pages of a unit are counted for. `ages`: what is known of their idle times, if that is
/// asked for.
pub(super) fn planes(unit: &UnitInfo, ages: Option<&UnitAges>, now: Time) -> [PageBits; PLANES] {
    let Temperature { hot, ten, minute, cold, present } = Temperature::of(unit, PageBits::ALL);
    let known = present.minus(unit.unresolved);
    let warm = hot.or(ten).or(minute);
    let mut planes = [PageBits::default(); PLANES];
    for (plane, touched) in planes.iter_mut().zip(unit.touched) {
        *plane = touched.unwrap_or_default().and(known);
    }
    planes[SPANS..SPANS + 4].copy_from_slice(&[hot, warm, warm.or(cold), present]);
    let Some(ages) = ages else { return planes };
    let aged = &mut planes[SPANS + 4..];
    aged[0] = known;
    for (nr, (minutes, returned)) in IDLE_MIN.into_iter().zip(ages.returned()).enumerate() {
        let young = known.minus(ages.proven(minutes));
        aged[1 + nr] = young;
        aged[1 + IDLE_MIN.len() + nr] = young.minus(returned);
        aged[1 + 2 * IDLE_MIN.len() + nr] = known.minus(ages.likely(minutes, now));
    }
    planes
}

/// Bytes by what they are counted for, and how many of these are counted more than once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    bytes: [u64; PLANES],
    again: [u64; PLANES],
}

impl Sums {
    /// Adds units, each by its planes.
    pub(super) fn add_units(&mut self, units: impl Iterator<Item = [PageBits; PLANES]>) {
        for planes in units {
            for (sum, plane) in self.bytes.iter_mut().zip(planes) {
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
        let [_, _, _, _, _, hot, warm, cold, all, ..] = self.bytes;
        Tiers {
            hot,
            warm: warm.saturating_sub(hot),
            cold: cold.saturating_sub(warm),
            unresolved: all.saturating_sub(cold),
        }
    }
}

impl Sums {
    /// By idle time; what came back is that since the last time it was asked for.
    pub(super) fn ages(&self) -> Ages {
        let aged = &self.bytes[SPANS + 4..];
        let nr_times = IDLE_MIN.len();
        let less = |a: usize, b: usize| aged[a].saturating_sub(aged[b]);
        Ages {
            proven: std::array::from_fn(|nr| less(0, 1 + nr)),
            likely: std::array::from_fn(|nr| less(0, 1 + 2 * nr_times + nr)),
            returned: std::array::from_fn(|nr| less(1 + nr, 1 + nr_times + nr)),
            ..Ages::default()
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
