//! Census with the intervals of `isotherm top`, samples of 100 ms and windows of 1 s; and with a
//! monitor that needs much of its budget for itself.
//!
//! Every test prints its seed. `ISOTHERM_SEED=N` runs with another one.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "in a test")]

use isotherm_core::{Attrs, Method, Snapshot};
use isotherm_sim::config::Config;
use isotherm_sim::world::{Costs, Options, Simulation};

/// Runs `text` with this budget, and hands every snapshot to `f`.
fn run(text: &str, budget_bp: u32, costs: Costs, mut f: impl FnMut(&Snapshot)) {
    let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
    println!("ISOTHERM_SEED={seed}");
    let attrs = Attrs {
        sample_us: 100_000,
        aggr_us: 1_000_000,
        update_us: 10_000_000,
        budget_bp,
        method: Method::Census,
        ..Attrs::default()
    };
    let options = Options { seed, costs, ..Options::default() };
    let mut simulation = Simulation::new(&Config::parse(text).unwrap(), &options, attrs).unwrap();
    while simulation.next_snapshot().is_some() {
        f(simulation.context().snapshot());
    }
}

/// 64 processes of 32 MiB have 1024 units. Eight of them per sample would take 13 s.
#[test]
fn all_memory_of_many_processes_is_seen_within_seconds() {
    let text = "@processes=64\n@fork_ms=1\nm, 32M\n\np\n8000\nm, 1, 64, 1, rw, hz=50\n";
    let costs = Costs { check_ns: 50, clear_ns: 20_000 };
    let mut last = (0, 0, 0);
    run(text, 100, costs, |snapshot| {
        let touched = || snapshot.targets.iter().filter_map(|target| target.touched);
        let seconds = || touched().filter_map(|touched| touched.spans[2]);
        last = (
            touched().map(|touched| touched.watched).sum::<u64>() >> 20,
            seconds().map(|second| second.measured).sum::<u64>() >> 20,
            seconds().map(|second| second.bytes).sum::<u64>() >> 20,
        );
        println!("{:.1} s: {last:?} MiB", snapshot.end.0 as f64 / 1e9);
    });
    assert_eq!(last, (2048, 2048, 2048), "watched, measured, touched within a second");
}

/// Whatever the monitor itself takes, it counts against the budget. What is left is a quarter, so
/// all memory still has its turns.
#[test]
fn a_monitor_that_needs_its_budget_for_itself_makes_less_memory_old() {
    let text = "m, 256M\n\nhot\n20000\nm, 1, 64, 1, rw, hz=0.01\n\
                m, 1, 64, 1, rw, pieces=2M, share=10, hz=5\n";
    let made_old = |busy: &str| {
        let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
        println!("ISOTHERM_SEED={seed}");
        let costs = Costs { check_ns: 50, clear_ns: 20_000 };
        let options = Options { seed, costs, faults: busy.parse().unwrap(), ..Options::default() };
        let attrs = Attrs { method: Method::Census, budget_bp: 50, ..Attrs::default() };
        let config = Config::parse(text).unwrap();
        let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
        let mut last = None;
        while let Some(snapshot) = simulation.next_snapshot() {
            last = snapshot.targets[0].touched;
        }
        let measured = last.unwrap().spans[2].unwrap().measured >> 20;
        (simulation.world().counts().clears, measured)
    };
    let (idle, busy) = (made_old("busy=1us"), made_old("busy=300us"));
    println!("pages made old, MiB measured: {idle:?}; {busy:?}");
    assert!(busy.0 * 4 < idle.0 * 3, "{idle:?} {busy:?}");
    assert_eq!((idle.1, busy.1), (256, 256));
}

/// Memory that is used at random: 5 % of it, then 13 %. Turns are rare, and nothing else shows it.
/// Cross-sections show how much is used at one moment, and what the next turns find says what all
/// the others are off by.
#[test]
fn that_more_is_used_at_random_is_in_the_bars_before_all_units_had_a_turn() {
    let phase = |name, share| {
        format!(
            "\n{name}\n20000\nm, 1, 64, 1, rw, hz=0.002\nm, 1, 64, 1, rw, pieces=2M, share={share}, hz=5\n"
        )
    };
    let text = format!("m, 1G\n{}{}", phase("small", 5), phase("large", 13));
    let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
    println!("ISOTHERM_SEED={seed}");
    let costs = Costs { check_ns: 50, clear_ns: 20_000 };
    let faults = "busy=350us,slow=90us".parse().unwrap();
    let options = Options { seed, costs, faults, ..Options::default() };
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let config = Config::parse(&text).unwrap();
    let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
    // Of what is used at random five times a second, and of the rest, by span.
    let within = |seconds: f64, hz: f64| 1.0 - (-hz * seconds).exp();
    let truth = |seconds| {
        f64::from(1 << 30) * (0.13 * within(seconds, 5.0) + 0.87 * within(seconds, 0.002))
    };
    let spans = [(1, 0.1), (2, 1.0), (3, 10.0)];
    let (mut held, mut all) = ([0; 3], 0);
    while let Some(snapshot) = simulation.next_snapshot() {
        // Ten seconds after the change, and two more.
        let Some(touched) = snapshot.targets[0].touched else { continue };
        if snapshot.end.0 <= 32_000_000_000 {
            continue;
        }
        all += 1;
        for (held, (span, seconds)) in held.iter_mut().zip(spans) {
            let told = touched.spans[span].unwrap();
            let (lo, hi) = (told.lo as f64, told.hi as f64);
            *held += u32::from((lo..=hi).contains(&truth(seconds)));
        }
    }
    assert!(all >= 60 && held.iter().all(|held| held * 100 >= all * 85), "{held:?} of {all}");
}
