//! Job `quota`: whether `isotherm run` keeps its quotas, and reaches the goals that they are tuned
//! for.
//!
//! `size`, `time`: what is done in a quota window, by Isotherm's own events and account, and from
//! outside (swap of the target; CPU time of the tool beyond that of a control that monitors and
//! matches nothing). `regions`: the same with more than 10,000 regions. `input`, `psi`: closed
//! loops. `deciding`: the core alone.

mod case;
mod deciding;
mod events;
mod gauge;
mod goals;
mod limits;
mod plant;
mod study;

use serde_json::{Value, json};

use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::requirement::{self, Requirement};
use case::{CASES, Case};
use deciding::Cost;
use goals::Aim;
use limits::Limit;
use study::Row;

/// Of the swap device, uncompressed.
const SWAP_BYTES: u64 = 4 << 30;
const COSTS: &str = "raw/deciding.json";

/// Names of the parts.
mod part {
    pub(super) const SIZE: &str = "size";
    pub(super) const TIME: &str = "time";
    pub(super) const REGIONS: &str = "regions";
    pub(super) const INPUT: &str = "input";
    pub(super) const PSI: &str = "psi";
    pub(super) const DECIDING: &str = "deciding";
}

/// The job.
#[derive(Debug)]
pub(crate) struct Quota;

impl Job for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn about(&self) -> &'static str {
        "size and time quotas kept, goals reached and held on a real plant, 10,000 regions, deciding"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let mut all = requirement::measuring(8);
        all.push(requirement::subcommand(&spec.isotherm, "run"));
        all.push(pressure());
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let quick = bench.spec.quick;
        let mut cases = Vec::new();
        for limit in Limit::all(quick) {
            one(bench, &mut cases, limit.part(), limit.name(), |f, c| limit.run(bench, f, c))?;
        }
        for aim in Aim::all(quick) {
            if aim.part() == part::PSI && !pressure().satisfied {
                say("quota: psi is left out: the kernel does not tell");
                continue;
            }
            one(bench, &mut cases, aim.part(), aim.name(), |f, c| aim.run(bench, f, c))?;
        }
        let only = &bench.spec.only;
        if only.is_empty() || only.iter().any(|o| o == part::DECIDING) {
            let mut costs: Vec<Cost> = Vec::new();
            for i in 0..bench.spec.pairs.unwrap_or(if quick { 3 } else { 20 }) {
                say(&format!("quota: deciding: {}", i + 1));
                costs.extend(deciding::measure()?);
            }
            bench.dir.write_json(COSTS, &costs)?;
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let mut rows = Vec::new();
        if dir.path().join(CASES).exists() {
            let cases: Vec<Case> = dir.read_json(CASES)?;
            rows.extend(cases.iter().flat_map(study::case));
        }
        if dir.path().join(COSTS).exists() {
            let costs: Vec<Cost> = dir.read_json(COSTS)?;
            rows.extend(study::costs(&costs));
        }
        Ok(json!({ "rows": rows }))
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result["rows"].clone())?;
        Ok(study::format(&rows))
    }
}

/// Runs a case if it, or its part, is wanted. One that fails is kept as failed.
fn one(
    bench: &Bench<'_>,
    cases: &mut Vec<Case>,
    part: &str,
    name: &str,
    run: impl FnOnce(&str, &mut Case) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let only = &bench.spec.only;
    if !only.is_empty() && !only.iter().any(|o| o == part || o == name) {
        return Ok(());
    }
    say(&format!("quota: {part}: {name}"));
    let mut case = Case { part: part.into(), name: name.into(), ..Case::default() };
    let done = run(&format!("{part}{}", cases.len()), &mut case);
    if isotherm_sys::signals::stop_requested().is_some() {
        return done;
    }
    if let Err(e) = done {
        failed(&format!("quota: {part}: {name}: failed: {e:#}"));
        case.failed = Some(format!("{e:#}"));
    }
    cases.push(case);
    let text = serde_json::to_string(cases)?;
    bench.dir.write_text(CASES, &text)
}

fn pressure() -> Requirement {
    let found = gauge::psi_us();
    Requirement {
        what: "pressure stall information (/proc/pressure/memory)".into(),
        satisfied: found.is_ok(),
        found: found.map_or_else(|e| format!("{e:#}"), |us| format!("total {us} us")),
    }
}
