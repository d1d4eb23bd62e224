//! Census over simulated memory that is gone over again and again: the working set of a short span
//! follows from longer ones, and how often a region is touched from more than one sample.
//!
//! Every test prints its seed. `ISOTHERM_SEED=N` runs with another one.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "in a test")]

use isotherm_core::{Attrs, Method};
use isotherm_sim::config::Config;
use isotherm_sim::world::{Faults, Options, Simulation};

const MIB: f64 = 1_048_576.0;
/// Places of a window of 0.1 s and of a second among the spans.
const SPANS: [(usize, f64); 2] = [(1, 0.1), (2, 1.0)];

fn seed() -> u64 {
    let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
    println!("ISOTHERM_SEED={seed}");
    seed
}

/// The median error of the working set within each span, as a share of the truth, and the share of
/// the windows in which the interval holds the truth; from 10 s on.
fn judged(text: &str, seed: u64, truth: impl Fn(f64) -> f64) -> [(f64, f64); 2] {
    let config = Config::parse(text).unwrap();
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let options = Options { seed, ..Options::default() };
    let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
    let mut errors = [Vec::new(), Vec::new()];
    let mut nr_held = [0.0; 2];
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        let touched = snapshot.targets[0].touched.filter(|_| snapshot.end.0 >= 10_000_000_000);
        for (nr, (span, seconds)) in SPANS.into_iter().enumerate() {
            let Some(bytes) = touched.and_then(|touched| touched.spans[span]) else { continue };
            let truth = truth(seconds);
            errors[nr].push((bytes.bytes as f64 / MIB / truth - 1.0).abs());
            // The truth is a mean over the time in which a page is gone over.
            let held =
                bytes.lo as f64 / MIB <= truth * 1.01 && truth * 0.99 <= bytes.hi as f64 / MIB;
            nr_held[nr] += f64::from(u8::from(held));
        }
    }
    std::array::from_fn(|nr| {
        errors[nr].sort_unstable_by(f64::total_cmp);
        (errors[nr][errors[nr].len() / 2], nr_held[nr] / errors[nr].len() as f64)
    })
}

/// A pointer goes over 256 MiB in `1 / hz` s. The periods are not those of the points that are
/// counted.
#[test]
fn the_working_set_of_a_short_span_is_known_where_memory_is_gone_over() {
    let seed = seed();
    for hz in [2.2, 0.9, 0.28] {
        let text = format!("m, 256M\n\nsteady\n40000\nm, 0, 4096, 1, rw, hz={hz}\n");
        let judged = judged(&text, seed, |seconds| 256.0 * (hz * seconds).min(1.0));
        println!("{hz} times a second: {judged:?}");
        for (error, held) in judged {
            assert!(error <= 0.15 && held >= 0.75, "{hz}: {judged:?}");
        }
    }
}

/// The same beside memory that is in use all the time.
#[test]
fn hot_memory_does_not_hide_what_passes_by() {
    let seed = seed();
    let text =
        "m, 256M\nh, 64M\n\nsteady\n40000\nm, 0, 4096, 1, rw, hz=0.4\nh, 1, 64, 1, rw, hz=2000\n";
    let judged = judged(text, seed, |seconds| 64.0 + 256.0 * 0.4 * seconds);
    println!("{judged:?}");
    for (error, held) in judged {
        assert!(error <= 0.15 && held >= 0.75, "{judged:?}");
    }
}

/// How often the first mapping is touched by the regions of each window from `from` seconds on, as
/// a share of samples: the mean over its bytes and windows, and the mean error of a byte. Last, the
/// share of it that is touched within a sample.
fn rates(text: &str, seed: u64, truth: f64, from: u64) -> (f64, f64, f64) {
    rates_of(text, &Options { seed, ..Options::default() }, truth, from)
}

/// The same in a world with these options.
fn rates_of(text: &str, options: &Options, truth: f64, from: u64) -> (f64, f64, f64) {
    let config = Config::parse(text).unwrap();
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let mut simulation = Simulation::new(&config, options, attrs).unwrap();
    let end = config.bases()[0] + config.regions[0].size;
    let (mut sum, mut error, mut bytes, mut at_once) = (0.0, 0.0, 0.0, 0.0);
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        let max = f64::from(snapshot.max_nr_accesses);
        let is_late = snapshot.end.0 >= from * 1_000_000_000;
        for region in snapshot.targets[0].regions.iter().filter(|r| is_late && r.range.start < end)
        {
            let (rate, len) = (f64::from(region.nr_accesses) / max, region.range.len() as f64);
            sum += rate * len;
            error += (rate - truth).abs() * len;
            bytes += len;
        }
        let touched = snapshot.targets[0].touched.filter(|_| is_late);
        at_once += touched.and_then(|touched| touched.spans[0]).map_or(0.0, |t| t.bytes as f64);
    }
    (sum / bytes, error / bytes, at_once / bytes)
}

/// A pointer goes over 40 MiB many times a second, so a sample sees all of a unit or nothing.
#[test]
fn how_often_memory_is_gone_over_is_no_matter_of_one_sample() {
    let seed = seed();
    for hz in [71.3, 38.7, 14.3] {
        let text = format!("m, 40M\n\nsteady\n30000\nm, 0, 4096, 1, rw, hz={hz}\n");
        let truth = hz * 0.005;
        let (mean, error, at_once) = rates(&text, seed, truth, 5);
        println!("{hz}/s: {truth:.3}, measured {mean:.3}, error {error:.3}, set {at_once:.3}");
        assert!(at_once <= truth * 1.6 && at_once * 1.6 >= truth, "{hz}: {at_once} of {truth}");
        assert!(mean <= truth * 1.6 && mean * 1.6 >= truth, "{hz}: {mean} of {truth}");
        assert!(error <= truth * 0.6, "{hz}: {error} of {truth}");
    }
}

/// What the first looks have found of a burst stands for few seconds only, also beside memory that
/// wants its turn.
#[test]
fn a_burst_is_not_called_hot_until_its_next_turn() {
    let seed = seed();
    let text = "m, 64M\nidle, 64M\n\nsteady\n12000\nm, 0, 4096, 1, rw, hz=43\n";
    let truth = 43.0 * 0.005;
    let (mean, error, at_once) = rates(text, seed, truth, 4);
    println!("{truth:.3}, measured {mean:.3}, error {error:.3}, set {at_once:.3}");
    assert!(error <= truth * 0.6, "{error} of {truth}");
}

/// Where pages are touched at random in most samples, some cells are touched all over by chance,
/// and a page is missed by chance. That is no burst.
#[test]
fn what_is_touched_at_random_is_no_burst() {
    let seed = seed();
    let text = "m, 192M\n\nsteady\n12000\nm, 1, 64, 1, rw, hz=400\n";
    let truth = 1.0 - (-400.0 * 0.005_f64).exp();
    let (mean, error, _) = rates(text, seed, truth, 4);
    println!("{truth:.3}, measured {mean:.3}, error {error:.3}");
    assert!(error <= 0.022, "{error} of {truth}");
}

/// Some cells are not touched in a sample by chance. They are no bursts either, so nothing is added
/// to what the sample has found.
#[test]
fn what_a_sample_finds_of_pages_touched_at_random_is_what_is_touched() {
    let seed = seed();
    for hz in [20.0, 40.0, 80.0, 200.0] {
        let text = format!("m, 128M\nidle, 128M\n\nsteady\n15000\nm, 1, 64, 1, rw, hz={hz}\n");
        let truth = 1.0 - (-hz * 0.005_f64).exp();
        let (mean, error, at_once) = rates(&text, seed, truth, 5);
        println!("{hz}/s: {truth:.3}, measured {mean:.3}, error {error:.3}, set {at_once:.4}");
        assert!((at_once / truth - 1.0).abs() <= 0.04, "{hz}: {at_once} of {truth}");
    }
}

/// To make 16 MiB old takes a fifth of a sample and more on a slow machine. The first looks wait
/// for the rest of the sample, and not for the end of the next one.
#[test]
fn what_a_sample_finds_is_the_same_where_it_takes_long_to_make_memory_old() {
    let seed = seed();
    let text = "m, 128M\nidle, 128M\n\nsteady\n15000\nm, 1, 64, 1, rw, hz=20\n";
    let truth = 1.0 - (-20.0 * 0.005_f64).exp();
    for slow_us in [50, 100, 200] {
        let faults = Faults { slow_ns: slow_us * 1000, ..Faults::default() };
        let options = Options { seed, faults, ..Options::default() };
        let (.., at_once) = rates_of(text, &options, truth, 5);
        println!("{slow_us} us for 2 MiB: {truth:.4}, measured {at_once:.4}");
        assert!((at_once / truth - 1.0).abs() <= 0.04, "{slow_us}: {at_once} of {truth}");
    }
}
