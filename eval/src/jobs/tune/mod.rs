//! Job `tune`: from a bad start, an age of 1 s without quota, to the best age of a grid, with few
//! trials.
//!
//! A program has memory that is hot, memory that is gone over once in some seconds, and memory that
//! is never used again. An age of 1 s pages out what comes back soon. The grid is `isotherm tune`
//! with so many candidates that each gets one trial; tuning gets a fifth of that many trials. Both
//! measure alike, on the same running program, by CPU seconds. With swap in compressed memory all
//! that a refault costs is CPU time, and a counter of work shows what else the machine does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::measure;
use crate::processes::workload::Workload;
use crate::requirement::{self, Requirement};

const RAW: &str = "raw/tuned.json";
const SWAP_BYTES: u64 = 1 << 30;
/// 48 MiB are gone over in 6 s: 12,288 pages at 2,048 per second.
const WORKLOAD: &str = "@seed=1\nhot, 16M, none, populate=yes\nswept, 48M, none, populate=yes\n\
                        cold, 64M, none, populate=yes\n\nsteady\n7200000\nhot, 1, 64, 1, rw\n\
                        swept, 0, 4096, 1, rw, rate=2048\n";
/// The bad start: 1 s, no quota, no brake.
const POLICY: &str = "[[context]]\nname = \"c\"\n[[context.scheme]]\nname = \"cold\"\n\
                      action = \"pageout\"\nage = \"1s..\"\nquota = \"none\"\nbrake = \"off\"\n";
/// Exit code of a run that names no winner.
const PARTIAL: i32 = 6;

/// The job.
#[derive(Debug)]
pub(crate) struct Tune;

/// What is measured how long.
#[derive(Debug, Clone, Copy)]
struct Plan {
    range: &'static str,
    grid: u32,
    trials: u32,
    phase: f64,
    watch_s: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tuned {
    grid: Value,
    tuned: Value,
}

impl Job for Tune {
    fn name(&self) -> &'static str {
        "tune"
    }

    fn about(&self) -> &'static str {
        "`isotherm tune` from a bad start, against a grid search with five times as many trials"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let mut all = requirement::measuring(2);
        all.push(requirement::subcommand(&spec.isotherm, "tune"));
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let quick = bench.spec.quick;
        let plan = if quick {
            Plan { range: "cold.age=1s..2s", grid: 2, trials: 1, phase: 0.5, watch_s: 0 }
        } else {
            let phase = bench.spec.seconds.unwrap_or(4.0);
            Plan { range: "cold.age=1s..15s", grid: 25, trials: 5, phase, watch_s: 60 }
        };
        let _zram = measure::swap(SWAP_BYTES)?;
        let config = bench.dir.raw("workload.cfg");
        std::fs::write(&config, WORKLOAD).context("write the workload")?;
        let policy = bench.dir.raw("start.toml");
        std::fs::write(&policy, POLICY).context("write the policy")?;
        let truth = bench.dir.raw("truth");
        let args = [config.to_str().context("a path that is no text")?];
        let mut workload = Workload::start(&bench.spec.isotherm, &args, &truth)?;
        let run = |candidates, trials, watch_s| {
            tune(bench, &policy, workload.child.pid(), plan, [candidates, trials, watch_s])
        };
        say(&format!("tune: {} trials from a bad start", plan.trials));
        let tuned = run(plan.trials.div_ceil(2), plan.trials, plan.watch_s)?;
        say(&format!("tune: a grid of {}", plan.grid));
        let grid = run(plan.grid, plan.grid, 0)?;
        workload.child.still_runs()?;
        bench.dir.write_json(RAW, &Tuned { grid, tuned })
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let Tuned { grid, tuned } = dir.read_json(RAW)?;
        let best = rows(&grid)?.into_iter().filter(|row| row.slowdown <= row.limit);
        let best = best.max_by(|a, b| a.score.total_cmp(&b.score));
        let winner = tuned["winner"].as_u64().and_then(|at| usize::try_from(at).ok());
        let found = rows(&tuned)?.into_iter().find(|row| Some(row.at) == winner);
        Ok(serde_json::json!({
            "grid": rows(&grid)?, "tuned": rows(&tuned)?, "best": best, "found": found,
            "grid_trials": grid["trials"], "trials": tuned["trials"], "why": tuned["why"],
            "beats_start": tuned["beats_start"],
        }))
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let of = |key: &str| -> anyhow::Result<Vec<Row>> {
            Ok(serde_json::from_value(result[key].clone())?)
        };
        let mut text = "by       age     trials  saved %  slowdown %  score\n".to_owned();
        for (by, rows) in [("grid", of("grid")?), ("tune", of("tuned")?)] {
            for Row { age, from, trials, saved, slowdown, score, .. } in rows {
                let [saved, slowdown, score] = [saved, slowdown, score].map(|x| 100.0 * x);
                text += &format!(
                    "{by:<8} {age:<7} {trials:<7} {saved:<8.1} {slowdown:<11.1} {score:<6.1} {from}\n"
                );
            }
        }
        let [best, found] = ["best", "found"]
            .map(|key| serde_json::from_value::<Option<Row>>(result[key].clone()).ok().flatten());
        let told = match (best, found) {
            (Some(best), Some(found)) => format!(
                "saved: {:.1} % by tune ({} trials), {:.1} % by the best of the grid ({}): {:.0} % of it; \
                 goal: at least 90 %",
                100.0 * found.saved,
                result["trials"],
                100.0 * best.saved,
                result["grid_trials"],
                100.0 * found.saved / best.saved
            ),
            (None, _) => "nothing of the grid kept to the limit".to_owned(),
            (_, None) => format!("tune named no winner: {}", result["why"]),
        };
        Ok(text + &told + "\n")
    }
}

/// A candidate.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    at: usize,
    age: String,
    from: String,
    trials: usize,
    saved: f64,
    slowdown: f64,
    score: f64,
    limit: f64,
}

/// The candidates that were tried, by age as they were made.
fn rows(told: &Value) -> anyhow::Result<Vec<Row>> {
    let candidates = told["candidates"].as_array().context("no candidates")?;
    let row = |(at, candidate): (usize, &Value)| {
        let mid = |key: &str| candidate[key]["mid"].as_f64();
        Some(Row {
            at,
            age: candidate["parameters"]["cold.age"].as_str()?.to_owned(),
            from: candidate["from"].as_str()?.to_owned(),
            trials: candidate["trials"].as_array()?.len(),
            saved: mid("saved")?,
            slowdown: mid("slowdown")?,
            score: mid("score")?,
            limit: told["max_slowdown"].as_f64()?,
        })
    };
    Ok(candidates.iter().enumerate().filter_map(row).collect())
}

/// Runs `isotherm tune` on the workload, and returns what it says.
fn tune(
    bench: &Bench<'_>,
    policy: &Path,
    pid: u32,
    plan: Plan,
    [candidates, trials, watch_s]: [u32; 3],
) -> anyhow::Result<Value> {
    let mut command = Command::new(&bench.spec.isotherm);
    command.arg("tune").arg(policy).args(["--json", "--quiet", "--pid", &pid.to_string()]);
    command.args(["--range", plan.range]);
    command.args(["--phase", &format!("{}ms", (plan.phase * 1e3).round())]);
    command.args(["--candidates", &candidates.to_string(), "--trials", &trials.to_string()]);
    command.args(["--watch", &format!("{watch_s}s")]);
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    let is_told = done.status.success() || done.status.code() == Some(PARTIAL);
    if !is_told {
        bail!("{command:?}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    serde_json::from_slice(&done.stdout).context("understand what tune says")
}
