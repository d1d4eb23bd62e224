//! Job `overhead`: what the monitor costs the target and itself, on hot 10 % of 2 GiB, on scattered
//! memory and on a sweep, or on any other workload that `--only` names.
//!
//! One process per workload lives through all of its slices, so that its memory lies the same in
//! them. Per method a monitor is started on it, and from then on stopped (SIGSTOP: slice A) and
//! continued (SIGCONT: slice B) in the order AB BA AB ..., which cancels what drifts. A stopped
//! monitor does not touch the target; a continued one is in its steady state. After each switch
//! some time passes that is not counted.
//!
//! A slice gives accesses (exact, from the truth) per CPU-second of the target and its children
//! (`schedstat`). A slice in which one of them began or ended does not count. A pair gives the
//! slowdown 1 - B / A; the result is the median over pairs with its 95 % interval.
//! The control `none` does the same without a monitor: its interval is what this machine's noise
//! alone makes.
//!
//! The monitor's own cost is from its record: windows of a continuous span after the pairs.

use std::path::Path;

use isotherm_sys::clock;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{METHODS, workloads};
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::child::{Child, sleep_until};
use crate::processes::recording::{self, Cost};
use crate::processes::workload::{Progress, Workload};
use crate::readings::procfs;
use crate::requirement::{self, Requirement};
use crate::stats::{Middle, to_f64};
use crate::table::{Table, mib, number};

/// What runs if `--only` names no workload. The first has the goals, so it has the most pairs.
const USUAL: [&str; 3] = [MAIN, "scattered-256k", "sweep"];
const MAIN: &str = "hot10";
/// What a smoke run takes.
const QUICK: [&str; 1] = [MAIN];
const SETTLE_US: u64 = 300_000;
const CONTROL: &str = "none";

/// The job.
#[derive(Debug)]
pub(crate) struct Overhead;

/// How long and how often.
#[derive(Debug, Clone, Copy)]
struct Plan {
    pairs: usize,
    slice_us: u64,
    steady_us: u64,
    /// After the first second, and after the last slice.
    wait_us: u64,
}

impl Plan {
    fn of(spec: &Spec, workload: &str) -> Self {
        let pairs = |usual| spec.pairs.unwrap_or(usual);
        if spec.quick {
            Self { pairs: pairs(2), slice_us: 200_000, steady_us: 1_500_000, wait_us: 200_000 }
        } else {
            let usual = if workload == MAIN { 48 } else { 16 };
            let (slice_us, steady_us) = (700_000, 15_000_000);
            Self { pairs: pairs(usual), slice_us, steady_us, wait_us: 2_000_000 }
        }
    }
}

/// A state of the target.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Mark {
    ns: u64,
    /// Of all of `processes`.
    cpu_ns: u64,
    /// The target and its children.
    #[serde(default)]
    processes: Vec<u32>,
}

impl Mark {
    fn now(pid: u32) -> anyhow::Result<Self> {
        let ns = clock::now().as_ns();
        let (processes, cpu_ns) = procfs::tree_cpu_ns(pid)?;
        Ok(Self { ns, cpu_ns, processes })
    }
}

/// One slice.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slice {
    monitored: bool,
    from: Mark,
    to: Mark,
}

/// `raw/WORKLOAD-MODE.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Raw {
    workload: String,
    mode: String,
    /// Two by two a pair.
    slices: Vec<Slice>,
    /// The continuous span, in ns.
    steady: [u64; 2],
    /// CPU time of the monitor's first second: loading BPF, self-test, first looks.
    first_second_cpu_ns: u64,
    rss_bytes: u64,
    peak_rss_bytes: u64,
}

/// The result of a mode on a workload.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    workload: String,
    mode: String,
    slowdown: Option<Middle>,
    /// Accesses per CPU-second without the monitor.
    baseline: Option<Middle>,
    cost: Option<Cost>,
    first_second_cpu_ms: f64,
    rss_bytes: u64,
    peak_rss_bytes: u64,
}

impl Job for Overhead {
    fn name(&self) -> &'static str {
        "overhead"
    }

    fn about(&self) -> &'static str {
        "slowdown of a target in paired slices with and without the monitor, own CPU and memory"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        requirement::measuring(workloads::memory_gib(spec, 3))
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let usual: &[&str] = if bench.spec.quick { &QUICK } else { &USUAL };
        let shipped = workloads::shipped(&bench.spec.isotherm)?;
        let modes = modes();
        let mut done: Vec<[String; 2]> = Vec::new();
        for name in workloads::wanted(bench.spec, &shipped, |name| usual.contains(&name)) {
            let truth = bench.dir.raw(&format!("{name}.truth"));
            let args = [&name, "--duration", "3600s"];
            let mut workload = Workload::start(&bench.spec.isotherm, &args, &truth)?;
            for mode in modes.into_iter().filter(|m| bench.spec.wants(m, &modes)) {
                let raw = measure(bench, &mut workload, &name, mode)?;
                bench.dir.write_json(&format!("raw/{name}-{mode}.json"), &raw)?;
                done.push([name.clone(), mode.to_owned()]);
                bench.dir.write_json("raw/done.json", &done)?;
            }
            workload.child.stop()?;
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let mut rows = Vec::new();
        let done: Vec<[String; 2]> = dir.read_json("raw/done.json")?;
        let mut last: Option<(String, Progress)> = None;
        for [workload, mode] in done {
            let progress = match last.take() {
                Some((name, progress)) if name == workload => progress,
                _ => Progress::read(&dir.raw(&format!("{workload}.truth")))?,
            };
            let raw: Raw = dir.read_json(&format!("raw/{workload}-{mode}.json"))?;
            let mut cost = None;
            if mode != CONTROL {
                let windows = recording::windows(&dir.raw(&format!("{workload}-{mode}.iso")))?;
                cost = Cost::of(&windows, raw.steady[0], raw.steady[1]);
            }
            let rates = |monitored: bool| -> Vec<f64> {
                let slices = raw.slices.iter().filter(|s| s.monitored == monitored);
                slices.filter_map(|s| rate(s, &progress)).collect()
            };
            rows.push(Row {
                slowdown: Middle::of(&slowdowns(&raw.slices, &progress)),
                baseline: Middle::of(&rates(false)),
                cost,
                first_second_cpu_ms: to_f64(raw.first_second_cpu_ns) / 1e6,
                rss_bytes: raw.rss_bytes,
                peak_rss_bytes: raw.peak_rss_bytes,
                workload: raw.workload,
                mode: raw.mode,
            });
            last = Some((workload, progress));
        }
        Ok(serde_json::to_value(rows)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result.clone())?;
        let ran = workloads::ran(rows.iter().map(|r| r.workload.as_str()));
        let mut table = Table::new([
            "workload",
            "mode",
            "slowdown %",
            "95 %",
            "pairs",
            "base M acc/cpu-s",
            "CPU %",
            "95 %",
            "looks/s",
            "clears/s",
            "regions",
            "RSS MiB",
            "peak MiB",
            "1st s CPU ms",
        ]);
        for r in rows {
            let cost = |f: fn(&Cost) -> &Middle| r.cost.as_ref().map(f).copied();
            let cpu = cost(|c| &c.cpu_percent);
            let monitored = r.mode != CONTROL;
            let slowdown = r.slowdown;
            table.row([
                r.workload,
                r.mode,
                number(slowdown.map(|m| m.median * 100.0), 2),
                interval(slowdown, 100.0, 2),
                slowdown.map_or(0, |m| m.n).to_string(),
                number(r.baseline.map(|m| m.median / 1e6), 2),
                number(cpu.map(|m| m.median), 2),
                interval(cpu, 1.0, 2),
                number(cost(|c| &c.checks_per_sec).map(|m| m.median), 0),
                number(cost(|c| &c.clears_per_sec).map(|m| m.median), 0),
                number(cost(|c| &c.regions).map(|m| m.median), 0),
                mib(monitored.then_some(to_f64(r.rss_bytes))),
                mib(monitored.then_some(to_f64(r.peak_rss_bytes))),
                number(monitored.then_some(r.first_second_cpu_ms), 0),
            ]);
        }
        Ok(table.text()
            + &ran
            + "\nSlowdown: 1 - accesses per CPU-second with / without the monitor, median over pairs. \
               The control `none` has no monitor: its interval is noise.\n\
               Goals: slowdown <= 1 %, CPU <= 1.5 %, RSS <= 40 MiB (hot10).\n")
    }
}

fn modes() -> [&'static str; 4] {
    [CONTROL, METHODS[0], METHODS[1], METHODS[2]]
}

/// An interval as text.
pub(super) fn interval(m: Option<Middle>, factor: f64, digits: usize) -> String {
    m.map_or_else(
        || "-".into(),
        |m| format!("{:.digits$} .. {:.digits$}", m.lo * factor, m.hi * factor),
    )
}

/// Measures one mode on the running workload.
fn measure(
    bench: &Bench<'_>,
    workload: &mut Workload,
    name: &str,
    mode: &str,
) -> anyhow::Result<Raw> {
    let plan = Plan::of(bench.spec, name);
    let truth = bench.dir.raw(&format!("{name}.truth"));
    let pid = workload.child.pid();
    let mut monitor = None;
    if mode != CONTROL {
        let output = bench.dir.raw(&format!("{name}-{mode}.iso"));
        monitor =
            Some(recording::start(&bench.spec.isotherm, pid, &output, "pagewalk", mode, &[])?);
    }
    sleep_until(clock::now().plus_us(1_000_000))?;
    let monitor_cpu = |m: &Option<Child>| m.as_ref().map_or(Ok(0), |m| procfs::cpu_ns(m.pid()));
    let first_second_cpu_ns = monitor_cpu(&monitor)?;
    sleep_until(clock::now().plus_us(plan.wait_us))?;
    let mut slices = Vec::new();
    for pair in 0..plan.pairs {
        let first = pair % 2 == 1;
        for monitored in [first, !first] {
            slices.push(slice(&truth, workload, monitor.as_mut(), monitored, plan.slice_us)?);
        }
        if pair % 8 == 7 {
            say(&format!("overhead: {name}: {mode}: {} of {} pairs", pair + 1, plan.pairs));
        }
    }
    let mut raw = Raw {
        workload: name.into(),
        mode: mode.into(),
        slices,
        steady: [0; 2],
        first_second_cpu_ns,
        rss_bytes: 0,
        peak_rss_bytes: 0,
    };
    if let Some(monitor) = monitor {
        monitor.signal(Signal::CONT)?;
        sleep_until(clock::now().plus_us(plan.wait_us))?;
        raw.steady[0] = clock::now().as_ns();
        sleep_until(clock::now().plus_us(plan.steady_us))?;
        raw.steady[1] = clock::now().as_ns();
        raw.rss_bytes = procfs::status_bytes(monitor.pid(), "VmRSS")?;
        raw.peak_rss_bytes = procfs::status_bytes(monitor.pid(), "VmHWM")?;
        monitor.stop()?;
    }
    Ok(raw)
}

/// One slice: switches, lets it settle, and measures between borders of the truth's slots.
fn slice(
    truth: &Path,
    workload: &mut Workload,
    monitor: Option<&mut Child>,
    monitored: bool,
    slice_us: u64,
) -> anyhow::Result<Slice> {
    workload.child.still_runs()?;
    if let Some(monitor) = monitor {
        monitor.still_runs()?;
        monitor.signal(if monitored { Signal::CONT } else { Signal::STOP })?;
    }
    let pid = workload.child.pid();
    let mark = |time| -> anyhow::Result<Mark> {
        sleep_until(time)?;
        Mark::now(pid)
    };
    let begin = Progress::border(truth, clock::now().plus_us(SETTLE_US))?;
    let from = mark(begin)?;
    let to = mark(begin.plus_us(slice_us))?;
    Ok(Slice { monitored, from, to })
}

/// Accesses per CPU-second.
fn rate(slice: &Slice, progress: &Progress) -> Option<f64> {
    if slice.from.processes != slice.to.processes {
        return None;
    }
    let accesses = progress.until(slice.to.ns)? - progress.until(slice.from.ns)?;
    let cpu_ns = slice.to.cpu_ns.checked_sub(slice.from.cpu_ns).filter(|ns| *ns > 0)?;
    Some(accesses * 1e9 / to_f64(cpu_ns))
}

/// 1 - B / A of each pair.
fn slowdowns(slices: &[Slice], progress: &Progress) -> Vec<f64> {
    let pair = |pair: &[Slice]| {
        let [with, without] = [true, false].map(|m| pair.iter().find(|s| s.monitored == m));
        Some(1.0 - rate(with?, progress)? / rate(without?, progress)?)
    };
    slices.chunks_exact(2).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_in_which_a_process_ended_does_not_count() {
        let truth = std::env::temp_dir().join(format!("isotherm-slice-{}", std::process::id()));
        let text = r#"{"t":"header","version":1,"config":"x","seed":1,"page_size":4096,"slot_ns":100,"start_ns":0,"regions":[],"phases":[]}
{"t":"slot","p":0,"k":0,"c":[[0,0,10]]}
{"t":"slot","p":1,"k":0,"c":[[0,0,30]]}
{"t":"slot","p":0,"k":1,"c":[[0,0,10]]}"#;
        std::fs::write(&truth, text).unwrap();
        let progress = Progress::read(&truth);
        std::fs::remove_file(&truth).unwrap();
        let mark = |ns, cpu_ns, processes: &[u32]| Mark { ns, cpu_ns, processes: processes.into() };
        let slice = |after: &[u32]| Slice {
            monitored: true,
            from: mark(0, 5, &[1, 2]),
            to: mark(100, 25, after),
        };
        let progress = progress.unwrap();
        assert_eq!(rate(&slice(&[1, 2]), &progress), Some(40.0 * 1e9 / 20.0));
        assert_eq!(rate(&slice(&[1]), &progress), None);
    }
}
