//! Real programs under a load: what jobs run Isotherm on. [`all`] are those of the jobs `reclaim`,
//! `plan` and `thp`, [`suite`] is every program that there is.
//!
//! A [`Program`] is begun in a private directory ([`Place`]) with its data loaded, is then put
//! under load for some seconds, once or several times, and says how much it did. It has memory that
//! is cold while the load runs, and a hot part. Servers listen on a Unix socket in that directory
//! only. Whatever was started ends when the [`Running`] is dropped.
//!
//! Each program comes by a Debian package; one that is not installed says which. Its input is
//! generated and the same each time. Answers are checked: a wrong one is a failed run.
//!
//! ```text
//! servers/   take requests from outside, or have their load inside, for as long as they are told
//! scripts/   Python: a table of programs, and their sources
//! batch/     a command with a fixed amount of work, that ends with it
//! clients/   what loads the servers
//! ```

mod batch;
mod clients;
mod installed;
mod place;
mod scripts;
mod servers;

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
    /// Whether what the load made is right, where that takes longer than the load should; called
    /// after it, when nothing is measured.
    fn check(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The programs of the jobs `reclaim`, `plan` and `thp`.
pub(crate) fn all() -> Vec<Box<dyn Program>> {
    vec![
        Box::new(servers::Redis),
        Box::new(servers::Postgres::LOOKUPS),
        Box::new(servers::Jvm),
        Box::new(scripts::NUMPY),
        Box::new(batch::Compiler),
    ]
}

/// Those that only the job `thp` runs: what huge pages are for, and what they waste.
pub(crate) fn for_huge_pages() -> Vec<Box<dyn Program>> {
    vec![Box::new(scripts::GATHER), Box::new(scripts::SPARSE), Box::new(scripts::SWEEPER)]
}

/// All programs that stand for what users run.
pub(crate) fn suite() -> Vec<Box<dyn Program>> {
    let mut suite = all();
    suite.extend::<Vec<Box<dyn Program>>>(vec![
        Box::new(servers::Memcached),
        Box::new(servers::Postgres::SCANS),
        Box::new(servers::Nginx),
        Box::new(servers::Go),
        Box::new(servers::Node),
        Box::new(scripts::SQLITE),
        Box::new(scripts::PANDAS),
        Box::new(scripts::GRAPH),
        Box::new(batch::Ffmpeg),
        Box::new(batch::Hpcc),
        Box::new(batch::Zstd),
        Box::new(batch::Povray),
    ]);
    suite
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let all: Vec<_> = suite().into_iter().chain(for_huge_pages()).collect();
        let names: BTreeSet<&str> = all.iter().map(|p| p.name()).collect();
        assert_eq!(names.len(), all.len());
        assert!(suite().len() >= 14, "{names:?}");
        assert!(all.iter().all(|p| !p.about().is_empty()));
    }

    #[test]
    fn what_is_missing_comes_by_a_package() {
        for program in suite() {
            let Some(missing) = program.missing() else { continue };
            let (what, package) = missing.split_once(": apt-get install ").unwrap();
            assert!(what.starts_with("no ") && !package.is_empty(), "{missing}");
        }
    }
}
