//! Keeps within a budget of CPU time by looking at a sample of memory, as large as the budget
//! allows.

/// The smallest part of memory that is looked at. With less, the numbers would mean nothing.
const LEAST: f64 = 1.0 / 64.0;
/// The share is changed only by more than this factor, so that it is steady.
const STEP: f64 = 1.1;

/// What a round over all pieces costs, piece by piece.
#[derive(Debug)]
pub(crate) struct Pace {
    /// CPU time of each piece's last look, in ns, scaled to a look at all of it. `None` before the
    /// first.
    /// the first.
    full: Vec<Option<f64>>,
    /// CPU time that a round may take, in ns.
    budget: f64,
    share: f64,
}

impl Pace {
    pub(crate) fn new(pieces: usize, budget_ns: f64) -> Self {
        Self { full: vec![None; pieces], budget: budget_ns, share: 1.0 }
    }

    /// Notes that a look at `share` of piece `nr` took so much.
    pub(crate) fn note(&mut self, nr: usize, share: f64, cpu_ns: u64) {
        #[expect(clippy::cast_precision_loss, reason = "a time below days")]
        let full = cpu_ns as f64 / share;
        // Half of the old, so that one interruption does not decide.
        self.full[nr] = Some(self.full[nr].map_or(full, |old| f64::midpoint(old, full)));
    }

    /// The share to look at from now on.
    pub(crate) fn share(&mut self) -> f64 {
        let known: Vec<f64> = self.full.iter().flatten().copied().collect();
        // A few pieces say little about all.
        if known.is_empty() || known.len() < self.full.len().min(8) {
            return self.share;
        }
        let round = known.iter().sum::<f64>() * count(self.full.len()) / count(known.len());
        let wanted = (self.budget / round.max(1.0)).clamp(LEAST, 1.0);
        if wanted < self.share || wanted > self.share * STEP || wanted >= 1.0 {
            // The share is a little less than wanted, so that the next round needs no other change.
            self.share = if wanted < 1.0 { (wanted / STEP).max(LEAST) } else { 1.0 };
        }
        self.share
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of pieces")]
const fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_looked_at_where_the_budget_allows_it() {
        let mut pace = Pace::new(10, 1000.0);
        for nr in 0..10 {
            pace.note(nr, 1.0, 90);
            assert_eq!(pace.share().to_bits(), 1.0_f64.to_bits());
        }
    }

    #[test]
    fn the_share_shrinks_to_the_budget_and_grows_back() {
        let mut pace = Pace::new(100, 1000.0);
        let (mut round, mut shares) = (0.0, Vec::new());
        for (cost, rounds) in [(40.0, 6), (400.0, 6), (5.0, 10)] {
            for _ in 0..rounds {
                round = 0.0;
                for nr in 0..100 {
                    let share = pace.share();
                    let took = cost * share;
                    round += took;
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "small"
                    )]
                    pace.note(nr, share, took.round() as u64);
                }
            }
            shares.push(pace.share());
            assert!(round <= 1000.0, "{cost}: a round takes {round}");
            assert!(round > 500.0 || pace.share() >= 1.0, "{cost}: a round takes {round} only");
        }
        assert!(shares[0] > shares[1] && shares[2] >= 1.0, "{shares:?}");
    }

    #[test]
    fn it_never_looks_at_nothing() {
        let mut pace = Pace::new(1, 0.0);
        pace.note(0, 1.0, 1_000_000);
        assert!(pace.share() >= LEAST);
    }
}
