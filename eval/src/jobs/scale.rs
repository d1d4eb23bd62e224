//! Job `scale`: the monitor's own cost on targets of 1 to 16 GiB, at the same region limits.
//!
//! Each size is a workload of its own, a tenth of it hot, made from a config that stays in `raw/`.

use std::fs;

use anyhow::Context;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::METHODS;
use super::overhead::interval;
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
/// Memory that stays free for others.
const SPARE: u64 = 1 << 30;

/// The job.
#[derive(Debug)]
pub(crate) struct Scale;

/// One measurement; `raw/cases.json` lists them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Case {
    gib: String,
    method: String,
    steady: [u64; 2],
    rss_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
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
        let mut cases: Vec<Case> = Vec::new();
        for gib in sizes(bench.spec) {
            let bytes = gib.parse::<u64>()? << 30;
            let free = procfs::available_bytes()?;
            if free < bytes + SPARE {
                say(&format!("scale: {gib} GiB left out: only {} MiB available", free >> 20));
                continue;
            }
            say(&format!("scale: {gib} GiB"));
            let config = bench.dir.raw(&format!("{gib}.cfg"));
            fs::write(&config, config_text(bytes)).context("write a config")?;
            let truth = bench.dir.raw(&format!("{gib}.truth"));
            let path = config.to_str().context("a path that is no text")?;
            let args = [path, "--duration", "3600s"];
            let mut workload = Workload::start(&bench.spec.isotherm, &args, &truth)?;
            for method in METHODS.into_iter().filter(|m| bench.spec.wants(m, &METHODS)) {
                cases.push(measure(bench, &mut workload, gib, method)?);
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
            let windows = recording::windows(&dir.raw(&record_name(&case.gib, &case.method)))?;
            let cost = Cost::of(&windows, case.steady[0], case.steady[1]);
            rows.push(Row { case, cost });
        }
        Ok(serde_json::to_value(rows)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "method", "GiB", "CPU %", "95 %", "looks/s", "clears/s", "regions", "RSS MiB",
        ]);
        for method in METHODS {
            for Row { case, cost } in rows.iter().filter(|r| r.case.method == method) {
                let cost = cost.as_ref();
                table.row([
                    case.method.clone(),
                    case.gib.clone(),
                    number(cost.map(|c| c.cpu_percent.median), 2),
                    interval(cost.map(|c| c.cpu_percent), 1.0, 2),
                    number(cost.map(|c| c.checks_per_sec.median), 0),
                    number(cost.map(|c| c.clears_per_sec.median), 0),
                    number(cost.map(|c| c.regions.median), 0),
                    mib(Some(to_f64(case.rss_bytes))),
                ]);
            }
        }
        Ok(table.text() + "\nGoal: no growth from 1 to 16 GiB.\n")
    }
}

fn sizes(spec: &Spec) -> Vec<&'static str> {
    let sizes = SIZES.into_iter().filter(|s| spec.wants(s, &SIZES));
    if spec.quick { sizes.take(2).collect() } else { sizes.collect() }
}

fn record_name(gib: &str, method: &str) -> String {
    format!("{gib}-{method}.iso")
}

/// A tenth of `bytes` is hot: random accesses at full speed, from a quarter of the way on.
fn config_text(bytes: u64) -> String {
    let pages = |b: u64| b / 4096 * 4096;
    let (offset, length) = (pages(bytes / 4), pages(bytes / 10));
    format!("m, {bytes}\n\nsteady\n40000\nm, 1, 64, 1, rw, offset={offset}, length={length}\n")
}

fn measure(
    bench: &Bench<'_>,
    workload: &mut Workload,
    gib: &str,
    method: &str,
) -> anyhow::Result<Case> {
    let (settle, span) = if bench.spec.quick { (1, 3) } else { (4, 12) };
    let output = bench.dir.raw(&record_name(gib, method));
    let pid = workload.child.pid();
    let mut monitor =
        recording::start(&bench.spec.isotherm, pid, &output, "pagewalk", method, &[])?;
    sleep_until(clock::now().plus_us(settle * 1_000_000))?;
    let from = clock::now();
    sleep_until(from.plus_us(span * 1_000_000))?;
    let steady = [from.as_ns(), clock::now().as_ns()];
    monitor.still_runs()?;
    workload.child.still_runs()?;
    let rss_bytes = procfs::status_bytes(monitor.pid(), "VmRSS")?;
    monitor.stop()?;
    Ok(Case { gib: gib.into(), method: method.into(), steady, rss_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_are_understood() {
        for size in SIZES {
            let text = config_text(size.parse::<u64>().unwrap() << 30);
            isotherm_sim::config::Config::parse(&text).unwrap();
        }
    }
}
