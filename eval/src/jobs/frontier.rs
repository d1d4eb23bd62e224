//! Job `frontier`: error against clears per second of both methods, in simulation.
//!
//! The measuring is the simulation crate's example `frontier`, for it needs nothing of this machine.

use serde_json::{Value, json};

use super::example;
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::requirement::{self, Requirement};

const PACKAGE: &str = "isotherm-sim";
const EXAMPLE: &str = "frontier";
const RAW: &str = "raw/frontier.txt";

/// The job.
#[derive(Debug)]
pub(crate) struct Frontier;

impl Job for Frontier {
    fn name(&self) -> &'static str {
        "frontier"
    }

    fn about(&self) -> &'static str {
        "error against clears per second of both methods, in simulation"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        vec![requirement::example(PACKAGE, EXAMPLE)]
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        say("frontier: build and simulate");
        let args: &[&str] = if bench.spec.quick { &["--quick"] } else { &[] };
        bench.dir.write_text(RAW, &example::run(PACKAGE, EXAMPLE, args)?)
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let text = std::fs::read_to_string(dir.path().join(RAW))?;
        Ok(json!({ "table": text }))
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        Ok(result["table"].as_str().unwrap_or_default().to_owned())
    }
}
