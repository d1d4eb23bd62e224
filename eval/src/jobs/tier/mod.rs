//! Job `tier`: whether `isotherm tier` keeps hot memory on the fast node.
//!
//! The workloads `tier` and `tier-scattered` have more memory than the fast node, 13 % of it hot,
//! and other 13 % in each phase: in a few stretches, or in pieces of 2 MiB. Where its pages are is
//! seen from outside (pagemap, a sample of 64 pages of every 2 MiB, every two seconds); how often
//! they are accessed is the truth's. The share of accesses that the fast node serves is held
//! against that of the best placement with as many pages on the fast node.
//! Both engines; only pages of the workload count.
//!
//! Needs two nodes (`lab/vm --numa2`); on a machine with one it says so and measures nothing.

mod leg;
mod study;

use isotherm_host::Roots;
use isotherm_host::nodes::{Facts, NodeFacts};
use serde_json::{Value, json};

use crate::cli::{failed, say};
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::requirement::{self, Requirement};
use leg::{ENGINES, Leg};

use study::Row;

pub(super) use leg::LAYOUTS;

const LEGS: &str = "raw/legs.json";

/// The job.
#[derive(Debug)]
pub(crate) struct Tier;

/// Two nodes with memory, the faster one first.
fn nodes() -> Option<[u32; 2]> {
    let facts = Facts::read(&Roots::default()).ok()?;
    let speed = |n: &NodeFacts| (n.tier, !n.has_cpu);
    let mut all: Vec<_> = facts.nodes.into_iter().filter(|n| n.has_memory).collect();
    all.sort_by_key(speed);
    let (fast, slow) = (all.first()?, all.last()?);
    (speed(fast) != speed(slow)).then_some([fast.node, slow.node])
}

impl Job for Tier {
    fn name(&self) -> &'static str {
        "tier"
    }

    fn about(&self) -> &'static str {
        "accesses served by the fast node against the best placement, goals held, pages moved twice"
    }

    fn sysreqs(&self, spec: &Spec) -> Vec<Requirement> {
        let found = nodes();
        vec![
            requirement::cpus(2),
            requirement::root(),
            requirement::subcommand(&spec.isotherm, "tier"),
            Requirement {
                what: "a fast and a slow memory node".into(),
                satisfied: found.is_some(),
                found: found.map_or_else(|| "one node".into(), |[f, s]| format!("{f} above {s}")),
            },
        ]
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let Some(nodes) = nodes() else {
            say("tier: no: one node");
            return bench.dir.write_json(LEGS, &Vec::<Leg>::new());
        };
        let mut legs = Vec::new();
        let layouts = LAYOUTS.into_iter().filter(|l| bench.spec.wants(l, &LAYOUTS));
        for (layout, engine) in layouts.flat_map(|l| ENGINES.map(|engine| (l, engine))) {
            if !bench.spec.wants(engine, &ENGINES) {
                continue;
            }
            say(&format!("tier: {layout}, {engine}"));
            let leg = leg::run(bench, layout, engine, nodes).unwrap_or_else(|e| {
                failed(&format!("tier: {layout}, {engine}: failed: {e:#}"));
                Leg {
                    engine: engine.into(),
                    layout: layout.into(),
                    failed: Some(format!("{e:#}")),
                    ..Leg::default()
                }
            });
            legs.push(leg);
            bench.dir.write_json(LEGS, &legs)?;
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let legs: Vec<Leg> = dir.read_json(LEGS)?;
        let rows: Vec<Row> = legs.iter().flat_map(study::rows).collect();
        Ok(json!({ "rows": rows }))
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result["rows"].clone())?;
        if rows.is_empty() {
            return Ok("no: one node\n".into());
        }
        Ok(study::format(&rows))
    }
}
