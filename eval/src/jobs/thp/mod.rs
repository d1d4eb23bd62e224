//! Job `thp`: huge pages everywhere, nowhere, and where `isotherm thp` puts them.
//!
//! `isotherm` proves on a sample that huge pages pay; `unproven` collapses whatever is hot, as
//! `ethp` of the evaluations does (`--prove off`). Each run starts the program anew, because huge
//! pages come with the first touch. `always` sets the system to `always`; all others set it to
//! `madvise`, which the programs do not use. Long-running programs first run unmeasured for a
//! while, until the scheme and khugepaged have settled.

pub(crate) mod setting;
mod study;

use serde_json::Value;

use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::measure::{self, Run, Scheme};
use crate::programs::{self, Place, Program, Size};
use crate::requirement::{self, Requirement};
use setting::Setting;

/// Modes, and the system's setting in each.
const MODES: [(&str, &str); 4] = [
    (study::NEVER, "madvise"),
    (study::ALWAYS, "always"),
    (study::UNPROVEN, "madvise"),
    (study::ISOTHERM, "madvise"),
];

/// All programs of a smoke run.
const QUICK: [&str; 1] = ["gather"];

/// The job.
#[derive(Debug)]
pub(crate) struct Thp;

impl Job for Thp {
    fn name(&self) -> &'static str {
        "thp"
    }

    fn about(&self) -> &'static str {
        "huge pages always, never and by `isotherm thp`: speed-up kept, bloat removed"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let found = setting::found();
        let mut all = requirement::measuring(8);
        all.push(requirement::subcommand(&spec.isotherm, "thp"));
        all.push(Requirement {
            what: "transparent huge pages".into(),
            satisfied: found.is_some(),
            found: found.unwrap_or_else(|| "none".into()),
        });
        all.extend(all_programs().iter().map(|p| requirement::program(p.as_ref())));
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let spec = bench.spec;
        let there = requirement::subcommand(&spec.isotherm, "thp").satisfied;
        let (rounds, seconds) = if spec.quick { (1, 1.0) } else { (3, 10.0) };
        let rounds = spec.pairs.unwrap_or(rounds);
        let size = Size { seconds: spec.seconds.unwrap_or(seconds), quick: spec.quick };
        let programs = all_programs();
        let names: Vec<&str> = programs.iter().map(|p| p.name()).collect();
        let modes: Vec<&str> = MODES.iter().map(|(m, _)| *m).collect();
        let limited = spec.only.iter().any(|o| names.contains(&o.as_str()));
        let is_wanted = |name: &str| {
            spec.wants(name, &names) && (limited || !spec.quick || QUICK.contains(&name))
        };
        for program in programs.iter().filter(|p| is_wanted(p.name())) {
            if let Some(why) = program.missing() {
                say(&format!("thp: {} is left out: {why}", program.name()));
                continue;
            }
            for round in 0..rounds {
                let mut order: Vec<(&str, &str)> = MODES.to_vec();
                order.retain(|(m, _)| spec.wants(m, &modes) && (there || !study::OURS.contains(m)));
                if round % 2 == 1 {
                    order.reverse();
                }
                for (mode, setting) in order {
                    say(&format!(
                        "thp: {} {mode}: round {} of {rounds}",
                        program.name(),
                        round + 1
                    ));
                    let done = one(bench, program.as_ref(), mode, setting, size);
                    if isotherm_sys::signals::stop_requested().is_some() {
                        return done.map(drop);
                    }
                    let mut run = done.unwrap_or_else(|e| {
                        failed(&format!("thp: {} {mode}: failed: {e:#}", program.name()));
                        Run { failed: Some(format!("{e:#}")), ..Run::default() }
                    });
                    (run.program, run.config) = (program.name().into(), mode.into());
                    run.round = round;
                    run.append(bench.dir)?;
                }
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(study::study(&Run::read_all(dir)?))?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        Ok(study::format(&serde_json::from_value(result.clone())?))
    }
}

fn all_programs() -> Vec<Box<dyn Program>> {
    let mut all = programs::for_huge_pages();
    all.extend(programs::all());
    all
}

fn one(
    bench: &Bench<'_>,
    program: &dyn Program,
    mode: &str,
    setting: &str,
    size: Size,
) -> anyhow::Result<Run> {
    // Put back after the program and the tool have ended.
    let setting = Setting::set(setting)?;
    let place = Place::create(program.name())?;
    let mut running = program.begin(&place, size)?;
    let log = bench.dir.raw(&format!("{}-{mode}", program.name()));
    let args: &[&str] = if mode == study::UNPROVEN { &["--prove", "off"] } else { &[] };
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let scheme = study::OURS.contains(&mode).then_some(Scheme {
        isotherm: &bench.spec.isotherm,
        name: "thp",
        watches: true,
        args: &args,
        log: &log,
    });
    let warm = if running.lasts() { size.seconds } else { 0.0 };
    let run = measure::run(running.as_mut(), scheme, None, warm, size.seconds);
    drop(running);
    drop(setting);
    run
}
