//! `isotherm record` as a job uses it, and what it cost by its own account.

use std::path::Path;

use anyhow::Context;
use isotherm_record::{Event, Record};
use serde::{Deserialize, Serialize};

use crate::processes::child::Child;
use crate::stats::{Middle, to_f64};

/// Starts to record a process.
pub(crate) fn start(
    isotherm: &Path,
    pid: u32,
    output: &Path,
    set: &str,
    method: &str,
    more: &[&str],
) -> anyhow::Result<Child> {
    let log = output.with_extension("log");
    let output = output.to_str().context("a path that is no text")?;
    let pid = pid.to_string();
    let args = ["record", "-q", "-o", output, "-p", &pid, "--ops", set, "--method", method];
    Child::start(isotherm, args.iter().chain(more), &log)
}

/// One window of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    start_ns: u64,
    end_ns: u64,
    cpu_ns: u64,
    checks: u64,
    clears: u64,
    /// Regions of all targets.
    pub(crate) regions: u64,
}

/// All windows of a record.
pub(crate) fn windows(path: &Path) -> anyhow::Result<Vec<Window>> {
    let open = || -> Result<_, isotherm_record::Error> { Record::open(path)?.reader() };
    let mut reader = open().with_context(|| format!("open {}", path.display()))?;
    let mut windows = Vec::new();
    while let Some(event) =
        reader.next_event().with_context(|| format!("read {}", path.display()))?
    {
        if let Event::Snapshot(s) = event {
            windows.push(Window {
                start_ns: s.start.as_ns(),
                end_ns: s.end.as_ns(),
                cpu_ns: s.cost.cpu_ns,
                checks: s.cost.checks,
                clears: s.cost.clears,
                regions: s.nr_regions() as u64,
            });
        }
    }
    Ok(windows)
}

/// What monitoring costs, over the windows of a time span: medians over blocks of ten windows (a
/// second by default), for a single window's CPU time is too coarse.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// CPU time in percent of one CPU.
    pub(crate) cpu_percent: Middle,
    /// Looks at pages per second.
    pub(crate) checks_per_sec: Middle,
    /// Cleared accessed bits per second.
    pub(crate) clears_per_sec: Middle,
    /// Regions per window.
    pub(crate) regions: Middle,
}

const BLOCK: usize = 10;

/// CPU time in percent of one CPU over the windows that lie within [`from`, `to`), all of them
/// together; `None` if there is none.
pub(crate) fn mean_cpu_percent(windows: &[Window], from: u64, to: u64) -> Option<f64> {
    let inside = || windows.iter().filter(|w| w.start_ns >= from && w.end_ns <= to);
    let ns: u64 = inside().map(|w| w.end_ns - w.start_ns).sum();
    (ns > 0).then(|| to_f64(inside().map(|w| w.cpu_ns).sum()) * 100.0 / to_f64(ns))
}

impl Cost {
    /// Of the windows that lie within [`from`, `to`); `None` if there are too few for a block.
    pub(crate) fn of(windows: &[Window], from: u64, to: u64) -> Option<Self> {
        let inside: Vec<Window> =
            windows.iter().filter(|w| w.start_ns >= from && w.end_ns <= to).copied().collect();
        let blocks: Vec<&[Window]> = inside.chunks_exact(BLOCK).collect();
        let per_second = |f: fn(&Window) -> u64| {
            let rates: Vec<f64> = blocks
                .iter()
                .map(|block| {
                    let ns: u64 = block.iter().map(|w| w.end_ns - w.start_ns).sum();
                    to_f64(block.iter().map(f).sum()) * 1e9 / to_f64(ns.max(1))
                })
                .collect();
            Middle::of(&rates)
        };
        let ns = per_second(|w| w.cpu_ns)?;
        let percent = |ns: f64| ns / 1e7;
        let regions: Vec<f64> = inside.iter().map(|w| to_f64(w.regions)).collect();
        Some(Self {
            cpu_percent: Middle {
                median: percent(ns.median),
                lo: percent(ns.lo),
                hi: percent(ns.hi),
                n: ns.n,
            },
            checks_per_sec: per_second(|w| w.checks)?,
            clears_per_sec: per_second(|w| w.clears)?,
            regions: Middle::of(&regions)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_per_second_and_only_of_the_span() {
        let window = |i: u64| Window {
            start_ns: i * 100_000_000,
            end_ns: (i + 1) * 100_000_000,
            cpu_ns: if i < 10 { 50_000_000 } else { 1_000_000 },
            checks: 20,
            clears: i % 2,
            regions: 5,
        };
        let windows: Vec<Window> = (0..40).map(window).collect();
        let cost = Cost::of(&windows, 1_000_000_000, 4_000_000_000).unwrap();
        assert!((cost.cpu_percent.median - 1.0).abs() < 1e-9);
        let mean = mean_cpu_percent(&windows, 0, 2_000_000_000).unwrap();
        assert!((mean - 25.5).abs() < 1e-9, "half of it at 50 %, half at 1 %: {mean}");
        assert!(mean_cpu_percent(&windows, 5_000_000_000, 6_000_000_000).is_none());
        assert!((cost.checks_per_sec.median - 200.0).abs() < 1e-9);
        assert!((cost.clears_per_sec.median - 5.0).abs() < 1e-9);
        assert_eq!(cost.regions.n, 30);
        assert!(Cost::of(&windows, 0, 500_000_000).is_none());
    }
}
