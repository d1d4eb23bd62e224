//! Rounds over all memory.

use std::io;

use isotherm_pages::frames::Words as FrameWords;
use isotherm_pages::idle::Words as BitmapWords;

use crate::kinds::Bytes;
use crate::scanning::known::Ids;
use crate::scanning::pace::Pace;
use crate::scanning::piece::{Buffers, Kernel, Look, Piece, Sample, Sums};

/// What a round found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// Idle bytes by inode of the cgroup.
    pub(crate) sums: Vec<(u64, Bytes)>,
    /// The least share of memory that was looked at in any piece.
    pub(crate) share: f64,
    /// Bytes that were idle before the first look, because another program marked them.
    pub(crate) others: u64,
}

/// All pieces of memory and what is known of them.
#[derive(Debug)]
pub(crate) struct Scanner<B, F> {
    kernel: Kernel<B, F>,
    pieces: Vec<Piece>,
    ids: Ids,
    buffers: Buffers,
    pace: Pace,
    seed: u64,
    round: u64,
}

impl<B: BitmapWords, F: FrameWords> Scanner<B, F> {
    /// A scanner of these ranges of frames. A round may take `budget_ns` of CPU time.
    pub(crate) fn new(
        kernel: Kernel<B, F>,
        ranges: &[std::ops::Range<u64>],
        budget_ns: f64,
        seed: u64,
    ) -> Self {
        let pieces = Piece::cut(ranges);
        let pace = Pace::new(pieces.len(), budget_ns);
        let (ids, buffers) = (Ids::default(), Buffers::default());
        Self { kernel, pieces, ids, buffers, pace, seed, round: 0 }
    }

    /// How many pieces there are.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(Piece::bytes).sum()
    }

    /// Looks at every piece once and marks it again. Calls `wait` before each piece, with its
    /// number. If `wait` returns false, the round ends there and has no result. `cpu` returns the
    /// CPU time used so far, in ns. The first round only marks.
    pub(crate) fn round(
        &mut self,
        mut wait: impl FnMut(usize) -> bool,
        cpu: impl Fn() -> u64,
    ) -> io::Result<Option<Found>> {
        let mut sums = Sums::new();
        let (mut share, mut others) = (1.0_f64, 0);
        for (nr, piece) in self.pieces.iter_mut().enumerate() {
            if !wait(nr) {
                return Ok(None);
            }
            share = share.min(piece.share());
            let sample = match self.pace.share() {
                s if s >= 1.0 => Sample::ALL,
                s => Sample::of(s, self.seed),
            };
            let look = Look { round: self.round, sample };
            let begin = cpu();
            let Self { kernel, ids, buffers, .. } = self;
            others += piece.look(kernel, ids, &mut sums, buffers, look)?;
            self.pace.note(nr, sample.share(), cpu().saturating_sub(begin));
        }
        self.round += 1;
        let sums = self.ids.inos().iter().copied().zip(sums).collect();
        if self.ids.is_full() {
            self.ids.clear();
            self.pieces.iter_mut().for_each(Piece::forget);
        }
        Ok(Some(Found { sums, share, others }))
    }
}

#[cfg(test)]
mod tests;
