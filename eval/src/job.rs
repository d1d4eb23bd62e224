//! What a job is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dir::ResultDir;
use crate::jobs;
use crate::requirement::Requirement;

/// What was asked for; `spec.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Name of the job.
    pub(crate) job: String,
    /// A smoke run.
    pub(crate) quick: bool,
    /// Only these of the things that the job measures; all if empty.
    pub(crate) only: Vec<String>,
    /// How many runs of each kind, instead of the job's own number.
    #[serde(default)]
    pub(crate) pairs: Option<usize>,
    /// How long a run takes, instead of the job's own time.
    #[serde(default)]
    pub(crate) seconds: Option<f64>,
    /// The binary under test.
    pub(crate) isotherm: PathBuf,
}

impl Spec {
    /// One that tests use.
    #[cfg(test)]
    pub(crate) fn of_test(job: &str) -> Self {
        let job = job.to_owned();
        Self {
            job,
            quick: true,
            only: Vec::new(),
            pairs: None,
            seconds: None,
            isotherm: PathBuf::new(),
        }
    }

    /// Whether `name` is to be measured. `all` are the names of its kind. If `only` names none of
    /// them, all are measured.
    pub(crate) fn wants(&self, name: &str, all: &[&str]) -> bool {
        let limited = self.only.iter().any(|o| all.contains(&o.as_str()));
        !limited || self.only.iter().any(|o| o == name)
    }
}

/// What `run` gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bench<'a> {
    /// What was asked for.
    pub(crate) spec: &'a Spec,
    /// Where raw files go.
    pub(crate) dir: &'a ResultDir,
}

/// An evaluation job.
pub(crate) trait Job {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it measures, in a line.
    fn about(&self) -> &'static str;
    /// What the machine should have. A missed requirement is recorded and shown; the job still
    /// runs.
    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement>;
    /// Measures, and writes raw files.
    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()>;
    /// Makes the result from raw files alone.
    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value>;
    /// Makes text from a result.
    fn format(&self, result: &Value) -> anyhow::Result<String>;
    /// Whether `run` leaves out what the directory has already.
    fn resumes(&self) -> bool {
        false
    }
}

/// All jobs.
pub(crate) fn all() -> Vec<Box<dyn Job>> {
    vec![
        Box::new(jobs::accuracy::Accuracy),
        Box::new(jobs::overhead::Overhead),
        Box::new(jobs::parity::Parity),
        Box::new(jobs::scale::Scale),
        Box::new(jobs::stalls::Stalls),
        Box::new(jobs::tick::Tick),
        Box::new(jobs::record_size::RecordSize),
        Box::new(jobs::frontier::Frontier),
        Box::new(jobs::huge::Huge),
        Box::new(jobs::pressure::Pressure),
        Box::new(jobs::programs::Programs),
        Box::new(jobs::reclaim::Reclaim),
        Box::new(jobs::plan::Plan),
        Box::new(jobs::tune::Tune),
        Box::new(jobs::thp::Thp),
        Box::new(jobs::published::Published),
        Box::new(jobs::quota::Quota),
        Box::new(jobs::idle::Idle),
        Box::new(jobs::tier::Tier),
        Box::new(jobs::top::Top),
        Box::new(jobs::cgroups::ManyCgroups),
        Box::new(jobs::compat::Compat),
        Box::new(jobs::agent::Agent),
        Box::new(jobs::agent::soak::Soak),
    ]
}

/// The job of this name.
pub(crate) fn by_name(name: &str) -> anyhow::Result<Box<dyn Job>> {
    let names: Vec<_> = all().iter().map(|j| j.name()).collect();
    let found = all().into_iter().find(|j| j.name() == name);
    found.ok_or_else(|| anyhow::anyhow!("no job `{name}`\n  hint:  jobs are {}", names.join(", ")))
}
