//! From runs to one row per workload and contestant, and the table.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::one::start_us;
use super::{CONTESTANTS, CONTROL, Case, NONE, goals};
use crate::dir::ResultDir;
use crate::job::Spec;
use crate::jobs::accuracy::{Score, refusal, score_part};
use crate::jobs::overhead::interval;
use crate::stats::{Middle, to_f64};
use crate::table::{Table, number};

/// All rounds of a workload and a contestant; medians.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) contestant: String,
    pub(super) precision: Option<f64>,
    pub(super) recall: Option<f64>,
    pub(super) wss_p50: Option<f64>,
    pub(super) wss_p75: Option<f64>,
    pub(super) coverage: Option<f64>,
    /// Away from the limit of hot and cold.
    pub(super) precision_clear: Option<f64>,
    pub(super) recall_clear: Option<f64>,
    /// Of the start.
    pub(super) first_precision: Option<f64>,
    pub(super) first_recall: Option<f64>,
    pub(super) first_wss_p50: Option<f64>,
    /// 1 - accesses per CPU-second with / without the monitor, one value per round.
    pub(super) slowdown: Option<Middle>,
    pub(super) own_cpu_percent: Option<f64>,
    pub(super) kernel_cpu_percent: Option<f64>,
    /// CPU time of the start, in ms.
    pub(super) start_cpu_ms: Option<f64>,
    /// Windows per second.
    pub(super) windows: Option<f64>,
    pub(super) rounds: usize,
    /// Why there is none.
    pub(super) failed: Option<String>,
}

/// The result of the job.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    kernel: String,
    /// How long the start is that is told apart, in s.
    #[serde(default)]
    start_s: f64,
    #[serde(default)]
    seeds: Vec<u64>,
    /// Not built for release: its CPU time says nothing.
    #[serde(default)]
    debug: bool,
    rows: Vec<Row>,
}

pub(super) fn study(dir: &ResultDir) -> anyhow::Result<Value> {
    let spec: Spec = dir.read_json("spec.json")?;
    let system: Value = dir.read_json("system.json")?;
    let cases: Vec<Case> = dir.read_json("raw/cases.json")?;
    let mut workloads: Vec<&str> = cases.iter().map(|c| c.workload.as_str()).collect();
    workloads.dedup();
    workloads.sort_unstable();
    workloads.dedup();
    let mut rows = Vec::new();
    for workload in workloads {
        for (contestant, ..) in CONTESTANTS {
            let of = |name: &str| -> Vec<&Case> {
                cases.iter().filter(|c| c.workload == workload && c.contestant == name).collect()
            };
            let runs = of(contestant);
            if !runs.is_empty() {
                rows.push(row(&spec, dir, &runs, &of(CONTROL)));
            }
        }
    }
    let kernel = system["kernel"].as_str().unwrap_or("?").to_owned();
    let mut seeds: Vec<u64> = cases.iter().map(Case::seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let start_s = to_f64(start_us(&spec)) / 1e6;
    let debug = cfg!(debug_assertions);
    Ok(serde_json::to_value(Report { kernel, start_s, seeds, debug, rows })?)
}

fn row(spec: &Spec, dir: &ResultDir, runs: &[&Case], controls: &[&Case]) -> Row {
    let mut row = Row {
        workload: runs[0].workload.clone(),
        contestant: runs[0].contestant.clone(),
        failed: runs.iter().find_map(|c| c.failed.clone()),
        ..Row::default()
    };
    let done: Vec<&Case> = runs.iter().copied().filter(|c| c.measured.is_some()).collect();
    row.rounds = done.len();
    let measured = |f: fn(&super::one::Measured) -> Option<f64>| {
        median(done.iter().filter_map(|c| f(c.measured.as_ref()?)))
    };
    row.own_cpu_percent = measured(|m| m.own_cpu_percent);
    row.kernel_cpu_percent = measured(|m| m.kernel_cpu_percent);
    row.start_cpu_ms = measured(|m| m.start_cpu_ms);
    let slowdowns: Vec<f64> = done.iter().filter_map(|case| slowdown(case, controls)).collect();
    row.slowdown = Middle::of(&slowdowns);
    if row.contestant == NONE {
        return row;
    }
    let (mut scores, mut firsts) = (Vec::new(), Vec::new());
    let start = format!("{}us", start_us(spec));
    for case in &done {
        let (record, truth) = (dir.raw(&case.file("iso")), dir.raw(&case.file("truth")));
        let part =
            |more: &[&str]| score_part(&spec.isotherm, &record, &truth, more).map(Score::by_page);
        firsts.extend(part(&["--to", &start]).ok());
        match part(&["--from", &start]) {
            Ok(score) if score.is_empty() => {
                row.failed = Some(refusal(&dir.raw(&case.file("log"))));
            }
            Ok(score) => scores.push(score),
            Err(e) => row.failed = Some(format!("{e:#}")),
        }
    }
    row.precision = median(scores.iter().filter_map(|s| s.precision));
    row.recall = median(scores.iter().filter_map(|s| s.recall));
    row.wss_p50 = median(scores.iter().filter_map(|s| s.wss_error_p50));
    row.wss_p75 = median(scores.iter().filter_map(|s| s.wss_error_p75));
    row.coverage = median(scores.iter().filter_map(|s| s.coverage));
    row.windows = median(scores.iter().filter_map(|s| s.more("windows")));
    row.precision_clear = median(scores.iter().filter_map(|s| s.more("precision_clear")));
    row.recall_clear = median(scores.iter().filter_map(|s| s.more("recall_clear")));
    row.first_precision = median(firsts.iter().filter_map(|s| s.precision));
    row.first_recall = median(firsts.iter().filter_map(|s| s.recall));
    row.first_wss_p50 = median(firsts.iter().filter_map(|s| s.wss_error_p50));
    row
}

/// Against the control of the same round.
fn slowdown(case: &Case, controls: &[&Case]) -> Option<f64> {
    let control = controls.iter().find(|c| c.round == case.round)?;
    Some(1.0 - case.measured?.rate? / control.measured?.rate?)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    Middle::of(&values.collect::<Vec<_>>()).map(|m| m.median)
}

/// A reason in one line.
pub(super) fn reason(why: &str) -> String {
    let said = why.lines().map(str::trim).filter(|l| !l.is_empty());
    let why = said.clone().find_map(|l| l.strip_prefix("why:")).map(str::trim);
    let line = why.or_else(|| said.clone().next()).unwrap_or("?");
    line.chars().take(160).collect()
}

pub(super) fn format(result: &Value) -> anyhow::Result<String> {
    let result: Report = serde_json::from_value(result.clone())?;
    let mut table = Table::new([
        "workload",
        "set",
        "precision",
        "recall",
        "wss p50",
        "wss p75",
        "clear",
        "coverage",
        "windows",
        "start: precision",
        "recall",
        "wss p50",
        "slowdown %",
        "range",
        "own CPU %",
        "start ms",
        "kernel CPU %",
        "rounds",
    ]);
    for r in &result.rows {
        let mut cells = vec![r.workload.clone(), r.contestant.clone()];
        if r.rounds == 0 || (r.precision.is_none() && r.failed.is_some()) {
            cells.push(format!("no: {}", reason(r.failed.as_deref().unwrap_or("?"))));
            table.row(cells);
            continue;
        }
        cells.extend([
            number(r.precision, 3),
            number(r.recall, 3),
            number(r.wss_p50, 3),
            number(r.wss_p75, 3),
            format!("{} {}", number(r.precision_clear, 3), number(r.recall_clear, 3)),
            number(r.coverage, 3),
            number(r.windows, 0),
            number(r.first_precision, 3),
            number(r.first_recall, 3),
            number(r.first_wss_p50, 3),
            number(r.slowdown.map(|m| m.median * 100.0), 2),
            interval(r.slowdown, 100.0, 2),
            number(r.own_cpu_percent, 2),
            number(r.start_cpu_ms, 0),
            number(r.kernel_cpu_percent, 2),
            r.rounds.to_string(),
        ]);
        table.row(cells);
    }
    let debug = if result.debug { "; not built for release, CPU time says nothing" } else { "" };
    let seeds: Vec<String> = result.seeds.iter().map(u64::to_string).collect();
    Ok(format!(
        "Kernel {}; seeds {}; the start is the first {} s{debug}\n\n{}\n{}",
        result.kernel,
        seeds.join(", "),
        result.start_s,
        table.text(),
        goals::text(&result.rows)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::parity::one::Measured;

    fn case(round: usize, contestant: &str, rate: f64) -> Case {
        let measured = Measured {
            rate: Some(rate),
            kernel_cpu_percent: None,
            own_cpu_percent: None,
            start_cpu_ms: None,
        };
        Case {
            round,
            workload: "w".into(),
            contestant: contestant.into(),
            measured: Some(measured),
            failed: None,
        }
    }

    #[test]
    fn runs_are_paired_within_their_round() {
        let controls = [case(0, CONTROL, 100.0), case(1, CONTROL, 200.0)];
        let controls: Vec<&Case> = controls.iter().collect();
        assert_eq!(slowdown(&case(0, "idle", 90.0), &controls), Some(1.0 - 0.9));
        assert_eq!(slowdown(&case(1, "idle", 200.0), &controls), Some(0.0));
        assert_eq!(slowdown(&case(2, "idle", 90.0), &controls), None);
    }

    #[test]
    fn a_reason_is_one_line() {
        let why =
            "isotherm record: exit status: 69: no set\n  tried: x\n  why:   no bitmap\n  hint: y";
        assert_eq!(reason(why), "no bitmap");
        assert_eq!(reason("\n killed\nmore"), "killed");
        assert_eq!(reason(""), "?");
    }
}
