//! Online tuning: one small step at a time, for as long as a policy runs.
//!
//! ```text
//! rest .. A B A B A .. kept, or not .. rest .. A C A C A ..
//! ```
//!
//! A *step* changes one value by a few notches ([`Space::step`]). It is tried in phases that
//! alternate with the present values: A are the present ones, B has the step. After every pair it
//! is decided whether B is better, is worse, makes no difference, or has to be tried once more.
//!
//! What untouched memory would look like is not known while a policy runs. So memory is told by the
//! share that is out of RAM. Both of its ways to differ are in what a phase *gains* from the switch
//! on: a shorter age takes its share at once and gives it back in the next A, and a larger quota
//! takes more in every phase. Half of the difference between a B and the A after it is what is
//! saved, and whatever grows evenly is not in it.
//!
//! Each range is stepped up and down, first by one notch. Only when no step makes a difference, two
//! and then four notches are tried, since a quota that is far too small hides what a small step is
//! worth. After a step that was kept the next one goes the same way, twice as far. When no step of
//! any size makes a difference, the rest doubles, up to a day, and more evidence is asked for, so
//! chance finds nothing in the long run. Meanwhile the present values are looked at. If their score
//! moves beyond the noise, the search begins again.
//!
//! Invariants. Values stay within their ranges. A step that may slow the program down by more than
//! the limit is not kept, and neither is one with which the slowdowns of all kept steps add up to
//! more. The same answers at the same times give the same steps; nothing here has a clock.
//!
//! Not here: phases. [`crate::run::Runner`] runs them.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use isotherm_act::benefit::stats::{Estimate, Spread, mean};

use super::brake::Brake;
use super::space::Space;
use crate::gauge::{Phase, Source};

/// Pairs before anything is decided, and at most.
const FEWEST: usize = 3;
const MOST: usize = 8;
/// A step is kept if it is better by so much of the memory, ...
const WORTH: f64 = 0.002;
/// ... and if that is wrong with no more than this probability. It halves each time that nothing
/// was found, down to the least.
const DOUBT: f64 = 0.004;
const LEAST_DOUBT: f64 = 0.0002;
/// It is worse if it is better with no more than this probability.
const WORSE: f64 = 0.1;
/// It is over the limit if it is so likely.
const BROKEN: f64 = 0.95;
/// What one pair is taken to be off, at least.
const LEAST: f64 = 0.002;
/// Neighbouring pairs share a phase. With phases of variance 1, deviations of pairs from their mean
/// have a variance of 5/4, and the mean of n pairs has one of 2/n.
const SHARED: f64 = 1.6;
/// Steps whose pairs tell what is noise.
const REMEMBERED: usize = 12;
/// How far a step goes, in notches, one after the other.
const NOTCHES: [i32; 3] = [1, 2, 4];
/// The longest rest, unless a single one is longer anyway.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Looks at the present values in a rest that has grown.
const LOOKS: u32 = 8;
/// Phases with the present values that say what was before, and looks that say what is now.
const BEFORE: usize = 6;
const NOW: usize = 3;
/// The working point has moved if its score has by so much, and if chance does so as seldom.
const MOVED: f64 = 0.03;
const CHANCE: f64 = 0.0001;

/// What tuning keeps to.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The largest slowdown that is allowed, as a share.
    pub max_slowdown: f64,
    /// What slowdown weighs against memory in the score.
    pub weight: f64,
    /// The least time between two steps. Not 0.
    pub every: Duration,
    /// What tells of the slowdown.
    pub source: Source,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Nothing until then; the present values stay in force.
    Rest(Duration),
    /// Look at the present values, which are in force anyway.
    Look,
    /// Put the present values in force, and measure.
    Current,
    /// Put the step in force ([`Online::step_point`]), and measure.
    Step,
}

/// What a phase has shown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// How the program got on, once the change had settled.
    pub phase: Phase,
    /// The share of its memory that was out of RAM at the end.
    pub out: f64,
    /// How much more that was than right before the change.
    pub gain: f64,
}

/// What became of a phase.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// It was measured to its end.
    Seen(Seen),
    /// The step was stopped, because the program had become far too slow.
    Broken(Seen),
    /// The values could not be put in force; why.
    Refused(String),
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is better; its values are the present ones from now on.
    Kept,
    /// It is worse.
    Worse,
    /// No difference shows.
    Same,
    /// It is better, but slows the program down by more than the limit.
    OverLimit,
    /// It was stopped, because the program had become far too slow.
    Broken,
    /// It is better, but with the steps before it would slow the program down by more than the
    /// limit.
    Spent,
    /// It could not be put in force; why.
    Refused(String),
}

/// A step that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Which of the ranges.
    pub range: usize,
    /// The value before.
    pub from: u64,
    /// The value that was tried.
    pub to: u64,
    /// How many pairs of phases it took.
    pub pairs: usize,
    /// By how much more memory is out of RAM; none if there was no pair.
    pub saved: Option<Estimate>,
    /// By how much the program is slower; as above.
    pub slowdown: Option<Estimate>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What there is to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// A step was decided.
    Step(Step),
    /// No step of any size makes a difference that shows above the noise.
    Quiet {
        /// What a single pair is off by in the score; none if no pair was measured.
        noise: Option<f64>,
        /// When the next step is tried, from now.
        rest: Duration,
    },
    /// The score of the present values has moved by this much since nothing more was found.
    Moved(f64),
}

/// A step to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    range: usize,
    up: bool,
    notches: i32,
}

/// A step that is tried.
#[derive(Debug, Clone)]
struct Try {
    step: Move,
    to: u64,
    currents: Vec<Seen>,
    steps: Vec<Seen>,
}

/// Pairs of one step, as numbers.
#[derive(Debug, Clone, Default)]
struct Pairs {
    saved: Vec<f64>,
    slowdowns: Vec<f64>,
    scores: Vec<f64>,
}

/// Tuning that goes on. [`ask`](Self::ask) says what to do, [`tell`](Self::tell) takes what came of
/// it. Times are those since any fixed moment.
#[derive(Debug, Clone)]
pub struct Online {
    space: Space,
    rules: Rules,
    point: Vec<u64>,
    /// What the steps that were kept have added to the time that work takes, as a share.
    slowed: f64,
    trying: Option<Try>,
    queue: VecDeque<Move>,
    /// Which of [`NOTCHES`] the queue was filled with; none before the first time.
    size: Option<usize>,
    /// Ways that are worse with fewer notches already.
    barred: BTreeSet<(usize, bool)>,
    /// How many times in a row no step of any size made a difference.
    quiet: u32,
    until: Duration,
    look_at: Duration,
    before: Vec<Seen>,
    now: VecDeque<Seen>,
    known: VecDeque<Pairs>,
}

impl Online {
    /// Tuning that begins at this point, at this time. `slowed` is what earlier steps have cost.
    #[must_use]
    pub fn new(space: Space, point: Vec<u64>, rules: Rules, slowed: f64, now: Duration) -> Self {
        let until = now + rules.every;
        Self {
            space,
            rules,
            point,
            slowed,
            trying: None,
            queue: VecDeque::new(),
            size: None,
            barred: BTreeSet::new(),
            quiet: 0,
            until,
            look_at: until,
            before: Vec::new(),
            now: VecDeque::new(),
            known: VecDeque::new(),
        }
    }

    /// The present values, one per range.
    #[must_use]
    pub fn point(&self) -> &[u64] {
        &self.point
    }

    /// The values with the step that is tried; the present ones if none is.
    #[must_use]
    pub fn step_point(&self) -> Vec<u64> {
        let mut point = self.point.clone();
        if let Some(Try { step, to, .. }) = &self.trying {
            point[step.range] = *to;
        }
        point
    }

    /// The ranges.
    #[must_use]
    pub const fn space(&self) -> &Space {
        &self.space
    }

    /// What the steps that were kept have added to the time that work takes, as a share.
    #[must_use]
    pub const fn slowed(&self) -> f64 {
        self.slowed
    }

    /// When a step is stopped before its phase is over.
    #[must_use]
    pub fn brake(&self) -> Brake {
        let noise = self.spread(|pairs| &pairs.slowdowns).deviation();
        Brake { max_slowdown: self.rules.max_slowdown, noise }
    }

    /// What to do next.
    pub fn ask(&mut self, now: Duration) -> Ask {
        if self.trying.is_none() && now >= self.until {
            match self.next_move() {
                Some((step, to)) => {
                    let (currents, steps) = (Vec::new(), Vec::new());
                    self.trying = Some(Try { step, to, currents, steps });
                }
                // There is nowhere to go, so there is nothing to try soon.
                None => self.until = now + self.rest(),
            }
        }
        match &self.trying {
            Some(trying) if trying.currents.len() > trying.steps.len() => Ask::Step,
            Some(_) => Ask::Current,
            None if self.quiet > 0 && now >= self.look_at => Ask::Look,
            None if self.quiet > 0 => Ask::Rest(self.until.min(self.look_at)),
            None => Ask::Rest(self.until),
        }
    }

    /// The next step that leads somewhere.
    fn next_move(&mut self) -> Option<(Move, u64)> {
        for _ in 0..=NOTCHES.len() {
            while let Some(step) = self.queue.pop_front() {
                if let Some(to) = self.leads(step) {
                    return Some((step, to));
                }
            }
            self.fill();
        }
        None
    }

    /// Fills the queue with larger steps than before, or with the smallest ones again.
    fn fill(&mut self) {
        let size = self.size.map_or(0, |size| (size + 1) % NOTCHES.len());
        if size == 0 {
            self.barred.clear();
        }
        self.size = Some(size);
        self.queue.extend(self.moves(size));
    }

    /// All steps of a size.
    fn moves(&self, size: usize) -> impl Iterator<Item = Move> + use<> {
        let both = move |range| [true, false].map(|up| Move { range, up, notches: NOTCHES[size] });
        (0..self.space.ranges().len()).flat_map(both)
    }

    /// The value to which a step leads; none if that is worse already, or the end of the range.
    fn leads(&self, step: Move) -> Option<u64> {
        let from = self.point[step.range];
        let notches = if step.up { step.notches } else { -step.notches };
        let to = self.space.step(step.range, from, notches);
        (to != from && !self.barred.contains(&(step.range, step.up))).then_some(to)
    }

    /// Whether no step that is left leads anywhere, of this size or a larger one.
    fn is_round_over(&self) -> bool {
        let Some(size) = self.size else { return false };
        let larger = (size + 1..NOTCHES.len()).flat_map(|size| self.moves(size));
        self.queue.iter().copied().chain(larger).all(|step| self.leads(step).is_none())
    }

    /// The search begins again with the smallest steps.
    fn begin_again(&mut self) {
        self.queue.clear();
        self.size = None;
        self.quiet = 0;
        self.before.clear();
        self.now.clear();
    }

    fn rest(&self) -> Duration {
        let grown = self.rules.every.saturating_mul(1 << self.quiet.min(20));
        grown.min(DAY.max(self.rules.every))
    }

    fn rest_from(&mut self, now: Duration) {
        let rest = self.rest();
        self.until = now + rest;
        self.look_at = now + (rest / LOOKS).max(self.rules.every);
    }

    /// Gives a step up that is tried, since something else has changed. It is tried again.
    pub fn interrupt(&mut self, now: Duration) {
        if let Some(Try { step, .. }) = self.trying.take() {
            self.queue.push_front(step);
            self.until = self.until.max(now + self.rules.every);
        }
    }

    /// Takes what became of a phase. Returns what there is to tell.
    pub fn tell(&mut self, now: Duration, told: Told) -> Vec<News> {
        let Some(trying) = &mut self.trying else {
            return match told {
                Told::Seen(seen) | Told::Broken(seen) => self.looked(now, seen),
                Told::Refused(_) => Vec::new(),
            };
        };
        let is_step = trying.currents.len() > trying.steps.len();
        let outcome = match told {
            Told::Seen(seen) if is_step => {
                trying.steps.push(seen);
                None
            }
            Told::Seen(seen) | Told::Broken(seen) if !is_step => {
                trying.currents.push(seen);
                self.decide()
            }
            Told::Broken(_) | Told::Seen(_) => Some(Outcome::Broken),
            Told::Refused(why) => Some(Outcome::Refused(why)),
        };
        outcome.map_or_else(Vec::new, |outcome| self.decided(now, outcome))
    }

    /// The pairs of the step that is tried: each B with the A after it.
    fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::default();
        let Some(Try { currents, steps, .. }) = &self.trying else { return pairs };
        for (around, step) in currents.windows(2).zip(steps) {
            let off = around[0].phase.mean(&around[1].phase);
            let slowdown = step.phase.slowdown(&off, &self.rules.source);
            let saved = (step.gain - around[1].gain) / 2.0;
            pairs.saved.push(saved);
            pairs.slowdowns.push(slowdown);
            pairs.scores.push(saved - self.rules.weight * slowdown);
        }
        pairs
    }

    /// What single pairs are off by, in some number of them.
    fn spread(&self, of: impl Fn(&Pairs) -> &Vec<f64>) -> Spread {
        let mut spread = Spread::with_least(LEAST);
        for pairs in &self.known {
            spread.add_group(of(pairs));
        }
        spread.add_group(of(&self.pairs()));
        spread.widened(SHARED)
    }

    fn decide(&self) -> Option<Outcome> {
        let pairs = self.pairs();
        if pairs.scores.len() < FEWEST {
            return None;
        }
        let most = self.rules.max_slowdown;
        let better = self.spread(|pairs| &pairs.scores).above(&pairs.scores, 0.0);
        let over = self.spread(|pairs| &pairs.slowdowns).above(&pairs.slowdowns, most);
        let doubt = (DOUBT / f64::from(1_u32 << self.quiet.min(20))).max(LEAST_DOUBT);
        if better < WORSE {
            Some(Outcome::Worse)
        } else if over > BROKEN {
            Some(Outcome::OverLimit)
        } else if mean(&pairs.scores) < WORTH {
            Some(Outcome::Same)
        } else if better > 1.0 - doubt {
            let slowdown = mean(&pairs.slowdowns);
            let is_spent = slowdown > 0.0 && self.slowed + slowdown > most;
            Some(if is_spent { Outcome::Spent } else { Outcome::Kept })
        } else {
            (pairs.scores.len() >= MOST).then_some(Outcome::Same)
        }
    }

    fn decided(&mut self, now: Duration, outcome: Outcome) -> Vec<News> {
        let pairs = self.pairs();
        let estimate = |of: fn(&Pairs) -> &Vec<f64>| {
            let values = of(&pairs);
            (!values.is_empty()).then(|| self.spread(of).estimate(values))
        };
        let (saved, slowdown) = (estimate(|p| &p.saved), estimate(|p| &p.slowdowns));
        let Some(Try { step, to, currents, .. }) = self.trying.take() else { return Vec::new() };
        if self.before.is_empty() {
            self.before.extend(currents.into_iter().take(BEFORE));
        }
        let from = self.point[step.range];
        match &outcome {
            Outcome::Kept => {
                self.point[step.range] = to;
                let cost = mean(&pairs.slowdowns);
                // What was gained in speed is not spent without limit.
                self.slowed = (self.slowed + cost).max(-self.rules.max_slowdown);
                self.begin_again();
                let notches = (2 * step.notches).min(NOTCHES[NOTCHES.len() - 1]);
                self.barred.clear();
                self.queue.push_back(Move { notches, ..step });
            }
            Outcome::Same => {}
            _ => {
                self.barred.insert((step.range, step.up));
            }
        }
        let nr = pairs.scores.len();
        if nr > 1 {
            self.known.push_back(pairs);
            if self.known.len() > REMEMBERED {
                self.known.pop_front();
            }
        }
        let mut news = vec![News::Step(Step {
            range: step.range,
            from,
            to,
            pairs: nr,
            saved,
            slowdown,
            outcome,
        })];
        if self.is_round_over() {
            self.queue.clear();
            self.size = None;
            self.quiet += 1;
            let noise = self.spread(|pairs| &pairs.scores).deviation();
            news.push(News::Quiet { noise, rest: self.rest() });
        }
        self.rest_from(now);
        news
    }

    /// Takes a look at the present values.
    fn looked(&mut self, now: Duration, seen: Seen) -> Vec<News> {
        self.look_at = now + (self.rest() / LOOKS).max(self.rules.every);
        self.now.push_back(seen);
        if self.now.len() > NOW {
            self.now.pop_front();
        }
        if self.now.len() < NOW {
            return Vec::new();
        }
        let Some(&first) = self.before.first() else { return Vec::new() };
        let score = |seen: &Seen| {
            let slowdown = seen.phase.slowdown(&first.phase, &self.rules.source);
            seen.out - first.out - self.rules.weight * slowdown
        };
        let before: Vec<f64> = self.before.iter().map(score).collect();
        let after: Vec<f64> = self.now.iter().map(score).collect();
        let mut spread = Spread::with_least(LEAST);
        spread.add_group(&before);
        spread.add_group(&after);
        let (moved, higher) = (mean(&after) - mean(&before), spread.better(&after, &before));
        if moved.abs() < MOVED || (CHANCE..=1.0 - CHANCE).contains(&higher) {
            return Vec::new();
        }
        self.begin_again();
        self.known.clear();
        self.rest_from(now);
        vec![News::Moved(moved)]
    }
}

#[cfg(test)]
mod tests;
