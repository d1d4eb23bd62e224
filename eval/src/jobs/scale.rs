//! Job `scale`: the monitor's own cost on targets of 1 to 16 GiB, at the same region limits.
//!
//! Each size is a workload of its own, made from a shipped one by enlarging its memory
//! (`enlarged`). Its config stays in `raw/`. Accesses per second stay as they are, or one CPU could
//! not make them.
//!
//! Of census' budget, so much is advanced for a first picture that it takes a minute or more until
//! it is paid back. So what its first minute takes is told apart, as a mean, and the other numbers
//! are of the time after that. The other methods have no such beginning.

use std::fs;

use anyhow::Context;
use isotherm_sim::config::{Config, Rate, shipped};
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::overhead::interval;
use super::{CENSUS, METHODS, workloads};
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::child::sleep_until;
use crate::processes::recording::{self, Cost};
use crate::processes::workload::Workload;
use crate::readings::procfs;
use crate::requirement::{self, Requirement};
use crate::stats::to_f64;
use crate::table::{Table, mib, number};

const SIZES: [&str; 5] = ["1", "2", "4", "8", "16"];
/// What runs if `--only` names no workload: memory that is hot in one place, scattered, and gone
/// over.
const USUAL: [&str; 3] = ["hot10", "scattered-256k", "sweep"];
/// Sizes are rounded to this, in bytes; it is a multiple of the usual pieces.
const ROUND: u64 = 2 << 20;
/// How long after its start a method is measured, in seconds: census, and another one. And for how
/// long it is measured.
const SETTLED_S: [u64; 2] = [60, 4];
const SPAN_S: u64 = 12;
/// Both times in a smoke run, in seconds.
const QUICK_S: [u64; 2] = [1, 3];
/// Memory that stays free for others.
const SPARE: u64 = 1 << 30;

/// The job.
#[derive(Debug)]
pub(crate) struct Scale;

/// One measurement; `raw/cases.json` lists them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Case {
    workload: String,
    gib: String,
    method: String,
    /// When the record was started, in ns; 0 if that was not noted.
    #[serde(default)]
    started: u64,
    /// The span that was measured, in ns.
    steady: [u64; 2],
    rss_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    /// CPU time in percent of one CPU: the mean of the first minute.
    #[serde(default)]
    first_percent: Option<f64>,
    cost: Option<Cost>,
}

impl Job for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn about(&self) -> &'static str {
        "own CPU, memory, looks and clears on targets of 1 to 16 GiB at the same region limits"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let largest = sizes(spec).last().and_then(|s| s.parse().ok()).unwrap_or(0_u64);
        requirement::measuring(largest + 1)
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let spec = bench.spec;
        let quick = |name: &str| if spec.quick { name == USUAL[0] } else { USUAL.contains(&name) };
        let workloads = workloads::wanted(spec, &workloads::shipped(&spec.isotherm)?, quick);
        let mut cases: Vec<Case> = Vec::new();
        for (name, gib) in
            workloads.iter().flat_map(|w| sizes(spec).into_iter().map(move |s| (w, s)))
        {
            let bytes = gib.parse::<u64>()? << 30;
            let free = procfs::available_bytes()?;
            if free < bytes + SPARE {
                say(&format!("scale: {gib} GiB left out: only {} MiB available", free >> 20));
                continue;
            }
            let text = match enlarged(name, bytes) {
                Ok(text) => text,
                Err(why) => {
                    say(&format!("scale: {name} of {gib} GiB left out: {why:#}"));
                    continue;
                }
            };
            say(&format!("scale: {name}, {gib} GiB"));
            let config = bench.dir.raw(&format!("{name}-{gib}.cfg"));
            fs::write(&config, text).context("write a config")?;
            let truth = bench.dir.raw(&format!("{name}-{gib}.truth"));
            let path = config.to_str().context("a path that is no text")?;
            let args = [path, "--duration", "3600s"];
            let mut workload = Workload::start(&spec.isotherm, &args, &truth)?;
            for method in METHODS.into_iter().filter(|m| spec.wants(m, &METHODS)) {
                cases.push(measure(bench, &mut workload, name, gib, method)?);
                bench.dir.write_json("raw/cases.json", &cases)?;
            }
            workload.child.stop()?;
        }
        anyhow::ensure!(!cases.is_empty(), "not enough memory for any size");
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let cases: Vec<Case> = dir.read_json("raw/cases.json")?;
        let mut rows = Vec::new();
        for case in cases {
            let windows = recording::windows(&dir.raw(&case.record()))?;
            let cost = Cost::of(&windows, case.steady[0], case.steady[1]);
            let (started, until) = (case.started, case.started + SETTLED_S[0] * 1_000_000_000);
            let is_apart = started > 0 && case.steady[0] >= until;
            let mean = || recording::mean_cpu_percent(&windows, started, until);
            let first_percent = if is_apart { mean() } else { None };
            rows.push(Row { case, first_percent, cost });
        }
        Ok(serde_json::to_value(rows)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "workload",
            "method",
            "GiB",
            "1st min CPU %",
            "CPU %",
            "95 %",
            "looks/s",
            "clears/s",
            "regions",
            "RSS MiB",
        ]);
        let mut workloads: Vec<&str> = rows.iter().map(|r| r.case.workload.as_str()).collect();
        workloads.dedup();
        for (workload, method) in workloads.iter().flat_map(|w| METHODS.map(|m| (*w, m))) {
            let same = |r: &&Row| r.case.workload == workload && r.case.method == method;
            for Row { case, first_percent, cost } in rows.iter().filter(same) {
                let cost = cost.as_ref();
                table.row([
                    case.workload.clone(),
                    case.method.clone(),
                    case.gib.clone(),
                    number(*first_percent, 2),
                    number(cost.map(|c| c.cpu_percent.median), 2),
                    interval(cost.map(|c| c.cpu_percent), 1.0, 2),
                    number(cost.map(|c| c.checks_per_sec.median), 0),
                    number(cost.map(|c| c.clears_per_sec.median), 0),
                    number(cost.map(|c| c.regions.median), 0),
                    mib(Some(to_f64(case.rss_bytes))),
                ]);
            }
        }
        let ran = workloads::ran(workloads.into_iter());
        Ok(table.text() + &ran + "\nGoal: no growth from 1 to 16 GiB.\n")
    }
}

fn sizes(spec: &Spec) -> Vec<&'static str> {
    let sizes = SIZES.into_iter().filter(|s| spec.wants(s, &SIZES));
    if spec.quick { sizes.take(2).collect() } else { sizes.collect() }
}

/// The config of a shipped workload, with so many bytes of memory, as text. Its parts keep their
/// shares of it, pieces and blocks their sizes; patterns with a rate keep their accesses per
/// second.
///
/// # Errors
///
/// If there is no such workload, or if it cannot have that size: the truth counts at most so many
/// pieces, and others stay smaller than a part that is rounded.
fn enlarged(name: &str, bytes: u64) -> anyhow::Result<String> {
    let text = shipped(name).with_context(|| format!("there is no workload {name}"))?;
    let mut config = Config::parse(&text)?;
    let total: u64 = config.regions.iter().map(|r| r.size).sum();
    let scaled = |part: u64| {
        let size = u128::from(part) * u128::from(bytes) / u128::from(total.max(1));
        u64::try_from(size).unwrap_or(u64::MAX)
    };
    // Regions are rounded up and ends of parts down, so these stay inside.
    let whole = |size: u64| scaled(size).next_multiple_of(ROUND);
    let border = |at: u64| scaled(at) / ROUND * ROUND;
    for region in &mut config.regions {
        region.size = whole(region.size);
        region.mapped = whole(region.mapped);
    }
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    let factor = bytes as f64 / total.max(1) as f64;
    for phase in &mut config.phases {
        for (_, size) in &mut phase.resize {
            *size = whole(*size);
        }
        for pattern in &mut phase.patterns {
            let offset = border(pattern.offset);
            let end = pattern.length.map(|length| border(pattern.offset + length));
            // A part that is small stays a part.
            pattern.length = end.map(|end| (end - offset).max(ROUND));
            pattern.offset = offset;
            pattern.sparse = pattern.sparse.map(whole);
            if let Some(drift) = &mut pattern.drift {
                drift.step = whole(drift.step);
            }
            if let Some(Rate::PerPage(hz)) = &mut pattern.rate {
                *hz /= factor;
            }
        }
    }
    let text = config.to_string();
    Config::parse(&text).context("of this size")?;
    Ok(text)
}

impl Case {
    fn record(&self) -> String {
        format!("{}-{}-{}.iso", self.workload, self.gib, self.method)
    }
}

fn measure(
    bench: &Bench<'_>,
    workload: &mut Workload,
    name: &str,
    gib: &str,
    method: &str,
) -> anyhow::Result<Case> {
    let [workload_name, gib, method] = [name, gib, method].map(str::to_owned);
    let started = clock::now().as_ns();
    let mut case =
        Case { workload: workload_name, gib, method, started, steady: [0; 2], rss_bytes: 0 };
    let settle = SETTLED_S[usize::from(case.method != CENSUS)];
    let [settle, span] = if bench.spec.quick { QUICK_S } else { [settle, SPAN_S] };
    let output = bench.dir.raw(&case.record());
    let pid = workload.child.pid();
    let mut monitor =
        recording::start(&bench.spec.isotherm, pid, &output, "pagewalk", &case.method, &[])?;
    sleep_until(clock::now().plus_us(settle * 1_000_000))?;
    let from = clock::now();
    sleep_until(from.plus_us(span * 1_000_000))?;
    case.steady = [from.as_ns(), clock::now().as_ns()];
    monitor.still_runs()?;
    workload.child.still_runs()?;
    case.rss_bytes = procfs::status_bytes(monitor.pid(), "VmRSS")?;
    monitor.stop()?;
    Ok(case)
}

#[cfg(test)]
mod tests {
    use isotherm_sim::config::SHIPPED;
    use isotherm_sim::pattern::plans;

    use super::*;

    #[test]
    fn every_shipped_workload_has_every_size_that_its_truth_allows() {
        for (name, _) in SHIPPED {
            for gib in SIZES {
                let bytes = gib.parse::<u64>().unwrap() << 30;
                let text = match enlarged(name, bytes) {
                    Ok(text) => text,
                    // More than a million pieces or blocks of one page.
                    Err(why) => {
                        let fine = ["scattered-4k", "hash-table"].contains(name);
                        assert!(fine && bytes > 4 << 30, "{name} {gib}: {why:#}");
                        continue;
                    }
                };
                let config = Config::parse(&text).unwrap();
                let total: u64 = config.regions.iter().map(|r| r.size).sum();
                let off = total.abs_diff(bytes);
                assert!(off <= ROUND * config.regions.len() as u64, "{name} {gib}: {off}");
            }
        }
        assert!(enlarged("none", 1 << 30).is_err());
    }

    #[test]
    fn an_enlarged_workload_keeps_its_shares_and_its_speed() {
        let plan = |text: &str| plans(&Config::parse(text).unwrap()).remove(0).remove(0);
        let (small, large) =
            (enlarged("sweep", 1 << 30).unwrap(), enlarged("sweep", 4 << 30).unwrap());
        let [small, large] = [plan(&small), plan(&large)];
        assert!((small.rate.unwrap() - large.rate.unwrap()).abs() < 1.0);
        let hot = plan(&enlarged("hot10", 8 << 30).unwrap()).cells;
        assert_eq!((hot.offset, hot.end - hot.offset), (2 << 30, 820 << 20));
    }
}
