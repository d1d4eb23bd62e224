//! Measures what one sampling tick costs the core: 1000 regions, a tenth of them hot, steady state.
//!
//! `cargo run --release -p isotherm-core --example tick_cost` prints, per method, the median and
//! the 99th percentile over all ticks, and the same for the ticks that end a window, which merge,
//! age, split and plan, and for the mean over a window, which is what the CPU share follows from;
//! and how many ticks a window takes, for each is a wake-up. The oracle's answers are part of it;
//! they cost about 1 ns per page.
#![expect(clippy::print_stdout, reason = "a measurement for people to read")]

use std::time::Instant;

use isotherm_core::{Attrs, Method};

#[path = "../tests/steady/mod.rs"]
mod steady;

const WARM_UP: usize = 2000;
/// Windows.
const MEASURED: usize = 500;

fn main() {
    println!(
        "us            regions      tick: p50     p99   window's end: p50     p99   mean: p50   ticks per window"
    );
    for method in [Method::Resample, Method::FirstTouch] {
        let attrs = Attrs { method, ..Attrs::default() };
        let mut steady = steady::Steady::new(attrs, true, Vec::new());
        for _ in 0..WARM_UP {
            steady.tick();
        }
        // `first_touch` sleeps through samples, so a window has no fixed number of ticks.
        let (mut costs, mut ends, mut means) = (Vec::new(), Vec::new(), Vec::new());
        let (mut window, mut ticks) = (Vec::new(), Vec::new());
        while ends.len() < MEASURED {
            let before = Instant::now();
            let ended = steady.tick();
            let cost = before.elapsed().as_secs_f64() * 1e6;
            costs.push(cost);
            window.push(cost);
            if ended {
                ends.push(cost);
                means.push(mean(&window));
                ticks.push(count(window.len()));
                window.clear();
            }
        }
        let name = format!("{method:?}");
        println!(
            "{name:<12}  {:>7}      {:>9.1} {:>7.1}   {:>17.1} {:>7.1}   {:>9.1}   {:>16.1}",
            steady.nr_regions(),
            percentile(&costs, 50),
            percentile(&costs, 99),
            percentile(&ends, 50),
            percentile(&ends, 99),
            percentile(&means, 50),
            mean(&ticks),
        );
    }
}

/// The mean.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values.len())
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
const fn count(n: usize) -> f64 {
    n as f64
}

/// The `p`th percentile, by the nearest rank.
fn percentile(values: &[f64], p: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[(sorted.len() * p / 100).min(sorted.len() - 1)]
}
