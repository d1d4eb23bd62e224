//! One load phase of a program under one configuration, with all measurements of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use isotherm_host::zram::Zram;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};

use crate::dir::ResultDir;
use crate::processes::child::sleep_until;
use crate::processes::tool::{Account, Tool};
use crate::programs::{Outcome, Running};
use crate::readings::procfs;
use crate::readings::sampling::{Sample, grown, sampler, tree};
use crate::stats::to_f64;

/// Between the start of the tool, or where there is none of nothing, and the load.
const LEAD_US: u64 = 500_000;

/// One load phase; a line of `raw/runs.jsonl`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Run {
    /// Name of the program.
    pub(crate) program: String,
    /// Name of the configuration.
    pub(crate) config: String,
    /// Runs of the same round are compared.
    pub(crate) round: usize,
    /// What the program did; nothing if it failed.
    pub(crate) outcome: Option<Outcome>,
    /// Memory over time.
    pub(crate) samples: Vec<Sample>,
    /// What the tool says, if there was one.
    pub(crate) account: Option<Account>,
    /// CPU time of the tool during the load, and the load's length, by our own clock.
    pub(crate) tool_cpu_ns: Option<u64>,
    /// See there.
    pub(crate) elapsed_ns: u64,
    /// Resident memory of the tool.
    pub(crate) tool_rss: Option<u64>,
    /// Whether the program goes on after its load; else the load is all of its work.
    pub(crate) lasts: bool,
    /// Its major faults during the load, as far as its samples know.
    pub(crate) major_faults: u64,
    /// CPU time of the program during the load.
    pub(crate) program_cpu_ns: u64,
    /// Pages swapped in and out on the whole machine, since the tool was started.
    pub(crate) swapped: [u64; 2],
    /// Why there is no outcome.
    pub(crate) failed: Option<String>,
}

/// The tool's part of a configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scheme<'a> {
    /// The binary under test.
    pub(crate) isotherm: &'a std::path::Path,
    /// Its subcommand.
    pub(crate) name: &'a str,
    /// Whether the program's processes belong on its command line. A policy names its targets
    /// itself, and physical memory belongs to nobody.
    pub(crate) watches: bool,
    /// Arguments, without pids.
    pub(crate) args: &'a [String],
    /// Where its files go, without ending.
    pub(crate) log: &'a std::path::Path,
}

/// Swap in compressed memory for one run: everything is back in memory after it.
pub(crate) fn swap(bytes: u64) -> anyhow::Result<Zram> {
    Zram::set_up(bytes).context("set up swap")
}

/// Runs a load phase, with the tool at work if there is one, after `warm` seconds of load that do
/// not count.
pub(crate) fn run(
    running: &mut dyn Running,
    scheme: Option<Scheme<'_>>,
    zram: Option<&Zram>,
    warm: f64,
    seconds: f64,
) -> anyhow::Result<Run> {
    let swapped_before = swapped()?;
    let mut tool = None;
    if let Some(s) = scheme {
        let pids = if s.watches { tree(&running.roots()) } else { BTreeSet::new() };
        tool = Some(Tool::start(s.isotherm, s.name, pids, s.args, s.log)?);
    }
    sleep_until(clock::now().plus_us(LEAD_US))?;
    if let Some(tool) = &mut tool {
        tool.check()?;
    }
    if warm > 0.0 {
        running.load(warm)?;
    }
    let [cpu_before, rss_before] = of_tool(tool.as_ref());
    let begin = clock::now();
    let sampler = sampler(running.roots(), zram.map(sysfs))?;
    let busy = Busy::now(&running.roots());
    let outcome = running.load(seconds)?;
    let program_cpu_ns = Busy::now(&running.roots()).since(&busy);
    let samples = sampler.finish();
    let elapsed_ns = clock::now().since(begin);
    let [cpu_after, rss_after] = of_tool(tool.as_ref());
    let swapped_after = swapped()?;
    let account = tool.map(Tool::finish).transpose()?.flatten();
    running.check().context("check what the program made")?;
    let tool_cpu_ns = match (cpu_before, cpu_after) {
        (Some(before), Some(after)) => Some(after.saturating_sub(before)),
        _ => account.as_ref().map(|a| a.own_cpu_ns),
    };
    Ok(Run {
        outcome: Some(outcome),
        lasts: running.lasts(),
        major_faults: grown(&samples, |s| s.major_faults),
        tool_rss: rss_before.max(rss_after),
        samples,
        account,
        tool_cpu_ns,
        elapsed_ns,
        program_cpu_ns,
        swapped: [0, 1].map(|i| swapped_after[i].saturating_sub(swapped_before[i])),
        ..Run::default()
    })
}

/// CPU time and resident memory of the tool.
fn of_tool(tool: Option<&Tool>) -> [Option<u64>; 2] {
    [tool.and_then(Tool::cpu_ns), tool.and_then(Tool::rss)]
}

/// CPU time of the trees below some roots, in ns.
#[derive(Debug)]
struct Busy {
    /// None if a root has ended.
    trees: Option<u64>,
    /// Of our own children that have ended.
    reaped: u64,
}

impl Busy {
    fn now(roots: &[u32]) -> Self {
        let all = |pid: u32| procfs::cpu_and_childrens_ns(pid).ok();
        // A zombie still counts: it has not been waited for.
        let alive = roots.iter().all(|r| all(*r).is_some());
        let sum = || tree(roots).into_iter().filter_map(all).flatten().sum();
        let reaped = all(std::process::id()).map_or(0, |[_, childrens]| childrens);
        Self { trees: alive.then(sum), reaped }
    }

    /// Who has ended was waited for by us.
    fn since(&self, before: &Self) -> u64 {
        match (before.trees, self.trees) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => self.reaped.saturating_sub(before.reaped),
        }
    }
}

/// The directory of the device in sysfs.
fn sysfs(zram: &Zram) -> PathBuf {
    let path = zram.path();
    PathBuf::from("/sys/block").join(path.file_name().unwrap_or_default())
}

/// `pswpin` and `pswpout` of `/proc/vmstat`.
pub(crate) fn swapped() -> anyhow::Result<[u64; 2]> {
    let text = fs::read_to_string("/proc/vmstat").context("read /proc/vmstat")?;
    Ok(["pswpin ", "pswpout "].map(|key| {
        let line = text.lines().find_map(|l| l.strip_prefix(key));
        line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
    }))
}

impl Run {
    /// CPU time of the program per unit of work, in ns. Less noisy than time.
    pub(crate) fn cpu_per_work(&self) -> Option<f64> {
        let work = self.outcome.as_ref()?.work?;
        (self.program_cpu_ns > 0 && work > 0.0).then(|| to_f64(self.program_cpu_ns) / work)
    }

    /// Adds a line to `raw/runs.jsonl`.
    pub(crate) fn append(&self, dir: &ResultDir) -> anyhow::Result<()> {
        use std::io::Write;
        let path = dir.raw(RUNS);
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("open {}", path.display()))?;
        let line = serde_json::to_string(self)? + "\n";
        file.write_all(line.as_bytes()).with_context(|| format!("write {}", path.display()))
    }

    /// Cuts off a last line that is not complete: whoever wrote it was killed.
    pub(crate) fn mend(dir: &ResultDir) -> anyhow::Result<()> {
        let path = dir.raw(RUNS);
        let text = lines(&path)?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            fs::write(&path, &text[..whole])
                .with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    /// All lines.
    pub(crate) fn read_all(dir: &ResultDir) -> anyhow::Result<Vec<Self>> {
        let path = dir.raw(RUNS);
        let text = lines(&path)?;
        let parsed: Result<Vec<Self>, _> = text.lines().map(serde_json::from_str).collect();
        parsed.with_context(|| format!("understand {}", path.display()))
    }
}

/// The text of a file; nothing if there is none.
fn lines(path: &std::path::Path) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| format!("read {}", path.display())),
    }
}

const RUNS: &str = "runs.jsonl";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_ended_is_counted() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read go; sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let roots = [child.id()];
        let before = Busy::now(&roots);
        drop(child.stdin.take());
        child.wait().unwrap();
        let after = Busy::now(&roots);
        assert!(before.trees.is_some() && after.trees.is_none());
        assert!(after.since(&before) > 0);
    }

    #[test]
    fn a_torn_last_line_is_cut_off() {
        let out = tempfile::tempdir().unwrap();
        let dir = ResultDir::create(out.path(), &crate::job::Spec::of_test("x")).unwrap();
        Run::mend(&dir).unwrap();
        let run = Run { program: "redis".into(), round: 3, ..Run::default() };
        run.append(&dir).unwrap();
        let path = dir.raw(RUNS);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole.clone() + "{\"program\":\"re").unwrap();
        assert!(Run::read_all(&dir).is_err());
        Run::mend(&dir).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        assert_eq!(Run::read_all(&dir).unwrap()[0].round, 3);
    }

    #[test]
    fn the_kernel_counts_swapping() {
        let [before, after] = [swapped().unwrap(), swapped().unwrap()];
        assert!(before[0] <= after[0] && before[1] <= after[1]);
    }
}
