//! Regions from units: neighbours that are most alike are joined until few enough are left.
//!
//! The grain is the cell of 64 KiB. Runs of cells that look the same are joined at once. Of the
//! rest, the pair whose joining adds least to the squared error is joined first (J. H. Ward,
//! "Hierarchical Grouping to Optimize an Objective Function", JASA 58, 1963), among neighbours
//! only.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::map::Map;
use super::unit::{CELLS, Unit};
use crate::addr::AddrRange;
use crate::snapshot::TouchedShare;
use crate::time::Time;
use crate::unit::UNIT;

/// Bytes of a cell.
const CELL: u64 = UNIT / CELLS as u64;
/// Differences up to these make no difference: of shares of pages, beyond what chance explains, and
/// of the binary logarithms of ages.
const CLOSE: (f32, f32) = (0.02, 0.7);
/// Standard deviations of a difference that chance explains.
const CHANCE: f32 = 3.0;
/// Cells that changed less than this long ago count as equally old, in ns.
const YOUNG_NS: u64 = 400_000_000;

/// What a unit costs here, and a run that has to be joined with others, in ns (measured by the
/// example `census_cost`).
const UNIT_NS: u64 = 150;
const RUN_NS: u64 = 200;

/// A run of cells that are taken as one, in one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    /// The index of the target.
    pub(super) target: usize,
    pub(super) range: AddrRange,
    /// The share of its pages that were touched in one sample.
    pub(super) rate: f32,
    /// The shares of its pages that were touched within longer spans.
    pub(super) touched: TouchedShare,
    /// For how long it has looked like this, in ns.
    pub(super) age_ns: u64,
    /// Whether a set could look at it.
    pub(super) known: bool,
    /// Whether its rate was measured. If not, it may be anything.
    pub(super) sure: bool,
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
const fn float(n: u64) -> f32 {
    n as f32
}

impl Run {
    /// One of the first target that was measured just now.
    #[cfg(test)]
    pub(super) fn of_test(range: AddrRange, rate: f32) -> Self {
        Self {
            target: 0,
            range,
            rate,
            touched: TouchedShare::default(),
            age_ns: 0,
            known: true,
            sure: true,
        }
    }

    fn is_like(&self, next: &Self) -> bool {
        let pages = 4096.0 / float(self.range.len()) + 4096.0 / float(next.range.len());
        let near = |a: f32, b: f32| {
            let mean = f32::midpoint(a, b);
            let chance = libm::sqrtf(mean * (1.0 - mean) * pages);
            (a - b).abs() <= CLOSE.0 + CHANCE * chance
        };
        // Nothing touched is no small share of something touched.
        (self.known, self.sure, self.is_quiet()) == (next.known, next.sure, next.is_quiet())
            && (!self.known
                || near(self.rate, next.rate)
                    && near(self.warm(), next.warm())
                    && (log_age(self.age_ns) - log_age(next.age_ns)).abs() <= CLOSE.1)
    }

    /// The share of its pages that were touched within a second, as far as is known.
    fn warm(&self) -> f32 {
        self.touched.second.unwrap_or(0.0)
    }

    /// Whether none of its pages was touched within any span that is shown.
    fn is_quiet(&self) -> bool {
        let TouchedShare { window, second, .. } = self.touched;
        [Some(self.rate), window, second].iter().all(|share| share.unwrap_or(0.0) == 0.0)
    }

    const fn touches(&self, next: &Self) -> bool {
        self.target == next.target && self.range.end == next.range.start
    }

    /// The error that joining with the next run adds; `None` if they cannot be joined.
    fn cost(&self, next: &Self) -> Option<u64> {
        if !self.touches(next) || self.known != next.known {
            return None;
        }
        let (a, b) = (float(self.range.len() / 4096), float(next.range.len() / 4096));
        let rate = self.rate - next.rate;
        let warm = (self.warm() - next.warm()) / 2.0;
        let age = (log_age(self.age_ns) - log_age(next.age_ns)) / 40.0;
        let error = a * b / (a + b) * (rate * rate + warm * warm + age * age);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        Some((error * 1e6) as u64)
    }

    fn join(&mut self, next: &Self) {
        let (a, b) = (self.range.len(), next.range.len());
        let part = float(b) / float(a + b);
        self.rate += (next.rate - self.rate) * part;
        self.touched = self.touched.join(next.touched, part);
        let sum = u128::from(self.age_ns) * u128::from(a) + u128::from(next.age_ns) * u128::from(b);
        self.age_ns = u64::try_from(sum / u128::from((a + b).max(1))).unwrap_or(u64::MAX);
        self.range.end = next.range.end;
        self.sure &= next.sure;
    }
}

impl TouchedShare {
    /// Both together, if the next one has `part` of the pages.
    fn join(self, next: Self, part: f32) -> Self {
        let mean = |a: Option<f32>, b: Option<f32>| match (a, b) {
            (Some(a), Some(b)) => Some(a + (b - a) * part),
            _ => a.or(b),
        };
        Self {
            window: mean(self.window, next.window),
            second: mean(self.second, next.second),
            leaf_shift: self.leaf_shift.min(next.leaf_shift),
        }
    }
}

/// The binary logarithm of an age, in steps that matter.
fn log_age(ns: u64) -> f32 {
    libm::log2f(float(ns.max(YOUNG_NS)))
}

/// Writes the runs of all targets, in order, at most about `most`. Returns about how long that
/// takes, in ns.
pub(super) fn draw(maps: &[Map], now: Time, most: usize, runs: &mut Vec<Run>) -> u64 {
    runs.clear();
    let nr_units: usize = maps.iter().map(|map| map.units.len()).sum();
    for (target, map) in maps.iter().enumerate() {
        let mut first = 0;
        for area in &map.areas {
            while map.units.get(first).is_some_and(|u| u.start + UNIT <= area.start) {
                first += 1;
            }
            for unit in map.units[first..].iter().take_while(|u| u.start < area.end) {
                add(runs, target, *area, unit, now);
            }
        }
    }
    let nr_joined = runs.len();
    join(runs, most);
    nr_units as u64 * UNIT_NS + nr_joined as u64 * RUN_NS
}

/// Adds the cells of a unit that lie in an area.
fn add(runs: &mut Vec<Run>, target: usize, area: AddrRange, unit: &Unit, now: Time) {
    let known = unit.known && unit.armed;
    let (cells, size) = if unit.is_uniform() { (1, UNIT) } else { (CELLS, CELL) };
    for cell in 0..cells {
        let start = unit.start + size * cell as u64;
        let range = AddrRange::new(start.max(area.start), (start + size).min(area.end));
        if range.is_empty() {
            continue;
        }
        let run = Run {
            target,
            range,
            rate: unit.rate(cell),
            touched: unit.touched(cell),
            age_ns: unit.steady_ns(cell, now),
            known: known && !unit.is_blind(cell),
            sure: unit.is_sure(),
        };
        match runs.last_mut() {
            Some(last) if last.touches(&run) && last.is_like(&run) => last.join(&run),
            _ => runs.push(run),
        }
    }
}

/// Joins until at most `most` runs are left, or none can be joined.
fn join(runs: &mut Vec<Run>, most: usize) {
    let len = runs.len();
    if len <= most {
        return;
    }
    let mut next: Vec<usize> = (1..=len).collect();
    let mut prev: Vec<usize> = (0..len).map(|i| i.wrapping_sub(1)).collect();
    // A pair in the heap is out of date if one of the two has changed since.
    let mut stamp = alloc::vec![0_u32; len];
    let mut gone = alloc::vec![false; len];
    let pair = |runs: &[Run], stamp: &[u32], i: usize, j: usize| {
        runs[i].cost(&runs[j]).map(|cost| Reverse((cost, i, stamp[i], stamp[j])))
    };
    let mut heap: BinaryHeap<_> = (1..len).filter_map(|j| pair(runs, &stamp, j - 1, j)).collect();
    let mut left = len;
    while left > most {
        let Some(Reverse((_, i, stamp_i, stamp_j))) = heap.pop() else { break };
        let j = next[i];
        if gone[i] || j >= len || (stamp[i], stamp[j]) != (stamp_i, stamp_j) {
            continue;
        }
        let right = runs[j];
        runs[i].join(&right);
        (gone[j], next[i]) = (true, next[j]);
        stamp[i] += 1;
        left -= 1;
        if next[i] < len {
            prev[next[i]] = i;
            heap.extend(pair(runs, &stamp, i, next[i]));
        }
        if prev[i] < len {
            heap.extend(pair(runs, &stamp, prev[i], i));
        }
    }
    let mut nr = 0;
    runs.retain(|_| {
        nr += 1;
        !gone[nr - 1]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(nr: u64, rate: f32) -> Run {
        Run::of_test(AddrRange::new(nr * CELL, (nr + 1) * CELL), rate)
    }

    #[test]
    fn what_differs_least_is_joined_first() {
        let rates = [0.0, 0.05, 1.0, 0.9, 0.0, 0.0];
        for (most, ends) in [(6, &[1, 2, 3, 4, 5, 6][..]), (3, &[2, 4, 6]), (1, &[6])] {
            let mut runs: Vec<_> = (0..).zip(rates).map(|(nr, rate)| run(nr, rate)).collect();
            join(&mut runs, most);
            let found: Vec<_> = runs.iter().map(|r| r.range.end / CELL).collect();
            assert_eq!(found, ends, "at most {most}");
        }
    }

    #[test]
    fn what_is_joined_is_as_sure_as_its_parts() {
        let mut runs = alloc::vec![run(0, 0.5), Run { sure: false, ..run(1, 0.5) }];
        assert!(!runs[0].is_like(&runs[1]));
        join(&mut runs, 1);
        assert!(runs.len() == 1 && !runs[0].sure);
    }

    #[test]
    fn what_is_not_known_stays_apart() {
        let mut runs = alloc::vec![run(0, 0.0), Run { known: false, ..run(1, 0.0) }, run(2, 0.0)];
        join(&mut runs, 1);
        assert_eq!(runs.len(), 3);
        let mut apart = alloc::vec![run(0, 0.0), run(2, 0.0)];
        join(&mut apart, 1);
        assert_eq!(apart.len(), 2, "there is a hole between them");
    }
}
