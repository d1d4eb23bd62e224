//! How many accesses stay fast if only so much memory is fast.
//!
//! Each page has a rate: by how soon after the looks it was touched. A tiering daemon keeps the
//! pages that *were* used most, and what counts is who uses them *next*. So pages are ranked by one
//! half of the record and judged by the accesses of the other half, and the other way round; the
//! two results are the interval. An access is a page that was touched within one sample. What a
//! look has found stands until the next one, so each second of the record counts the same. (A
//! record has only what changed. Memory that is used in the same way all the time is there once.)

use std::collections::BTreeMap;
use std::ops::Range;

use isotherm_core::{PageBits, SPANS, UnitInfo};

use crate::numbers::to_usize;
use crate::price::Estimate;
use crate::shown::float;

/// Sizes of the fast memory that are told, as shares of what is resident.
const SHARES: [f64; 7] = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9];
/// Touches per second of a page that was first touched within a span, by span: once in it.
const RATES: [f32; SPANS] = [200.0, 10.0, 1.0, 0.1, 1.0 / 60.0];

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Row {
    /// Size of the fast memory, as a share of what is resident.
    pub fast: f64,
    /// The same in bytes.
    pub bytes: f64,
    /// The share of accesses that go there.
    pub accesses: Estimate,
}

/// What one half of a record says of the pages of a unit: sums over the times at which it was taken
/// in.
#[derive(Debug, Clone)]
struct Half {
    /// Touches per second, and accesses.
    rate: [f32; 512],
    accesses: [f32; 512],
    times: f32,
}

#[derive(Debug, Clone, Default)]
struct Pages {
    since_ns: u64,
    /// How often it is known to have been made old.
    turns: u32,
    /// Pages that were present at last.
    present: PageBits,
    halves: [Option<Box<Half>>; 2],
}

/// The pages of all targets.
#[derive(Debug, Clone, Default)]
pub(super) struct Tier {
    units: BTreeMap<(u32, u64), Pages>,
}

impl Tier {
    /// Takes in a unit as it is known now; called at equal distances in time.
    pub(super) fn add(&mut self, target: u32, unit: &UnitInfo, is_first_half: bool) {
        let pages = self.units.entry((target, unit.start)).or_default();
        pages.present = unit.present;
        let Some(sample) = unit.touched[0] else { return };
        if pages.turns == 0 || pages.since_ns != unit.since.0 {
            (pages.turns, pages.since_ns) = (pages.turns + 1, unit.since.0);
        }
        let none = || Box::new(Half { rate: [0.0; 512], accesses: [0.0; 512], times: 0.0 });
        let half = pages.halves[usize::from(!is_first_half)].get_or_insert_with(none);
        half.times += 1.0;
        let known = unit.present.minus(unit.unresolved);
        sample.and(known).runs(|from, to| {
            half.accesses[numbers(from, to)].iter_mut().for_each(|n| *n += 1.0);
        });
        let mut shorter = PageBits::default();
        for (plane, rate) in unit.touched.iter().zip(RATES) {
            let plane = plane.unwrap_or_default().and(known).minus(shorter);
            shorter = shorter.or(plane);
            plane.runs(|from, to| {
                half.rate[numbers(from, to)].iter_mut().for_each(|r| *r += rate);
            });
        }
    }

    /// How often a page is known to have been made old, on average.
    #[must_use]
    pub(super) fn turns(&self) -> f64 {
        let (mut turns, mut pages) = (0.0, 0.0);
        for unit in self.units.values() {
            let size = float(unit.present.count());
            turns += size * f64::from(unit.turns);
            pages += size;
        }
        turns / f64::max(pages, 1.0)
    }

    /// The lines; none if there was no access in one of the halves.
    pub(super) fn rows(&self) -> Vec<Row> {
        let both = [self.judged(0, 1), self.judged(1, 0)];
        let [Some(a), Some(b)] = both else { return Vec::new() };
        let pages: u64 = self.units.values().map(|unit| unit.present.count()).sum();
        let row = |(nr, fast): (usize, f64)| {
            let (a, b) = (a[nr], b[nr]);
            let accesses = Estimate::new(a.min(b), f64::midpoint(a, b), a.max(b));
            Row { fast, bytes: fast * float(pages * 4096), accesses }
        };
        SHARES.into_iter().enumerate().map(row).collect()
    }

    /// The share of one half's accesses that go to the pages that the other one ranks first.
    fn judged(&self, by: usize, of: usize) -> Option<[f64; SHARES.len()]> {
        let mut pages: Vec<(f32, f32)> = Vec::new();
        for unit in self.units.values() {
            let (by, of) = (&unit.halves[by], &unit.halves[of]);
            unit.present.runs(|from, to| {
                pages.extend(numbers(from, to).map(|nr| {
                    let rate = by.as_ref().map_or(0.0, |half| half.rate[nr] / half.times);
                    (rate, of.as_ref().map_or(0.0, |half| half.accesses[nr]))
                }));
            });
        }
        // Pages of the same rate are as good as each other, so each has the mean of them.
        pages.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let all: f64 = pages.iter().map(|(_, weight)| f64::from(*weight)).sum();
        if all <= 0.0 {
            return None;
        }
        let mut sums = vec![0.0];
        for group in pages.chunk_by(|a, b| a.0.to_bits() == b.0.to_bits()) {
            let weight: f64 = group.iter().map(|(_, weight)| f64::from(*weight)).sum();
            let each = weight / float(group.len() as u64);
            let before = sums.last().copied().unwrap_or(0.0);
            sums.extend((1..=group.len()).map(|nr| each.mul_add(float(nr as u64), before)));
        }
        let len = float(pages.len() as u64);
        Some(SHARES.map(|share| sums[to_usize(share * len).min(pages.len())] / all))
    }
}

/// Pages of a unit, by number.
fn numbers(from: u64, to: u64) -> Range<usize> {
    let of = |nr: u64| usize::try_from(nr).unwrap_or(0).min(512);
    of(from)..of(to)
}

#[cfg(test)]
mod tests {
    use isotherm_core::{AddrRange, Time};

    use super::*;

    fn pages(from: u64, to: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(from * 4096, to * 4096))
    }

    /// A unit of which these pages are touched in each sample.
    fn unit(since: u64, hot: PageBits) -> UnitInfo {
        let touched = [Some(hot), Some(hot), Some(hot), None, None];
        UnitInfo { since: Time(since), present: PageBits::ALL, touched, ..UnitInfo::default() }
    }

    #[test]
    fn what_stays_hot_stays_fast_and_what_moves_does_not() {
        let shares = |second: PageBits| {
            let mut tier = Tier::default();
            for nr in 0..20_u64 {
                let hot = if nr < 10 { pages(0, 51) } else { second };
                tier.add(0, &unit(nr, hot), nr < 10);
            }
            let rows = tier.rows();
            (rows[1].accesses.mid, rows[4].accesses.mid)
        };
        let (tenth, half) = shares(pages(0, 51));
        assert!(tenth > 0.99 && half > 0.99, "{tenth} {half}");
        // Somewhere else: what was ranked first is not used, and the others are as good as each
        // other.
        let (tenth, half) = shares(pages(200, 251));
        assert!(tenth < 0.01 && (0.4..0.5).contains(&half), "{tenth} {half}");
    }

    #[test]
    fn what_stays_the_same_stands_and_one_half_is_not_enough() {
        let mut tier = Tier::default();
        (0..9).for_each(|_| tier.add(0, &unit(5, pages(0, 9)), true));
        assert!(tier.rows().is_empty());
        assert!((tier.turns() - 1.0).abs() < 1e-9);
        tier.add(0, &unit(5, pages(0, 9)), false);
        assert!(tier.rows()[0].accesses.lo > 0.99);
    }
}
