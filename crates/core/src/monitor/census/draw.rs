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
use super::unit::{CELLS, Outline, Unit, interval};
use crate::addr::{AddrRange, round_down};
use crate::interval::count;
use crate::snapshot::TouchedShare;
use crate::time::Time;
use crate::unit::UNIT;

/// Pages that count as independent evidence at most, for the interval of a rate: where nothing is
/// touched, and where something is. More pages do not make it surer: a span is known to a few
/// percent only, and one arming is one sample in time.
const EVIDENCE: (u32, u32) = (64, 16);
/// Of a rate that is not known.
const ANY: (f32, f32) = (0.0, 1.0);
/// Bytes of a cell.
const CELL: u64 = UNIT / CELLS as u64;
/// Differences up to these make no difference: of shares of pages, beyond what chance explains; and
/// the ratio of two ages.
const CLOSE: (f32, f32) = (0.02, 1.625);
/// Standard deviations of a difference that chance explains.
const CHANCE: f32 = 3.0;
/// Cells that changed less than this long ago count as equally old, in ns.
const YOUNG_NS: u64 = 400_000_000;

/// What a unit costs here, cell by cell or if its outline is like that of the unit before; a run;
/// and a run that has to be joined with others, in ns. The examples `census_cost` and `huge` draw
/// again and again, and need a fifth of that for a unit. Between two windows of a real program the
/// caches forget (perf, hot10: 180 µs for 103 units and 110 runs).
const UNIT_NS: u64 = 1000;
const OUTLINE_NS: u64 = 8;
const RUN_NS: u64 = 500;
const JOIN_NS: u64 = 500;
/// Runs that are collected before some are joined, as a multiple of what is to be left. A terabyte
/// of scattered pages would have millions of them, of more bytes than the units.
const MOST_RUNS: usize = 16;

/// A run of cells that are taken as one, in one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    /// The index of the target.
    pub(super) target: usize,
    pub(super) range: AddrRange,
    /// The share of its pages that were touched in one sample.
    pub(super) rate: f32,
    /// Over how many samples that was measured; of what was joined, the mean.
    pub(super) times: f32,
    /// The shares of its pages that were touched within longer spans.
    pub(super) touched: TouchedShare,
    /// For how long it has looked like this, in ns.
    pub(super) age_ns: u64,
    /// Whether a set could look at it.
    pub(super) known: bool,
    /// Whether its rate was measured. If not, it may be anything.
    pub(super) sure: bool,
    /// The 90 % interval of its rate, if its pages are enough evidence. Regions are told in every
    /// window, and drawn more rarely.
    pub(super) interval: (f32, f32),
}

/// The runs of all targets, in the order of the targets.
#[derive(Debug, Default)]
pub(super) struct Runs {
    all: Vec<Run>,
    /// By target, the first of its runs; and how many there are.
    firsts: Vec<usize>,
}

impl Runs {
    /// Draws them anew, at most about `most`. Returns about how long that takes, in ns.
    pub(super) fn draw(&mut self, maps: &[Map], now: Time, most: usize) -> u64 {
        let work_ns = draw(maps, now, most, &mut self.all);
        self.sort(maps.len());
        work_ns
    }

    /// Those of the target with this number.
    pub(super) fn of(&self, target: usize) -> &[Run] {
        let first = |nr: usize| self.firsts.get(nr).copied().unwrap_or(0);
        self.all.get(first(target)..first(target + 1)).unwrap_or_default()
    }

    /// There are so many targets now. `to` tells the number of one from what it was; none if it is
    /// a target no more. They are in the same order as before.
    pub(super) fn renumber(&mut self, nr: usize, to: impl Fn(usize) -> Option<usize>) {
        self.all.retain_mut(|run| {
            let target = to(run.target);
            run.target = target.unwrap_or(0);
            target.is_some()
        });
        self.sort(nr);
    }

    fn sort(&mut self, nr: usize) {
        let mut at = 0;
        self.firsts.clear();
        for target in 0..=nr {
            at += self.all[at..].iter().take_while(|run| run.target < target).count();
            self.firsts.push(at);
        }
    }

    /// These, of so many targets.
    #[cfg(test)]
    pub(super) fn of_test(all: Vec<Run>, nr: usize) -> Self {
        let mut runs = Self { all, firsts: Vec::new() };
        runs.sort(nr);
        runs
    }
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
const fn float(n: u64) -> f32 {
    n as f32
}

impl Run {
    /// How many of its pages count as independent evidence at most.
    fn evidence(&self) -> u32 {
        let is_touched = self.rate * count(EVIDENCE.0) > 1.0;
        if is_touched { EVIDENCE.1 } else { EVIDENCE.0 }
    }

    /// The 90 % interval of the rate of so many of its pages.
    pub(super) fn interval_of(&self, pages: u64) -> (f32, f32) {
        let evidence = self.evidence();
        match u32::try_from(pages) {
            Ok(few) if few < evidence => interval(self.rate, self.times, count(few)),
            _ => self.interval,
        }
    }

    /// One of the first target that was measured just now.
    #[cfg(test)]
    pub(super) fn of_test(range: AddrRange, rate: f32) -> Self {
        Self {
            target: 0,
            range,
            rate,
            times: 1.0,
            touched: TouchedShare::default(),
            age_ns: 0,
            known: true,
            sure: true,
            interval: interval(rate, 1.0, count(EVIDENCE.1)),
        }
    }

    fn is_like(&self, next: &Self) -> bool {
        let pages = 4096.0 / float(self.range.len()) + 4096.0 / float(next.range.len());
        // Most cells are just like the one before, so the cheap answers come first.
        let near = |a: f32, b: f32| {
            let mean = f32::midpoint(a, b);
            let chance = || libm::sqrtf(mean * (1.0 - mean) * pages);
            (a - b).abs() <= CLOSE.0 || (a - b).abs() <= CLOSE.0 + CHANCE * chance()
        };
        let ages = [self.age_ns, next.age_ns].map(|ns| ns.max(YOUNG_NS));
        let is_near_age = || float(ages[0].max(ages[1])) <= CLOSE.1 * float(ages[0].min(ages[1]));
        // Nothing touched is no small share of something touched.
        (self.known, self.sure, self.is_quiet()) == (next.known, next.sure, next.is_quiet())
            && (!self.known
                || near(self.rate, next.rate) && near(self.warm(), next.warm()) && is_near_age())
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

    /// The error that joining with the next run adds; `None` if they cannot be joined. What is
    /// known is joined with what is not only if `across`.
    fn cost(&self, next: &Self, across: bool) -> Option<u64> {
        if !self.touches(next) || (self.known != next.known && !across) {
            return None;
        }
        let (a, b) = (float(self.range.len() / 4096), float(next.range.len() / 4096));
        let rate = self.rate - next.rate;
        let warm = (self.warm() - next.warm()) / 2.0;
        // Of what is not known the age means nothing.
        let both = if self.known == next.known { 1.0 } else { 0.0 };
        let age = both * (log_age(self.age_ns) - log_age(next.age_ns)) / 40.0;
        let error = a * b / (a + b) * (rate * rate + warm * warm + age * age);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        Some((error * 1e6) as u64)
    }

    fn join(&mut self, next: &Self) {
        let (a, b) = (self.range.len(), next.range.len());
        let part = float(b) / float(a + b);
        self.rate += (next.rate - self.rate) * part;
        self.times += (next.times - self.times) * part;
        self.touched = self.touched.join(next.touched, part);
        let sum = u128::from(self.age_ns) * u128::from(a) + u128::from(next.age_ns) * u128::from(b);
        self.age_ns = u64::try_from(sum / u128::from((a + b).max(1))).unwrap_or(u64::MAX);
        self.range.end = next.range.end;
        self.sure &= next.sure;
        self.known &= next.known;
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
fn draw(maps: &[Map], now: Time, most: usize, runs: &mut Vec<Run>) -> u64 {
    runs.clear();
    let (mut nr_whole, mut nr_by_cell, mut nr_joined) = (0, 0, 0);
    let mut limit = most.saturating_mul(MOST_RUNS).max(MOST_RUNS * 256);
    for (target, map) in maps.iter().enumerate() {
        for area in &map.areas {
            let mut at = map.units.partition_point(|u| u.start + UNIT <= area.start);
            let end = map.units.partition_point(|u| u.start < area.end);
            // An area has all of its units. So where they start is known without reading them.
            let mut start = round_down(area.start, UNIT);
            while at < end {
                let outlines = &map.outlines[at..end];
                if let Some(outline) = outlines[0] {
                    let same = outlines.iter().take_while(|other| **other == Some(outline)).count();
                    let behind = start + UNIT * same as u64;
                    let range = AddrRange::new(start.max(area.start), behind.min(area.end));
                    push(runs, whole(target, range, outline, now));
                    start = behind;
                    at += same;
                    nr_whole += same as u64;
                } else {
                    add(runs, target, *area, &map.units[at], now);
                    start += UNIT;
                    at += 1;
                    nr_by_cell += 1;
                }
                if runs.len() > limit {
                    let nr_runs = runs.len();
                    join(runs, limit / 2, most);
                    nr_joined += nr_runs.saturating_sub(runs.len()) as u64;
                    // Areas are never joined. Of more of them than the limit, that is found out
                    // each time that they have become twice as many, not for each.
                    limit = limit.max(runs.len() * 2);
                }
            }
        }
    }
    let nr_runs = runs.len();
    join(runs, most, most);
    for run in &mut *runs {
        run.interval = interval(run.rate, run.times, count(run.evidence()));
    }
    nr_joined += nr_runs.saturating_sub(runs.len()) as u64;
    let runs_ns = nr_runs as u64 * RUN_NS + nr_joined * JOIN_NS;
    nr_whole * OUTLINE_NS + nr_by_cell * UNIT_NS + runs_ns
}

/// Adds the cells of a unit that lie in an area.
fn add(runs: &mut Vec<Run>, target: usize, area: AddrRange, unit: &Unit, now: Time) {
    let known = unit.known && unit.armed;
    for cell in 0..CELLS {
        let start = unit.start + CELL * cell as u64;
        let range = AddrRange::new(start.max(area.start), (start + CELL).min(area.end));
        let run = Run {
            target,
            range,
            rate: unit.rate(cell),
            times: unit.times(),
            touched: unit.touched(cell),
            age_ns: unit.steady_ns(cell, now),
            known: known && !unit.is_blind(cell),
            sure: unit.is_sure(),
            interval: ANY,
        };
        push(runs, run);
    }
}

/// A run of units of which all cells look the same.
fn whole(target: usize, range: AddrRange, outline: Outline, now: Time) -> Run {
    Run {
        target,
        range,
        rate: outline.rate(),
        times: outline.times(),
        touched: outline.touched(),
        age_ns: outline.steady_ns(now),
        known: outline.known,
        sure: outline.sure,
        interval: ANY,
    }
}

/// Adds a run, or joins it with the last one.
fn push(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        _ if run.range.is_empty() => {}
        Some(last) if last.touches(&run) && last.is_like(&run) => last.join(&run),
        _ => runs.push(run),
    }
}

/// Joins until at most `most` runs are left, or none can be joined. While a first pass goes over
/// terabytes there are more alternations of known and unknown memory than that. Then what is known
/// and idle counts as unknown with its neighbours first, and what is hot last.
/// `regions`: the most that are wanted in the end.
fn join(runs: &mut Vec<Run>, most: usize, regions: usize) {
    let alternates = |pair: &&[Run]| pair[0].known != pair[1].known;
    let across = runs.windows(2).filter(alternates).count() >= regions.div_ceil(2);
    join_pairs(runs, most, across);
    if !across {
        join_pairs(runs, most, true);
    }
}

fn join_pairs(runs: &mut Vec<Run>, most: usize, across: bool) {
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
        runs[i].cost(&runs[j], across).map(|cost| Reverse((cost, i, stamp[i], stamp[j])))
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
    use crate::region::Region;
    use crate::rng::Rng;
    use crate::target::TargetId;

    fn run(nr: u64, rate: f32) -> Run {
        Run::of_test(AddrRange::new(nr * CELL, (nr + 1) * CELL), rate)
    }

    #[test]
    fn what_differs_least_is_joined_first() {
        let rates = [0.0, 0.05, 1.0, 0.9, 0.0, 0.0];
        for (most, ends) in [(6, &[1, 2, 3, 4, 5, 6][..]), (3, &[2, 4, 6]), (1, &[6])] {
            let mut runs: Vec<_> = (0..).zip(rates).map(|(nr, rate)| run(nr, rate)).collect();
            join(&mut runs, most, most);
            let found: Vec<_> = runs.iter().map(|r| r.range.end / CELL).collect();
            assert_eq!(found, ends, "at most {most}");
        }
    }

    #[test]
    fn what_is_joined_is_as_sure_as_its_parts() {
        let mut runs = alloc::vec![run(0, 0.5), Run { sure: false, ..run(1, 0.5) }];
        assert!(!runs[0].is_like(&runs[1]));
        join(&mut runs, 1, 1);
        assert!(runs.len() == 1 && !runs[0].sure);
    }

    /// A first pass over terabytes has seen every second stretch of four cells, one of them hot.
    #[test]
    fn what_is_hot_is_told_among_much_that_is_unknown() {
        let of = |nr: u64| Run {
            known: nr / 4 % 2 == 1,
            age_ns: nr << 30,
            ..run(nr, f32::from(u8::from(nr == 501)))
        };
        let mut runs: Vec<_> = (0..2000).map(of).collect();
        // Some are joined as they are collected.
        join(&mut runs, 500, 20);
        join(&mut runs, 20, 20);
        assert!(runs.len() <= 20, "{}", runs.len());
        let hot: Vec<_> = runs.iter().filter(|run| run.known && run.rate > 0.5).collect();
        assert!(hot.len() == 1 && hot[0].range == run(501, 1.0).range, "{hot:?}");
    }

    /// Thousands of processes have tens of thousands of areas.
    #[test]
    fn more_areas_than_are_collected_are_not_tried_one_by_one() {
        let areas = 3 * MOST_RUNS as u64 * 256;
        let area = |nr| Region::new(AddrRange::new(2 * nr * UNIT, 2 * nr * UNIT + 4096));
        let regions: Vec<_> = (0..areas).map(area).collect();
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        map.fit(&regions, Time(0));
        let mut runs = Vec::new();
        let maps = [map];
        let info = allocation_counter::measure(|| {
            draw(&maps, Time(0), 1, &mut runs);
        });
        assert_eq!(runs.len() as u64, areas);
        // Each try allocates some lists.
        assert!(info.count_total < 200, "{info:?}");
    }

    #[test]
    fn what_is_not_known_stays_apart() {
        let mut runs = alloc::vec![run(0, 0.0), Run { known: false, ..run(1, 0.0) }, run(2, 0.0)];
        join(&mut runs, 3, 3);
        assert_eq!(runs.len(), 3);
        // There are too many: what is joined with the unknown is unknown.
        join(&mut runs, 1, 1);
        assert!(runs.len() == 1 && !runs[0].known);
        let mut apart = alloc::vec![run(0, 0.0), run(2, 0.0)];
        join(&mut apart, 1, 1);
        assert_eq!(apart.len(), 2, "there is a hole between them");
    }
}
