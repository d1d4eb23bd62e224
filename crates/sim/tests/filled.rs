//! Census over memory that is filled first and used after that, or used more from some time on.
//!
//! Every test prints its seed. `ISOTHERM_SEED=N` runs with another one.

use isotherm_core::{Attrs, Method};
use isotherm_sim::config::Config;
use isotherm_sim::world::{Faults, Options, Simulation};

/// All is measured while nothing is used yet, and the budget is spent by that. In each unit a few
/// pages are used from then on, so no unit has changed by much.
#[test]
fn what_few_pages_of_each_unit_tell_is_measured_soon() {
    const MIB: f64 = 1_048_576.0;
    let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
    println!("ISOTHERM_SEED={seed}");
    let config = Config::parse(
        "m, 1G\n\nfilled\n2500\nm, 0, 4096, 1, rw, hz=0.001\n\nused\n9500\nm, 1, 64, 1, rw, \
         pieces=4K, share=3, hz=200\n",
    );
    let attrs = Attrs { method: Method::Census, budget_bp: 30, ..Attrs::default() };
    let faults = Faults { slow_ns: 100_000, ..Faults::default() };
    let options = Options { seed, faults, ..Options::default() };
    let mut simulation = Simulation::new(&config.unwrap(), &options, attrs).unwrap();
    // Of all used pages, those that are touched within 5 ms and within 0.1 s.
    let used = 1024.0 * 0.03;
    let truth = [1.0_f64, 20.0].map(|touches| used * (1.0 - (-touches).exp()));
    let (mut sums, mut nr_held, mut nr) = ([0.0; 2], [0; 2], 0);
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        if snapshot.end.0 < 7_000_000_000 {
            continue;
        }
        nr += 1;
        let spans = snapshot.targets[0].touched.unwrap().spans;
        for (span, truth) in truth.iter().enumerate() {
            let bytes = spans[span].unwrap();
            sums[span] += bytes.bytes as f64 / MIB / truth;
            let is_held = bytes.lo as f64 / MIB <= *truth && *truth <= bytes.hi as f64 / MIB;
            nr_held[span] += i32::from(is_held);
        }
    }
    let means = sums.map(|sum| sum / f64::from(nr));
    println!("within 5 ms and 0.1 s: {means:?} of the truth; {nr_held:?} of {nr} bars hold it");
    assert!(means.iter().all(|mean| (mean - 1.0).abs() <= 0.15), "{means:?}");
    assert!(nr_held.iter().all(|held| held * 10 >= nr * 8), "{nr_held:?} of {nr}");
}

/// All pages are touched now and then, and of some units all pages five times a second, at random.
/// That their pages are touched after the first sample is no news, so such units are not made old
/// for it, and the budget is left for turns. When more units begin to be used like that, it is told
/// within seconds.
#[test]
fn more_that_is_used_at_random_is_measured_soon() {
    const MIB: f64 = 1_048_576.0;
    let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
    println!("ISOTHERM_SEED={seed}");
    let phase = |name: &str, ms: u32, share: u32| {
        format!(
            "{name}\n{ms}\nm, 1, 64, 1, rw, hz=0.002\nm, 1, 64, 1, rw, pieces=2M, share={share}, \
             hz=5\n\n"
        )
    };
    let text = format!("m, 1G\n\n{}{}", phase("small", 12_000, 5), phase("large", 11_000, 13));
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let options = Options { seed, ..Options::default() };
    let mut simulation = Simulation::new(&Config::parse(&text).unwrap(), &options, attrs).unwrap();
    let used = |seconds: f64| {
        let share = |hz: f64| 1.0 - (-hz * seconds).exp();
        1024.0 * (0.13 * share(5.002) + 0.87 * share(0.002))
    };
    let truth = [0.005, 0.1, 1.0].map(used);
    let (mut sums, mut nr) = ([0.0; 3], 0);
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        if snapshot.end.0 < 18_000_000_000 {
            continue;
        }
        nr += 1;
        let spans = snapshot.targets[0].touched.unwrap().spans;
        for (span, truth) in truth.iter().enumerate() {
            sums[span] += spans[span].unwrap().bytes as f64 / MIB / truth;
        }
    }
    let means = sums.map(|sum| sum / f64::from(nr));
    println!("within 5 ms, 0.1 s and 1 s: {means:?} of the truth");
    assert!(means.iter().all(|mean| (mean - 1.0).abs() <= 0.1), "{means:?}");
}
