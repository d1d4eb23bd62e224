//! One file per job, and what several of them share.

pub(crate) mod accuracy;
pub(crate) mod agent;
pub(crate) mod cgroups;
pub(crate) mod compat;
pub(crate) mod example;
pub(crate) mod frontier;
pub(crate) mod huge;
pub(crate) mod idle;
pub(crate) mod overhead;
pub(crate) mod parity;
pub(crate) mod plan;
pub(crate) mod pressure;
pub(crate) mod programs;
pub(crate) mod published;
pub(crate) mod quota;
pub(crate) mod reclaim;
pub(crate) mod record_size;
pub(crate) mod scale;
pub(crate) mod stalls;
pub(crate) mod thp;
pub(crate) mod tick;
pub(crate) mod tier;
pub(crate) mod top;
pub(crate) mod tune;
mod workloads;

use std::process::Command;

use anyhow::{Context, bail};

/// Sampling methods as `isotherm record --method` spells them.
const METHODS: [&str; 3] = ["first-touch", CENSUS, "resample"];
/// The one with a budget.
const CENSUS: &str = "census";

/// What a command prints, if it succeeds.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    if !done.status.success() {
        bail!("{command:?}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    String::from_utf8(done.stdout).context("an answer that is no text")
}
