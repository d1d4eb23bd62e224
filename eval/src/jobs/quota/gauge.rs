//! Numbers that the kernel keeps about target, tool and machine, over time.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};

use crate::measure;
use crate::readings::periodic::Periodic;
use crate::readings::procfs;
use crate::stats::to_f64;

const PERIOD: Duration = Duration::from_millis(20);

/// All of it at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// `CLOCK_MONOTONIC`.
    pub(super) ns: u64,
    /// Memory of the target in swap.
    pub(super) swap_bytes: u64,
    /// Pages that went to swap, and came back, on the whole machine.
    pub(super) out_pages: u64,
    pub(super) in_pages: u64,
    /// CPU time of the tool.
    pub(super) tool_ns: u64,
}

impl Sample {
    /// Of now.
    pub(super) fn take(target: u32, tool: u32) -> anyhow::Result<Self> {
        let [in_pages, out_pages] = measure::swapped()?;
        Ok(Self {
            ns: clock::now().as_ns(),
            swap_bytes: procfs::status_bytes(target, "VmSwap")?,
            out_pages,
            in_pages,
            tool_ns: procfs::cpu_ns(tool)?,
        })
    }
}

/// `some total` of `/proc/pressure/memory`. Reading brings it up to date, and rounds down to ticks
/// what a CPU was busy since the last reading. Frequent reading makes it too small, so it is not
/// among the samples.
pub(super) fn psi_us() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/pressure/memory").context("read /proc/pressure/memory")?;
    let total = text.lines().find_map(|l| l.strip_prefix("some ")?.split("total=").nth(1));
    total.and_then(|n| n.trim().parse().ok()).context("understand /proc/pressure/memory")
}

/// Samples of these processes until it is told to finish. Whoever has ended is found by the one who
/// drives it.
pub(super) fn gauge(target: u32, tool: u32) -> anyhow::Result<Periodic<Sample>> {
    Periodic::start(PERIOD, move || Sample::take(target, tool).ok())
}

/// A number at a time, between samples as if it grew evenly; `None` outside of them.
pub(super) fn at(samples: &[Sample], ns: u64, f: fn(&Sample) -> u64) -> Option<f64> {
    let i = samples.partition_point(|s| s.ns < ns);
    let after = samples.get(i)?;
    if after.ns == ns {
        return Some(to_f64(f(after)));
    }
    let before = samples.get(i.checked_sub(1)?)?;
    let share = to_f64(ns - before.ns) / to_f64(after.ns - before.ns);
    Some(to_f64(f(before)) * (1.0 - share) + to_f64(f(after)) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_samples_it_grows_evenly() {
        let sample = |ns, out_pages| Sample { ns, out_pages, ..Sample::default() };
        let samples = [sample(100, 10), sample(200, 30), sample(300, 20)];
        for (ns, expected) in
            [(99, None), (100, Some(10.0)), (150, Some(20.0)), (250, Some(25.0)), (301, None)]
        {
            assert_eq!(at(&samples, ns, |s| s.out_pages), expected, "{ns}");
        }
    }

    #[test]
    fn our_own_numbers_are_there() {
        let me = std::process::id();
        assert!(Sample::take(me, me).unwrap().tool_ns > 0);
    }
}
