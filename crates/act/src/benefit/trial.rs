//! The trial of one scheme on one target: a sample gets huge pages, and what follows is decided by
//! what they are worth.
//!
//! ```text
//! Gather --no counter----------------> Fill -> Watch --+--> Pays       (all may be collapsed)
//!   |    '-a counter-> Off -> Fill -> On --decided-----+--> Rest       (undone: it does not pay)
//!   |                   ^-- undo <----' not yet        '--> Rest       (undecided: sample stays)
//!   '-- looks say that it cannot pay ---------------------> Rest       (nothing was collapsed)
//! Rest --after ever longer times--> Gather
//! ```
//!
//! With a counter, phases without and with huge pages on the sample take turns. A gain by the
//! sample is that of all, divided by its share. A sample that shows nothing after three turns
//! grows.
//! What work does not decide is decided by looks, and what looks deny has to be very sure by work:
//! chance would otherwise pay now and then.
//!
//! Invariants: before a decision only the sample is collapsed; what does not pay is asked back
//! ([`Step::Undo`]) before anything else; rests double up to an hour.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::{Rng, Time};

use super::stats::{Estimate, Spread, count, mean};
use super::{Cost, LEAST_GAIN, SURE};

/// How long candidates and looks are gathered, in ns.
const GATHER_NS: u64 = 1_500_000_000;
/// They are gathered for longer while more than a quarter is new, or they are fewer than a sample
/// needs, but for no longer than this, in ns.
const LAST_NS: u64 = 10_000_000_000;
/// How long the sample may take to be collapsed, in ns.
const FILL_NS: u64 = 3_000_000_000;
/// It is also over when nothing was added to it for so long, in ns.
const STILL_NS: u64 = 500_000_000;
/// A phase of a comparison of work, in ns.
const PHASE_NS: u64 = 1_000_000_000;
/// How long looks are waited for, in ns.
const WATCH_NS: u64 = 10_000_000_000;
/// The first rest, in ns, and the longest one.
const REST_NS: (u64, u64) = (30_000_000_000, 3_600_000_000_000);
/// A sample has one of so many candidates, and at least so many.
const ONE_OF: usize = 10;
const LEAST_SAMPLE: usize = 8;
/// What looks deny surely, work has to show with this probability.
const AGAINST_LOOKS: f64 = 0.999;
/// From so many looks, or so many turns, something is concluded.
const LEAST_LOOKS: usize = 32;
/// So many looks are remembered.
const MOST_LOOKS: usize = 4096;
const TURNS: usize = 3;
/// More pages per second than a sweep over all of their bytes can reach on one CPU: 12 GB/s.
const SWEEP_MOST: f64 = 3e6;
/// Candidates that are remembered: 128 GiB of them.
const MOST: usize = 65_536;
/// A program runs for as long again as it has run, and at least for so long, in s.
const LEAST_LIFE_S: f64 = 60.0;
/// What collapsing 2 MiB costs, in ns, before it is known.
const USUAL_COST_NS: f64 = 1_000_000.0;

/// What is known of the target now.
pub(crate) struct Facts<'a> {
    pub(crate) now: Time,
    /// CPU time that it has used, in ns.
    pub(crate) cpu_ns: u64,
    /// For how long it has run, in s.
    pub(crate) age_s: f64,
    /// Work that it has done, if that is counted, in any unit.
    pub(crate) work: Option<f64>,
    /// What new looks at candidates ([`Trial::picks`]) showed.
    pub(crate) looks: &'a [Cost],
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing.
    None,
    /// Split the huge pages at these addresses; the trial goes on.
    Undo(Vec<u64>),
    /// It is over. These huge pages have to be split.
    Over(Verdict, Vec<u64>),
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    /// Whether huge pages pay; none if that could not be decided.
    pub(crate) pays: Option<bool>,
    /// The gain, as a share of the target's CPU time.
    pub(crate) gain: Option<Estimate>,
    /// Whether work was counted; else it is by looks.
    pub(crate) by_work: bool,
    /// Whether it is the price of collapsing that does not come in.
    pub(crate) too_dear: bool,
    /// Candidates.
    pub(crate) units: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Gather {
        since: Option<Time>,
    },
    Off {
        since: Time,
        cpu_ns: u64,
        work: f64,
    },
    /// `last`: when the last huge page was made.
    Fill {
        since: Time,
        last: Option<Time>,
    },
    On {
        since: Time,
        cpu_ns: u64,
        work: f64,
    },
    Watch {
        since: Time,
    },
    Pays,
    Rest {
        until: Time,
    },
}

/// A trial.
#[derive(Debug)]
pub(crate) struct Trial {
    stage: Stage,
    rng: Rng,
    candidates: BTreeSet<u64>,
    /// How many there were at the last count.
    known: usize,
    sample: BTreeSet<u64>,
    /// Huge pages that were made while it was not decided, with the CPU time that each took.
    made: BTreeMap<u64, u64>,
    /// CPU time of the target, and when that was.
    begun: Option<(Time, u64)>,
    /// What looks showed since then.
    looks: Vec<Cost>,
    /// Work per CPU second in the last phase without.
    off: Option<f64>,
    /// By how much a turn was better, all candidates being huge.
    gains: Vec<f64>,
    /// The share of the candidates that the sample has, in tenths.
    tenths: usize,
    rest_ns: u64,
}

impl Trial {
    /// A trial that draws its sample by this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            stage: Stage::Gather { since: None },
            rng: Rng::seeded(seed),
            candidates: BTreeSet::new(),
            known: 0,
            sample: BTreeSet::new(),
            made: BTreeMap::new(),
            begun: None,
            looks: Vec::new(),
            off: None,
            gains: Vec::new(),
            tenths: 1,
            rest_ns: REST_NS.0,
        }
    }

    /// The unit at `start` could be collapsed. Returns whether it may be now.
    pub(crate) fn offer(&mut self, start: u64, now: Time) -> bool {
        match &mut self.stage {
            Stage::Pays => true,
            Stage::Rest { .. } => false,
            Stage::Gather { since } => {
                since.get_or_insert(now);
                if self.candidates.len() < MOST {
                    self.candidates.insert(start);
                }
                false
            }
            Stage::Fill { .. } => self.sample.contains(&start),
            _ => false,
        }
    }

    /// Whether [`Trial::step`] could do something now.
    pub(crate) fn waits_for_facts(&self, now: Time) -> bool {
        match self.stage {
            Stage::Pays | Stage::Gather { since: None } => false,
            Stage::Rest { until } => now >= until,
            _ => true,
        }
    }

    /// Some candidates at random, to be looked at now: each is made old and looked at some
    /// milliseconds later. None once it is decided.
    pub(crate) fn picks(&mut self, nr: usize) -> BTreeSet<u64> {
        if matches!(self.stage, Stage::Pays | Stage::Rest { .. }) {
            return BTreeSet::new();
        }
        let left: Vec<u64> = self
            .candidates
            .iter()
            .filter(|start| !self.made.contains_key(start))
            .copied()
            .collect();
        let mut at = || usize::try_from(self.rng.range(0, left.len().max(1) as u64)).unwrap_or(0);
        (0..nr).filter_map(|_| left.get(at()).copied()).collect()
    }

    /// A huge page was made now, which took so much CPU time.
    pub(crate) fn made(&mut self, start: u64, cpu_ns: u64, now: Time) {
        if let Stage::Fill { last, .. } = &mut self.stage {
            *last = Some(now);
        }
        if self.stage != Stage::Pays {
            self.made.insert(start, cpu_ns);
        }
    }

    /// Goes on, as far as that is possible now. Call it about every 100 ms.
    pub(crate) fn step(&mut self, facts: &Facts<'_>) -> Step {
        let now = facts.now;
        let (begun, _) = *self.begun.get_or_insert((now, facts.cpu_ns));
        self.looks.extend(facts.looks.iter().take(MOST_LOOKS - self.looks.len()));
        let over = |since: Time, ns: u64| now.since(since) >= ns;
        match self.stage {
            Stage::Gather { since: Some(since) }
                if over(since, GATHER_NS) && over(begun, GATHER_NS) =>
            {
                // A few units say nothing of a program whose others come as they are looked at.
                let is_few = self.candidates.len() < LEAST_SAMPLE;
                let grows = is_few || 4 * self.candidates.len() > 5 * self.known;
                self.known = self.candidates.len();
                if grows && !over(begun, LAST_NS) {
                    self.stage = Stage::Gather { since: Some(now) };
                    return Step::None;
                }
                self.gathered(facts)
            }
            Stage::Off { since, cpu_ns, work } if over(since, PHASE_NS) => {
                self.off = rate(facts, cpu_ns, work);
                self.stage = Stage::Fill { since: now, last: None };
                Step::None
            }
            Stage::Fill { since, last } => {
                let is_still = last.is_some_and(|last| over(last, STILL_NS));
                let is_over = over(since, FILL_NS) || is_still || self.is_full();
                if is_over { self.filled(facts) } else { Step::None }
            }
            Stage::On { since, cpu_ns, work } if over(since, PHASE_NS) => {
                self.turned(facts, rate(facts, cpu_ns, work))
            }
            Stage::Watch { since } => {
                let verdict = self.by_looks(facts);
                let is_over = over(since, WATCH_NS) || verdict.pays.is_some();
                if is_over { self.decide(verdict, facts) } else { Step::None }
            }
            Stage::Rest { until } if now >= until => {
                self.stage = Stage::Gather { since: None };
                self.begun = None;
                self.candidates.clear();
                self.known = 0;
                self.looks.clear();
                Step::None
            }
            _ => Step::None,
        }
    }

    fn is_full(&self) -> bool {
        self.sample.iter().all(|start| self.made.contains_key(start))
    }

    /// What the trial has collapsed so far.
    pub(crate) fn take_made(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.made).into_keys().collect()
    }

    fn gathered(&mut self, facts: &Facts<'_>) -> Step {
        self.gains.clear();
        self.tenths = 1;
        let verdict = self.by_looks(facts);
        // What cannot pay need not be collapsed to see that.
        if facts.work.is_none() && verdict.pays == Some(false) {
            return self.decide(verdict, facts);
        }
        self.draw();
        self.stage = self.off_or_fill(facts);
        Step::None
    }

    fn off_or_fill(&self, facts: &Facts<'_>) -> Stage {
        let (since, cpu_ns) = (facts.now, facts.cpu_ns);
        facts.work.map_or(Stage::Fill { since, last: None }, |work| Stage::Off {
            since,
            cpu_ns,
            work,
        })
    }

    /// Draws the sample. What an earlier trial left collapsed belongs to it.
    fn draw(&mut self) {
        let nr = (self.candidates.len() * self.tenths).div_ceil(ONE_OF);
        let nr = nr.max(LEAST_SAMPLE).min(self.candidates.len());
        let mut left: Vec<u64> = self.candidates.difference(&self.sample).copied().collect();
        self.sample
            .retain(|start| self.candidates.contains(start) || self.made.contains_key(start));
        while self.sample.len() < nr && !left.is_empty() {
            let at = self.rng.range(0, left.len() as u64);
            self.sample.insert(left.swap_remove(usize::try_from(at).unwrap_or(0)));
        }
    }

    fn filled(&mut self, facts: &Facts<'_>) -> Step {
        let (since, cpu_ns) = (facts.now, facts.cpu_ns);
        self.stage = match (facts.work, self.made.is_empty()) {
            (Some(work), false) => Stage::On { since, cpu_ns, work },
            _ => Stage::Watch { since },
        };
        Step::None
    }

    /// A turn of a phase without and one with huge pages is over.
    fn turned(&mut self, facts: &Facts<'_>, on: Option<f64>) -> Step {
        let share =
            count(self.made.len()) / count(self.candidates.len().max(self.made.len()).max(1));
        if let (Some(off), Some(on)) = (self.off, on) {
            self.gains.push((on / off).ln() / share);
        }
        let verdict = self.by_work(facts);
        if verdict.pays.is_some() {
            return self.decide(verdict, facts);
        }
        let is_all = self.sample.len() >= self.candidates.len();
        let by_looks = self.by_looks(facts);
        if self.gains.len() >= TURNS && by_looks.pays == Some(false) {
            return self.decide(by_looks, facts);
        } else if self.gains.len() >= TURNS && !is_all {
            self.tenths = (self.tenths * 3).min(ONE_OF);
            self.gains.clear();
            self.draw();
        } else if self.gains.len() > TURNS || self.off.is_none() || on.is_none() {
            // Work does not tell. A sample of all stays only if looks say that it pays.
            let verdict = if by_looks.pays.is_some() { by_looks } else { verdict };
            return self.decide(verdict, facts);
        }
        self.stage = self.off_or_fill(facts);
        Step::Undo(self.take_made())
    }

    fn decide(&mut self, verdict: Verdict, facts: &Facts<'_>) -> Step {
        let mut undo = Vec::new();
        if verdict.pays == Some(true) {
            self.stage = Stage::Pays;
        } else {
            self.stage = Stage::Rest { until: facts.now + self.rest_ns };
            self.rest_ns = (2 * self.rest_ns).min(REST_NS.1);
            // An undecided sample stays if it is one; a large one was only made to be measured.
            if verdict.pays == Some(false) || self.tenths > 1 {
                undo = self.take_made();
                self.sample.clear();
            }
        }
        Step::Over(verdict, undo)
    }

    fn by_work(&self, facts: &Facts<'_>) -> Verdict {
        let known = self.gains.len() >= TURNS;
        let sure = match self.by_looks(facts) {
            Verdict { pays: Some(false), .. } => AGAINST_LOOKS,
            _ => SURE,
        };
        self.verdict(if known { &self.gains } else { &[] }, true, sure, facts)
    }

    fn by_looks(&self, facts: &Facts<'_>) -> Verdict {
        let costs = &self.looks;
        let busy = self.busy(facts);
        if costs.len() < LEAST_LOOKS {
            return self.verdict(&[], false, SURE, facts);
        }
        // Units cost shares of time. All of them cost a share of the CPU time.
        let all = count(self.candidates.len()) / busy.max(1e-3);
        let swept: Vec<f64> = costs.iter().map(|cost| cost.swept_per_s * all).collect();
        let is_sweep = mean(&swept) <= SWEEP_MOST;
        let share = |cost: &Cost| if is_sweep { cost.share } else { cost.share_if_random };
        let shares: Vec<f64> = costs.iter().map(|cost| share(cost) * all).collect();
        self.verdict(&shares, false, SURE, facts)
    }

    /// How many CPUs the target keeps busy.
    #[expect(clippy::cast_precision_loss, reason = "some seconds")]
    fn busy(&self, facts: &Facts<'_>) -> f64 {
        let Some((begun, cpu_ns)) = self.begun else { return 0.0 };
        facts.cpu_ns.saturating_sub(cpu_ns) as f64 / facts.now.since(begun).max(1) as f64
    }

    /// What these gains, of which each is an estimate of the whole, say. That they pay has to be so
    /// sure.
    fn verdict(&self, gains: &[f64], by_work: bool, sure: f64, facts: &Facts<'_>) -> Verdict {
        let units = self.candidates.len();
        let nothing = Verdict { pays: None, gain: None, by_work, too_dear: false, units };
        if gains.is_empty() {
            return nothing;
        }
        let mut spread = Spread::default();
        spread.add_group(gains);
        let likely = spread.above(gains, LEAST_GAIN);
        let gain = Some(spread.estimate(gains));
        let pays = match likely {
            _ if likely >= sure => Some(true),
            _ if likely <= 1.0 - SURE => Some(false),
            _ => None,
        };
        let too_dear = pays == Some(true) && !self.comes_in(mean(gains), facts);
        Verdict { pays: if too_dear { Some(false) } else { pays }, gain, too_dear, ..nothing }
    }

    /// Whether this gain earns what collapsing all candidates costs, while the program runs.
    #[expect(clippy::cast_precision_loss, reason = "ms of CPU time")]
    fn comes_in(&self, gain: f64, facts: &Facts<'_>) -> bool {
        let costs: Vec<f64> = self.made.values().map(|ns| *ns as f64).collect();
        let each_ns = if costs.is_empty() { USUAL_COST_NS } else { mean(&costs) };
        let life_s = facts.age_s.max(LEAST_LIFE_S);
        gain * self.busy(facts) * life_s * 1e9 >= each_ns * count(self.candidates.len())
    }
}

/// Work per CPU second since a phase began; none if it did not work, or nothing was counted.
#[expect(clippy::cast_precision_loss, reason = "a phase")]
fn rate(facts: &Facts<'_>, cpu_ns: u64, work: f64) -> Option<f64> {
    let (cpu, work) = (facts.cpu_ns.saturating_sub(cpu_ns) as f64 / 1e9, facts.work? - work);
    (cpu > 0.0 && work > 0.0).then(|| work / cpu)
}

#[cfg(test)]
mod tests;
