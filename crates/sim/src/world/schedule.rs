//! The schedule of phases: one after another, and again from the first, until the end.

use isotherm_core::Time;

use crate::config::Config;

pub(super) const NS_PER_MS: u64 = 1_000_000;

/// A stretch of time within one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    /// Index of the phase.
    pub(super) phase: usize,
    /// When the phase began.
    pub(super) from: Time,
    /// When it ends.
    pub(super) until: Time,
    /// Whether this is the first phase of a round.
    pub(super) first_of_round: bool,
}

/// The schedule of a whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schedule {
    /// End of each phase, from the start of a round. Phases of length 0 never run.
    ends: Vec<u64>,
    /// When the run ends.
    pub(super) end: Time,
}

impl Schedule {
    /// The schedule of `config` for a run from 0 to `end`.
    pub(super) fn new(config: &Config, end: Time) -> Self {
        let mut sum = 0_u64;
        let ends = config.phases.iter().map(|p| {
            sum = sum.saturating_add(p.time_ms.saturating_mul(NS_PER_MS));
            sum
        });
        Self { ends: ends.collect(), end }
    }

    /// The slice that runs at `at`; `None` from the end on.
    pub(super) fn at(&self, at: Time) -> Option<Slice> {
        let round = self.ends.last().copied().filter(|r| *r > 0)?;
        if at >= self.end {
            return None;
        }
        let (start, inside) = (at.0 / round * round, at.0 % round);
        let phase = self.ends.partition_point(|e| *e <= inside);
        let before = if phase == 0 { 0 } else { self.ends[phase - 1] };
        Some(Slice {
            phase,
            from: Time(start + before),
            until: Time(start.saturating_add(self.ends[phase])).min(self.end),
            first_of_round: before == 0,
        })
    }

    /// The slices that have a part of `[from, until)`.
    pub(super) fn slices(&self, from: Time, until: Time) -> impl Iterator<Item = Slice> {
        let mut at = from;
        std::iter::from_fn(move || {
            let slice = (at < until).then(|| self.at(at)).flatten()?;
            at = slice.until;
            Some(slice)
        })
    }
}
