//! Job `record-size`: bytes per region on disk, and what a report on a long record costs.
//!
//! Real records are made of shipped workloads with default attributes. The long one is made up by
//! the record crate's example `synthetic`: one hour of windows in which borders and bounds move as
//! sampled ones do. A simulated hour under `census` has page maps as well. Reports run as a user
//! would run them; CPU time and peak memory are the kernel's (`wait4`).

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wait4::Wait4;

use super::example;
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::recording;
use crate::processes::workload::Workload;
use crate::requirement::{self, Requirement};
use crate::stats::{Middle, to_f64};
use crate::table::{Table, mib, number};

const WORKLOADS: [&str; 2] = ["hot10", "phase-change"];
const SYNTHETIC: &str = "synthetic";
const SIMULATED: &str = "simulated";
/// Reports that are measured: the name in the results, the report, and its record.
const REPORTS: [(&str, &str, &str); 4] = [
    ("heatmap", "heatmap", SYNTHETIC),
    ("wss", "wss", SYNTHETIC),
    ("html", "html", SYNTHETIC),
    ("html, with page maps", "html", SIMULATED),
];

/// The job.
#[derive(Debug)]
pub(crate) struct RecordSize;

/// One run of a report; `raw/reports.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    report: String,
    cpu_s: f64,
    wall_s: f64,
    peak_rss_bytes: u64,
    /// Bytes that it printed.
    #[serde(default)]
    printed_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Size {
    record: String,
    windows: u64,
    regions: u64,
    bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct ReportCost {
    report: String,
    cpu_s: Option<Middle>,
    #[serde(default)]
    wall_s: Option<Middle>,
    peak_rss_bytes: Option<Middle>,
    #[serde(default)]
    printed_bytes: Option<Middle>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Results {
    sizes: Vec<Size>,
    reports: Vec<ReportCost>,
}

impl Job for RecordSize {
    fn name(&self) -> &'static str {
        "record-size"
    }

    fn about(&self) -> &'static str {
        "bytes per region of a record, CPU and memory of reports on one hour"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        vec![
            requirement::memory(3),
            requirement::root(),
            requirement::example("isotherm-record", SYNTHETIC),
            requirement::subcommand(&spec.isotherm, "report"),
        ]
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        for workload in WORKLOADS.into_iter().skip(usize::from(bench.spec.quick)) {
            say(&format!("record-size: record of {workload}"));
            record(bench, workload)?;
        }
        let seconds = if bench.spec.quick { "60" } else { "3600" };
        say(&format!("record-size: made-up record of {seconds} s"));
        let long = bench.dir.raw(&format!("{SYNTHETIC}.iso"));
        let path = long.to_str().context("a path that is no text")?;
        let told = example::run("isotherm-record", SYNTHETIC, &[path, seconds])?;
        bench.dir.write_text(&format!("raw/{SYNTHETIC}.txt"), &told)?;
        say(&format!("record-size: simulated record of {seconds} s"));
        simulate(bench, &format!("{seconds}s"))?;
        let mut reports = Vec::new();
        for round in 0..if bench.spec.quick { 1 } else { 7 } {
            for report in REPORTS {
                say(&format!("record-size: round {round}: report {}", report.0));
                reports.push(measure(bench, report)?);
                bench.dir.write_json("raw/reports.json", &reports)?;
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let mut sizes = Vec::new();
        for name in WORKLOADS.into_iter().chain([SYNTHETIC, SIMULATED]) {
            let path = dir.raw(&format!("{name}.iso"));
            if !path.exists() {
                continue;
            }
            let windows = recording::windows(&path)?;
            let bytes =
                fs::metadata(&path).with_context(|| format!("look at {}", path.display()))?.len();
            let regions = windows.iter().map(|w| w.regions).sum();
            sizes.push(Size { record: name.into(), windows: windows.len() as u64, regions, bytes });
        }
        let raw: Vec<Report> = dir.read_json("raw/reports.json")?;
        let reports = REPORTS.map(|(name, ..)| {
            let of = |f: &dyn Fn(&Report) -> f64| {
                Middle::of(&raw.iter().filter(|r| r.report == name).map(f).collect::<Vec<_>>())
            };
            ReportCost {
                report: name.into(),
                cpu_s: of(&|r| r.cpu_s),
                wall_s: of(&|r| r.wall_s),
                peak_rss_bytes: of(&|r| to_f64(r.peak_rss_bytes)),
                printed_bytes: of(&|r| to_f64(r.printed_bytes)),
            }
        });
        Ok(serde_json::to_value(Results { sizes, reports: reports.into() })?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let result: Results = serde_json::from_value(result.clone())?;
        let mut sizes = Table::new(["record", "windows", "regions", "bytes", "bytes/region"]);
        for s in result.sizes {
            let each = to_f64(s.bytes) / to_f64(s.regions.max(1));
            let [windows, regions, bytes] = [s.windows, s.regions, s.bytes].map(|n| n.to_string());
            sizes.row([s.record, windows, regions, bytes, number(Some(each), 2)]);
        }
        let mut reports =
            Table::new(["report", "CPU s", "95 %", "wall s", "peak MiB", "printed MiB"]);
        for r in result.reports {
            reports.row([
                r.report,
                number(r.cpu_s.map(|m| m.median), 3),
                super::overhead::interval(r.cpu_s, 1.0, 3),
                number(r.wall_s.map(|m| m.median), 3),
                mib(r.peak_rss_bytes.map(|m| m.median)),
                mib(r.printed_bytes.map(|m| m.median)),
            ]);
        }
        Ok(format!(
            "{}\nGoal: <= 8 bytes per region.\n\n{}\nOn `{SYNTHETIC}` and `{SIMULATED}`. Goals: <= 2 s CPU, <= 150 MB; html: <= 3 s, \
             <= 200 MB, <= 3 MB printed.\n",
            sizes.text(),
            reports.text()
        ))
    }
}

/// A real record with default attributes.
fn record(bench: &Bench<'_>, workload: &str) -> anyhow::Result<()> {
    let truth = bench.dir.raw(&format!("{workload}.truth"));
    let mut args = vec![workload];
    if bench.spec.quick {
        args.extend(["--scale", "4s"]);
    }
    let mut running = Workload::start(&bench.spec.isotherm, &args, &truth)?;
    let output = bench.dir.raw(&format!("{workload}.iso"));
    let pid = running.child.pid();
    let mut recorder =
        recording::start(&bench.spec.isotherm, pid, &output, "auto", "first-touch", &[])?;
    let deadline = clock::now().plus_us(120_000_000);
    recorder.succeeds(deadline)?;
    running.child.succeeds(deadline)
}

/// A simulated record with page maps.
fn simulate(bench: &Bench<'_>, duration: &str) -> anyhow::Result<()> {
    let mut command = Command::new(&bench.spec.isotherm);
    command.args(["sim", "stairs", "--duration", duration, "-q", "-o"]);
    super::output(command.arg(bench.dir.raw(&format!("{SIMULATED}.iso"))))?;
    Ok(())
}

/// Runs a report to its end. Its output goes to a file, as a page would.
fn measure(
    bench: &Bench<'_>,
    (name, report, record): (&str, &str, &str),
) -> anyhow::Result<Report> {
    let printed = bench.dir.raw("printed");
    let out = fs::File::create(&printed).with_context(|| format!("make {}", printed.display()))?;
    let mut command = Command::new(&bench.spec.isotherm);
    command.arg("report").arg(report).arg(bench.dir.raw(&format!("{record}.iso")));
    if report == "html" {
        command.args(["-o", "-"]);
    }
    command.stdin(Stdio::null()).stdout(out);
    let began = clock::now();
    let mut child = command.spawn().with_context(|| format!("start {command:?}"))?;
    let used = child.wait4().with_context(|| format!("wait for {command:?}"))?;
    if !used.status.success() {
        bail!("{command:?}: {}", used.status);
    }
    Ok(Report {
        report: name.into(),
        printed_bytes: fs::metadata(&printed).map_or(0, |m| m.len()),
        cpu_s: (used.rusage.utime + used.rusage.stime).as_secs_f64(),
        wall_s: to_f64(clock::now().since(began)) / 1e9,
        peak_rss_bytes: used.rusage.maxrss,
    })
}
