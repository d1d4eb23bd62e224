//! Others clear accessed bits, too: what they hide is inside the bars.
//!
//! Every test prints its seed. `ISOTHERM_SEED=N` runs with another one.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "in a test")]

use isotherm_core::{Attrs, Check, Clock, Method, Operations, PageState, SPANS, TargetId, Time};
use isotherm_sim::config::Config;
use isotherm_sim::world::{Costs, Faults, Options, Simulation, World};

const MIB: u64 = 1 << 20;
const BASE: u64 = 0x2000_0000_0000;
const S: u64 = 1_000_000_000;

fn seed() -> u64 {
    let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
    println!("ISOTHERM_SEED={seed}");
    seed
}

/// One mapping of which each page is touched `hz` times a second, at random times.
fn evenly(mib: u64, seconds: u64, hz: f64, thp: &str) -> Config {
    let ms = seconds * 1000;
    let text = format!("m, {mib}M{thp}\n\np\n{ms}\nm, 1, 64, 1, rw, hz={hz}\n");
    Config::parse(&text).unwrap()
}

#[test]
fn bits_are_cleared_at_the_rate_asked_for() {
    let seed = seed();
    for (thp, pages, size) in [("", 4096, 4096), (", thp=on", 8, 2 * MIB)] {
        let config = evenly(16, 1000, 1e-7, thp);
        // A tenth of the bits is cleared in 10 s.
        let clear = 0.01 * 4096.0 / size as f64;
        let faults = Faults { clear, ..Faults::default() };
        let mut world = World::new(&config, &Options { seed, faults, ..Options::default() });
        let mut clock = world.clock();
        let mut batch: Vec<_> =
            (0..pages).map(|nr| Check::new(TargetId(0), BASE + nr * size, 0)).collect();
        let (mut cleared, mut of) = (0, 0);
        for nr in 1..90 {
            clock.sleep_until(Time(nr * 10 * S));
            let before: Vec<_> = batch.iter().map(|check| check.state).collect();
            world.check(&mut batch);
            for (before, check) in before.iter().zip(&batch) {
                of += u64::from(*before == PageState::Young);
                cleared += u64::from((*before, check.state) == (PageState::Young, PageState::Old));
            }
        }
        println!("{cleared} of {of}{thp}");
        let share = cleared as f64 / of as f64;
        assert!(of > 20 && (share - 0.095).abs() < 0.01 + 0.5 / (of as f64).sqrt(), "{share}");
    }
}

/// How often the working sets of one run were inside their bars, by span.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    held: [f64; SPANS],
    of: [f64; SPANS],
    /// Sums of the estimates and of the upper ends, as parts of the truth.
    mean: [f64; SPANS],
    hi: [f64; SPANS],
}

impl Held {
    fn share(&self, spans: std::ops::Range<usize>) -> f64 {
        let sum = |of: &[f64]| of[spans.clone()].iter().sum::<f64>();
        sum(&self.held) / sum(&self.of)
    }
}

/// Runs census for 800 s over 128 MiB of which each page is touched once in 100 s on average, while
/// others clear bits at this rate. Looks have little budget, so that they are as far apart as in a
/// target of many GiB.
fn run(clear: f64, seed: u64, sum: &mut Held) -> f64 {
    let hz = 0.01;
    let faults = Faults { clear, ..Faults::default() };
    let costs = Costs { check_ns: 10_000, clear_ns: 10_000 };
    let options = Options { seed, faults, costs, ..Options::default() };
    let (method, sample_us, aggr_us) = (Method::Census, 50_000, 1_000_000);
    let attrs = Attrs { method, sample_us, aggr_us, budget_bp: 80, ..Attrs::default() };
    let config = evenly(128, 800, hz, "");
    let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        if !snapshot.seq.is_multiple_of(20) {
            continue;
        }
        let touched = snapshot.touched().unwrap();
        for (nr, us) in snapshot.spans_us().into_iter().enumerate() {
            let measured = touched.spans[nr].filter(|span| span.measured * 2 > touched.watched);
            let Some(span) = measured else { continue };
            let truth = -(-hz * us as f64 / 1e6).exp_m1() * touched.watched as f64;
            sum.of[nr] += 1.0;
            sum.held[nr] += f64::from(span.lo as f64 <= truth && truth <= span.hi as f64);
            sum.mean[nr] += span.bytes as f64 / truth;
            sum.hi[nr] += span.hi as f64 / truth;
        }
    }
    simulation.context_mut().hidden()
}

#[test]
fn what_others_hide_is_inside_the_bars() {
    let seed = seed();
    // (clears per page and second, the share that this hides in a minute at most)
    for (clear, least, most) in [(1e-3, 0.005, 0.02), (1e-2, 0.05, 0.15)] {
        let (mut sum, mut hidden) = (Held::default(), 0.0);
        for nr in 0..3 {
            hidden = run(clear, seed * 100 + nr, &mut sum);
        }
        for nr in 0..SPANS {
            let (held, of) = (sum.share(nr..nr + 1), sum.of[nr]);
            let [mean, hi] = [sum.mean[nr] / of, sum.hi[nr] / of];
            println!(
                "clear {clear}, span {nr}: held {held:.2} of {of}, mean {mean:.4}, hi {hi:.4}"
            );
        }
        println!("clear {clear}: hidden {hidden:.4}");
        assert!((least..most).contains(&hidden), "{hidden}");
        // In the longest spans the looks are so far apart that it matters. Minutes overlap, so
        // their cases are a few dozen: 0.78 to 1.00 with four seeds, and 0.46 without widening.
        for (spans, least) in [(0..SPANS, 0.85), (3..4, 0.85), (4..5, 0.7)] {
            let held = sum.share(spans.clone());
            assert!(held >= least, "clear {clear}, spans {spans:?}: held {held:.2}");
        }
    }
}
