//! Real programs under a load: what the jobs `reclaim` and `thp` run Isotherm on.
//!
//! A [`Program`] is begun in a private directory ([`Place`]) with its data loaded, is then put
//! under load for some seconds, once or several times, and says how much it did. It has memory that
//! is cold while the load runs, and a hot part. Servers listen on a Unix socket in that directory
//! only. Whatever was started ends when the [`Running`] is dropped.

mod compiler;
mod jvm;
mod numpy;
mod place;
mod postgres;
mod redis;
mod resp;
mod talk;
mod zipf;

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

pub(crate) use place::Place;

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// How long a load phase takes; a program with a fixed amount of work takes about so long
    /// without Isotherm.
    pub(crate) seconds: f64,
    /// A small one, for a smoke run.
    pub(crate) quick: bool,
}

impl Size {
    /// `full`, or an eighth of it for a smoke run.
    pub(crate) const fn scaled(&self, full: u64) -> u64 {
        if self.quick { full / 8 } else { full }
    }
}

/// What a load phase did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Outcome {
    /// Units of work per second; the inverse of the runtime where the work is fixed.
    pub(crate) per_second: f64,
    /// Units of work in all.
    pub(crate) work: Option<f64>,
    /// Median and 99th percentile of an operation's latency, where there are operations.
    pub(crate) p50_us: Option<f64>,
    /// See there.
    pub(crate) p99_us: Option<f64>,
}

/// A program that can be measured.
pub(crate) trait Program: std::fmt::Debug {
    /// Its name on the command line and in tables.
    fn name(&self) -> &'static str;
    /// What it does, in a line.
    fn about(&self) -> &'static str;
    /// What is not installed, with its Debian package.
    fn missing(&self) -> Option<String>;
    /// Starts it and loads its data.
    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>>;
}

/// A started program.
pub(crate) trait Running: std::fmt::Debug {
    /// The processes at the roots of its trees.
    fn roots(&self) -> Vec<u32>;
    /// Whether there can be more than one load phase; else each needs a new start.
    fn lasts(&self) -> bool;
    /// A load phase.
    fn load(&mut self, seconds: f64) -> anyhow::Result<Outcome>;
}

/// All programs of the job `reclaim`.
pub(crate) fn all() -> Vec<Box<dyn Program>> {
    vec![
        Box::new(redis::Redis),
        Box::new(postgres::Postgres),
        Box::new(jvm::Jvm),
        Box::new(numpy::Numpy::PHASES),
        Box::new(compiler::Compiler),
    ]
}

/// Those that only the job `thp` runs: what huge pages are for, and what they waste.
pub(crate) fn for_huge_pages() -> Vec<Box<dyn Program>> {
    vec![Box::new(numpy::Numpy::GATHER), Box::new(numpy::Numpy::SPARSE)]
}

/// The first of `programs` that is neither a path that exists nor found in `PATH`.
fn not_installed(programs: &[&str], package: &str) -> Option<String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = std::env::split_paths(&paths).collect();
    let there = |p: &&&str| dirs.iter().any(|d| d.join(p).is_file()) || Path::new(p).is_file();
    let lost = programs.iter().find(|p| !there(p))?;
    Some(format!("no {lost}: apt-get install {package}"))
}

/// Runs a command to its end; what it says on standard output.
fn output(command: &mut Command) -> anyhow::Result<String> {
    use anyhow::Context;
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    anyhow::ensure!(done.status.success(), "{command:?}: {}: {}", done.status, text(&done.stderr));
    Ok(text(&done.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_program_is_named_with_its_package() {
        assert_eq!(not_installed(&["sh", "/bin/sh"], "dash"), None);
        let lost = not_installed(&["sh", "no-such-program"], "nothing");
        assert_eq!(lost.as_deref(), Some("no no-such-program: apt-get install nothing"));
    }
}
