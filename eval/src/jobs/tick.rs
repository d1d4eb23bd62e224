//! Job `tick`: what a sampling tick costs the core at 1000 regions in steady state.
//!
//! The world is that of the core's own measurement (`crates/core/tests/steady`): 1000 areas, each
//! tenth always hot; its answers are part of the cost, about 1 ns per page.
//!
//! If there is a C compiler, the job also measures what `resample` costs in relation to the
//! reference's algorithm in the reference's data structures (`crates/core/examples/kernel_cost`),
//! in paired rounds.

use std::time::Instant;

use isotherm_core::{Attrs, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::requirement::{self, Requirement};
use crate::stats::{Middle, percentile, to_f64};
use crate::table::{Table, number};

#[path = "../../../crates/core/tests/steady/mod.rs"]
mod steady;
#[path = "../../../crates/core/examples/kernel_cost/versus.rs"]
mod versus;

/// Ticks per window with the default attributes.
const WINDOW: usize = 20;
/// Windows until everything has its size.
const WARM_UP: usize = 100;
/// Windows per round.
const ROUND: usize = 50;

/// Where the comparison with the reference is; not there if there was no C compiler.
const VERSUS: &str = "raw/reference.json";

/// The job.
#[derive(Debug)]
pub(crate) struct Tick;

/// `raw/METHOD.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Raw {
    method: String,
    regions: usize,
    /// Per round, the cost of each tick in ns.
    rounds: Vec<Vec<u64>>,
    /// Per round, the cost of each tick that ended a window in ns. Empty in results from before it
    /// was kept.
    #[serde(default)]
    ends: Vec<Vec<u64>>,
    /// Allocations of one more round.
    allocations: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    method: String,
    regions: usize,
    /// Over rounds, of the median, the 99th percentile, and the mean tick of the round, in us.
    median_us: Option<Middle>,
    p99_us: Option<Middle>,
    mean_us: Option<Middle>,
    /// Median of the ticks that end a window: they merge, split and plan.
    window_end_us: Option<Middle>,
    allocations: u64,
}

/// One world in [`VERSUS`].
#[derive(Debug, Serialize, Deserialize)]
struct Versus {
    world: String,
    regions: usize,
    /// Per pair of rounds, median ns of a tick and of one that ends a window: ours, the
    /// reference's.
    pairs: Vec<(versus::Cost, versus::Cost)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Ratio {
    world: String,
    regions: usize,
    /// Over pairs, ours to the reference's: of a tick, and of one that ends a window.
    tick: Option<Middle>,
    window_end: Option<Middle>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Study {
    methods: Vec<Row>,
    /// Nothing if there was no C compiler.
    reference: Option<Vec<Ratio>>,
}

impl Job for Tick {
    fn name(&self) -> &'static str {
        "tick"
    }

    fn about(&self) -> &'static str {
        "time and allocations of a sampling tick of the core at 1000 regions"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        vec![requirement::quiet()]
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let rounds = if bench.spec.quick { 6 } else { 40 };
        for method in [Method::FirstTouch, Method::Resample] {
            say(&format!("tick: {method:?}"));
            let attrs = Attrs { method, ..Attrs::default() };
            let mut world = steady::Steady::new(attrs, true, Vec::new());
            for _ in 0..WARM_UP * WINDOW {
                world.tick();
            }
            let mut raw = Raw {
                method: format!("{method:?}"),
                regions: world.nr_regions(),
                rounds: Vec::new(),
                ends: Vec::new(),
                allocations: 0,
            };
            for _ in 0..rounds {
                let ticks: Vec<(u64, bool)> =
                    (0..ROUND * WINDOW).map(|_| cost_ns(&mut world)).collect();
                raw.ends.push(ticks.iter().filter(|(_, end)| *end).map(|(ns, _)| *ns).collect());
                raw.rounds.push(ticks.into_iter().map(|(ns, _)| ns).collect());
            }
            let counted = allocation_counter::measure(|| {
                for _ in 0..ROUND * WINDOW {
                    world.tick();
                }
            });
            raw.allocations = counted.count_total;
            bench.dir.write_text(&raw_name(method), &serde_json::to_string(&raw)?)?;
        }
        say("tick: the reference's algorithm");
        if let Some(program) = versus::compile()? {
            let pairs = if bench.spec.quick { 4 } else { 24 };
            let cells =
                versus::measure(&program, pairs).map_err(|e| anyhow::anyhow!(e.to_string()))?;
            let of = |c: versus::Cell| Versus {
                world: c.world.to_owned(),
                regions: c.nr_regions,
                pairs: c.pairs,
            };
            let raw: Vec<Versus> = cells.into_iter().map(of).collect();
            bench.dir.write_text(VERSUS, &serde_json::to_string(&raw)?)?;
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let mut rows = Vec::new();
        for method in [Method::FirstTouch, Method::Resample] {
            let raw: Raw = dir.read_json(&raw_name(method))?;
            let over = |rounds: &[Vec<u64>], f: &dyn Fn(&[f64]) -> Option<f64>| {
                let each = rounds.iter().filter_map(|round| {
                    f(&round.iter().map(|ns| to_f64(*ns) / 1e3).collect::<Vec<_>>())
                });
                Middle::of(&each.collect::<Vec<_>>())
            };
            rows.push(Row {
                median_us: over(&raw.rounds, &|us| percentile(us, 0.5)),
                p99_us: over(&raw.rounds, &|us| percentile(us, 0.99)),
                mean_us: over(&raw.rounds, &|us| {
                    Some(us.iter().sum::<f64>() / to_f64(us.len() as u64))
                }),
                window_end_us: over(&raw.ends, &|us| percentile(us, 0.5)),
                method: raw.method,
                regions: raw.regions,
                allocations: raw.allocations,
            });
        }
        let reference = dir.read_json::<Vec<Versus>>(VERSUS).ok().map(ratios);
        Ok(serde_json::to_value(Study { methods: rows, reference })?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let Study { methods: rows, reference } = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "method",
            "regions",
            "median us",
            "95 %",
            "mean us",
            "p99 us",
            "window's end us",
            "allocations",
        ]);
        for r in rows {
            let median = |m: Option<Middle>| number(m.map(|m| m.median), 1);
            table.row([
                r.method,
                r.regions.to_string(),
                median(r.median_us),
                super::overhead::interval(r.median_us, 1.0, 1),
                median(r.mean_us),
                median(r.p99_us),
                median(r.window_end_us),
                r.allocations.to_string(),
            ]);
        }
        let versus = versus_text(reference);
        Ok(table.text() + "\nGoals: <= 50 us per tick, no allocation.\n\n" + &versus)
    }
}

/// The medians of the paired ratios.
fn ratios(worlds: Vec<Versus>) -> Vec<Ratio> {
    let of = |pairs: &[(versus::Cost, versus::Cost)], f: fn(&versus::Cost) -> f64| {
        Middle::of(&pairs.iter().map(|(own, theirs)| f(own) / f(theirs)).collect::<Vec<_>>())
    };
    let ratio = |w: Versus| Ratio {
        tick: of(&w.pairs, |cost| cost.0),
        window_end: of(&w.pairs, |cost| cost.1),
        world: w.world,
        regions: w.regions,
    };
    worlds.into_iter().map(ratio).collect()
}

fn versus_text(reference: Option<Vec<Ratio>>) -> String {
    let Some(ratios) = reference else {
        return "resample / the reference's algorithm in C: skipped: no C compiler\n".to_owned();
    };
    let mut table = Table::new(["world", "regions", "tick", "95 %", "window's end", "95 %"]);
    for r in ratios {
        table.row([
            r.world,
            r.regions.to_string(),
            number(r.tick.map(|m| m.median), 2),
            super::overhead::interval(r.tick, 1.0, 2),
            number(r.window_end.map(|m| m.median), 2),
            super::overhead::interval(r.window_end, 1.0, 2),
        ]);
    }
    format!("resample / the reference's algorithm in C\n{}\nGoal: <= 1.2.\n", table.text())
}

fn raw_name(method: Method) -> String {
    format!("raw/{method:?}.json")
}

/// What a tick took, and whether it ended a window. `first_touch` sleeps through samples, so a
/// window has no fixed number of ticks.
fn cost_ns(world: &mut steady::Steady) -> (u64, bool) {
    let before = Instant::now();
    let ended = world.tick();
    (u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX), ended)
}
