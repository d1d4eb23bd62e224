//! One run: a workload, a monitor or none, and what the target and the kernel's thread used
//! meanwhile.

use std::fs;

use anyhow::bail;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};

use super::{CONTESTANTS, Case, KDAMOND, NONE, QUICK};
use crate::job::{Bench, Spec};
use crate::processes::child::{Child, sleep_until};
use crate::processes::recording;
use crate::processes::workload::{Progress, Workload};
use crate::readings::procfs;
use crate::stats::to_f64;

/// No shipped workload is longer, not even in a VM without KVM.
const PATIENCE_US: u64 = 600_000_000;
const POLL_US: u64 = 100_000;
/// Start of the monitor, until it has found the borders: told apart from the steady state.
const START_US: u64 = 10_000_000;
/// The same in a run of less than twice that: its self-test only.
const SHORT_START_US: u64 = 1_500_000;

/// What a run gave, besides the record.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Accesses per CPU-second of the target; none for workloads of several processes.
    pub(super) rate: Option<f64>,
    /// CPU of the kernel's thread, in percent of one CPU.
    pub(super) kernel_cpu_percent: Option<f64>,
    /// CPU of the monitor's process in the same time, in percent; ours and not the record's, whose
    /// first windows hold the start.
    pub(super) own_cpu_percent: Option<f64>,
    /// CPU of the monitor's process until then, in ms.
    #[serde(default)]
    pub(super) start_cpu_ms: Option<f64>,
}

/// How long the start is, in us after the accesses began.
pub(super) fn start_us(spec: &Spec) -> u64 {
    let seconds = seconds(spec).unwrap_or(f64::INFINITY);
    if seconds * 1e6 < 2.0 * to_f64(START_US) { SHORT_START_US } else { START_US }
}

/// How long a workload takes, if not as it is shipped.
fn seconds(spec: &Spec) -> Option<f64> {
    spec.seconds.or(spec.quick.then_some(QUICK.1))
}

/// CPU times at some moment.
#[derive(Debug, Clone, Copy)]
struct Mark {
    ns: u64,
    target_ns: u64,
    own_ns: u64,
    kernel_ns: u64,
}

/// Runs one case; its record and its truth are left in `raw/`.
pub(super) fn run(bench: &Bench<'_>, case: &Case) -> anyhow::Result<Measured> {
    let truth = bench.dir.raw(&case.file("truth"));
    let scale = seconds(bench.spec).map(|s| format!("{s}s"));
    let seed = case.seed().to_string();
    let mut args = vec![case.workload.as_str(), "--seed", &seed];
    if let Some(scale) = &scale {
        args.extend(["--scale", scale]);
    }
    let before = kdamonds();
    let mut workload = Workload::start(&bench.spec.isotherm, &args, &truth)?;
    let mut recorder = start_monitor(bench, case, workload.child.pid())?;
    let settled = clock::now().plus_us(start_us(bench.spec));
    let deadline = clock::now().plus_us(PATIENCE_US);
    let mut thread = None;
    let mut marks = Vec::new();
    let mut before_restart = Vec::new();
    while workload.child.runs() {
        anyhow::ensure!(clock::now() < deadline, "the workload did not end in time");
        if let Some(recorder) = recorder.as_mut()
            && !recorder.runs()
        {
            // It may have seen the end of the target before we did.
            recorder.succeeds(clock::now())?;
        }
        // A commit that the kernel takes only from the start ends the thread and makes another.
        if case.contestant == KDAMOND && !thread.is_some_and(is_kdamond) {
            thread = kdamonds().into_iter().find(|pid| !before.contains(pid));
            // The longest time of one thread counts.
            let seen = std::mem::take(&mut marks);
            if duration_ns(&seen) > duration_ns(&before_restart) {
                before_restart = seen;
            }
        }
        if clock::now() >= settled {
            // A process that is just ending has no numbers.
            marks.extend(mark(&workload.child, recorder.as_ref(), thread));
        }
        sleep_until(clock::now().plus_us(POLL_US))?;
    }
    workload.child.succeeds(deadline)?;
    if let Some(recorder) = &mut recorder {
        recorder.succeeds(deadline)?;
    }
    let progress = Progress::read(&truth)?;
    if duration_ns(&before_restart) > duration_ns(&marks) {
        marks = before_restart;
    }
    // Before the accesses begin and after they have ended the truth knows nothing.
    marks.retain(|m: &Mark| progress.until(m.ns).is_some());
    let (Some(first), Some(last)) = (marks.first(), marks.last()) else {
        let ms = start_us(bench.spec) / 1000;
        bail!("the workload was too short: it ended within {ms} ms of the start")
    };
    let ns = last.ns.saturating_sub(first.ns);
    anyhow::ensure!(ns > 0, "the workload was too short");
    let percent =
        |of: fn(&Mark) -> u64| to_f64(of(last).saturating_sub(of(first))) * 100.0 / to_f64(ns);
    let accesses = || Some(progress.until(last.ns)? - progress.until(first.ns)?);
    let cpu_ns = last.target_ns.saturating_sub(first.target_ns);
    let one_process = !fs::read_to_string(&truth)?.contains("{\"t\":\"slot\",\"p\":1");
    let rate = accesses().filter(|_| one_process && cpu_ns > 0).map(|n| n * 1e9 / to_f64(cpu_ns));
    Ok(Measured {
        rate,
        kernel_cpu_percent: thread.map(|_| percent(|m| m.kernel_ns)),
        own_cpu_percent: recorder.as_ref().map(|_| percent(|m| m.own_ns)),
        start_cpu_ms: recorder.map(|_| to_f64(first.own_ns) / 1e6),
    })
}

fn start_monitor(bench: &Bench<'_>, case: &Case, pid: u32) -> anyhow::Result<Option<Child>> {
    let found = CONTESTANTS.into_iter().find(|(name, ..)| *name == case.contestant);
    let Some((_, set, method, budget)) = found.filter(|(name, ..)| *name != NONE) else {
        return Ok(None);
    };
    let output = bench.dir.raw(&case.file("iso"));
    let seed = case.seed().to_string();
    let mut more = vec!["--seed", &seed];
    more.extend(budget.iter().flat_map(|budget| ["--budget", *budget]));
    recording::start(&bench.spec.isotherm, pid, &output, set, method, &more).map(Some)
}

fn duration_ns(marks: &[Mark]) -> u64 {
    marks.last().zip(marks.first()).map_or(0, |(last, first)| last.ns.saturating_sub(first.ns))
}

/// None if one of the processes is gone.
fn mark(target: &Child, own: Option<&Child>, thread: Option<u32>) -> Option<Mark> {
    let target_ns = procfs::cpu_ns(target.pid()).ok().filter(|ns| *ns > 0)?;
    let own_ns = own.map_or(Some(0), |own| procfs::cpu_ns(own.pid()).ok())?;
    let kernel_ns = thread.map_or(Some(0), |pid| procfs::cpu_ns(pid).ok())?;
    Some(Mark { ns: clock::now().as_ns(), target_ns, own_ns, kernel_ns })
}

/// The kernel's threads called `kdamond.N`.
fn kdamonds() -> Vec<u32> {
    let Ok(proc) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = proc.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| is_kdamond(*pid)).collect()
}

fn is_kdamond(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.starts_with("kdamond."))
        && fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.is_empty())
}
