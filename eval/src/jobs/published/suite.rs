//! Which phases there are, in which order, and which of them a run that goes on still has to do.
//!
//! Each round has all programs, and each program all configurations, forth in even rounds and back
//! in odd ones; so a run that is interrupted has the same number of rounds of everything, but for
//! one. A phase that succeeded is on disk before the next one begins, and is never done again; one
//! that failed is tried again when the run goes on.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::configs::{self, Config};
use crate::job::Spec;
use crate::measure::Run;
use crate::programs::{Program, Size};
use crate::stats::to_f64;

/// All programs of a smoke run: the first two that are there.
const QUICK: [&str; 3] = ["redis", "numpy", "compiler"];
/// All configurations of a smoke run.
const QUICK_CONFIGS: [&str; 3] = [configs::ORIG, configs::CENSUS, configs::EVIDENCE];
/// To start a program and load its data, about; to stop it; and to make a policy.
const START_S: f64 = 9.0;
const STOP_S: f64 = 1.5;
const POLICY_S: f64 = 80.0;

/// How long and how often.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// How long a load phase is.
    pub(super) seconds: f64,
    /// Before it, with Isotherm at work, for programs that go on: memory ages and is paged out,
    /// huge pages come.
    pub(super) warm: f64,
    /// Idle for so long is cold.
    pub(super) age_ms: u64,
    pub(super) quick: bool,
}

impl Plan {
    pub(super) fn of(spec: &Spec) -> Self {
        let (rounds, seconds) = if spec.quick { (1, 1.0) } else { (5, 14.0) };
        let seconds = spec.seconds.unwrap_or(seconds);
        // A seventh, as a whole number of tenths of a second.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let age_ms = ((seconds / 7.0 * 10.0).round().max(3.0) as u64) * 100;
        Self {
            rounds: spec.pairs.unwrap_or(rounds),
            seconds,
            warm: seconds / 2.0,
            age_ms,
            quick: spec.quick,
        }
    }

    pub(super) const fn size(&self) -> Size {
        Size { seconds: self.seconds, quick: self.quick }
    }

    /// How long so many phases and policies take, about, in minutes. Programs that end with their
    /// work take less.
    pub(super) fn minutes(&self, phases: usize, policies: usize) -> f64 {
        let phase = START_S + self.warm + self.seconds + STOP_S;
        (to_f64(phases as u64) * phase + to_f64(policies as u64) * POLICY_S) / 60.0
    }
}

/// The configurations that are asked for; without `orig` nothing can be compared.
pub(super) fn wanted_configs(spec: &Spec) -> Vec<Config> {
    let names: Vec<&str> = configs::ALL.iter().map(|c| c.name).collect();
    let is_limited = spec.only.iter().any(|o| names.contains(&o.as_str()));
    let is_wanted = |c: &&Config| {
        let in_smoke = !spec.quick || is_limited || QUICK_CONFIGS.contains(&c.name);
        c.name == configs::ORIG || (spec.wants(c.name, &names) && in_smoke)
    };
    configs::ALL.iter().filter(is_wanted).copied().collect()
}

/// Of these programs, those that are asked for.
pub(super) fn wanted_programs(spec: &Spec, all: Vec<Box<dyn Program>>) -> Vec<Box<dyn Program>> {
    let names: Vec<&str> = all.iter().map(|p| p.name()).collect();
    let is_limited = spec.only.iter().any(|o| names.contains(&o.as_str()));
    let is_smoke = spec.quick && !is_limited;
    let is_wanted = |p: &dyn Program| {
        let there = || QUICK.contains(&p.name()) && p.missing().is_none();
        spec.wants(p.name(), &names) && (!is_smoke || there())
    };
    let keep: Vec<bool> = all.iter().map(|p| is_wanted(p.as_ref())).collect();
    let kept = all.into_iter().zip(keep).filter_map(|(program, keep)| keep.then_some(program));
    kept.take(if is_smoke { 2 } else { usize::MAX }).collect()
}

/// A load phase: which program, which configuration, which round.
pub(super) type Step = (usize, usize, usize);

/// All phases of `programs` x `configs` x `rounds`, as indices, in order.
pub(super) fn order(programs: usize, configs: usize, rounds: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..rounds {
        for program in 0..programs {
            let forth = (0..configs).map(|config| (program, config, round));
            if round % 2 == 0 {
                steps.extend(forth);
            } else {
                steps.extend(forth.rev());
            }
        }
    }
    steps
}

/// What is on disk.
#[derive(Debug, Default)]
pub(super) struct Done(BTreeSet<(String, String, usize)>);

impl Done {
    /// The phases that succeeded.
    pub(super) fn of(runs: &[Run]) -> Self {
        let succeeded = runs.iter().filter(|r| r.outcome.is_some());
        Self(succeeded.map(|r| (r.program.clone(), r.config.clone(), r.round)).collect())
    }

    pub(super) fn has(&self, program: &str, config: &str, round: usize) -> bool {
        self.0.contains(&(program.to_owned(), config.to_owned(), round))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Outcome;

    #[test]
    fn rounds_go_forth_and_back() {
        let expected = [
            (0, 0, 0),
            (0, 1, 0),
            (1, 0, 0),
            (1, 1, 0),
            (0, 1, 1),
            (0, 0, 1),
            (1, 1, 1),
            (1, 0, 1),
        ];
        assert_eq!(order(2, 2, 2), expected);
    }

    #[test]
    fn what_failed_is_done_again() {
        let run = |config: &str, round, outcome| Run {
            program: "redis".into(),
            config: config.into(),
            round,
            outcome,
            ..Run::default()
        };
        let done = Done::of(&[
            run("orig", 0, Some(Outcome::default())),
            run("rec", 0, None),
            run("orig", 1, Some(Outcome::default())),
        ]);
        let has = |config, round| done.has("redis", config, round);
        assert_eq!([has("orig", 0), has("rec", 0), has("orig", 1)], [true, false, true]);
        assert!(!has("rec", 1) && !done.has("numpy", "orig", 0));
    }

    #[test]
    fn the_whole_suite_fits_into_a_night() {
        let mut spec = Spec { quick: false, ..Spec::of_test("published") };
        let plan = Plan::of(&spec);
        assert_eq!((plan.rounds, plan.age_ms), (5, 2000));
        let hours = plan.minutes(15 * configs::ALL.len() * plan.rounds, 15 * 2) / 60.0;
        assert!((6.0..8.0).contains(&hours), "{hours}");
        (spec.pairs, spec.seconds) = (Some(2), Some(7.0));
        assert_eq!((Plan::of(&spec).rounds, Plan::of(&spec).age_ms), (2, 1000));
        // 9 + 3.5 + 7 + 1.5 s.
        assert_eq!((Plan::of(&spec).warm, Plan::of(&spec).minutes(20, 45)), (3.5, 7.0 + 60.0));
    }

    #[test]
    fn only_names_configurations_and_never_leaves_out_orig() {
        let named = |only: &[&str], quick| {
            let only = only.iter().map(|o| (*o).to_owned()).collect();
            let spec = Spec { only, quick, ..Spec::of_test("published") };
            wanted_configs(&spec).iter().map(|c| c.name).collect::<Vec<_>>()
        };
        assert_eq!(named(&["redis"], false).len(), 10);
        assert_eq!(named(&["redis", "thp"], true), ["orig", "thp"]);
        assert_eq!(named(&[], true), QUICK_CONFIGS);
    }
}
