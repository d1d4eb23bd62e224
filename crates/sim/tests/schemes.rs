//! Schemes over census in a simulated world: what they match without evidence of their own.
//!
//! Every test prints its seed. `ISOTHERM_SEED=N` runs with another one.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "in a test")]

use isotherm_core::scheme::{Action, Pattern};
use isotherm_core::{Attrs, Method, Scheme};
use isotherm_sim::config::Config;
use isotherm_sim::world::{Options, Simulation};

/// Bytes that a scheme for memory without any access for 3 s was tried on, in each second; and the
/// least share of the bytes that regions without a sample had in the last windows.
fn tried(text: &str, seed: u64) -> (Vec<u64>, f64) {
    println!("ISOTHERM_SEED={seed}");
    let config = Config::parse(text).unwrap();
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let options = Options { seed, ..Options::default() };
    let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
    let pattern = Pattern::idle_for_us(3_000_000);
    simulation.commit_schemes([Scheme { pattern, action: Action::Stat, ..Scheme::default() }]);
    let (mut seconds, mut before, mut without) = (Vec::new(), 0, 1.0_f64);
    while let Some(snapshot) = simulation.next_snapshot() {
        let second = usize::try_from(snapshot.end.0 / 1_000_000_000).unwrap();
        if second >= 15 {
            let regions = &snapshot.targets[0].regions;
            let all: u64 = regions.iter().map(|r| r.range.len()).sum();
            let quiet = regions.iter().filter(|r| r.nr_accesses == 0).map(|r| r.range.len());
            without = without.min(quiet.sum::<u64>() as f64 / all as f64);
        }
        let sum = simulation.context().schemes().first().map_or(0, |s| s.stats().sz_tried);
        seconds.resize(second + 1, 0);
        seconds[second] += sum - before;
        before = sum;
    }
    println!("{seconds:?}, {without:.2} without a sample");
    (seconds, without)
}

fn seed() -> u64 {
    std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap())
}

/// A pointer goes over all of it in 1 to 3 s, so a sample of 5 ms sees next to nothing.
#[test]
fn memory_that_is_gone_over_does_not_match_no_access_at_all() {
    for hz in [1.0, 0.35] {
        let text = format!("m, 64M\n\nsteady\n20000\nm, 0, 4096, 1, rw, hz={hz}\n");
        for seed in seed()..seed() + 4 {
            let (tried, without) = tried(&text, seed);
            assert!(without > 0.5, "the count of most of it is 0: {without}");
            let late: u64 = tried[8..].iter().sum();
            assert!(late < 12 << 20, "{hz}: {late} bytes in 12 s");
        }
    }
}

#[test]
fn memory_that_nobody_touches_does() {
    let fill = "m, 64M\n\nfill\n1000\nm, 0, 4096, 1, rw\n\nrest\n19000\n";
    let (tried, _) = tried(fill, seed());
    assert!(tried[18] > 9 * (60 << 20), "all of it in each window: {tried:?}");
}
