//! Job `idle`: what `isotherm idle` says of cgroups whose use of memory is known, and what it
//! costs.
//!
//! Each case plants a process in a cgroup of its own. Beside it, it plants a process of the same
//! program without memory, whose idle memory is subtracted. The kinds that a method cannot see (by
//! page tables: unmapped page cache) are left out of the comparison, and the table says so.

mod cost;
mod marks;
mod plant;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_pages::idle::BITMAP;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::requirement::{self, Requirement};
use crate::stats::to_f64;
use crate::table::{Table, number};

use self::plant::{CASES, Plant};

/// The job.
#[derive(Debug)]
pub(crate) struct Idle;

/// A way to run the command: what its raw files are called, its arguments, and whether only
/// machines with the bitmap need it, because it is the default without.
struct Way {
    suffix: &'static str,
    budget: &'static str,
    args: &'static [&'static str],
    beside_bitmap: bool,
}

/// What it costs without a limit is measured, and no sample taken; and what it finds by default.
const WAYS: [Way; 3] = [
    Way { suffix: "", budget: "none", args: &["--cpu", "100"], beside_bitmap: false },
    Way {
        suffix: "-pagewalk",
        budget: "none",
        args: &["--cpu", "100", "--ops", "pagewalk"],
        beside_bitmap: true,
    },
    Way {
        suffix: "-default",
        budget: "default",
        args: &["--ops", "pagewalk"],
        beside_bitmap: false,
    },
];

/// `raw/CASE.json`: a case, and all reports on it.
#[derive(Debug, Serialize, Deserialize)]
struct Raw {
    case: String,
    sizes_mib: [u64; 4],
    /// The path of the cgroup, and of the one without memory.
    paths: [String; 2],
    reports: Vec<Value>,
    /// The part of the CPU time that was spent in the program and not in the kernel.
    user_share: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    case: String,
    method: String,
    /// CPU time that it may take.
    #[serde(default)]
    budget: String,
    /// Idle by truth, in bytes: of the kinds that the method sees.
    true_bytes: f64,
    /// Idle by report, in bytes; that of the process without memory is off.
    found_bytes: f64,
    error_percent: f64,
    /// Error of the anonymous, the mapped and the unmapped part; none where there is none.
    by_kind_percent: [Option<f64>; 3],
    /// CPU time of a round over all memory, in ms per GiB of what was scanned.
    cpu_ms_per_gib: f64,
    /// The part of it that is the program's own.
    user_percent: f64,
    share: f64,
    /// Accessed bits that programs had to set again, per round; by page tables only.
    #[serde(default)]
    set_again: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    rows: Vec<Row>,
    cost: Vec<cost::Cost>,
    /// Empty where there is no bitmap.
    #[serde(default)]
    marks: Vec<marks::Marks>,
}

impl Job for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn about(&self) -> &'static str {
        "idle memory by cgroup against known use, and what a pass over all memory costs"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        vec![
            requirement::root(),
            requirement::memory(if spec.quick { 1 } else { 2 }),
            requirement::subcommand(&spec.isotherm, "idle"),
        ]
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        for case in CASES.iter().filter(|c| bench.spec.wants(c.name, &CASES.map(|c| c.name))) {
            let case = if bench.spec.quick { case.smaller() } else { *case };
            say(&format!("idle: {}", case.name));
            let (plant, nothing) =
                (Plant::start(bench, &case)?, Plant::start(bench, &case.nothing())?);
            let has_bitmap = Path::new(BITMAP).exists();
            for way in WAYS.iter().filter(|way| has_bitmap || !way.beside_bitmap) {
                let (reports, user_share) = reports(bench, way)?;
                let raw = Raw {
                    case: case.name.to_owned(),
                    sizes_mib: case.sizes(),
                    paths: [plant.path().to_owned(), nothing.path().to_owned()],
                    reports,
                    user_share,
                };
                bench.dir.write_json(&format!("raw/{}{}.json", case.name, way.suffix), &raw)?;
            }
            if bench.spec.quick {
                break;
            }
        }
        if !bench.spec.quick {
            bench.dir.write_json("raw/marks.json", &marks::measure(bench)?)?;
        }
        bench.dir.write_json("raw/cost.json", &cost::measure()?)
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let mut rows = Vec::new();
        for (case, way) in CASES.iter().flat_map(|case| WAYS.iter().map(move |way| (case, way))) {
            let name = format!("raw/{}{}.json", case.name, way.suffix);
            let Ok(raw) = dir.read_json::<Raw>(&name) else {
                continue;
            };
            rows.push(row(&raw, way)?);
        }
        let marks = dir.read_json("raw/marks.json").unwrap_or_default();
        Ok(serde_json::to_value(Outcome { rows, cost: dir.read_json("raw/cost.json")?, marks })?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let outcome: Outcome = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "case",
            "method",
            "budget",
            "idle, MiB",
            "found, MiB",
            "error %",
            "anon %",
            "mapped %",
            "unmapped %",
            "CPU ms/GiB",
            "own %",
            "share",
            "bits set again",
        ]);
        for row in outcome.rows {
            let mib = |bytes: f64| number(Some(bytes / f64::from(1 << 20)), 1);
            let mut cells = vec![row.case, row.method, row.budget];
            cells.extend([mib(row.true_bytes), mib(row.found_bytes)]);
            cells.push(number(Some(row.error_percent), 2));
            cells.extend(row.by_kind_percent.map(|p| number(p, 2)));
            cells.push(number(Some(row.cpu_ms_per_gib), 1));
            cells.extend([number(Some(row.user_percent), 0), number(Some(row.share), 2)]);
            cells.push(number(row.set_again, 0));
            table.row(cells);
        }
        let goals = "Goals: error at most 2 %; 12.5 ms of CPU per GiB and pass (0.5 % of a CPU for 24 GiB every minute).";
        let (cost, marks) = (cost::format(&outcome.cost), marks::format(&outcome.marks));
        Ok(format!("{}\n{cost}\n{marks}\n{goals}\n", table.text()))
    }
}

/// Runs `isotherm idle` for a few reports. Also returns the part of its CPU time that was not the
/// kernel's.
fn reports(bench: &Bench<'_>, way: &Way) -> anyhow::Result<(Vec<Value>, f64)> {
    let interval = bench.spec.seconds.unwrap_or(if bench.spec.quick { 2.0 } else { 10.0 });
    let rounds = bench.spec.pairs.unwrap_or(if bench.spec.quick { 1 } else { 3 });
    let mut command = Command::new(&bench.spec.isotherm);
    command.args(["idle", "--json", "--interval", &format!("{interval}s")]).args(way.args);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start isotherm idle")?;
    let out = child.stdout.take().context("its output")?;
    let lines = std::io::BufRead::lines(std::io::BufReader::new(out)).take(rounds);
    let reports =
        lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<anyhow::Result<Vec<Value>>>();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    child.kill().context("end isotherm idle")?;
    child.wait().context("wait for isotherm idle")?;
    let reports = reports?;
    anyhow::ensure!(
        reports.len() == rounds,
        "isotherm idle ended early: run it by hand to see why"
    );
    // Fields 14 and 15, of which the name in parentheses is the second.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    let (user, system) = (ticks(), ticks());
    Ok((reports, user / (user + system).max(1.0)))
}

fn row(raw: &Raw, way: &Way) -> anyhow::Result<Row> {
    let last = raw.reports.last().context("no report")?;
    let kinds = ["anon_bytes", "mapped_bytes", "unmapped_bytes"];
    let of = |path: &str| -> anyhow::Result<[f64; 3]> {
        let rows = last["cgroups"].as_array().context("no cgroups")?;
        let row = rows.iter().find(|r| r["cgroup"] == path);
        let row = row.with_context(|| format!("no cgroup {path}"))?;
        Ok(kinds.map(|kind| row["all"][kind].as_f64().unwrap_or(0.0)))
    };
    let (with, without) = (of(&raw.paths[0])?, of(&raw.paths[1])?);
    let [idle, _, mapped, unmapped] = raw.sizes_mib;
    let sees_unmapped = last["unmapped_seen"] == true;
    let truth = [idle, mapped, unmapped].map(|mib| to_f64(mib << 20));
    let seen = if sees_unmapped { 3 } else { 2 };
    let found: Vec<f64> = with.iter().zip(without).map(|(a, b)| a - b).collect();
    let off =
        |nr: usize| (nr < seen && truth[nr] > 0.0).then(|| (found[nr] / truth[nr] - 1.0) * 100.0);
    let (true_bytes, found_bytes) =
        (truth[..seen].iter().sum::<f64>(), found[..seen].iter().sum::<f64>());
    let memory = last["memory_bytes"].as_f64().unwrap_or(0.0) / f64::from(1 << 30);
    Ok(Row {
        case: raw.case.clone(),
        method: last["method"].as_str().unwrap_or_default().to_owned(),
        budget: way.budget.to_owned(),
        true_bytes,
        found_bytes,
        error_percent: (found_bytes / true_bytes - 1.0) * 100.0,
        by_kind_percent: [0, 1, 2].map(off),
        cpu_ms_per_gib: last["cpu_ns"].as_f64().unwrap_or(0.0) / 1e6 / memory,
        user_percent: raw.user_share * 100.0,
        share: last["share"].as_f64().unwrap_or(1.0),
        set_again: last["unknown"]["set_again"].as_f64(),
    })
}
