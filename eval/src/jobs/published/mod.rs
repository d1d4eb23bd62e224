//! Job `published`: the tables of DAMON's published evaluations, on programs that people run, with
//! Isotherm in DAMON's place, and our own configurations beside them.
//!
//! Every program ([`crate::programs`]) runs under every configuration ([`configs`]) in rounds
//! ([`suite`]), each time started anew ([`phase`]). What was measured is on disk as soon as it is
//! there, so that a run that was interrupted goes on with `--resume`. The tables have the form of
//! the published ones, with their totals beside ours ([`tables`], [`seeds`]); each goal has a
//! verdict ([`goals`]).
//!
//! Absent: PARSEC3 and SPLASH-2X, which no distribution packages, and a machine that does nothing
//! else. So the published numbers are to be compared as ratios to `orig`, never as seconds.

mod configs;
mod gallery;
mod goals;
mod phase;
mod pictures;
mod policies;
mod seeds;
mod study;
mod suite;
mod tables;

use std::fs;

use anyhow::Context;
use serde_json::Value;

use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::jobs::thp::setting;
use crate::measure::Run;
use crate::programs::{self, Program};
use crate::requirement::{self, Requirement};
use configs::{Beside, Config};
use policies::Policy;
use suite::{Done, Plan};

/// Whether the kernel tracks idle pages by frame.
const IDLE_BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
/// What was left out and why.
const LEFT_OUT: &str = "raw/left-out.json";

/// The job.
#[derive(Debug)]
pub(crate) struct Published;

impl Job for Published {
    fn name(&self) -> &'static str {
        "published"
    }

    fn about(&self) -> &'static str {
        "the published tables (orig, rec, prec, thp, ethp, prcl) and ours, on real programs; --resume DIR"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let mut all = requirement::measuring(8);
        for name in ["record", "reclaim", "thp", "plan", "tune"] {
            all.push(requirement::subcommand(&spec.isotherm, name));
        }
        all.push(Requirement {
            what: "idle page tracking, for the record of physical memory".into(),
            satisfied: fs::exists(IDLE_BITMAP).unwrap_or(false),
            found: "no idle page tracking".into(),
        });
        all.extend(all_programs().iter().map(|p| requirement::program(p.as_ref())));
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        Run::mend(bench.dir)?;
        let mut suite = Suite::of(bench)?;
        bench.dir.write_json(LEFT_OUT, &suite.left_out)?;
        suite.tell();
        for (program, config, round) in
            suite::order(suite.programs.len(), suite.configs.len(), suite.plan.rounds)
        {
            suite.step(program, config, round)?;
            if isotherm_sys::signals::stop_requested().is_some() {
                let dir = bench.dir.path().display();
                say(&format!("published: interrupted; to go on: run published --resume {dir}"));
                break;
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let spec: Spec = dir.read_json("spec.json")?;
        let study = study::Study { is_smoke: spec.quick, ..study::study(&Run::read_all(dir)?) };
        pictures::bars(dir, &study)?;
        let left_out: Vec<String> = dir.read_json(LEFT_OUT)?;
        Ok(serde_json::json!({ "study": study, "left_out": left_out }))
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let study: study::Study = serde_json::from_value(result["study"].clone())?;
        let left_out: Vec<String> = serde_json::from_value(result["left_out"].clone())?;
        Ok(tables::format(&study, &left_out))
    }

    fn resumes(&self) -> bool {
        true
    }
}

/// All programs that can be measured.
fn all_programs() -> Vec<Box<dyn Program>> {
    programs::suite()
}

/// What is measured, and what of it is there.
struct Suite<'a> {
    bench: &'a Bench<'a>,
    plan: Plan,
    programs: Vec<Box<dyn Program>>,
    configs: Vec<Config>,
    done: Done,
    left_out: Vec<String>,
}

impl<'a> Suite<'a> {
    fn of(bench: &'a Bench<'a>) -> anyhow::Result<Self> {
        let mut left_out = Vec::new();
        let (mut programs, mut configs) = (Vec::new(), Vec::new());
        for program in suite::wanted_programs(bench.spec, all_programs()) {
            match program.missing() {
                Some(why) => left_out.push(format!("{}: {why}", program.name())),
                None => programs.push(program),
            }
        }
        for config in suite::wanted_configs(bench.spec) {
            match impossible(config) {
                Some(why) => left_out.push(format!("{}: {why}", config.name)),
                None => configs.push(config),
            }
        }
        let done = Done::of(&Run::read_all(bench.dir)?);
        Ok(Self { bench, plan: Plan::of(bench.spec), programs, configs, done, left_out })
    }

    /// What will be done, and how long that takes.
    fn tell(&self) {
        let Self { plan, programs, configs, .. } = self;
        let has = |(p, c, r): suite::Step| self.done.has(programs[p].name(), configs[c].name, r);
        let all = suite::order(programs.len(), configs.len(), plan.rounds);
        let there = all.iter().filter(|step| has(**step)).count();
        let with_policy = || configs.iter().filter(|c| c.beside == Beside::Policy);
        let missing = |p: &dyn Program| {
            with_policy().filter(|c| policies::known(self.bench, p, **c).is_none()).count()
        };
        let policies = programs.iter().map(|p| missing(p.as_ref())).sum();
        let minutes = plan.minutes(all.len() - there, policies);
        for why in &self.left_out {
            say(&format!("published: left out: {why}"));
        }
        say(&format!(
            "published: {} programs x {} configurations x {} rounds of {} s; {there} of {} phases are \
             there; about {} to go",
            programs.len(),
            configs.len(),
            plan.rounds,
            plan.seconds,
            all.len(),
            if minutes < 120.0 {
                format!("{minutes:.0} min")
            } else {
                format!("{:.1} h", minutes / 60.0)
            }
        ));
    }

    /// One load phase, unless it is there. A failure of the program or the tool is kept as a run
    /// that failed; only what prevents keeping anything is an error.
    fn step(&mut self, program: usize, config: usize, round: usize) -> anyhow::Result<()> {
        let (program, config) = (self.programs[program].as_ref(), self.configs[config]);
        if self.done.has(program.name(), config.name, round) {
            return Ok(());
        }
        let done = match self.policy(program, config) {
            Ok(Some(Policy::LeftOut(why))) => {
                let told = format!("{} {}: {}", program.name(), config.name, why.trim());
                if !self.left_out.contains(&told) {
                    self.left_out.push(told);
                    self.bench.dir.write_json(LEFT_OUT, &self.left_out)?;
                }
                return Ok(());
            }
            Ok(Some(Policy::Made(file))) => self.phase(program, config, round, Some(&file)),
            Ok(None) => self.phase(program, config, round, None),
            Err(e) => Err(e),
        };
        // What was measured until then is half a phase.
        if isotherm_sys::signals::stop_requested().is_some() {
            return Ok(());
        }
        self.keep(program.name(), config.name, round, done)
    }

    fn keep(
        &self,
        program: &str,
        config: &str,
        round: usize,
        done: anyhow::Result<Run>,
    ) -> anyhow::Result<()> {
        let mut run = done.unwrap_or_else(|e| {
            failed(&format!("published: {program} {config}: failed: {e:#}"));
            Run { failed: Some(format!("{e:#}")), ..Run::default() }
        });
        (run.program, run.config, run.round) = (program.into(), config.into(), round);
        run.append(self.bench.dir).context("keep what was measured")
    }

    fn policy(&self, program: &dyn Program, config: Config) -> anyhow::Result<Option<Policy>> {
        if config.beside != Beside::Policy {
            return Ok(None);
        }
        policies::get(self.bench, program, &self.plan, config).map(Some)
    }

    fn phase(
        &self,
        program: &dyn Program,
        config: Config,
        round: usize,
        policy: Option<&std::path::Path>,
    ) -> anyhow::Result<Run> {
        let (name, rounds) = (program.name(), self.plan.rounds);
        say(&format!("published: {name} {}: round {} of {rounds}", config.name, round + 1));
        phase::run(self.bench, program, &self.plan, config, policy)
    }
}

/// Why this machine cannot do it.
fn impossible(config: Config) -> Option<String> {
    match config.name {
        configs::PREC if !fs::exists(IDLE_BITMAP).unwrap_or(false) => Some(
            "no idle page tracking in this kernel (CONFIG_IDLE_PAGE_TRACKING); the kernel's own \
             DAMON is not touched by a job"
                .into(),
        ),
        configs::THP | configs::ETHP if setting::found().is_none() => {
            Some("no transparent huge pages in this kernel".into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{Outcome, Place, Running, Size};

    #[derive(Debug)]
    struct Never;

    impl Program for Never {
        fn name(&self) -> &'static str {
            "never"
        }
        fn about(&self) -> &'static str {
            "cannot be started"
        }
        fn missing(&self) -> Option<String> {
            None
        }
        fn begin(&self, _: &Place, _: Size) -> anyhow::Result<Box<dyn Running>> {
            anyhow::bail!("it does not start")
        }
    }

    /// Only a phase whose result is on disk is left out, so the program, which cannot be started,
    /// is asked for exactly where nothing is there.
    #[test]
    fn what_is_on_disk_is_not_measured_again() {
        let out = tempfile::tempdir().unwrap();
        let spec = Spec::of_test("published");
        let dir = ResultDir::create(out.path(), &spec).unwrap();
        let bench = Bench { spec: &spec, dir: &dir };
        let there = Run {
            program: "never".into(),
            config: configs::ORIG.into(),
            outcome: Some(Outcome::default()),
            ..Run::default()
        };
        there.append(&dir).unwrap();
        let text = fs::read_to_string(dir.raw("runs.jsonl")).unwrap();
        // A second run died while it wrote.
        fs::write(dir.raw("runs.jsonl"), text + "{\"program\":\"nev").unwrap();
        Run::mend(&dir).unwrap();
        let mut suite = Suite::of(&bench).unwrap();
        suite.programs = vec![Box::new(Never)];
        suite.configs = vec![configs::ALL[0], configs::ALL[9]];
        suite.step(0, 0, 0).unwrap();
        assert_eq!(Run::read_all(&dir).unwrap().len(), 1);
        // A policy that could not be made is not made again.
        fs::write(dir.raw("never-plan.why"), "it saves nothing\n").unwrap();
        suite.step(0, 1, 0).unwrap();
        assert_eq!(Run::read_all(&dir).unwrap().len(), 1);
        let told: Vec<String> = dir.read_json(LEFT_OUT).unwrap();
        assert_eq!(told.last().unwrap(), "never plan: it saves nothing");
        assert!(suite.done.has("never", "orig", 0) && !suite.done.has("never", "orig", 1));
        // A failure is kept, and tried again.
        let done = Err(anyhow::anyhow!("it does not start").context("start never"));
        suite.keep("never", configs::ORIG, 1, done).unwrap();
        let runs = Run::read_all(&dir).unwrap();
        let [_, failed] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!((&*failed.config, failed.round), (configs::ORIG, 1));
        assert!(failed.failed.as_deref() == Some("start never: it does not start"));
        assert!(!Done::of(&runs).has("never", "orig", 1));
    }

    #[test]
    fn tables_are_made_from_files_alone() {
        let out = tempfile::tempdir().unwrap();
        let spec = Spec { quick: false, ..Spec::of_test("published") };
        let dir = ResultDir::create(out.path(), &spec).unwrap();
        for run in [
            study::tests::once("gcc", configs::ORIG, 0, 30.0, 3000),
            study::tests::once("gcc", configs::PRCL, 0, 33.0, 1500),
        ] {
            run.append(&dir).unwrap();
        }
        dir.write_json(LEFT_OUT, &["prec: no idle page tracking"]).unwrap();
        let result = Published.study(&dir).unwrap();
        let text = Published.format(&result).unwrap();
        assert!(text.contains("| 30.000 | 33.000 |    (10.00) |"), "{text}");
        assert!(text.contains("left out: prec: no idle page tracking"), "{text}");
        assert!(dir.picture("published-rss.svg").unwrap().exists());
    }
}
