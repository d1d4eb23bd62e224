//! One pattern of one phase as a process executes it: which bytes are touched when.
//!
//! Random patterns are Poisson processes: the mean number of touches of some bytes in some time
//! determines them. Sweeps are deterministic: access `k` happens `k / rate` after the begin.

use isotherm_core::{AddrRange, Time};

use crate::pattern::{Cells, Choice, Plan};

/// A pattern with the speed at which it runs.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) plan: Plan,
    /// Accesses per second, of all threads together.
    rate: f64,
    /// Chance of each cell, if the choice is weighted.
    shares: Vec<f64>,
    /// Chance of each piece, if cells are sets of pieces that do not take turns.
    of_pieces: Vec<f64>,
    threads: u32,
}

impl Lane {
    pub(super) fn new(plan: Plan, rate: f64, threads: u32) -> Self {
        let shares = match &plan.choice {
            Choice::Weighted(table) => table.shares(),
            _ => Vec::new(),
        };
        let of_pieces = match plan.choice {
            Choice::Drift { .. } => Vec::new(),
            _ => of_pieces(&plan.cells, &shares),
        };
        Self { plan, rate, shares, of_pieces, threads: threads.max(1) }
    }

    /// Whether the bytes `[start, end)` of the region can be touched at all.
    fn reaches(&self, bytes: AddrRange) -> bool {
        let cells = &self.plan.cells;
        bytes.start < cells.end && cells.offset < bytes.end
    }

    /// Since when the pattern counts its time, in a process that runs the phase from `begin` on.
    /// Hot parts move by the phase's clock. A sweep starts anew with the process.
    pub(super) fn counts_from(&self, phase: Time, begin: Time) -> Time {
        if matches!(self.plan.choice, Choice::Drift { .. }) { phase } else { begin }
    }

    /// The expected number of touches of `bytes` in `[from, until)`, of a pattern that counts its
    /// time from `begin` on; infinite if a sweep passes there.
    pub(super) fn touches(&self, bytes: AddrRange, begin: Time, from: Time, until: Time) -> f64 {
        if !self.reaches(bytes) || until <= from {
            return 0.0;
        }
        match self.plan.choice {
            Choice::Sweep { stride } => {
                if self.swept(bytes, stride, begin, from, until) {
                    f64::INFINITY
                } else {
                    0.0
                }
            }
            Choice::Uniform | Choice::Weighted(_) => {
                let density: f64 = pieces_in(&self.plan.cells, bytes)
                    .map(|i| self.share_of_piece(i) * part(&self.plan.cells, i, bytes))
                    .sum();
                self.rate * density * seconds(until.since(from))
            }
            Choice::Drift { first, cells, every_ns } => {
                let drift = Drift { first, cells, every_ns, all: self.plan.cells.count() };
                let hot_s = |cell| seconds(drift.hot_ns(cell, begin, from, until));
                let sum: f64 = if self.plan.cells.sets.is_empty() {
                    let pieces = pieces_in(&self.plan.cells, bytes);
                    pieces.map(|i| part(&self.plan.cells, i, bytes) * hot_s(i)).sum()
                } else {
                    let sets = (0..).zip(&self.plan.cells.sets);
                    sets.map(|(cell, set)| self.share_in(set, bytes) * hot_s(cell)).sum()
                };
                self.rate * sum / to_f64(cells.max(1))
            }
        }
    }

    /// Chance that a random access falls into cell `i`.
    fn share(&self, i: u64) -> f64 {
        if self.shares.is_empty() {
            return 1.0 / to_f64(self.plan.cells.count().max(1));
        }
        usize::try_from(i).ok().and_then(|i| self.shares.get(i)).copied().unwrap_or(0.0)
    }

    /// Chance that a random access falls into piece `i`.
    fn share_of_piece(&self, i: u64) -> f64 {
        if self.of_pieces.is_empty() {
            return self.share(i);
        }
        usize::try_from(i).ok().and_then(|i| self.of_pieces.get(i)).copied().unwrap_or(0.0)
    }

    /// The share of the pieces of `set` that lies in `bytes`.
    fn share_in(&self, set: &[u32], bytes: AddrRange) -> f64 {
        let cells = &self.plan.cells;
        let is_in = |i: &u64| u32::try_from(*i).is_ok_and(|i| set.binary_search(&i).is_ok());
        let parts = pieces_in(cells, bytes).filter(is_in).map(|i| part(cells, i, bytes));
        parts.sum::<f64>() / to_f64(set.len() as u64)
    }

    /// Number of the first access of a thread's sweep at or after `at`.
    fn sweep_at(&self, begin: Time, at: Time) -> u64 {
        floor(self.rate / f64::from(self.threads) * seconds(at.since(begin)))
    }

    /// Where thread `thread` begins to sweep.
    fn sweep_start(&self, thread: u32) -> u64 {
        let share = f64::from(thread) / f64::from(self.threads);
        floor(to_f64(self.plan.touches_per_sweep()) * share)
    }

    fn swept(&self, bytes: AddrRange, stride: u64, begin: Time, from: Time, until: Time) -> bool {
        let (offset, touches) = (self.plan.cells.offset, self.plan.touches_per_sweep());
        // Accesses a..b of each sweep fall into these bytes.
        let a = bytes.start.saturating_sub(offset).div_ceil(stride);
        let b = bytes.end.min(self.plan.cells.end).saturating_sub(offset).div_ceil(stride);
        if a >= b || touches == 0 {
            return false;
        }
        let (first, last) = (self.sweep_at(begin, from), self.sweep_at(begin, until));
        (0..self.threads).any(|thread| {
            let first = (self.sweep_start(thread) + first) % touches;
            // The next access at or after `first` that falls into a..b.
            let wait = if first < a {
                a - first
            } else if first < b {
                0
            } else {
                touches - first + a
            };
            wait < last - self.sweep_at(begin, from)
        })
    }

    /// The number of accesses by cell in `[from, until)`, of a pattern that counts its time from
    /// `begin` on, without zeros. For random patterns these are the expected numbers, rounded so
    /// that sums over time stay exact.
    pub(super) fn counts(&self, begin: Time, from: Time, until: Time) -> Vec<(u32, u64)> {
        let cells = &self.plan.cells;
        let of_cell = |i: u64| -> u64 {
            match self.plan.choice {
                Choice::Sweep { stride } => self.sweep_count(i, stride, begin, from, until),
                Choice::Uniform | Choice::Weighted(_) => {
                    let rate = self.rate * self.share(i);
                    let by = |t: Time| floor(rate * seconds(t.since(begin)));
                    by(until) - by(from)
                }
                Choice::Drift { first, cells: hot, every_ns } => {
                    let drift = Drift { first, cells: hot, every_ns, all: cells.count() };
                    let rate = self.rate / to_f64(hot.max(1));
                    let by = |t: Time| floor(rate * seconds(drift.hot_ns(i, begin, begin, t)));
                    by(until) - by(from)
                }
            }
        };
        let numbered = (0_u32..).zip(0..cells.count()).map(|(n, i)| (n, of_cell(i)));
        numbered.filter(|(_, n)| *n > 0).collect()
    }

    fn sweep_count(&self, i: u64, stride: u64, begin: Time, from: Time, until: Time) -> u64 {
        let touches = self.plan.touches_per_sweep();
        if touches == 0 {
            return 0;
        }
        let pitch = self.plan.cells.pitch;
        let (a, b) = ((i * pitch).div_ceil(stride), ((i + 1) * pitch).div_ceil(stride));
        let (a, b) = (a.min(touches), b.min(touches));
        // Accesses of the cell among the first n of a sweep that begins at its start.
        let among = |n: u64| n / touches * (b - a) + (n % touches).clamp(a, b) - a;
        let (first, last) = (self.sweep_at(begin, from), self.sweep_at(begin, until));
        let of_thread = |thread| {
            let start = self.sweep_start(thread);
            among(start + last) - among(start + first)
        };
        (0..self.threads).map(of_thread).sum()
    }
}

/// Hot cells that move.
#[derive(Debug, Clone, Copy)]
struct Drift {
    first: u64,
    cells: u64,
    every_ns: u64,
    all: u64,
}

impl Drift {
    /// For how long cell `i` is hot in `[from, until)`.
    fn hot_ns(&self, i: u64, begin: Time, from: Time, until: Time) -> u64 {
        let every = self.every_ns.max(1);
        let all = self.all.max(1);
        // It is hot during the moves j with (i - first - j) mod all < cells: a stretch of them,
        // from `enters` on, that comes back every `all` moves.
        let hot = self.cells.min(all) * every;
        let round = all * every;
        let enters = (i + 2 * all - self.first % all + 1 - self.cells.min(all)) % all * every;
        // Hot time from the begin of all rounds to t, which is counted from an entry.
        let by = |t: u64| t / round * hot + (t % round).min(hot);
        let shift = round - enters;
        by(until.since(begin) + shift) - by(from.since(begin) + shift)
    }
}

/// Chance of each piece, if cells are sets. `shares` are the chances of the cells; none if they are
/// equal.
fn of_pieces(cells: &Cells, shares: &[f64]) -> Vec<f64> {
    if cells.sets.is_empty() {
        return Vec::new();
    }
    let mut all = vec![0.0; usize::try_from(cells.nr_pieces()).unwrap_or(0)];
    for (i, set) in cells.sets.iter().enumerate() {
        let share = shares.get(i).copied().unwrap_or(1.0 / to_f64(cells.count()));
        for piece in set {
            all[*piece as usize] += share / to_f64(set.len() as u64);
        }
    }
    all
}

/// The pieces that have a byte of `bytes`.
fn pieces_in(cells: &Cells, bytes: AddrRange) -> std::ops::Range<u64> {
    let pitch = cells.pitch.max(1);
    let first = bytes.start.saturating_sub(cells.offset) / pitch;
    let end = bytes.end.min(cells.end).saturating_sub(cells.offset).div_ceil(pitch);
    first..end.max(first)
}

/// The share of piece `i` that lies in `bytes`.
fn part(cells: &Cells, i: u64, bytes: AddrRange) -> f64 {
    let (start, end) = cells.piece(i);
    let piece = AddrRange::new(start, end);
    to_f64(piece.overlap(&bytes)) / to_f64(piece.len().max(1))
}

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    to_f64(ns) / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "sizes, counts and times of a run")]
pub(super) fn to_f64(x: u64) -> f64 {
    x as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of accesses; `as` saturates"
)]
fn floor(x: f64) -> u64 {
    x as u64
}
