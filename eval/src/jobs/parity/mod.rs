//! Job `parity`: Isotherm's sets beside the kernel's own DAMON, on the same workloads with the same
//! attributes.
//!
//! A round runs every workload once per contestant, one after the other, and twice without any
//! monitor: the first of these is what the others are paired with, the second (`none`) is a
//! contestant like the others and shows the noise. All runs of a round have the same seed, for the
//! workload and for the monitor. One run gives accuracy against the truth, the target's accesses
//! per CPU-second, and what the monitor cost: CPU time of its process, and for `kdamond` that of
//! the kernel's thread, found as the `kdamond.N` that was not there before, beside that of our
//! process.
//!
//! The first 10 s after the accesses began are the start, and are scored separately. All sets are
//! scored by the same windows of the truth's clock: those that end in the start, and those that
//! begin after it (the steady state). CPU time is that of the steady state. Runs of less than 20 s
//! have a start of 1.5 s.
//!
//! A record with page maps (`census`) is scored by its pages, one without by its regions, whose
//! pages are all what their region is.
//!
//! In an emulated machine, a workload at full speed may touch a page hardly once per window. Then
//! everything is near the limit between hot and cold, and every score is poor. The scores away from
//! that limit (`clear`) are still valid.
//!
//! In guests where time goes by instructions (`lab/run --count`), a CPU's time is the instructions
//! that it executed. The host's load does not show, and nor do cache, TLB and the interrupts of
//! another CPU.
//!
//! The scattered workloads are measured if they are named (`--only scattered`).
//!
//! A set that the kernel does not have is a row that says so. `kdamond` is taken in the lab's VMs
//! only (`ISOTHERM_LAB=1`): elsewhere the kernel's DAMON may be in use.

mod goals;
mod one;
mod rows;

use std::path::Path;

use anyhow::bail;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::workloads;
use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::requirement::{self, Requirement};

/// What a contestant is called, its set, its method, and its budget if that is not the default.
/// `kdamond` does not sample itself: the kernel does, as `resample`. It has no budget, and in an
/// emulated machine its thread takes 1.7 to 3.5 % of a CPU. `CENSUS_OF_3` has as much.
const CONTESTANTS: [(&str, &str, &str, Option<&str>); 7] = [
    (NONE, "", "", None),
    (KDAMOND, "kdamond", "resample", None),
    ("pagewalk-resample", "pagewalk", "resample", None),
    (CENSUS, "pagewalk", "census", None),
    (CENSUS_OF_3, "pagewalk", "census", Some("3%")),
    (FIRST_TOUCH, "pagewalk", "first-touch", None),
    (IDLE, "idle", "resample", None),
];
/// The run that the others of a round are paired with, and the contestant that has no monitor
/// either.
const CONTROL: &str = "control";
const NONE: &str = "none";
const KDAMOND: &str = "kdamond";
const IDLE: &str = "idle";
const CENSUS: &str = "pagewalk-census";
const CENSUS_OF_3: &str = "pagewalk-census-3%";
const FIRST_TOUCH: &str = "pagewalk-first-touch";

/// The kernel's bitmap of idle pages, without which there is no set `idle`.
const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
/// The workloads that are for another job.
const NOT_HERE: [&str; 2] = super::tier::LAYOUTS;

/// What a smoke run takes, and how long its workloads take.
const QUICK: (&[&str], f64) = (&["hot10"], 3.0);
const ROUNDS: usize = 3;

/// The job.
#[derive(Debug)]
pub(crate) struct Parity;

/// One run; `raw/cases.json` lists them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Case {
    round: usize,
    workload: String,
    contestant: String,
    /// What the run gave; none if it failed.
    measured: Option<one::Measured>,
    /// Why it failed, or why it was not tried.
    failed: Option<String>,
}

impl Case {
    /// The seed of the workload's and the monitor's random choices, the same for all runs of a
    /// round.
    fn seed(&self) -> u64 {
        self.round as u64 + 1
    }

    fn file(&self, ending: &str) -> String {
        format!("{}-{}-{}.{ending}", self.workload, self.contestant, self.round)
    }
}

impl Job for Parity {
    fn name(&self) -> &'static str {
        "parity"
    }

    fn about(&self) -> &'static str {
        "kernel DAMON, pagewalk and idle on the same workloads: accuracy, CPU, slowdown of the target"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let mut all = vec![
            requirement::memory(workloads::memory_gib(spec, 3)),
            requirement::root(),
            requirement::quiet(),
            requirement::subcommand(&spec.isotherm, "score"),
        ];
        all.push(Requirement {
            what: "a VM of the lab, for the set kdamond".into(),
            satisfied: in_lab(),
            found: if in_lab() { "yes" } else { "no ISOTHERM_LAB=1" }.into(),
        });
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let spec = bench.spec;
        let mut shipped = workloads::shipped(&spec.isotherm)?;
        shipped.retain(|n| !NOT_HERE.contains(&n.as_str()));
        let usual =
            |name: &str| !workloads::is_scattered(name) && (!spec.quick || QUICK.0.contains(&name));
        let workloads = workloads::wanted(spec, &shipped, usual);
        let contestants = CONTESTANTS.map(|(name, ..)| name);
        let wanted = contestants.into_iter().filter(|c| spec.wants(c, &contestants));
        let order: Vec<&str> = std::iter::once(CONTROL).chain(wanted).collect();
        let rounds = spec.pairs.unwrap_or(if spec.quick { 1 } else { ROUNDS });
        let n = rounds * workloads.len() * order.len();
        let mut cases: Vec<Case> = Vec::new();
        for round in 0..rounds {
            for workload in &workloads {
                for contestant in &order {
                    say(&format!("parity: {}/{n} {workload} {contestant}", cases.len() + 1));
                    let mut case = Case {
                        round,
                        workload: workload.clone(),
                        contestant: (*contestant).into(),
                        measured: None,
                        failed: given_up(&cases, contestant),
                    };
                    if case.failed.is_none() {
                        match one::run(bench, &case) {
                            Ok(measured) => case.measured = Some(measured),
                            Err(e) => {
                                case.failed = Some(format!("{e:#}"));
                                failed(&format!("parity: {contestant}: failed"));
                            }
                        }
                    }
                    if isotherm_sys::signals::stop_requested().is_some() {
                        bail!("interrupted");
                    }
                    if let Some(why) = &case.failed {
                        say(&format!("parity: no: {}", rows::reason(why)));
                    }
                    cases.push(case);
                    bench.dir.write_json("raw/cases.json", &cases)?;
                }
            }
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        rows::study(dir)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        rows::format(result)
    }
}

/// Why not to try a contestant: it cannot be here, or all of its first runs failed.
fn given_up(cases: &[Case], contestant: &str) -> Option<String> {
    if contestant == KDAMOND && !in_lab() {
        return Some("only in the lab's VMs: here the kernel's DAMON may be in use".into());
    }
    if contestant == IDLE && !Path::new(BITMAP).exists() {
        return Some(format!("this kernel has no {BITMAP}"));
    }
    // One run may fail for reasons of its own.
    let mut tried = cases.iter().filter(|c| c.contestant == contestant);
    let first = [tried.next()?, tried.next()?, tried.next()?];
    if first.iter().all(|c| c.measured.is_none()) { first[0].failed.clone() } else { None }
}

fn in_lab() -> bool {
    std::env::var("ISOTHERM_LAB").is_ok_and(|v| v == "1")
}
