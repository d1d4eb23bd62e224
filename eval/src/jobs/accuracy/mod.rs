//! Job `accuracy`: every shipped workload x set x method, scored against the truth.
//!
//! The workloads whose memory lies scattered are a group of their own (`--only scattered`), which
//! runs under `pagewalk` unless another set is named: `smaps` has one method and one granule.
//!
//! With `--pairs N` each case runs N times, in turns whose order is turned around every time, and
//! medians count. `--seconds S` lets all phases of a workload together take that long.
//!
//! `run` starts the workload, waits until its accesses begin, and records it by pid (children too)
//! until it exits. Records and truths are the raw files; `study` scores them with `isotherm score`.

mod pages;
mod rounds;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{METHODS, output, workloads};
use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::recording;
use crate::processes::workload::Workload;
use crate::requirement::{self, Requirement};
use crate::stats::to_f64;
use crate::table::{Table, mib, number};

const SETS: [&str; 2] = [PAGEWALK, "smaps"];
const PAGEWALK: &str = "pagewalk";
/// `smaps` clears whole processes at a time, so `isotherm record` takes `resample` there in any
/// case.
const REFUSED: [(&str, &str); 2] = [("smaps", "first-touch"), ("smaps", "census")];
/// What a smoke run takes, and how long all phases together take there.
const QUICK: ([&str; 2], &str) = (["phase-change", "scattered-256k"], "6s");
/// No shipped workload is longer.
const PATIENCE_US: u64 = 300_000_000;

/// The job.
#[derive(Debug)]
pub(crate) struct Accuracy;

/// One combination; `raw/cases.json` lists them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Case {
    workload: String,
    set: String,
    method: String,
    /// Which of several runs.
    #[serde(default)]
    round: usize,
    /// Why there is no record.
    failed: Option<String>,
}

impl Case {
    fn file(&self, ending: &str) -> String {
        let round = if self.round == 0 { String::new() } else { format!("-{}", self.round) };
        format!("{}-{}-{}{round}.{ending}", self.workload, self.set, self.method)
    }

    /// Whether it is another run of the same.
    fn is_as(&self, other: &Self) -> bool {
        let names = |c: &Self| [c.workload.clone(), c.set.clone(), c.method.clone()];
        names(self) == names(other)
    }
}

/// A case with what `isotherm score --json` says; its other keys are kept beside these.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    score: Option<Score>,
    /// How many runs were scored.
    #[serde(default)]
    rounds: usize,
    /// By page, of the times of [`PARTS`]; none of records without page maps.
    #[serde(default)]
    parts: Vec<pages::ByPage>,
    /// CPU time of the monitor in the last of these times, in percent of one CPU: without its start
    /// and its first look at everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late_cpu_percent: Option<f64>,
}

/// Times since the start of the workload for which the pages are judged by themselves: how much is
/// known after 5 s, and from 15 s on.
const PARTS: [&[&str]; 2] = [&["--from", "5s", "--to", "6s"], &["--from", "15s"]];

/// What `isotherm score --json` says of a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Score {
    pub(super) precision: Option<f64>,
    pub(super) recall: Option<f64>,
    pub(super) wss_error_p50: Option<f64>,
    pub(super) wss_error_p75: Option<f64>,
    rate_error: Option<f64>,
    detection_delay_ms: Option<f64>,
    #[serde(default)]
    delay_to_hot_ms: Option<f64>,
    #[serde(default)]
    delay_to_cold_ms: Option<f64>,
    pub(super) coverage: Option<f64>,
    pub(super) cpu_percent: Option<f64>,
    rss_bytes: Option<u64>,
    /// By page, if the record has page maps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pages: Option<pages::ByPage>,
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

impl Job for Accuracy {
    fn name(&self) -> &'static str {
        "accuracy"
    }

    fn about(&self) -> &'static str {
        "all shipped workloads x operations sets x methods, scored against the truth"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let mut all = requirement::measuring(workloads::memory_gib(spec, 4));
        all.push(requirement::subcommand(&spec.isotherm, "score"));
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let spec = bench.spec;
        let mut cases = turns(&cases(spec, &workloads::shipped(&spec.isotherm)?), spec.pairs);
        anyhow::ensure!(!cases.is_empty(), "nothing is left of the cases by --only");
        let n = cases.len();
        for i in 0..n {
            let case = &mut cases[i];
            say(&format!("accuracy: {}/{n} {} {} {}", i + 1, case.workload, case.set, case.method));
            case.failed = record(bench, case).err().map(|e| format!("{e:#}"));
            if let Some(why) = &case.failed {
                if isotherm_sys::signals::stop_requested().is_some() {
                    bail!("interrupted");
                }
                failed(&format!("accuracy: no record: {why}"));
            }
            bench.dir.write_json("raw/cases.json", &cases[..=i].to_vec())?;
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let spec: Spec = dir.read_json("spec.json")?;
        let cases: Vec<Case> = dir.read_json("raw/cases.json")?;
        let mut rows = Vec::new();
        for first in cases.iter().filter(|c| c.round == 0) {
            let (mut scores, mut failed) = (Vec::new(), None);
            let mut parts = PARTS.map(|_| Vec::new());
            let mut late_cpu = Vec::new();
            for case in cases.iter().filter(|c| c.is_as(first)) {
                let (record, truth) = (dir.raw(&case.file("iso")), dir.raw(&case.file("truth")));
                let scored = match &case.failed {
                    Some(why) => Err(why.clone()),
                    None => score(&spec.isotherm, &record, &truth).map_err(|e| {
                        crate::cli::failed(&format!("accuracy: no score: {e:#}"));
                        format!("{e:#}")
                    }),
                };
                match scored {
                    Ok(s) if s.is_empty() => failed = Some(refusal(&dir.raw(&case.file("log")))),
                    Ok(s) => {
                        if s.pages.is_some() {
                            for (more, all) in PARTS.iter().zip(&mut parts) {
                                let part = score_part(&spec.isotherm, &record, &truth, more)?;
                                if more == &PARTS[1] {
                                    late_cpu.push(serde_json::to_value(part.cpu_percent)?);
                                }
                                all.extend(part.pages.map(serde_json::to_value).transpose()?);
                            }
                        }
                        scores.push(serde_json::to_value(s)?);
                    }
                    Err(why) => failed = Some(why),
                }
            }
            let score = rounds::middle(&scores).map(serde_json::from_value).transpose()?;
            let parts = parts.iter().filter_map(|of_rounds| rounds::middle(of_rounds));
            let parts = parts.map(serde_json::from_value).collect::<Result<_, _>>()?;
            // One round that failed among others is told by their number.
            let case = Case { failed: failed.filter(|_| score.is_none()), ..first.clone() };
            let late_cpu_percent = rounds::middle(&late_cpu).as_ref().and_then(Value::as_f64);
            rows.push(Row { case, score, parts, late_cpu_percent, rounds: scores.len() });
        }
        Ok(serde_json::to_value(rows)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "workload",
            "set",
            "method",
            "runs",
            "precision",
            "recall",
            "wss p50",
            "wss p75",
            "rate err",
            "delay ms",
            "to hot",
            "to cold",
            "missed",
            "coverage",
            "unresolved",
            "clears/s",
            "checks/s",
            "regions",
            "CPU %",
            "from 15 s",
            "RSS MiB",
            "goals",
        ]);
        let mut notes = String::new();
        for Row { case, score, rounds, late_cpu_percent, .. } in &rows {
            let mut cells = vec![case.workload.clone(), case.set.clone(), case.method.clone()];
            cells.push(rounds.to_string());
            match score {
                Some(s) => cells.extend(s.cells(*late_cpu_percent)),
                None => {
                    let why = case.failed.as_deref().unwrap_or("not scored");
                    cells.push(why.lines().next().unwrap_or_default().into());
                    notes.push_str(&format!(
                        "\n{}, {}, {}: {why}\n",
                        case.workload, case.set, case.method
                    ));
                }
            }
            table.row(cells);
        }
        let goals = "\nGoals: precision and recall >= 0.95, wss error <= 0.10 (p50) and <= 0.20 \
                     (p75), delay <= 1000 ms, coverage >= 0.85.\n";
        let with_pages = rows.iter().filter_map(|Row { case, score, parts, .. }| {
            let names = [&case.workload, &case.set, &case.method].map(String::as_str);
            Some((names, score.as_ref()?.pages.as_ref()?, &parts[..]))
        });
        let ran = workloads::ran(rows.iter().map(|row| row.case.workload.as_str()));
        Ok(table.text() + &ran + goals + &pages::format(with_pages) + &notes)
    }
}

impl Score {
    /// The goals that are not reached. A missing value is no miss: a workload without changes has
    /// no delay.
    fn missed(&self) -> Vec<&'static str> {
        let below = |v: Option<f64>, goal: f64| v.is_some_and(|v| v < goal);
        let above = |v: Option<f64>, goal: f64| v.is_some_and(|v| v > goal);
        let changes_missed = self.more("changes_missed").is_some_and(|n| n > 0.0);
        let checks = [
            (below(self.precision, 0.95), "precision"),
            (below(self.recall, 0.95), "recall"),
            (above(self.wss_error_p50, 0.10), "wss p50"),
            (above(self.wss_error_p75, 0.20), "wss p75"),
            (above(self.detection_delay_ms, 1000.0) || changes_missed, "delay"),
            (below(self.coverage, 0.85), "coverage"),
            // Where nothing is hot, as under a sweep, there is neither of the first two.
            (self.wss_error_p50.is_none() && self.precision.is_none(), "nothing judged"),
        ];
        checks.into_iter().filter(|(missed, _)| *missed).map(|(_, what)| what).collect()
    }

    /// Whether the record has no window at all: the set refused the target.
    pub(super) fn is_empty(&self) -> bool {
        self.more("windows") == Some(0.0) && self.more("windows_left_out") == Some(0.0)
    }

    pub(super) fn more(&self, key: &str) -> Option<f64> {
        self.more.get(key).and_then(Value::as_f64)
    }

    /// The cells of its row. `late_cpu`: what the monitor takes later on.
    fn cells(&self, late_cpu: Option<f64>) -> Vec<String> {
        let missed = self.missed();
        let missed =
            if missed.is_empty() { "pass".into() } else { format!("miss: {}", missed.join(", ")) };
        vec![
            number(self.precision, 3),
            number(self.recall, 3),
            number(self.wss_error_p50, 3),
            number(self.wss_error_p75, 3),
            number(self.rate_error, 3),
            number(self.detection_delay_ms, 0),
            number(self.delay_to_hot_ms, 0),
            number(self.delay_to_cold_ms, 0),
            format!(
                "{}/{}",
                number(self.more("changes_missed"), 0),
                number(self.more("changes"), 0)
            ),
            number(self.coverage, 3),
            number(self.more("unresolved"), 3),
            number(self.more("clears_per_sec"), 0),
            number(self.more("checks_per_sec"), 0),
            number(self.more("regions"), 0),
            number(self.cpu_percent, 2),
            number(late_cpu, 2),
            mib(self.rss_bytes.map(to_f64)),
            missed,
        ]
    }
}

/// All that is to be measured.
fn cases(spec: &Spec, shipped: &[String]) -> Vec<Case> {
    let usual = |name: &str| !spec.quick || QUICK.0.contains(&name);
    let names_a_set = spec.only.iter().any(|o| SETS.contains(&o.as_str()));
    let mut cases = Vec::new();
    for workload in workloads::wanted(spec, shipped, usual) {
        let has =
            |set: &&str| names_a_set || *set == PAGEWALK || !workloads::is_scattered(&workload);
        for set in SETS.into_iter().filter(|s| spec.wants(s, &SETS)).filter(has) {
            for method in METHODS.into_iter().filter(|m| spec.wants(m, &METHODS)) {
                if REFUSED.contains(&(set, method)) {
                    continue;
                }
                let [set, method] = [set, method].map(str::to_owned);
                let (workload, round, failed) = (workload.clone(), 0, None);
                cases.push(Case { workload, set, method, round, failed });
            }
        }
    }
    cases
}

/// So many runs of each case, in turns. Every other turn has the opposite order.
fn turns(cases: &[Case], rounds: Option<usize>) -> Vec<Case> {
    let turn = |round: usize| -> Vec<Case> {
        let mut turn: Vec<Case> = cases.iter().map(|c| Case { round, ..c.clone() }).collect();
        if round % 2 == 1 {
            turn.reverse();
        }
        turn
    };
    (0..rounds.unwrap_or(1)).flat_map(turn).collect()
}

/// Runs and records one case.
fn record(bench: &Bench<'_>, case: &Case) -> anyhow::Result<()> {
    let mut args = vec![case.workload.as_str()];
    let seconds = bench.spec.seconds.map(|s| format!("{s}s"));
    if let Some(scale) = seconds.as_deref().or(bench.spec.quick.then_some(QUICK.1)) {
        args.extend(["--scale", scale]);
    }
    let truth = bench.dir.raw(&case.file("truth"));
    let mut workload = Workload::start(&bench.spec.isotherm, &args, &truth)?;
    let output = bench.dir.raw(&case.file("iso"));
    let pid = workload.child.pid();
    let mut recorder =
        recording::start(&bench.spec.isotherm, pid, &output, &case.set, &case.method, &[])?;
    let deadline = clock::now().plus_us(PATIENCE_US);
    recorder.succeeds(deadline)?;
    workload.child.succeeds(deadline)
}

/// Why a record is empty, in the recorder's words.
pub(super) fn refusal(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    format!("refused\n{}", said.trim_end())
}

/// Scores a record against the truth.
pub(super) fn score(isotherm: &Path, record: &Path, truth: &Path) -> anyhow::Result<Score> {
    score_part(isotherm, record, truth, &[])
}

/// As [`score`], with more options.
pub(super) fn score_part(
    isotherm: &Path,
    record: &Path,
    truth: &Path,
    more: &[&str],
) -> anyhow::Result<Score> {
    let mut command = Command::new(isotherm);
    let json = output(command.arg("score").arg(record).arg(truth).arg("--json").args(more))?;
    serde_json::from_str(&json).context("understand `isotherm score --json`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(json: &str) -> Vec<&'static str> {
        serde_json::from_str::<Score>(json).unwrap().missed()
    }

    #[test]
    fn goals_are_held_against_the_score() {
        for (json, expected) in [
            (r#"{"precision":0.95,"recall":1.0,"coverage":0.85,"changes_missed":0}"#, vec![]),
            (r#"{"precision":0.94,"recall":1.0}"#, vec!["precision"]),
            (r#"{"precision":1.0,"wss_error_p50":0.1,"wss_error_p75":0.21}"#, vec!["wss p75"]),
            (r#"{"precision":1.0,"detection_delay_ms":900.0,"changes_missed":1}"#, vec!["delay"]),
            (r#"{"coverage":0.5}"#, vec!["coverage", "nothing judged"]),
            (r#"{"wss_error_p50":0.0,"coverage":0.9}"#, vec![]),
        ] {
            assert_eq!(missed(json), expected, "{json}");
        }
    }

    #[test]
    fn runs_take_turns() {
        let spec = Spec { only: vec!["sweep".into(), "pagewalk".into()], ..Spec::of_test("x") };
        let cases = cases(&spec, &["sweep".to_owned()]);
        let files: Vec<String> = turns(&cases, Some(2)).iter().map(|c| c.file("iso")).collect();
        let names =
            ["first-touch", "census", "resample", "resample-1", "census-1", "first-touch-1"];
        assert_eq!(files, names.map(|n| format!("sweep-pagewalk-{n}.iso")));
        assert_eq!(turns(&cases, None).len(), cases.len());
    }

    #[test]
    fn scattered_workloads_run_under_pagewalk() {
        let shipped = ["stairs", "sweep"].map(str::to_owned);
        let listed = |only: &[&str]| -> Vec<String> {
            let only = only.iter().map(|o| (*o).to_owned()).collect();
            let spec = Spec { only, quick: false, ..Spec::of_test("accuracy") };
            cases(&spec, &shipped).iter().map(|c| c.file("iso")).collect()
        };
        // Four of `stairs`, three of `sweep` and of each layout that is no file.
        let layouts = listed(&["scattered"]).len() - 3;
        assert_eq!(listed(&[]).len(), 4 + 3 + layouts);
        assert_eq!(
            listed(&["sweep", "first-touch", "census"]),
            ["sweep-pagewalk-first-touch.iso", "sweep-pagewalk-census.iso"]
        );
        assert_eq!(listed(&["sweep", "smaps"]), ["sweep-smaps-resample.iso"]);
        assert_eq!(listed(&["sweep-blocks-2s", "census"]), ["sweep-blocks-2s-pagewalk-census.iso"]);
    }
}
