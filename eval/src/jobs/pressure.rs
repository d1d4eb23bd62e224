//! Job `pressure`: whether monitoring makes memory in use be paged out while memory is short.
//!
//! Four processes share a memory cgroup with a limit and zram swap. Three have 66 MiB each, of
//! which every page is touched 10 times, once, and 0.2 times a second. The fourth goes over 400 MiB
//! again and again, which drives reclaim. Reclaim decides by the accessed bits that a monitor
//! clears. So the major faults of the three are counted, without a monitor and with one, in rounds
//! that measure every mode in turn; each run has processes of its own.
//!
//! Then the limit is lifted, and the record says how soon the monitor is right again
//! (`recovery`).

mod recovery;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::recovery::{Recovered, Second};
use super::METHODS;
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::measure;
use crate::processes::child::{Child, sleep_until};
use crate::processes::group::Group;
use crate::processes::recording;
use crate::processes::workload::Workload;
use crate::readings::procfs;
use crate::requirement::{self, Requirement};
use crate::stats::{Middle, to_f64};
use crate::table::{Table, number};

const NONE: &str = "none";
/// Limits of the cgroup, in MiB.
const LIMITS: [&str; 2] = ["300", "400"];
/// Classes: touches per second of each page.
const CLASSES: [&str; 3] = ["10", "1", "0.2"];
/// A limit that nothing here reaches, in bytes; and for how long the monitor is looked at under it,
/// in s.
const NO_LIMIT: u64 = 64 << 30;
const RECOVERY_S: u64 = 30;
const SWAP_BYTES: u64 = 2 << 30;
const RAW: &str = "raw/runs.json";

/// The job.
#[derive(Debug)]
pub(crate) struct Pressure;

/// One run.
#[derive(Debug, Serialize, Deserialize)]
struct Run {
    limit: String,
    mode: String,
    round: usize,
    seconds: f64,
    /// Major faults by class.
    faults: Vec<u64>,
    /// What the monitor told in each second after the limit was lifted.
    #[serde(default)]
    recovery: Vec<Second>,
}

/// What all runs say.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    faults: Vec<Row>,
    recovery: Vec<Recovered>,
}

/// The result of a class.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    limit: String,
    mode: String,
    class: String,
    /// Major faults per second.
    per_second: Option<Middle>,
    /// In relation to the run without a monitor of the same round.
    ratio: Option<Middle>,
}

impl Job for Pressure {
    fn name(&self) -> &'static str {
        "pressure"
    }

    fn about(&self) -> &'static str {
        "major faults of memory in use at a cgroup's limit, with and without a monitor"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        requirement::measuring(3)
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let spec = bench.spec;
        let rounds = spec.pairs.unwrap_or(if spec.quick { 1 } else { 4 });
        let modes: Vec<_> = modes().into_iter().filter(|m| spec.wants(m, &modes())).collect();
        let mut runs = Vec::new();
        for round in 0..rounds {
            let limits = LIMITS.into_iter().filter(|limit| spec.wants(limit, &LIMITS));
            for limit in limits.take(if spec.quick { 1 } else { LIMITS.len() }) {
                for mode in &modes {
                    say(&format!("pressure: {limit} MiB, {mode}, round {} of {rounds}", round + 1));
                    runs.push(measure_one(bench, limit, mode, round)?);
                    bench.dir.write_json(RAW, &runs)?;
                }
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let runs: Vec<Run> = dir.read_json(RAW)?;
        let outcome = Outcome { faults: study(&runs), recovery: recovered(&runs) };
        Ok(serde_json::to_value(outcome)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let outcome: Outcome = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "limit MiB",
            "monitor",
            "touches/s",
            "major faults/s",
            "x without",
            "least",
            "most",
        ]);
        for row in outcome.faults {
            table.row([
                row.limit,
                row.mode,
                row.class,
                number(row.per_second.map(|m| m.median), 1),
                number(row.ratio.map(|m| m.median), 3),
                number(row.ratio.map(|m| m.lo), 3),
                number(row.ratio.map(|m| m.hi), 3),
            ]);
        }
        let mut again = Table::new([
            "limit MiB",
            "monitor",
            "right after s",
            "least",
            "most",
            "runs not",
            "recall after s",
            "most",
            "runs not",
        ]);
        for row in outcome.recovery {
            again.row([
                row.limit,
                row.mode,
                number(row.seconds.map(|m| m.median), 0),
                number(row.seconds.map(|m| m.lo), 0),
                number(row.seconds.map(|m| m.hi), 0),
                row.not.to_string(),
                number(row.recall_seconds.map(|m| m.median), 0),
                number(row.recall_seconds.map(|m| m.hi), 0),
                row.recall_not.to_string(),
            ]);
        }
        Ok(table.text()
            + "\nGoal: at most 1.05 times the faults without a monitor, in every class.\n\nAfter the \
               limit was lifted:\n"
            + &again.text()
            + "\nGoal: right again within 10 s: the working sets of a second, and that of 0.1 s where pages \
               are touched 10\ntimes per second, within 5 % for three seconds in a row; and of the pages \
               touched 10 times per second at least\n95 % are told as touched within 1 s.\n")
    }
}

fn modes() -> [&'static str; 4] {
    [NONE, METHODS[0], METHODS[1], METHODS[2]]
}

fn recovered(runs: &[Run]) -> Vec<Recovered> {
    let cases = LIMITS.into_iter().flat_map(|limit| modes().map(|mode| (limit, mode)));
    let of = |(limit, mode): (&str, &str)| {
        let runs = runs.iter().filter(|run| run.limit == limit && run.mode == mode);
        Recovered::of(limit, mode, runs.map(|run| run.recovery.as_slice()))
    };
    cases.filter_map(of).collect()
}

fn study(runs: &[Run]) -> Vec<Row> {
    let rate = |run: &Run, class: usize| {
        run.faults.get(class).map_or(f64::NAN, |faults| to_f64(*faults) / run.seconds)
    };
    let mut rows = Vec::new();
    for limit in LIMITS {
        for mode in modes() {
            let of = |mode: &'static str| {
                runs.iter().filter(move |run| run.limit == limit && run.mode == mode)
            };
            for (class, name) in CLASSES.iter().enumerate() {
                let rates: Vec<_> = of(mode).map(|run| rate(run, class)).collect();
                let ratios = of(mode).filter_map(|run| {
                    let without = of(NONE).find(|other| other.round == run.round)?;
                    Some(rate(run, class) / rate(without, class))
                });
                let ratios: Vec<_> = ratios.filter(|ratio| ratio.is_finite()).collect();
                if !rates.is_empty() {
                    rows.push(Row {
                        limit: limit.into(),
                        mode: mode.into(),
                        class: (*name).into(),
                        per_second: Middle::of(&rates),
                        ratio: Middle::of(&ratios),
                    });
                }
            }
        }
    }
    rows
}

fn measure_one(bench: &Bench<'_>, limit: &str, mode: &str, round: usize) -> anyhow::Result<Run> {
    let default = if bench.spec.quick { 2.0 } else { 24.0 };
    let seconds = bench.spec.seconds.unwrap_or(default);
    let settle_us = if bench.spec.quick { 1_000_000 } else { 8_000_000 };
    let zram = measure::swap(SWAP_BYTES)?;
    // Processes end before their group, and that before swap is taken down.
    let group = Group::new(&format!("pressure-{round}-{limit}-{mode}"))?;
    group.limit(limit.parse::<u64>()? << 20)?;
    let mut hot = Vec::new();
    for class in CLASSES {
        let config = format!("m, 66M\n\nhot\n3600000\nm, 1, 64, 1, rw, hz={class}\n");
        hot.push(start(bench, &group, &format!("hot-{class}"), &config)?);
    }
    let config = "m, 400M\n\nstream\n3600000\nm, 0, 4096, 1, rw, rate=10240\n";
    let stream = start(bench, &group, "stream", config)?;
    let pids: Vec<u32> = hot.iter().chain([&stream]).map(|w| w.child.pid()).collect();
    let mut monitor = None;
    let output = bench.dir.raw(&format!("{limit}-{mode}-{round}.iso"));
    if mode != NONE {
        let more: Vec<String> =
            pids[1..].iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]).collect();
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let isotherm = &bench.spec.isotherm;
        monitor = Some(recording::start(isotherm, pids[0], &output, "pagewalk", mode, &more)?);
    }
    sleep_until(clock::now().plus_us(settle_us))?;
    let before = faults(&pids[..CLASSES.len()])?;
    let begin = clock::now();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
    let us = (seconds * 1e6) as u64;
    sleep_until(begin.plus_us(us))?;
    let after = faults(&pids[..CLASSES.len()])?;
    let seconds = to_f64(clock::now().since(begin)) / 1e9;
    group.limit(NO_LIMIT)?;
    let lifted = clock::now();
    let recovering = if mode == NONE || bench.spec.quick { 0 } else { RECOVERY_S };
    sleep_until(lifted.plus_us(recovering * 1_000_000))?;
    if let Some(monitor) = &mut monitor {
        monitor.still_runs()?;
    }
    monitor.map(Child::stop).transpose()?;
    for workload in hot.into_iter().chain([stream]) {
        workload.child.stop()?;
    }
    drop(group);
    zram.tear_down()?;
    let faults = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let truths = [truth_of(bench, "hot-10"), truth_of(bench, "hot-1")];
    let truths = [truths[0].as_path(), truths[1].as_path()];
    // The last window may be cut short.
    let nr = u64::saturating_sub(recovering, 1);
    let recovery = recovery::seconds(&bench.spec.isotherm, &output, truths, lifted, nr)?;
    Ok(Run { limit: limit.into(), mode: mode.into(), round, seconds, faults, recovery })
}

fn start(bench: &Bench<'_>, group: &Group, name: &str, config: &str) -> anyhow::Result<Workload> {
    let path = bench.dir.raw(&format!("{name}.cfg"));
    fs::write(&path, config).with_context(|| format!("write {}", path.display()))?;
    let truth = truth_of(bench, name);
    // An old truth would look like a workload that has begun.
    fs::remove_file(&truth).ok();
    let mut command = group.command(Path::new(&bench.spec.isotherm));
    command.args(["workload", "-q", "--truth"]).arg(&truth).arg(&path);
    Workload::spawn(command, &truth)
}

/// Where a process writes what it accessed.
fn truth_of(bench: &Bench<'_>, name: &str) -> PathBuf {
    bench.dir.raw(&format!("{name}.truth"))
}

/// Major faults of processes so far.
fn faults(pids: &[u32]) -> anyhow::Result<Vec<u64>> {
    pids.iter().map(|pid| procfs::major_faults(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_compared_with_the_one_without_a_monitor_of_their_round() {
        let run = |mode: &str, round, faults: [u64; 3]| Run {
            limit: "300".into(),
            mode: mode.into(),
            round,
            seconds: 2.0,
            faults: faults.to_vec(),
            recovery: Vec::new(),
        };
        let runs = [
            run(NONE, 0, [0, 100, 200]),
            run("census", 0, [4, 110, 200]),
            run(NONE, 1, [2, 200, 100]),
            run("census", 1, [2, 220, 150]),
        ];
        let rows = study(&runs);
        let census: Vec<_> = rows.iter().filter(|row| row.mode == "census").collect();
        let ratios: Vec<_> = census.iter().map(|row| row.ratio.unwrap().median).collect();
        assert_eq!(rows.len(), 6);
        // Without a fault beside it, a round says nothing of that class.
        assert_eq!((ratios[0], census[0].ratio.unwrap().n), (1.0, 1));
        assert!((ratios[1] - 1.1).abs() < 1e-9 && (ratios[2] - 1.25).abs() < 1e-9, "{ratios:?}");
        assert!((census[1].per_second.unwrap().median - 82.5).abs() < 1e-9);
    }
}
