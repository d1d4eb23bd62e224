//! A workload under way, and how much it did.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_core::Time;
use isotherm_sim::truth::{Header, Line};
use isotherm_sys::clock;

use crate::processes::child::{Child, sleep_until};
use crate::stats::to_f64;

/// Time to map and fill the memory; 16 GiB on a busy machine take a while.
const PATIENCE_US: u64 = 180_000_000;

/// A running `isotherm workload`.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The process.
    pub(crate) child: Child,
    truth: PathBuf,
}

impl Workload {
    /// Starts it, and waits until its memory is there and its accesses begin.
    pub(crate) fn start(isotherm: &Path, args: &[&str], truth: &Path) -> anyhow::Result<Self> {
        let truth_arg = truth.to_str().context("a path that is no text")?;
        let args = ["workload", "-q", "--truth", truth_arg].into_iter().chain(args.iter().copied());
        let mut command = Command::new(isotherm);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        Self::spawn(command, truth)
    }

    /// The same by a command that writes `truth`.
    pub(crate) fn spawn(command: Command, truth: &Path) -> anyhow::Result<Self> {
        let child = Child::spawn(command, &truth.with_extension("workload-log"))?;
        let mut workload = Self { child, truth: truth.to_owned() };
        let deadline = clock::now().plus_us(PATIENCE_US);
        while !workload.has_begun() {
            workload.child.still_runs()?;
            anyhow::ensure!(clock::now() < deadline, "the workload did not begin in time");
            sleep_until(clock::now().plus_us(2_000))?;
        }
        Ok(workload)
    }

    fn has_begun(&self) -> bool {
        // Short until then: a header, extents, an edge.
        fs::read_to_string(&self.truth).is_ok_and(|t| t.contains("{\"t\":\"phase\""))
    }
}

/// When the accesses of a truth begin, in ns of the monotonic clock.
pub(crate) fn start_of(truth: &Path) -> anyhow::Result<u64> {
    Ok(header_of(truth)?.start_ns)
}

fn header_of(truth: &Path) -> anyhow::Result<Header> {
    let text = fs::read_to_string(truth).with_context(|| format!("read {}", truth.display()))?;
    let first = text.lines().next().context("an empty truth")?;
    let Line::Header(header) = serde_json::from_str(first)? else {
        anyhow::bail!("a truth without header: {}", truth.display())
    };
    Ok(header)
}

/// How many accesses a workload had executed by when, all processes and patterns together.
#[derive(Debug, PartialEq)]
pub(crate) struct Progress {
    start_ns: u64,
    slot_ns: u64,
    /// Accesses in the slots before the k-th.
    before: Vec<u64>,
}

impl Progress {
    /// From a truth file.
    pub(crate) fn read(truth: &Path) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string(truth).with_context(|| format!("read {}", truth.display()))?;
        Self::parse(&text).with_context(|| format!("understand {}", truth.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let (mut start_ns, mut slot_ns, mut slots) = (0, 1, Vec::<u64>::new());
        for line in text.lines() {
            match serde_json::from_str(line)? {
                Line::Header(h) => (start_ns, slot_ns) = (h.start_ns, h.slot_ns.max(1)),
                Line::Slot { k, c, .. } => {
                    let k = usize::try_from(k)?;
                    slots.resize(slots.len().max(k + 1), 0);
                    slots[k] += c.iter().map(|(_, _, n)| n).sum::<u64>();
                }
                _ => {}
            }
        }
        let mut before = vec![0];
        for n in slots {
            before.push(before.last().copied().unwrap_or(0) + n);
        }
        Ok(Self { start_ns, slot_ns, before })
    }

    /// Accesses until `ns`, evenly spread within a slot; `None` outside of what is known.
    pub(crate) fn until(&self, ns: u64) -> Option<f64> {
        let since = ns.checked_sub(self.start_ns)?;
        let k = usize::try_from(since / self.slot_ns).ok()?;
        let (before, after) = (*self.before.get(k)?, *self.before.get(k + 1)?);
        let share = to_f64(since % self.slot_ns) / to_f64(self.slot_ns);
        Some(to_f64(before) + share * to_f64(after - before))
    }

    /// The next border between two slots that is not before `now`: there `until` is exact.
    pub(crate) fn border(truth: &Path, now: Time) -> anyhow::Result<Time> {
        let h = header_of(truth)?;
        let slots = now.as_ns().saturating_sub(h.start_ns).div_ceil(h.slot_ns.max(1));
        Ok(Time(h.start_ns + slots * h.slot_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"t":"header","version":1,"config":"x","seed":1,"page_size":4096,"slot_ns":100,"start_ns":1000,"regions":[],"phases":[]}
{"t":"phase","p":0,"i":0,"ns":1000}
{"t":"slot","p":0,"k":0,"c":[[0,0,10],[0,1,30]]}
{"t":"slot","p":1,"k":2,"c":[[0,0,4]]}
{"t":"slot","p":0,"k":2,"c":[[0,0,4]]}
{"t":"end","p":0,"ns":1300}"#;

    #[test]
    fn accesses_are_counted_up_to_a_time() {
        let p = Progress::parse(TEXT).unwrap();
        for (ns, expected) in [
            (999, None),
            (1000, Some(0.0)),
            (1025, Some(10.0)),
            (1100, Some(40.0)),
            (1199, Some(40.0)),
            (1250, Some(44.0)),
            (1300, None),
        ] {
            assert_eq!(p.until(ns), expected, "{ns}");
        }
    }

    #[test]
    fn a_torn_truth_is_told() {
        assert!(Progress::parse(&TEXT[..TEXT.len() - 3]).is_err());
    }
}
