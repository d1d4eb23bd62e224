//! How much of the memory in use is made old in a round, so that the CPU time stays in its budget.
//!
//! Three things cost: looking at everything, making touched memory old, and what the programs pay
//! for that, which set each accessed bit again when they touch the page again. The first costs what
//! it costs. The other two are in proportion to the share of the touched units that are drawn.
//!
//! The first round meets memory of which every page is young, which costs a multiple of later
//! rounds. It is lent some rounds' budget, which is paid back later.

/// The smallest share. With less, most cgroups would have no unit in the sample. It costs about as
/// much as the look at everything.
const LEAST: f64 = 1.0 / 8.0;
/// Rounds whose budget is lent to the first one.
const LENT: f64 = 4.0;
/// Rounds in which a debt is to be paid back.
const PAY_BACK: f64 = 4.0;
/// What the first look and arming cost, in ns per page: 30 ms of CPU per GiB.
const FIRST_NS: f64 = 115.0;
/// What a program pays to set an accessed bit again, in ns (measured: 300 to 700).
pub(super) const SET_AGAIN_NS: f64 = 500.0;

/// What a round has cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Cost {
    /// CPU time, all in all, in ns.
    pub(super) cpu_ns: f64,
    /// The part of it that was spent on making units old.
    pub(super) arm_ns: f64,
    /// The part of these units that was drawn. The others are made old in any case.
    pub(super) drawn: f64,
    /// Accessed bits that programs had to set again since the last round.
    pub(super) set_again: u64,
}

/// The budget and how it is kept.
#[derive(Debug)]
pub(super) struct Budget {
    /// Of a round, in ns.
    allowed: f64,
    debt: f64,
    share: f64,
    last_share: f64,
    /// What a share of 1 costs, in ns.
    whole: Option<f64>,
}

impl Budget {
    /// Of so many ns per round, for so many pages.
    pub(super) fn new(allowed: f64, pages: f64) -> Self {
        let share = (LENT * allowed / (pages * FIRST_NS).max(1.0)).clamp(LEAST, 1.0);
        Self { allowed, debt: 0.0, share, last_share: share, whole: None }
    }

    /// The share of the touched units to make old in this round.
    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    /// The same, of the round before.
    pub(super) const fn last_share(&self) -> f64 {
        self.last_share
    }

    /// A round is over.
    pub(super) fn note(&mut self, cost: &Cost) {
        #[expect(clippy::cast_precision_loss, reason = "a number of pages")]
        let set_again_ns = cost.set_again as f64 * SET_AGAIN_NS;
        let all = cost.cpu_ns + set_again_ns;
        self.debt = (self.debt + all - self.allowed).clamp(0.0, 4.0 * LENT * self.allowed);
        let (arm, again) = (cost.arm_ns * cost.drawn, set_again_ns * cost.drawn);
        let whole = arm / self.share + again / self.last_share;
        // Half of the old, so that one interruption does not decide. The first round says little.
        let is_steady = self.whole.is_some() && self.share >= self.last_share * 0.999;
        self.whole = Some(match self.whole {
            Some(before) if is_steady => f64::midpoint(before, whole),
            _ => whole,
        });
        let room = self.allowed - self.debt / PAY_BACK - (all - arm - again);
        let wanted = room / self.whole.unwrap_or(1.0).max(1.0);
        self.last_share = self.share;
        self.share = wanted.clamp(LEAST, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a made-up machine costs, in ns: its looks, arming all of it, and setting all bits again
    /// that were cleared.
    struct Machine {
        looks: f64,
        arm: f64,
        again: f64,
    }

    #[test]
    fn a_round_costs_what_is_allowed_at_most_and_uses_it() {
        for (name, machine, expected) in [
            ("cheap", Machine { looks: 100.0, arm: 300.0, again: 200.0 }, 1.0),
            ("dear to arm", Machine { looks: 100.0, arm: 3600.0, again: 0.0 }, 0.25),
            ("dear for the programs", Machine { looks: 100.0, arm: 600.0, again: 3000.0 }, 0.25),
            ("both", Machine { looks: 500.0, arm: 1000.0, again: 1000.0 }, 0.25),
            ("looks alone are too much", Machine { looks: 5e3, arm: 1e3, again: 0.0 }, LEAST),
        ] {
            // In units of 500 ns, of which a bit that is set again costs one.
            const SCALE: f64 = SET_AGAIN_NS;
            let allowed = 1000.0 * SCALE;
            let mut budget = Budget::new(allowed, 1000.0);
            let (mut spent, mut last) = (0.0, 0.0);
            for round in 0..200 {
                let share = budget.share();
                // The first time, everything is young.
                let arm = if round == 0 { 2.0 } else { 1.0 } * machine.arm * share;
                let again = machine.again * last;
                if round >= 20 {
                    spent += machine.looks + arm + again;
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "small"
                )]
                budget.note(&Cost {
                    cpu_ns: (machine.looks + arm) * SCALE,
                    arm_ns: arm * SCALE,
                    drawn: 1.0,
                    set_again: again.round() as u64,
                });
                last = share;
            }
            let (mean, share) = (spent / 180.0, budget.share());
            assert!((share - expected).abs() < 0.03, "{name}: {share}");
            assert!(mean <= 1010.0 || expected <= LEAST, "{name}: {mean} per round");
            assert!(mean >= 950.0 || expected >= 1.0, "{name}: {mean} only");
        }
    }

    #[test]
    fn the_first_round_is_lent_some_and_pays_it_back() {
        let mut budget = Budget::new(1e6, 10_000.0);
        assert!(budget.share() >= 1.0, "1.15 ms of 4 rounds' 1 ms");
        let mut shares = Vec::new();
        for round in 0..12 {
            let share = budget.share();
            shares.push(share);
            let arm_ns = if round == 0 { 3e6 } else { 5e5 } * share;
            budget.note(&Cost { cpu_ns: 2e5 + arm_ns, arm_ns, drawn: 1.0, set_again: 0 });
        }
        assert!(shares[1] < 0.5 && shares[11] >= 1.0, "{shares:?}");
        let large = Budget::new(1e6, 1e9);
        assert!(large.share() <= LEAST && large.share() > 0.0);
    }
}
