//! How far the sums over turns are out of date.
//!
//! A sum has what each unit's last turn has counted, and with a small budget that was a minute ago.
//! Of memory that is used at random nothing but a turn shows that less or more of it is in use now.
//! But the units that have their turn now are an even sample of all. What they count differs from
//! what the turn before has counted of them, and by as much, on average, the units that still wait
//! are off. (Survey samplers call that a difference estimator.) So a change of all of the target is
//! known after some dozen turns.
//!
//! What units differ by is noise mostly, also where nothing changes. So the mean over the newest
//! units moves the interval only if it is more than chance, and the number if it is far more. How
//! many of them are taken: as many as make chance most unlikely. That finds when the change was,
//! and units that had their turn since then are right. What they differ by on both sides makes the
//! doubt of the others larger, as where a hot set moves and keeps its size.
//!
//! Units that are armed together are neighbours, and what is new in one is so in all. So they are
//! one event.
//!
//! Invariant: where all turns count the same as before, nothing is added, and no doubt. Absent: a
//! unit that was found different has its next turn sooner, so it counts more often than others.

use super::SIGMAS;
use crate::interval::float;
use crate::time::Time;

/// The history of a target is kept in so many parts of about the same number of units.
const BLOCKS: usize = 24;
/// The least number of units of a part.
const LEAST: u32 = 4;
/// From so many units on, the newest ones tell something.
const FEWEST: u32 = 16;
/// Units that were armed within this time, in ns, are one batch.
const BATCH_NS: u64 = 20_000_000;
/// So many standard deviations chance explains: beyond the first number the interval is moved, and
/// beyond the second the number as well.
const CHANCE: [f64; 2] = [2.0, 3.0];

/// Units that had their turn one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Block {
    units: u32,
    /// By how many pages they differ from what was counted of them before, in all.
    sum: i32,
    /// The sum of the squares of that, each batch of units as one.
    squares: u64,
}

/// What the turns of a target find for one span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Drift {
    blocks: [Block; BLOCKS],
    /// The number of the newest block.
    newest: usize,
    /// When the last batch of units was armed, and by how many pages it differs.
    batch: (Time, i64),
}

/// What follows for the units that had no turn since.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in super::super) struct Drifted {
    /// Pages that are touched besides, or less than 0; and the variance of that.
    pub(in super::super) pages: f64,
    pub(in super::super) variance: f64,
    /// How many there may be: the end of a 90 % interval that is farther from 0.
    pub(in super::super) most: f64,
    /// The variance of what those units differ from what was counted of them.
    pub(in super::super) noise: f64,
}

impl Drift {
    /// Nothing is known.
    #[cfg(test)]
    pub(in super::super) const NONE: Self = Self {
        blocks: [Block { units: 0, sum: 0, squares: 0 }; BLOCKS],
        newest: 0,
        batch: (Time(0), 0),
    };

    /// A unit that was armed at `since`, in a target of `all`, differs by so many pages.
    pub(in super::super) fn note(&mut self, since: Time, pages: i16, all: usize) {
        if since.since(self.batch.0) > BATCH_NS {
            self.close(all);
            self.batch = (since, 0);
        }
        self.batch.1 += i64::from(pages);
        let block = &mut self.blocks[self.newest];
        block.units += 1;
        block.sum = block.sum.saturating_add(i32::from(pages));
    }

    /// The batch is over, and the block with it if it is large enough.
    fn close(&mut self, all: usize) {
        let block = &mut self.blocks[self.newest];
        block.squares = block.squares.saturating_add(self.batch.1.unsigned_abs().pow(2));
        let enough = u32::try_from(all / BLOCKS).unwrap_or(u32::MAX).max(LEAST);
        if block.units >= enough {
            self.newest = (self.newest + 1) % BLOCKS;
            self.blocks[self.newest] = Block::default();
        }
    }

    /// What that says of a sum over so many units.
    pub(in super::super) fn told(&self, units: u64) -> Drifted {
        let (mut nr, mut sum, mut squares) = (0_u32, 0_i64, self.batch.1.unsigned_abs().pow(2));
        let (mut told, mut best) = (Drifted::default(), CHANCE[0] * CHANCE[0]);
        for back in 0..BLOCKS {
            let block = &self.blocks[(self.newest + BLOCKS - back) % BLOCKS];
            nr += block.units;
            (sum, squares) = (sum + i64::from(block.sum), squares.saturating_add(block.squares));
            if nr < FEWEST || squares == 0 || u64::from(nr) >= units {
                continue;
            }
            let (nr, rest) = (f64::from(nr), float(units - u64::from(nr)));
            let (squares, sum) = (float(squares), signed(sum));
            told.noise = told.noise.max(squares / nr * rest);
            // By how many variances the sum is off from 0.
            let off = sum * sum / squares;
            if off > best {
                best = off;
                let by = rest / nr;
                let beyond = |chance: f64| (1.0 - chance * chance / off).max(0.0);
                let sigma = by * libm::sqrt(squares);
                told.most = sum * by * beyond(CHANCE[0]) + (SIGMAS * sigma).copysign(sum);
                told.pages = sum * by * beyond(CHANCE[1]);
                told.variance = if told.pages == 0.0 { 0.0 } else { sigma * sigma };
            }
        }
        told
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of pages")]
const fn signed(pages: i64) -> f64 {
    pages as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The turns of units in batches of so many, each of which differs by what `of` says.
    fn turns(drift: &mut Drift, nr: usize, batch: usize, all: usize, mut of: impl FnMut() -> i16) {
        let begin = drift.batch.0.0 / BATCH_NS + 2;
        for i in 0..nr {
            drift.note(Time((begin + 2 * (i / batch) as u64) * BATCH_NS), of(), all);
        }
    }

    #[test]
    fn where_nothing_changes_nothing_is_added() {
        let mut drift = Drift::default();
        assert_eq!(drift.told(1000), Drifted::default());
        turns(&mut drift, 2000, 8, 1000, || 0);
        assert_eq!(drift.told(1000), Drifted::default());
    }

    #[test]
    fn what_some_units_find_is_expected_of_the_others() {
        // One in twelve units has begun to be used at random, as where 5 % become 13 %.
        let mut rng = Rng::seeded(1);
        let mut drift = Drift::default();
        turns(&mut drift, 1000, 1, 1024, || 0);
        turns(&mut drift, 128, 1, 1024, || if rng.range(0, 12) == 0 { 500 } else { 0 });
        let told = drift.told(1024);
        let truth = (1024.0 - 128.0) / 12.0 * 500.0;
        let sigma = libm::sqrt(told.variance);
        assert!((told.pages - truth).abs() < 1.645 * sigma, "{told:?}, {truth}");
        assert!(told.pages > truth / 4.0, "{told:?}, {truth}");
        assert!(told.most > told.pages && told.most > truth * 0.8, "{told:?}, {truth}");
        // All have had their turn.
        turns(&mut drift, 896, 1, 1024, || if rng.range(0, 12) == 0 { 500 } else { 0 });
        assert!(drift.told(1024).pages < truth / 4.0, "{:?}", drift.told(1024));
        turns(&mut drift, 1024, 1, 1024, || 0);
        assert!(drift.told(1024).pages.abs() < truth / 8.0, "{:?}", drift.told(1024));
    }

    #[test]
    fn what_moves_and_keeps_its_size_is_doubt_and_nothing_else() {
        let mut nr = 0;
        let mut drift = Drift::default();
        turns(&mut drift, 1000, 1, 1024, || 0);
        turns(&mut drift, 120, 1, 1024, || {
            nr += 1;
            [500, 0, 0, -500, 0, 0][nr % 6]
        });
        let told = drift.told(1024);
        assert_eq!((told.pages, told.variance), (0.0, 0.0), "{told:?}");
        let expected = 500.0 * 500.0 / 3.0 * 904.0;
        assert!((expected * 0.9..expected * 1.2).contains(&told.noise), "{told:?}, {expected}");
    }

    #[test]
    fn neighbours_that_are_armed_together_are_one_event() {
        // Four chunks of eight units in which everything is new: that is chance, and 32 units that
        // lie apart from each other are not.
        for (batch, is_change) in [(8, false), (1, true)] {
            let mut drift = Drift::default();
            turns(&mut drift, 32, batch, 512, || 300);
            assert_eq!(drift.told(512).pages > 0.0, is_change, "{:?}", drift.told(512));
        }
    }
}
