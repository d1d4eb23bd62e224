//! Job `huge`: how soon census finds a hot gigabyte in targets of up to terabytes, in simulation.
//!
//! The simulation crate's example `huge` runs the product's loop and method over simulated targets
//! of 4 GiB to 1 TiB with a budget of 1 % of a CPU. The hot gigabyte is in pieces of 2 or 64 MiB.
//! Operations cost virtual time as measured on real memory, and the core costs the CPU time that it
//! takes. Larger targets have more state than a machine should give to an evaluation (0.05 % of 64
//! TiB is 32 GiB). For these the times are *extrapolated*: a sweep takes units x cost / budget.

mod model;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::model::{Fit, sweep_s};
use super::example;
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::requirement::{self, Requirement};
use crate::stats::to_f64;
use crate::table::{Table, number};

const PACKAGE: &str = "isotherm-sim";
const EXAMPLE: &str = "huge";
/// Sizes of the targets, in GiB. `--quick` takes the first two.
const SIZES: [&str; 5] = ["4", "16", "64", "256", "1024"];
/// Sizes of the pieces of hot memory, in MiB.
const PIECES: [u64; 2] = [2, 64];
/// The size that the times are extrapolated to, in GiB.
const FAR_GIB: u64 = 64 << 10;
/// Real seconds that one run may take: from memory that is young at first, and from old memory.
const REAL_SECONDS: [&str; 2] = ["60", "20"];
/// The budget, in percent of a CPU: the default.
const BUDGET_PERCENT: f64 = 1.0;
const GIB: f64 = 1_073_741_824.0;

/// The job.
#[derive(Debug)]
pub(crate) struct Huge;

/// When a share of the hot bytes was known.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Moment {
    percent: u64,
    s: f64,
    precision: f64,
}

/// A line of the example's output, which explains the fields.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    gib: u64,
    piece_mib: u64,
    clean: bool,
    arm_ns: u64,
    look_ns: u64,
    moments: Vec<Moment>,
    recall: f64,
    precision: f64,
    regions_recall: f64,
    cpu_percent: f64,
    core_percent: f64,
    armed_per_s: f64,
    looked_per_s: f64,
    virtual_s: f64,
    real_s: f64,
    windows_kept: f64,
    longest_window_ms: f64,
    window_us: [f64; 3],
    state: f64,
    peak: f64,
}

impl Line {
    fn moment(&self, percent: u64) -> Option<Moment> {
        self.moments.iter().find(|m| m.percent == percent).copied()
    }

    fn seconds(&self, percent: u64) -> Option<f64> {
        self.moment(percent).map(|m| m.s)
    }
}

impl Job for Huge {
    fn name(&self) -> &'static str {
        "huge"
    }

    fn about(&self) -> &'static str {
        "how soon census finds a hot gigabyte in up to 1 TiB (simulation), and 64 TiB by a model"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        vec![requirement::example(PACKAGE, EXAMPLE), requirement::memory(2), requirement::quiet()]
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let mut texts = Vec::new();
        // A target of which all was swept before, as if somebody else had monitored it.
        for clean in [false, true] {
            for gib in sizes(bench.spec) {
                say(&format!("huge: {gib} GiB{}", if clean { ", all of it old" } else { "" }));
                let mut args =
                    vec!["--gib", gib, "--real-seconds", REAL_SECONDS[usize::from(clean)]];
                args.extend(clean.then_some("--clean"));
                texts.push(example::run(PACKAGE, EXAMPLE, &args)?);
                bench.dir.write_text("raw/runs.jsonl", &texts.concat())?;
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let text = std::fs::read_to_string(dir.raw("runs.jsonl")).context("read the raw file")?;
        Ok(serde_json::to_value(lines(&text)?)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let lines: Vec<Line> = serde_json::from_value(result.clone())?;
        Ok(format!("{}\n{}\n{}", found(&lines), cost(&lines), far(&lines)))
    }
}

fn sizes(spec: &Spec) -> impl Iterator<Item = &'static str> {
    let most = if spec.quick { 2 } else { SIZES.len() };
    SIZES.into_iter().filter(|size| spec.wants(size, &SIZES)).take(most)
}

fn lines(text: &str) -> anyhow::Result<Vec<Line>> {
    text.lines().map(|l| serde_json::from_str(l).context("understand a raw line")).collect()
}

const fn state(line: &Line) -> &'static str {
    if line.clean { "old" } else { "young" }
}

/// When the hot bytes were known.
fn found(lines: &[Line]) -> String {
    let mut table = Table::new([
        "all pages at first",
        "piece MiB",
        "GiB",
        "10 % s",
        "50 % s",
        "90 % s",
        "95 % s",
        "precision",
        "sweep s by model",
        "recall, precision at the end",
        "by regions",
    ]);
    for line in lines {
        let at = |percent| number(line.seconds(percent), 1);
        table.row([
            state(line).into(),
            line.piece_mib.to_string(),
            line.gib.to_string(),
            at(10),
            at(50),
            at(90),
            at(95),
            number(line.moments.last().map(|m| m.precision), 3),
            number(Some(sweep_s(line, line.gib)), 1),
            format!("{:.2} {:.2}", line.recall, line.precision),
            number(Some(line.regions_recall), 2),
        ]);
    }
    format!(
        "Virtual seconds until shares of the hot gigabyte were known, by the page maps of \
         snapshots, and the precision then. A dash: not within the time of the run.\n\n{}",
        table.text()
    )
}

/// What that cost.
fn cost(lines: &[Line]) -> String {
    let mut table = Table::new([
        "all pages at first",
        "piece MiB",
        "GiB",
        "own CPU %",
        "core %",
        "armed/s",
        "looks/s",
        "state bytes/byte %",
        "at most %",
        "windows kept %",
        "longest window ms",
        "core us/window: median, 99 %, most",
        "run: virtual s",
        "real s",
    ]);
    for line in lines {
        let [median, p99, most] = line.window_us;
        table.row([
            state(line).into(),
            line.piece_mib.to_string(),
            line.gib.to_string(),
            number(Some(line.cpu_percent), 2),
            number(Some(line.core_percent), 2),
            number(Some(line.armed_per_s), 0),
            number(Some(line.looked_per_s), 0),
            number(Some(line.state * 100.0), 4),
            number(Some(line.peak * 100.0), 4),
            number(Some(line.windows_kept * 100.0), 1),
            number(Some(line.longest_window_ms), 0),
            format!("{median:.0} {p99:.0} {most:.0}"),
            number(Some(line.virtual_s), 0),
            number(Some(line.real_s), 1),
        ]);
    }
    format!(
        "Own CPU is that of the core and of arming and looking; the initial advance of a minute's \
         budget is in it. Allocations are the core's alone. Goal: at most 0.05 % of what is \
         watched.\n\n{}",
        table.text()
    )
}

/// How the times grow, and what follows for a size that does not fit here.
fn far(lines: &[Line]) -> String {
    let mut table = Table::new([
        "all pages at first",
        "piece MiB",
        "% known",
        "sizes",
        "time ~ size ^",
        "64 TiB, h",
        "by model, h",
    ]);
    for clean in [false, true] {
        for piece in PIECES {
            let of = |l: &&Line| l.clean == clean && l.piece_mib == piece;
            for percent in [50, 95] {
                let points = lines.iter().filter(of);
                let points = points.filter_map(|l| Some((to_f64(l.gib), l.seconds(percent)?)));
                let points: Vec<_> = points.collect();
                let (Some(fit), Some(last)) = (Fit::of(&points), lines.iter().rfind(of)) else {
                    continue;
                };
                table.row([
                    state(last).into(),
                    piece.to_string(),
                    percent.to_string(),
                    fit.sizes(),
                    number(Some(fit.exponent), 2),
                    number(Some(fit.at(to_f64(FAR_GIB)) / 3600.0), 1),
                    number(Some(sweep_s(last, FAR_GIB) * to_f64(percent) / 360_000.0), 1),
                ]);
            }
        }
    }
    format!(
        "EXTRAPOLATED, not measured: 64 TiB would need {:.0} GiB of state. The line is fitted to \
         the two largest sizes, where the budget alone decides; the model is \
         sweep = units x (arming + 5 looks) / (budget - core - looks in turn).\n\n{}",
        lines.last().map_or(0.0, |l| l.state) * to_f64(FAR_GIB),
        table.text()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(gib: u64, s: f64) -> String {
        format!(
            r#"{{"gib":{gib},"piece_mib":2,"clean":false,"arm_ns":30000,"look_ns":1500,
            "moments":[{{"percent":50,"s":{s},"precision":1.0}}],"recall":0.6,"precision":1.0,
            "regions_recall":0.5,"cpu_percent":1.0,"core_percent":0.2,"armed_per_s":200.0,
            "looked_per_s":1000.0,"virtual_s":100.0,"real_s":1.0,"windows_kept":1.0,
            "longest_window_ms":101.0,"window_us":[1.0,2.0,3.0],"state":0.00045,"peak":0.0005}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn what_was_not_measured_is_said_to_be_extrapolated() {
        let text = format!("{}\n{}\n", line(256, 400.0), line(1024, 1600.0));
        let lines = lines(&text).unwrap();
        let text = far(&lines);
        assert!(text.starts_with("EXTRAPOLATED") && text.contains(" 1.00 "), "{text}");
        // 64 times the last one.
        assert!(text.contains(" 28.4 "), "{text}");
        assert!(found(&lines).contains(" - "), "95 % were not reached");
    }
}
