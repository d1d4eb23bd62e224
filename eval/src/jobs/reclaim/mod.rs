//! Job `reclaim`: what `isotherm reclaim` saves on real programs, and what that costs them.
//!
//! A program is started once, its data loaded; then load phases without Isotherm and under each
//! configuration follow each other, forth in even rounds and back in odd ones. Each phase has a
//! swap device of its own; taking it down brings all memory back, so that no phase inherits from
//! the one before. Programs that end with their work are started anew for each phase. What is
//! compared is always of one round.
//!
//! Part `truth` runs generated workloads instead ([`truth`]).

mod configs;
mod rows;
mod study;
mod truth;

use serde_json::{Value, json};

use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::measure::{self, Run, Scheme};
use crate::programs::{self, Place, Program, Running, Size};
use crate::requirement::{self, Requirement};
use configs::{Config, GRID};

/// Of the swap device, uncompressed.
const SWAP_BYTES: u64 = 4 << 30;
/// The program of the grid.
const GRID_PROGRAM: &str = "redis";
/// All programs of a smoke run.
const QUICK: [&str; 2] = ["redis", "numpy"];
/// A load phase that is not measured, after the start.
const WARM_S: f64 = 2.0;

/// The job.
#[derive(Debug)]
pub(crate) struct Reclaim;

/// How long and how often.
#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    grid_rounds: usize,
    size: Size,
    age_ms: u64,
}

impl Plan {
    fn of(spec: &Spec) -> Self {
        let (rounds, grid_rounds, seconds) = if spec.quick { (1, 0, 1.5) } else { (4, 1, 16.0) };
        let seconds = spec.seconds.unwrap_or(seconds);
        Self {
            rounds: spec.pairs.unwrap_or(rounds),
            grid_rounds: spec.pairs.unwrap_or(grid_rounds),
            size: Size { seconds, quick: spec.quick },
            age_ms: if spec.quick { 300 } else { 2500 },
        }
    }
}

impl Job for Reclaim {
    fn name(&self) -> &'static str {
        "reclaim"
    }

    fn about(&self) -> &'static str {
        "memory saved on real programs, their slowdown and p99, refaults, with evidence on and off, quotas"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let mut all = requirement::measuring(8);
        all.push(requirement::subcommand(&spec.isotherm, "reclaim"));
        all.extend(programs::all().iter().map(|p| requirement::program(p.as_ref())));
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let plan = Plan::of(bench.spec);
        let there = requirement::subcommand(&bench.spec.isotherm, "reclaim").satisfied;
        let programs = programs::all();
        let names: Vec<&str> = programs.iter().map(|p| p.name()).chain(truth::names()).collect();
        let is_named = |name: &str| bench.spec.wants(name, &names);
        let limited = bench.spec.only.iter().any(|o| names.contains(&o.as_str()));
        let is_wanted =
            |name: &str| is_named(name) && (limited || !plan.size.quick || QUICK.contains(&name));
        let (headline, grid) = wanted_configs(bench.spec, plan, there);
        if there && truth::names().any(is_named) {
            truth::run(bench, plan.size.quick, plan.age_ms)?;
        }
        for program in programs.iter().filter(|p| is_wanted(p.name())) {
            if let Some(why) = program.missing() {
                say(&format!("reclaim: {} is left out: {why}", program.name()));
                continue;
            }
            rounds(bench, program.as_ref(), plan, &headline, plan.rounds)?;
            if program.name() == GRID_PROGRAM && !grid.is_empty() {
                rounds(bench, program.as_ref(), plan, &grid, plan.grid_rounds)?;
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let runs = Run::read_all(dir)?;
        Ok(json!({
            "rows": study::rows(&runs),
            "all": study::all_programs(&runs),
            "failed": study::failures(&runs),
            "truth": truth::study(dir)?,
        }))
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        rows::format(result)
    }
}

/// The configurations of all programs and those of the grid; the grid has its own run without.
fn wanted_configs(spec: &Spec, plan: Plan, there: bool) -> (Vec<Config>, Vec<Config>) {
    let (mut headline, mut grid) = (configs::headline(plan.age_ms), configs::grid(plan.age_ms));
    let mut names: Vec<String> = headline.iter().chain(&grid).map(|c| c.name.clone()).collect();
    names.push(GRID.into());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let named = |c: &Config| spec.only.contains(&c.name);
    let limited = spec.only.iter().any(|o| names.contains(&o.as_str()));
    let whole_grid = spec.only.iter().any(|o| o == GRID) || (!limited && plan.grid_rounds > 0);
    headline.retain(|c| c.flags.is_none() || (there && (!limited || named(c))));
    grid.retain(|c| there && (whole_grid || named(c)));
    if !limited {
        headline.truncate(3);
    }
    if !grid.is_empty() {
        grid.insert(0, Config { name: configs::ORIG.into(), flags: None });
    }
    (headline, grid)
}

/// All rounds of a program. A run that fails is kept as failed; the program is started anew then.
fn rounds(
    bench: &Bench<'_>,
    program: &dyn Program,
    plan: Plan,
    configs: &[Config],
    rounds: usize,
) -> anyhow::Result<()> {
    let grid = configs.iter().any(|c| c.name.contains('/'));
    let name = program.name();
    let place = Place::create(name)?;
    let mut running: Option<Box<dyn Running>> = None;
    for round in 0..rounds {
        let mut order: Vec<&Config> = configs.iter().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for config in order {
            say(&format!("reclaim: {name} {}: round {} of {rounds}", config.name, round + 1));
            let done = phase(bench, program, &place, plan, config, &mut running);
            if isotherm_sys::signals::stop_requested().is_some() {
                return done.map(drop);
            }
            let mut run = done.unwrap_or_else(|e| {
                failed(&format!("reclaim: {name} {}: failed: {e:#}", config.name));
                running = None;
                Run { failed: Some(format!("{e:#}")), ..Run::default() }
            });
            (run.program, run.config) = (name.to_owned(), config.name.clone());
            // Rounds of the grid are not those of the headline.
            run.round = if grid { 1000 + round } else { round };
            run.append(bench.dir)?;
        }
    }
    Ok(())
}

fn phase(
    bench: &Bench<'_>,
    program: &dyn Program,
    place: &Place,
    plan: Plan,
    config: &Config,
    running: &mut Option<Box<dyn Running>>,
) -> anyhow::Result<Run> {
    let mut now = match running.take() {
        Some(running) => running,
        None => {
            let mut new = program.begin(place, plan.size)?;
            if new.lasts() {
                new.load(WARM_S.min(plan.size.seconds))?;
            }
            new
        }
    };
    let zram = measure::swap(SWAP_BYTES)?;
    let log = bench.dir.raw(&format!("{}-{}", program.name(), config.name.replace('/', "-")));
    let scheme = config.flags.as_deref().map(|args| Scheme {
        isotherm: &bench.spec.isotherm,
        name: "reclaim",
        watches: true,
        args,
        log: &log,
    });
    let run = measure::run(now.as_mut(), scheme, Some(&zram), 0.0, plan.size.seconds)?;
    if now.lasts() {
        *running = Some(now);
    } else {
        // Ended before its swap goes away: nothing has to come back.
        drop(now);
    }
    zram.tear_down()?;
    Ok(run)
}
