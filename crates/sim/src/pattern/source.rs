//! A source draws a pattern's accesses, and counts them by cell.

use super::{Choice, LINE, Plan};

/// The next accesses of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub enum Batch<'a> {
    /// Bytes `start + ((first + k) % touches) * stride` of the region, for k below `n`.
    Sweep {
        /// First byte of the part, from the region's start.
        start: u64,
        /// Accesses in one sweep.
        touches: u64,
        /// Distance of two accesses.
        stride: u64,
        /// Number of the first access within its sweep.
        first: u64,
        /// Number of accesses.
        n: u64,
    },
    /// Cache lines: byte `64 * x` of the region, for each x.
    Lines(&'a [u32]),
}

/// A pattern's state in one thread.
#[derive(Debug)]
pub struct Source {
    rng: fastrand::Rng,
    next: u64,
    lines: Vec<u32>,
    counts: Vec<u32>,
}

impl Source {
    /// A source for `plan`; sweeps begin at `share` (0 to 1) of the part.
    #[must_use]
    pub fn new(plan: &Plan, seed: u64, share: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a number of accesses; `as` saturates"
        )]
        let next = (plan.touches_per_sweep() as f64 * share) as u64;
        let cells = usize::try_from(plan.cells.count()).unwrap_or(0);
        Self {
            rng: fastrand::Rng::with_seed(seed),
            next,
            lines: Vec::new(),
            counts: vec![0; cells],
        }
    }

    /// Draws `n` accesses; `at_ns` is the time since the phase began.
    pub fn batch(&mut self, plan: &Plan, at_ns: u64, n: u32) -> Batch<'_> {
        match &plan.choice {
            Choice::Sweep { stride } => self.sweep(plan, *stride, u64::from(n)),
            Choice::Uniform => {
                let cells = self.counts.len();
                self.draw(plan, n, |rng| if cells == 1 { 0 } else { rng.usize(..cells) })
            }
            Choice::Weighted(table) => {
                self.draw(plan, n, |rng| table.draw(rng.usize(..table.len()), rng.f64()))
            }
            Choice::Drift { first, cells, every_ns } => {
                let first = first + at_ns / every_ns.max(&1);
                let (count, all) = (*cells, plan.cells.count());
                self.draw(plan, n, |rng| {
                    usize::try_from((first + rng.u64(..count.max(1))) % all).unwrap_or(0)
                })
            }
        }
    }

    fn draw(
        &mut self,
        plan: &Plan,
        n: u32,
        mut cell: impl FnMut(&mut fastrand::Rng) -> usize,
    ) -> Batch<'_> {
        self.lines.clear();
        let cells = &plan.cells;
        let Some(last) = cells.nr_pieces().checked_sub(1) else {
            return Batch::Lines(&self.lines);
        };
        let lines_of = |i: u64| -> (u32, u32) {
            let (start, end) = cells.piece(i);
            let to_line = |b: u64| u32::try_from(b / LINE).unwrap_or(u32::MAX);
            (to_line(start), to_line(end.saturating_sub(start).div_ceil(LINE) * LINE).max(1))
        };
        let (_, whole) = lines_of(0);
        let (_, tail) = lines_of(last);
        let (offset, pitch) = (cells.offset / LINE, cells.pitch / LINE);
        for _ in 0..n {
            let i = cell(&mut self.rng);
            self.counts[i] += 1;
            let piece = match cells.sets.get(i) {
                Some(set) => u64::from(set[self.rng.usize(..set.len())]),
                None => i as u64,
            };
            let size = if piece == last { tail } else { whole };
            let start = offset + piece * pitch;
            let line = start + u64::from(self.rng.u32(..size));
            self.lines.push(u32::try_from(line).unwrap_or(u32::MAX));
        }
        Batch::Lines(&self.lines)
    }

    fn sweep(&mut self, plan: &Plan, stride: u64, n: u64) -> Batch<'_> {
        let cells = &plan.cells;
        let touches = plan.touches_per_sweep();
        if touches == 0 {
            return Batch::Lines(&[]);
        }
        let first = self.next % touches;
        // Number of accesses with a number below `end` that lie before the end of cell i.
        let mut left = n;
        let mut at = first;
        let (whole, rest) = (left / touches, left % touches);
        left = rest;
        for (i, count) in (0u64..).zip(&mut self.counts) {
            let begin = (i * cells.pitch).div_ceil(stride);
            let end = ((i + 1) * cells.pitch).div_ceil(stride).min(touches);
            let of_cell = whole * end.saturating_sub(begin);
            *count += u32::try_from(of_cell).unwrap_or(u32::MAX);
        }
        while left > 0 {
            let i = at * stride / cells.pitch;
            let end = ((i + 1) * cells.pitch).div_ceil(stride).min(touches);
            let step = left.min(end - at);
            if let Some(count) = usize::try_from(i).ok().and_then(|i| self.counts.get_mut(i)) {
                *count += u32::try_from(step).unwrap_or(u32::MAX);
            }
            left -= step;
            at = (at + step) % touches;
        }
        self.next = (first + n) % touches;
        Batch::Sweep { start: cells.offset, touches, stride, first, n }
    }

    /// The counts by cell since the last call, as (cell, count) without zeros.
    pub fn take_counts(&mut self) -> Vec<(u32, u32)> {
        let some = (0u32..).zip(&mut self.counts).filter(|(_, c)| **c > 0);
        some.map(|(i, c)| (i, std::mem::take(c))).collect()
    }
}
