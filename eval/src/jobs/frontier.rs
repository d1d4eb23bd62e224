//! Job `frontier`: error against clears per second of all methods, in simulation.
//!
//! The simulation crate's example `frontier` runs the shipped workloads under `resample` with
//! several sample intervals, under `first_touch` with several budgets of clears and under `census`
//! with several budgets of CPU time, each against the exact truth: the workloads of its study, or
//! those that `--only` names. A run depends on its seed only,
//! not on this machine, so the job repeats it with several seeds. The claim under test:
//! `first_touch` reaches the error of `resample` with at most a third of its clears.

use std::collections::BTreeMap;

use anyhow::Context;
use isotherm_sim::config::SHIPPED;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{METHODS, example, workloads};
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::requirement::{self, Requirement};
use crate::stats::Middle;
use crate::table::{Table, number};

const PACKAGE: &str = "isotherm-sim";
const EXAMPLE: &str = "frontier";
const SEEDS: [&str; 3] = ["1", "2", "3"];
const QUICK_WORKLOAD: &str = "phase-change";
const QUICK: [&str; 8] =
    ["--seconds", "12", "--clears", "200", "--sample", "5000", "--budget", "100"];
/// DAMON's own attributes.
const REFERENCE: &str = "resample/5ms";
/// What needs fewer clears.
const CHALLENGER: &str = "first_touch/200";

/// The job.
#[derive(Debug)]
pub(crate) struct Frontier;

/// A line of the example's output.
#[derive(Debug, Deserialize)]
struct Line {
    workload: String,
    method: String,
    score: BTreeMap<String, Value>,
}

/// A workload under a method: medians over seeds.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    workload: String,
    method: String,
    seeds: usize,
    values: BTreeMap<String, Middle>,
}

impl Row {
    fn value(&self, key: &str) -> Option<f64> {
        self.values.get(key).map(|m| m.median)
    }
}

impl Job for Frontier {
    fn name(&self) -> &'static str {
        "frontier"
    }

    fn about(&self) -> &'static str {
        "error against clears per second of all methods, in simulation"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        vec![requirement::example(PACKAGE, EXAMPLE)]
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let seeds = if bench.spec.quick { &SEEDS[..1] } else { &SEEDS[..] };
        let spec = bench.spec;
        // The example is built from these sources, so their list is the right one.
        let shipped: Vec<String> = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
        let of_quick = |name: &str| spec.quick && name == QUICK_WORKLOAD;
        let mut names = workloads::wanted(spec, &shipped, of_quick);
        // The study has workloads of its own. The example refuses what it does not know.
        let is_else =
            |name: &&String| !METHODS.contains(&name.as_str()) && *name != workloads::GROUP;
        for name in spec.only.iter().filter(is_else) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let mut more: Vec<&str> = if spec.quick { QUICK.to_vec() } else { Vec::new() };
        more.extend(names.iter().flat_map(|name| ["--workload", name]));
        // The example spells methods as the core does.
        let methods = METHODS.into_iter().filter(|m| spec.only.iter().any(|o| o == m));
        let methods: Vec<String> = methods.map(|m| m.replace('-', "_")).collect();
        more.extend(methods.iter().flat_map(|m| ["--method", m]));
        for seed in seeds {
            say(&format!("frontier: seed {seed}"));
            let args: Vec<&str> = ["--json", "--seed", seed].iter().chain(&more).copied().collect();
            let lines = example::run(PACKAGE, EXAMPLE, &args)?;
            bench.dir.write_text(&raw_name(seed), &lines)?;
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let mut texts = Vec::new();
        for seed in SEEDS.iter().map(|s| dir.path().join(raw_name(s))).filter(|p| p.exists()) {
            texts.push(std::fs::read_to_string(&seed).context("read a raw file")?);
        }
        Ok(serde_json::to_value(rows(&texts)?)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "workload",
            "method",
            "seeds",
            "clears/s",
            "checks/s",
            "error of 20",
            "wss p50",
            "wss p75",
            "precision",
            "recall",
            "coverage",
            "delay p50 ms",
            "regions",
        ]);
        for r in &rows {
            let cell = |key: &str, digits| number(r.value(key), digits);
            table.row([
                r.workload.clone(),
                r.method.clone(),
                r.seeds.to_string(),
                cell("clears_per_s", 0),
                cell("checks_per_s", 0),
                cell("error", 3),
                cell("wss_p50", 3),
                cell("wss_p75", 3),
                cell("precision", 3),
                cell("recall", 3),
                cell("coverage", 2),
                cell("delay_p50_ms", 0),
                cell("regions", 0),
            ]);
        }
        let ran = workloads::ran(rows.iter().map(|r| r.workload.as_str()));
        Ok(format!("{}{ran}\n{}", table.text(), claim(&rows)))
    }
}

fn raw_name(seed: &str) -> String {
    format!("raw/{seed}.jsonl")
}

/// Brings the runs of all seeds together, in the order of the first.
fn rows(texts: &[String]) -> anyhow::Result<Vec<Row>> {
    let mut order: Vec<(String, String)> = Vec::new();
    let mut values: BTreeMap<(String, String), BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for line in texts.iter().flat_map(|t| t.lines()) {
        let line: Line = serde_json::from_str(line).context("understand a raw line")?;
        let key = (line.workload, line.method);
        let of_key = values.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            BTreeMap::new()
        });
        for (name, value) in line.score {
            of_key.entry(name).or_default().extend(value.as_f64());
        }
    }
    let row = |key: (String, String)| {
        let of_key = values.remove(&key).unwrap_or_default();
        let seeds = of_key.values().map(Vec::len).max().unwrap_or(0);
        let middles = of_key.into_iter().filter_map(|(k, v)| Some((k, Middle::of(&v)?)));
        Row { workload: key.0, method: key.1, seeds, values: middles.collect() }
    };
    Ok(order.into_iter().map(row).collect())
}

/// The default compared with the reference, per workload. Only the default budget counts: the best
/// of several budgets, chosen after the fact, would look too good.
fn claim(rows: &[Row]) -> String {
    let mut table = Table::new([
        "workload",
        "resample: error",
        "clears/s",
        "default: error",
        "clears/s",
        "error ratio",
        "clears ratio",
        "reached",
    ]);
    for reference in rows.iter().filter(|r| r.method == REFERENCE) {
        let same = |r: &&Row| r.workload == reference.workload && r.method == CHALLENGER;
        let default = rows.iter().find(same);
        let pair = |key: &str| (reference.value(key), default.and_then(|r| r.value(key)));
        let (error, clears) = (pair("error"), pair("clears_per_s"));
        let ratio = |(a, b): (Option<f64>, Option<f64>)| Some(b? / a.filter(|a| *a > 0.0)?);
        let reached = error.1.zip(error.0).is_some_and(|(b, a)| b <= a)
            && ratio(clears).is_some_and(|r| r <= 1.0 / 3.0);
        table.row([
            reference.workload.clone(),
            number(error.0, 3),
            number(clears.0, 0),
            number(error.1, 3),
            number(clears.1, 0),
            number(ratio(error), 2),
            number(ratio(clears), 2),
            if reached { "yes" } else { "no" }.into(),
        ]);
    }
    format!(
        "`{CHALLENGER}` against `{REFERENCE}`, DAMON's. Methods with different sample \
         intervals are not comparable by error: the truth is per sample interval.\n\n{}\n\
         Goal: no larger error with at most a third of the clears.\n",
        table.text()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_held_against_the_reference() {
        for (error, clears, reached) in
            [(1.0, 300.0, "yes"), (1.01, 300.0, "no"), (0.5, 301.0, "no")]
        {
            let line = |method: &str, error: f64, clears: f64| {
                format!(
                    r#"{{"workload":"w","method":"{method}","score":{{"error":{error},"clears_per_s":{clears}}}}}"#
                ) + "\n"
            };
            let text = line(REFERENCE, 1.0, 900.0)
                + &line("first_touch/50", 0.1, 50.0)
                + &line(CHALLENGER, error, clears);
            let rows = rows(&[text.clone(), text]).unwrap();
            assert_eq!(rows.iter().map(|r| r.seeds).collect::<Vec<_>>(), [2; 3]);
            let claim = claim(&rows);
            assert!(claim.contains(&format!(" {reached} |")), "{claim}");
        }
    }
}
