//! The plan of a pattern: what it touches in one phase, computed from the config.

use super::{Alias, Cells, sets};
use crate::config::{Config, Mode, Pattern, Phase, Pieces, Rate, Zipf};

/// Sweeps that take longer than this are counted in several cells, so that the truth of a short
/// window says which part was swept.
const SLOW_SWEEP_S: f64 = 0.1;
/// The number of cells of a slow sweep.
const SWEEP_CELLS: u64 = 64;
/// With more blocks than this, blocks of about the same weight are counted together.
const MOST_BLOCKS: u64 = 4096;

/// How the next byte is chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// Bytes 0, stride, 2 * stride, ... of the part, repeatedly.
    Sweep {
        /// Distance of two accesses, in bytes.
        stride: u64,
    },
    /// A cell at random, then a cache line of it at random.
    Uniform,
    /// A cell by weight, then a cache line of it at random.
    Weighted(Alias),
    /// As `Uniform`, but only among `cells` successive cells from number `first` on. `first` grows
    /// by 1 every `every_ns`, and wraps around.
    Drift {
        /// First cell at the phase's start.
        first: u64,
        /// Number of cells that are hot at a time.
        cells: u64,
        /// Time between two moves.
        every_ns: u64,
    },
}

/// What one pattern of one phase touches.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Number of the pattern, counted through all phases from 0.
    pub id: u32,
    /// Index of its region.
    pub region: usize,
    /// Reads, writes or both.
    pub mode: Mode,
    /// Share of the time among the patterns without a rate.
    pub weight: u32,
    /// Accesses per second; `None` is as fast as possible.
    pub rate: Option<f64>,
    /// Only in this process of the fork tree.
    pub process: Option<u32>,
    /// Where, and how finely counted.
    pub cells: Cells,
    /// In which order.
    pub choice: Choice,
}

impl Plan {
    /// Number of accesses of one sweep over the whole part; 0 unless the pattern is a sweep.
    #[must_use]
    pub const fn touches_per_sweep(&self) -> u64 {
        match self.choice {
            Choice::Sweep { stride } => (self.cells.end - self.cells.offset).div_ceil(stride),
            _ => 0,
        }
    }

    /// How often the hot part moves, in ns.
    #[must_use]
    pub const fn moves_every_ns(&self) -> Option<u64> {
        match self.choice {
            Choice::Drift { every_ns, .. } => Some(every_ns),
            _ => None,
        }
    }
}

/// The plans of all phases of `config`, in order; ids count through.
#[must_use]
pub fn plans(config: &Config) -> Vec<Vec<Plan>> {
    let mut mapped: Vec<u64> = config.regions.iter().map(|r| r.mapped).collect();
    let mut id = 0;
    let mut all = Vec::new();
    for phase in &config.phases {
        for &(region, size) in &phase.resize {
            mapped[region] = size;
        }
        let mut of_phase = Vec::new();
        for p in &phase.patterns {
            of_phase.push(plan(config, phase, p, id, mapped[p.region]));
            id += 1;
        }
        all.push(of_phase);
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "numbers of pages are far below 2^52")]
fn plan(config: &Config, phase: &Phase, p: &Pattern, id: u32, mapped: u64) -> Plan {
    let end = p.length.map_or(mapped, |l| p.offset + l).min(mapped).max(p.offset);
    let part = end - p.offset;
    let seed = config.settings.seed;
    let (cells, choice) = if let Some(zipf) = p.zipf {
        weighted(zipf, seed, p.offset, end)
    } else if let Some(pieces) = p.pieces {
        // Patterns choose independently of each other.
        let seed = seed ^ u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        scattered(pieces, phase.time_ms, seed, p.offset, end)
    } else if let Some(pitch) = p.sparse {
        let len = 4096.min(pitch);
        (Cells { pitch, len, ..Cells::one(p.offset, end) }, Choice::Uniform)
    } else if let Some(drift) = p.drift {
        let choice = Choice::Drift {
            first: p.offset / drift.step,
            cells: part / drift.step,
            every_ns: ns(drift.every_ms),
        };
        (Cells::blocks(0, mapped, drift.step), choice)
    } else if p.random {
        (Cells::one(p.offset, end), Choice::Uniform)
    } else {
        (Cells::one(p.offset, end), Choice::Sweep { stride: p.stride })
    };
    // What is touched at a time.
    let pages = match (p.pieces, p.drift) {
        (Some(pieces), _) => pieces.touched_of(cells.nr_pieces()) * (pieces.size / 4096),
        (_, Some(_)) => part.div_ceil(4096),
        _ => cells.pages(),
    };
    let rate = p.rate.map(|r| match r {
        Rate::Total(x) => x,
        // A sweep with a stride below a page touches each page several times per sweep.
        Rate::PerPage(x) => x * pages as f64,
    });
    let mut plan = Plan {
        id,
        region: p.region,
        mode: p.mode,
        weight: p.weight,
        rate,
        process: p.process,
        cells,
        choice,
    };
    let slow = rate.is_some_and(|r| plan.touches_per_sweep() as f64 / r > SLOW_SWEEP_S);
    if slow {
        let len = part.div_ceil(SWEEP_CELLS).next_multiple_of(4096);
        plan.cells = Cells::blocks(p.offset, end, len);
    }
    plan
}

/// Blocks by zipf's law.
#[expect(clippy::cast_precision_loss, reason = "numbers of blocks are far below 2^52")]
fn weighted(zipf: Zipf, seed: u64, offset: u64, end: u64) -> (Cells, Choice) {
    let mut cells = Cells::blocks(offset, end, zipf.block);
    let nr = cells.nr_pieces();
    if nr > MOST_BLOCKS {
        let (by_rank, weights) = sets::ranks(nr, zipf.exponent, zipf.scatter.then_some(seed));
        cells.sets = by_rank;
        return (cells, Choice::Weighted(Alias::new(&weights)));
    }
    let mut weights: Vec<f64> = (1..=nr).map(|k| (k as f64).powf(-zipf.exponent)).collect();
    if zipf.scatter {
        fastrand::Rng::with_seed(seed).shuffle(&mut weights);
    }
    (cells, Choice::Weighted(Alias::new(&weights)))
}

/// Some pieces of all, or sets of pieces that take turns: cell i is what is touched after i moves.
fn scattered(pieces: Pieces, phase_ms: u64, seed: u64, offset: u64, end: u64) -> (Cells, Choice) {
    let mut cells = Cells::blocks(offset, end, pieces.size);
    let moves = pieces.every_ms.map_or(1, |every| phase_ms.div_ceil(every.max(1)));
    let nr = cells.nr_pieces();
    let nr_sets = moves.clamp(1, Pieces::MAX_CHOICES);
    cells.sets = sets::choices(nr, pieces.touched_of(nr), nr_sets, seed);
    let choice = match pieces.every_ms {
        Some(every) => Choice::Drift { first: 0, cells: 1, every_ns: ns(every) },
        None => Choice::Uniform,
    };
    (cells, choice)
}

const fn ns(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}
