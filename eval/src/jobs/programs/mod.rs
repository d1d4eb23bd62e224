//! Job `programs`: each real program of the suite once, without Isotherm.
//!
//! It shows what is installed, and that what is installed works here: a program is started, its
//! data loaded, and put under one load, whose answers are checked. What is missing is named with
//! its package. A program that fails fails the job, after the others have run.

mod rows;

use serde_json::Value;

use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::measure::{self, Run};
use crate::programs::{self, Place, Program, Size};
use crate::requirement::{self, Requirement};

/// Before the load that counts, where a program lasts; and in a smoke run.
const WARM_S: [f64; 2] = [1.0, 0.2];
/// What a run says whose program is not installed.
const LEFT_OUT: &str = "left out: ";

/// The job.
#[derive(Debug)]
pub(crate) struct Programs;

impl Job for Programs {
    fn name(&self) -> &'static str {
        "programs"
    }

    fn about(&self) -> &'static str {
        "each real program of the suite once without Isotherm: what is installed, and whether it works"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let mut all = requirement::measuring(4);
        all.extend(wanted(spec).iter().map(|p| requirement::program(p.as_ref())));
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let seconds = bench.spec.seconds.unwrap_or(if bench.spec.quick { 0.5 } else { 10.0 });
        let size = Size { seconds, quick: bench.spec.quick };
        let mut failed = Vec::new();
        for program in wanted(bench.spec) {
            let mut run = one(program.as_ref(), size)?;
            program.name().clone_into(&mut run.program);
            let why = run.failed.as_ref().filter(|w| !w.starts_with(LEFT_OUT));
            failed.extend(why.map(|w| format!("{}: {w}", program.name())));
            run.append(bench.dir)?;
        }
        anyhow::ensure!(
            failed.is_empty(),
            "{} failed: {}\n  hint:  `isotherm-eval study {}` shows the others",
            failed.len(),
            failed.join("; "),
            bench.dir.path().display()
        );
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let rows: Vec<rows::Row> = Run::read_all(dir)?.into_iter().map(rows::row).collect();
        Ok(serde_json::to_value(rows)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        Ok(rows::format(&serde_json::from_value::<Vec<rows::Row>>(result.clone())?))
    }
}

fn wanted(spec: &Spec) -> Vec<Box<dyn Program>> {
    let suite = programs::suite();
    let names: Vec<&str> = suite.iter().map(|p| p.name()).collect();
    suite.into_iter().filter(|p| spec.wants(p.name(), &names)).collect()
}

/// One load of a program. It fails only if the job is asked to stop.
fn one(program: &dyn Program, size: Size) -> anyhow::Result<Run> {
    let name = program.name();
    let without = |failed: String| {
        say(&format!("programs: {name}: {failed}"));
        Run { failed: Some(failed), ..Run::default() }
    };
    if let Some(why) = program.missing() {
        return Ok(without(format!("{LEFT_OUT}{why}")));
    }
    say(&format!("programs: {name}: {}", program.about()));
    match load(program, size) {
        Err(e) if isotherm_sys::signals::stop_requested().is_some() => Err(e),
        Err(e) => Ok(without(format!("{e:#}"))),
        Ok(run) => Ok(run),
    }
}

fn load(program: &dyn Program, size: Size) -> anyhow::Result<Run> {
    let place = Place::create(program.name())?;
    let mut running = program.begin(&place, size)?;
    let warm = if running.lasts() { WARM_S[usize::from(size.quick)] } else { 0.0 };
    measure::run(running.as_mut(), None, None, warm, size.seconds)
}
