//! Census over memory that is filled first and used after that.
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
