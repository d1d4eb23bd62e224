//! The production core over simulated worlds: accuracy, faults, replay.
//!
//! Every test prints its seeds. `ISOTHERM_SEED=N` runs with another one.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "in a test")]

#[path = "../examples/frontier/score.rs"]
mod score;

use isotherm_core::{Attrs, Method, Snapshot};
use isotherm_sim::config::{Config, SHIPPED, shipped};
use isotherm_sim::world::{Faults, Options, Simulation};
use score::{Score, Scorer};

const METHODS: [Method; 2] = [Method::Resample, Method::FirstTouch];

fn seed() -> u64 {
    let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
    println!("ISOTHERM_SEED={seed}");
    seed
}

fn workload(name: &str) -> Config {
    Config::parse(&shipped(name).unwrap()).unwrap()
}

/// Runs to the end, checking at every window what must always hold.
fn run(config: &Config, options: &Options, attrs: Attrs, mut each: impl FnMut(&Snapshot)) {
    let mut simulation = Simulation::new(config, options, attrs).unwrap();
    let mut seq = None;
    while simulation.next_snapshot().is_some() {
        simulation.context().verify();
        let snapshot = simulation.context().snapshot();
        assert!(seq.is_none_or(|s: u64| s + 1 == snapshot.seq), "a window is missing");
        seq = Some(snapshot.seq);
        for region in snapshot.targets.iter().flat_map(|t| &t.regions) {
            let (nr, max) = (region.nr_accesses, snapshot.max_nr_accesses);
            assert!(nr <= max && region.lo >= 0.0 && region.lo <= region.hi, "{region:?}");
        }
        each(snapshot);
    }
}

fn score(name: &str, attrs: Attrs, seed: u64) -> Score {
    let config = workload(name);
    let options = Options { seed, ..Options::default() };
    let world = isotherm_sim::world::World::new(&config, &options);
    let truth = world.read_truth(name).unwrap();
    let mut scorer = Scorer::new(&truth, truth.process(1000).unwrap());
    run(&config, &options, attrs, |snapshot| {
        scorer.add(snapshot);
    });
    scorer.finish()
}

/// The bounds are loose. The accuracy job states the numbers; this test notices when something
/// breaks.
#[test]
fn accuracy() {
    // (workload, least precision, least recall, most error in counts of 20, most median delay in
    // ms)
    let cases = [
        ("stairs", 0.99, 0.99, 0.05, 500.0),
        ("hot10", 0.97, 0.97, 0.4, 0.0),
        ("phase-change", 0.95, 0.95, 1.0, 1000.0),
        // Most blocks lie near the limit of hot, so only the rate is tested.
        ("zipf", 0.0, 0.0, 0.6, 0.0),
    ];
    let seed = seed();
    for (name, precision, recall, error, delay_ms) in cases {
        for method in METHODS {
            let attrs = Attrs { method, ..Attrs::default() };
            let s = score(name, attrs, seed);
            println!("{name} {method:?} {s:?}");
            assert!(s.precision >= precision && s.recall >= recall, "{name} {method:?} {s:?}");
            assert!(s.error <= error, "{name} {method:?} {s:?}");
            // Where nothing changes there is no delay.
            let is_quick = s.delay_p50_ms.is_nan() || s.delay_p50_ms <= delay_ms;
            assert!(is_quick, "{name} {method:?} {s:?}");
            if method == Method::FirstTouch {
                let budget = f64::from(attrs.clears_per_sec);
                assert!(s.clears_per_s <= 1.2 * budget, "{name} {s:?}");
            }
        }
    }
}

fn snapshots(config: &Config, options: &Options, attrs: Attrs) -> Vec<Snapshot> {
    let mut all = Vec::new();
    run(config, options, attrs, |snapshot| all.push(snapshot.clone()));
    all
}

#[test]
fn a_seed_replays_a_run() {
    let faults: Faults = "late=0.1:3ms,fail=0.02,blind=0.05,notnow=0.2".parse().unwrap();
    let seed = seed();
    for name in ["mmap-churn", "fork-tree"] {
        for method in METHODS {
            let attrs = Attrs { method, ..Attrs::default() };
            let once = |seed| {
                let options =
                    Options { seed, faults, duration_ms: Some(8000), ..Options::default() };
                snapshots(&workload(name), &options, attrs)
            };
            let first = once(seed);
            assert!(first.len() >= 70, "{}", first.len());
            assert_eq!(first, once(seed), "{name} {method:?}: seed {seed} gave two runs");
            assert_ne!(first, once(seed + 1), "{name} {method:?}: the seed changes nothing");
        }
    }
}

#[test]
fn faults_never_break_anything() {
    let all = [
        "late=0.3:30ms",
        "late=1:1s",
        "fail=0.5",
        "fail=1",
        "blind=0.5",
        "blind=1",
        "notnow=0.7",
        "notnow=1",
        "vanish=0.5",
        "vanish=20",
        "late=0.2:10ms,fail=0.2,blind=0.2,notnow=0.3,vanish=0.2",
    ];
    let first = seed();
    for (name, _) in SHIPPED {
        for text in all {
            for method in METHODS {
                for seed in first..first + 2 {
                    println!("{name} {text} {method:?} seed {seed}");
                    let faults = text.parse().unwrap();
                    let options =
                        Options { seed, faults, duration_ms: Some(6000), ..Options::default() };
                    let attrs = Attrs { method, max_nr_regions: 100, ..Attrs::default() };
                    run(&workload(name), &options, attrs, |_| {});
                }
            }
        }
    }
}

/// Memory that cannot be looked at is reported as unknown, not as cold.
#[test]
fn blind_pages_are_unresolved() {
    let faults = Faults { blind: 1.0, ..Faults::default() };
    for method in METHODS {
        let options = Options { seed: seed(), faults, ..Options::default() };
        let attrs = Attrs { method, ..Attrs::default() };
        let mut unresolved = 0;
        run(&workload("hot10"), &options, attrs, |snapshot| {
            let regions = snapshot.targets.iter().flat_map(|t| &t.regions);
            unresolved += regions.filter(|r| !r.resolved && r.nr_accesses == 0).count();
            assert_eq!(snapshot.cost.clears, 0);
        });
        assert!(unresolved > 400, "{method:?}: {unresolved}");
    }
}

/// Targets come and go with the processes of a fork tree.
#[test]
fn targets_follow_the_fork_tree() {
    for method in METHODS {
        let mut seen = Vec::new();
        let attrs = Attrs { method, ..Attrs::default() };
        let options = Options { seed: seed(), ..Options::default() };
        run(&workload("fork-tree"), &options, attrs, |snapshot| {
            seen.push(snapshot.targets.iter().filter(|t| !t.regions.is_empty()).count());
        });
        // Forked 5 s apart; a window is 100 ms.
        for (window, targets) in [(40, 1), (95, 2), (145, 3), (200, 4), (390, 4)] {
            assert_eq!(seen[window], targets, "{method:?}: window {window}");
        }
    }
}

/// An hour at the default attributes. The time that it takes is printed, not judged.
#[test]
fn an_hour_passes_in_seconds() {
    let started = std::time::Instant::now();
    let options = Options { seed: seed(), duration_ms: Some(3_600_000), ..Options::default() };
    let (mut windows, mut regions, mut last) = (0_u64, 0, None);
    run(&workload("hot10"), &options, Attrs::default(), |snapshot| {
        windows += 1;
        regions += snapshot.nr_regions();
        last = Some(snapshot.working_set());
    });
    println!("{windows} windows, {regions} regions in {:?}", started.elapsed());
    assert_eq!(windows, 36_000);
    let (wss, hot) = (last.unwrap() as f64, f64::from(205 << 20));
    assert!((wss - hot).abs() < 0.1 * hot, "working set {wss}, hot {hot}");
}
