//! Successive halving over noisy trials, with limits, and what it has found.
//!
//! Round 0 gives every candidate one trial. Then the point between the two best is tried as well,
//! since the best value is seldom one of a few that were spread out. In each round after that the
//! better half stays, and gets twice as many trials as in the round before. That is better than
//! longer trials of the same total length, because every trial is paired with untouched phases.
//!
//! Candidates are ranked by score. Slowdown above the limit counts ten times more than a score that
//! only weighs it, so a candidate near the limit is not lost by chance in its first trial.
//!
//! Invariants: no more trials than allowed; a candidate that is out gets none; the starting policy
//! is a candidate like any other.

use std::collections::VecDeque;

use super::space::Space;
use isotherm_act::benefit::stats::{Estimate, Spread, count, mean};

/// How much a slowdown above the limit counts in the ranking, beside the score.
const ABOVE_LIMIT: f64 = 10.0;
/// A candidate is out if it is so likely that it breaks the limit.
const BROKEN: f64 = 0.95;
/// A winner has to be better than doing nothing with this probability.
const SURE: f64 = 0.9;
/// And better than the starting policy with this one.
const BETTER: f64 = 0.8;

/// What one trial has shown, as shares of the untouched phases around it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Trial {
    /// Of resident memory that was saved; negative if there was more.
    pub saved: f64,
    /// By how much more time (or whatever stands for it) the same work took.
    pub slowdown: f64,
}

/// What became of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// It was measured to its end.
    Measured(Trial),
    /// It was stopped, because the program had become far too slow.
    Broken(Trial),
    /// The candidate could not be put in force.
    Refused(String),
}

/// Where a candidate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The policy that tuning began with.
    Start,
    /// The prediction from a record of an untouched phase.
    Plan,
    /// Points that fill the ranges.
    Spread,
    /// Between the two that were best by then.
    Between,
}

impl Origin {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Plan => "plan",
            Self::Spread => "spread",
            Self::Between => "between",
        }
    }
}

/// Whether a candidate is still in the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is, or was dropped for better ones.
    In,
    /// It slows the program down by more than the limit; that is certain.
    OverLimit,
    /// It could not be put in force; why, for people.
    Refused(String),
}

/// Values that are tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// One value per range.
    pub point: Vec<u64>,
    /// Where it comes from.
    pub origin: Origin,
    /// What its trials have shown.
    pub trials: Vec<Trial>,
    /// Whether it can win.
    pub fate: Fate,
}

/// What the search keeps to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The largest slowdown that is allowed, as a share.
    pub max_slowdown: f64,
    /// What slowdown weighs against memory in the score.
    pub weight: f64,
    /// How many trials there may be.
    pub trials: usize,
}

/// Why no winner is named, if none is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is a winner.
    Named,
    /// No candidate keeps to the limit.
    NoneWithinLimit,
    /// The best is not surely better than doing nothing.
    NotBetterThanNothing,
    /// The best is not surely better than the starting policy.
    NotBetterThanStart,
}

/// What the search has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The best candidate by the trials; it is the winner if `why` says so.
    pub best: Option<usize>,
    /// Whether it is the winner.
    pub why: Why,
    /// How likely it is that it is better than doing nothing, given that it was chosen among so
    /// many.
    pub beats_nothing: f64,
    /// How likely it is that it is better than the start, or that the start breaks the limit; none
    /// if it is the start.
    pub beats_start: Option<f64>,
    /// The second best, and how likely the best is better than that.
    pub runner_up: Option<(usize, f64)>,
    /// How likely it is that it keeps to the limit.
    pub within_limit: f64,
}

/// A search. [`ask`](Self::ask) says what to try, [`tell`](Self::tell) takes what came of it.
#[derive(Debug, Clone)]
pub struct Search {
    space: Space,
    limits: Limits,
    candidates: Vec<Candidate>,
    /// Trials in which nothing was changed.
    nulls: Vec<Trial>,
    queue: VecDeque<usize>,
    /// How many rounds have begun.
    rounds: u32,
    told: usize,
}

impl Search {
    /// A search from `start`, with a prediction if there is one, over `nr` candidates in all.
    #[must_use]
    pub fn new(
        space: Space,
        start: Vec<u64>,
        guess: Option<Vec<u64>>,
        nr: usize,
        limits: Limits,
    ) -> Self {
        let candidates = Vec::new();
        let mut this = Self {
            space,
            limits,
            candidates,
            nulls: Vec::new(),
            queue: VecDeque::new(),
            rounds: 0,
            told: 0,
        };
        this.add(start, Origin::Start);
        this.add_some(guess, Origin::Plan);
        let nr = nr.min(limits.trials);
        let free = nr.saturating_sub(this.candidates.len());
        // Points that were there before are left out, so more are made than needed.
        for point in this.space.spread(free).into_iter().chain(this.space.spread(2 * free)) {
            if this.candidates.len() < nr {
                this.add(point, Origin::Spread);
            }
        }
        this
    }

    fn add_some(&mut self, point: Option<Vec<u64>>, origin: Origin) {
        if let Some(point) = point {
            self.add(point, origin);
        }
    }

    fn add(&mut self, point: Vec<u64>, origin: Origin) -> bool {
        let is_new = self.candidates.iter().all(|known| known.point != point);
        if is_new {
            let (trials, fate) = (Vec::new(), Fate::In);
            self.candidates.push(Candidate { point, origin, trials, fate });
        }
        is_new
    }

    /// The candidates, in the order in which they were made.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The ranges.
    #[must_use]
    pub const fn space(&self) -> &Space {
        &self.space
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// How many trials were told of.
    #[must_use]
    pub const fn told(&self) -> usize {
        self.told
    }

    /// The candidate to try next; none if the search is over.
    pub fn ask(&mut self) -> Option<usize> {
        if self.told >= self.limits.trials {
            return None;
        }
        loop {
            while let Some(at) = self.queue.pop_front() {
                if self.candidates[at].fate == Fate::In {
                    return Some(at);
                }
            }
            if !self.begin_round() {
                return None;
            }
        }
    }

    /// Fills the queue. Returns whether there is something to try.
    fn begin_round(&mut self) -> bool {
        self.rounds += 1;
        if self.rounds == 1 {
            self.queue.extend(0..self.candidates.len());
            return true;
        }
        let ranked = self.ranked();
        if self.rounds == 2
            && let [a, b, ..] = ranked[..]
        {
            let middle = self.space.between(&self.candidates[a].point, &self.candidates[b].point);
            if self.add(middle, Origin::Between) {
                self.queue.push_back(self.candidates.len() - 1);
                return true;
            }
        }
        let halvings = self.rounds - 2;
        let keep = (ranked.len().div_ceil(1 << halvings.min(20))).max(2).min(ranked.len());
        let most = ranked.first().map_or(0, |at| self.candidates[*at].trials.len());
        if keep == 0 || (keep == 1 && most >= 4) {
            return false;
        }
        let each = 1 << (halvings.saturating_sub(1)).min(3);
        // In turns, and every other turn backwards, so that none is always the first.
        for turn in 0..each {
            let mut these: Vec<usize> = ranked[..keep].to_vec();
            if turn % 2 == 1 {
                these.reverse();
            }
            self.queue.extend(these);
        }
        true
    }

    /// Takes what became of a trial.
    pub fn tell(&mut self, at: usize, told: Told) {
        self.told += 1;
        let Some(candidate) = self.candidates.get_mut(at) else { return };
        match told {
            Told::Measured(trial) => candidate.trials.push(trial),
            Told::Broken(trial) => {
                candidate.trials.push(trial);
                candidate.fate = Fate::OverLimit;
            }
            Told::Refused(text) => candidate.fate = Fate::Refused(text),
        }
        let slowdowns = self.slowdowns(at);
        let spread = self.spread(|trial| trial.slowdown);
        if self.candidates[at].fate == Fate::In
            && spread.above(&slowdowns, self.limits.max_slowdown) > BROKEN
        {
            self.candidates[at].fate = Fate::OverLimit;
        }
    }

    /// Takes a trial in which nothing was changed. It shows what is noise.
    pub fn tell_null(&mut self, trial: Trial) {
        self.nulls.push(trial);
    }

    /// The score of a trial.
    #[must_use]
    pub fn score(&self, trial: &Trial) -> f64 {
        trial.saved - self.limits.weight * trial.slowdown
    }

    fn scores(&self, at: usize) -> Vec<f64> {
        self.candidates[at].trials.iter().map(|trial| self.score(trial)).collect()
    }

    fn slowdowns(&self, at: usize) -> Vec<f64> {
        self.candidates[at].trials.iter().map(|trial| trial.slowdown).collect()
    }

    /// How far single trials are off, by some number of them. Those that were stopped count too.
    fn spread(&self, of: impl Fn(&Trial) -> f64) -> Spread {
        let mut spread = Spread::default();
        spread.add_nulls(self.nulls.iter().map(&of));
        for candidate in &self.candidates {
            let values: Vec<f64> = candidate.trials.iter().map(&of).collect();
            spread.add_group(&values);
        }
        spread
    }

    /// How far a single trial is off in slowdown; none if nothing is known yet.
    #[must_use]
    pub fn noise(&self) -> Option<f64> {
        self.spread(|trial| trial.slowdown).deviation()
    }

    /// What is known of a candidate: memory saved, slowdown, score. None before its first trial.
    #[must_use]
    pub fn estimates(&self, at: usize) -> Option<[Estimate; 3]> {
        let trials = &self.candidates.get(at)?.trials;
        if trials.is_empty() {
            return None;
        }
        let of = |f: &dyn Fn(&Trial) -> f64| {
            let values: Vec<f64> = trials.iter().map(f).collect();
            self.spread(f).estimate(&values)
        };
        Some([of(&|t| t.saved), of(&|t| t.slowdown), of(&|t| self.score(t))])
    }

    /// Candidates that can win and were tried, best first.
    fn ranked(&self) -> Vec<usize> {
        let rank = |at: usize| {
            let over = (mean(&self.slowdowns(at)) - self.limits.max_slowdown).max(0.0);
            mean(&self.scores(at)) - ABOVE_LIMIT * over
        };
        let tried = |at: &usize| {
            self.candidates[*at].fate == Fate::In && !self.candidates[*at].trials.is_empty()
        };
        let mut all: Vec<usize> = (0..self.candidates.len()).filter(tried).collect();
        all.sort_by(|a, b| rank(*b).total_cmp(&rank(*a)));
        all
    }

    /// What the trials have shown.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let within = |at: &usize| mean(&self.slowdowns(*at)) <= self.limits.max_slowdown;
        let ranked: Vec<usize> = self.ranked().into_iter().filter(within).collect();
        let spread = self.spread(|trial| self.score(trial));
        let Some(&best) = ranked.first() else {
            return Verdict {
                best: None,
                why: Why::NoneWithinLimit,
                beats_nothing: 0.0,
                beats_start: None,
                runner_up: None,
                within_limit: 0.0,
            };
        };
        let scores = self.scores(best);
        // The best of many looks better than it is, so doubt counts once per candidate.
        let tried = self.candidates.iter().filter(|c| !c.trials.is_empty()).count();
        let chosen = |sure: f64| (1.0 - count(tried) * (1.0 - sure)).max(0.0);
        let beats_nothing = chosen(spread.above(&scores, 0.0));
        let start = self.candidates.iter().position(|c| c.origin == Origin::Start);
        let start = start.filter(|start| *start != best);
        let beats_start = start.map(|start| match &self.candidates[start] {
            Candidate { fate: Fate::In, trials, .. } if !trials.is_empty() => {
                // A start that breaks the limit is no choice, however good its score.
                let breaks = self
                    .spread(|t| t.slowdown)
                    .above(&self.slowdowns(start), self.limits.max_slowdown);
                chosen(spread.better(&scores, &self.scores(start))).max(breaks)
            }
            Candidate { fate: Fate::In, .. } => 0.0,
            _ => 1.0,
        });
        let runner_up = ranked.get(1).map(|at| (*at, spread.better(&scores, &self.scores(*at))));
        let over = self.spread(|t| t.slowdown);
        let within_limit = 1.0 - over.above(&self.slowdowns(best), self.limits.max_slowdown);
        let why = if beats_nothing < SURE {
            Why::NotBetterThanNothing
        } else if beats_start.is_some_and(|sure| sure < BETTER) {
            Why::NotBetterThanStart
        } else {
            Why::Named
        };
        Verdict { best: Some(best), why, beats_nothing, beats_start, runner_up, within_limit }
    }
}

#[cfg(test)]
mod tests;
