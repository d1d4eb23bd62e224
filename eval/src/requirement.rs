//! What a job wants from the machine, and whether it is there.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::readings::procfs;

/// One requirement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Requirement {
    /// What is wanted.
    pub(crate) what: String,
    /// Whether it was there when the job began.
    pub(crate) satisfied: bool,
    /// What was there instead, or as well.
    pub(crate) found: String,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (found: {})", self.what, self.found)
    }
}

/// At least this many CPUs: target and monitor want one each.
pub(crate) fn cpus(wanted: usize) -> Requirement {
    let found = std::thread::available_parallelism().map_or(1, usize::from);
    Requirement {
        what: format!("at least {wanted} CPUs"),
        satisfied: found >= wanted,
        found: found.to_string(),
    }
}

/// At least this much memory available.
pub(crate) fn memory(gib: u64) -> Requirement {
    let found = procfs::available_bytes().unwrap_or(0);
    Requirement {
        what: format!("{gib} GiB of available memory"),
        satisfied: found >= gib << 30,
        found: format!("{} MiB", found >> 20),
    }
}

/// Nobody else at work: at least one CPU idle on average.
pub(crate) fn quiet() -> Requirement {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let load = procfs::load_average().unwrap_or(f64::NAN);
    let limit = f64::from(u32::try_from(cpus).unwrap_or(u32::MAX)) / 2.0;
    Requirement {
        what: format!("a quiet machine (load at most {limit})"),
        satisfied: load <= limit,
        found: format!("load {load}"),
    }
}

/// What every job wants that measures a monitor beside its target: two CPUs, so much memory, root
/// and nobody else at work.
pub(crate) fn measuring(gib: u64) -> Vec<Requirement> {
    vec![cpus(2), memory(gib), root(), quiet()]
}

/// Privileges of the operations set `pagewalk`, as `root` has them.
pub(crate) fn root() -> Requirement {
    let root = rustix::process::geteuid().is_root();
    Requirement {
        what: "root, for the operations set pagewalk".into(),
        satisfied: root,
        found: format!("uid {}", rustix::process::geteuid().as_raw()),
    }
}

/// A subcommand of the binary under test.
pub(crate) fn subcommand(isotherm: &std::path::Path, name: &str) -> Requirement {
    let done = std::process::Command::new(isotherm).args([name, "--help"]).output();
    let satisfied = done.as_ref().is_ok_and(|o| o.status.success());
    Requirement {
        what: format!("`isotherm {name}` in the binary under test"),
        satisfied,
        found: if satisfied { "yes" } else { "no" }.into(),
    }
}

/// A program that a job puts under load.
pub(crate) fn program(program: &dyn crate::programs::Program) -> Requirement {
    let missing = program.missing();
    Requirement {
        what: format!("{} ({})", program.name(), program.about()),
        satisfied: missing.is_none(),
        found: missing.unwrap_or_else(|| "yes".into()),
    }
}

/// Cargo and the sources, for jobs that run an example of another crate.
pub(crate) fn example(package: &str, example: &str) -> Requirement {
    let there = crate::jobs::example::source(package, example);
    Requirement {
        what: format!("the sources, with example {example} of {package}"),
        satisfied: there.is_ok(),
        found: there.map_or_else(|e| e.to_string(), |p| p.display().to_string()),
    }
}
