//! Job `plan`: what `isotherm plan` predicts, against what `isotherm reclaim` then does to the same
//! running program.
//!
//! A program is recorded for a while without any scheme, and the plan is made. Then, for each of
//! some idle times, memory is paged out to a swap device of its own, without quota and brake, so
//! that the idle time alone decides. What is compared: the share of resident memory that is saved
//! on average, and the major faults per second. Memory before is that of the recorded phase. The
//! same policy is also played back over the record, by `isotherm run --over`.

mod study;

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use isotherm_sys::clock;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::measure;
use crate::processes::child::sleep_until;
use crate::processes::recording;
use crate::processes::tool::Tool;
use crate::processes::workload::Workload;
use crate::programs::{self, Place, Running, Size};
use crate::readings::procfs;
use crate::readings::sampling::{self, sampler, tree};
use crate::requirement::{self, Requirement};
use crate::stats::to_f64;
use study::{Case, Replayed, Row, Summary, format, summary};

/// Generated workloads: used at random by rank, in turn, gone over, scattered, moving.
const WORKLOADS: [&str; 6] =
    ["zipf", "hash-table", "zigzag", "sweep-slow", "scattered-256k", "moving"];
/// Programs that run here on their own data, of those of the job `reclaim`.
const PROGRAMS: [&str; 3] = ["redis", "postgres", "jvm"];
/// Idle times, in seconds.
const AGES_S: [u64; 3] = [2, 5, 10];
/// A record has to be so many times as long as the longest of them.
const RECORDED: f64 = 5.2;
const SWAP_BYTES: u64 = 4 << 30;
const RAW: &str = "raw/cases.json";

/// The job.
#[derive(Debug)]
pub(crate) struct Plan;

#[derive(Debug, Deserialize)]
struct Predicted {
    rows: Vec<Row>,
}

impl Job for Plan {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn about(&self) -> &'static str {
        "savings and refaults that `isotherm plan` predicts, against what `isotherm reclaim` then does"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let mut all = requirement::measuring(4);
        all.push(requirement::subcommand(&spec.isotherm, "plan"));
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let quick = bench.spec.quick;
        let seconds = bench.spec.seconds.unwrap_or(if quick { 3.0 } else { 40.0 });
        let all: Vec<_> = WORKLOADS.into_iter().chain(PROGRAMS).collect();
        let mut cases = Vec::new();
        let wanted = all.iter().filter(|name| bench.spec.wants(name, &all));
        for name in wanted.take(if quick { 1 } else { all.len() }) {
            if let Err(e) = measure_one(bench, name, seconds, &mut cases) {
                failed(&format!("plan: {name}: failed: {e:#}"));
            }
            bench.dir.write_json(RAW, &cases)?;
            if isotherm_sys::signals::stop_requested().is_some() {
                break;
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let cases: Vec<Case> = dir.read_json(RAW)?;
        Ok(serde_json::json!({ "summary": summary(&cases), "cases": cases }))
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let cases: Vec<Case> = serde_json::from_value(result["cases"].clone())?;
        let summary: Summary = serde_json::from_value(result["summary"].clone())?;
        Ok(format(&cases, &summary))
    }
}

/// A program under load.
enum Load {
    Workload(Workload),
    Program(Box<dyn Running>, #[expect(dead_code, reason = "it goes with the program")] Place),
}

impl Load {
    fn start(bench: &Bench<'_>, name: &str, seconds: f64) -> anyhow::Result<Option<Self>> {
        if WORKLOADS.contains(&name) {
            let truth = bench.dir.raw(&format!("{name}.truth"));
            let args = [name, "--duration", "1h"];
            return Ok(Some(Self::Workload(Workload::start(&bench.spec.isotherm, &args, &truth)?)));
        }
        let program = programs::all().into_iter().find(|p| p.name() == name);
        let program = program.context("no such program")?;
        if let Some(why) = program.missing() {
            say(&format!("plan: {name} is left out: {why}"));
            return Ok(None);
        }
        let place = Place::create(name)?;
        let running = program.begin(&place, Size { seconds, quick: bench.spec.quick })?;
        Ok(Some(Self::Program(running, place)))
    }

    fn roots(&self) -> Vec<u32> {
        match self {
            Self::Workload(workload) => vec![workload.child.pid()],
            Self::Program(running, _) => running.roots(),
        }
    }

    fn load(&mut self, seconds: f64) -> anyhow::Result<()> {
        match self {
            Self::Workload(workload) => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "s")]
                let us = (seconds * 1e6) as u64;
                sleep_until(clock::now().plus_us(us))?;
                workload.child.still_runs()
            }
            Self::Program(running, _) => running.load(seconds).map(drop),
        }
    }

    /// Loads it, and returns its mean resident memory and its major faults per second.
    fn measured(&mut self, seconds: f64) -> anyhow::Result<(f64, f64)> {
        let (before, begin) = (self.faults(), clock::now());
        let running = sampler(self.roots(), None)?;
        self.load(seconds)?;
        let samples = running.finish();
        let rss = sampling::mean(&samples, |s| s.rss).context("no sample of memory")?;
        let elapsed_s = to_f64(clock::now().since(begin)) / 1e9;
        Ok((rss, to_f64(self.faults().saturating_sub(before)) / elapsed_s))
    }

    fn faults(&self) -> u64 {
        let all = tree(&self.roots());
        all.into_iter().filter_map(|pid| procfs::major_faults(pid).ok()).sum()
    }
}

fn measure_one(
    bench: &Bench<'_>,
    name: &str,
    seconds: f64,
    cases: &mut Vec<Case>,
) -> anyhow::Result<()> {
    let Some(mut load) = Load::start(bench, name, seconds)? else { return Ok(()) };
    let ages = if bench.spec.quick { &AGES_S[..1] } else { &AGES_S[..] };
    let longest = to_f64(ages.iter().copied().max().unwrap_or(0));
    let recorded = seconds.max(RECORDED * longest);
    say(&format!("plan: {name}: recorded for {recorded} s"));
    load.load(if bench.spec.quick { 1.0 } else { 4.0 })?;
    let path = bench.dir.raw(&format!("{name}.data"));
    let pids: Vec<u32> = tree(&load.roots()).into_iter().collect();
    let more: Vec<String> =
        pids[1..].iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]).collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let isotherm = &bench.spec.isotherm;
    let recorder = recording::start(isotherm, pids[0], &path, "pagewalk", "census", &more)?;
    let (before, faults) = load.measured(recorded)?;
    recorder.stop()?;
    let rows = predicted(isotherm, &path)?;
    for age_s in ages {
        say(&format!("plan: {name}: paged out after {age_s} s"));
        let zram = measure::swap(SWAP_BYTES)?;
        let args =
            ["--watermarks", "none", "--quota", "none", "--quota-time", "none", "--no-brake"];
        let mut args: Vec<String> = args.map(str::to_owned).to_vec();
        args.extend(["--age".to_owned(), format!("{age_s}s")]);
        let log = bench.dir.raw(&format!("{name}-{age_s}"));
        let replayed = replayed(isotherm, &path, &args, &log.with_extension("toml"))?;
        let mut tool = Tool::start(isotherm, "reclaim", tree(&load.roots()), &args, &log)?;
        // Until memory has aged and is gone.
        load.load(3.0 * to_f64(*age_s) + if bench.spec.quick { 1.0 } else { 6.0 })?;
        tool.check()?;
        let (after, with) = load.measured(seconds)?;
        tool.finish()?;
        zram.tear_down()?;
        let near = |row: &&Row| (row.age_s - to_f64(*age_s)).abs() < 1e-6;
        let predicted = rows.iter().find(near).copied();
        let (program, age_s) = (name.to_owned(), *age_s);
        let faults = [faults, with];
        cases.push(Case { program, age_s, predicted, replayed, before, after, faults });
    }
    Ok(())
}

/// The plan for a record. Any price will do, since only memory and faults are compared.
fn predicted(isotherm: &Path, record: &Path) -> anyhow::Result<Vec<Row>> {
    let mut command = Command::new(isotherm);
    command.arg("plan").arg(record).args(["--json", "--refault-cost", "20us"]);
    let text = crate::jobs::output(&mut command)?;
    let plan: Predicted = serde_json::from_str(&text).context("understand the plan")?;
    Ok(plan.rows)
}

/// What the policy of `isotherm reclaim` with these options would have done to the record.
fn replayed(
    isotherm: &Path,
    record: &Path,
    args: &[String],
    policy: &Path,
) -> anyhow::Result<Option<Replayed>> {
    let mut printed = Command::new(isotherm);
    printed.arg("reclaim").args(args).arg("--print-policy");
    std::fs::write(policy, crate::jobs::output(&mut printed)?)?;
    let mut run = Command::new(isotherm);
    run.arg("run").arg(policy).arg("--over").arg(record).arg("--json");
    let text = crate::jobs::output(&mut run)?;
    Ok(Some(serde_json::from_str(&text).context("understand the replay")?))
}
