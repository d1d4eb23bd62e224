//! Census over simulated worlds: scattered memory, changes, memory that nobody touches.
//!
//! Every test prints its seed. `ISOTHERM_SEED=N` runs with another one.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "in a test")]

use std::fmt::Write as _;

use isotherm_core::{Attrs, Method, Snapshot};
use isotherm_sim::config::Config;
use isotherm_sim::world::{Options, Simulation};

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

fn seed() -> u64 {
    let seed = std::env::var("ISOTHERM_SEED").map_or(1, |s| s.parse().unwrap());
    println!("ISOTHERM_SEED={seed}");
    seed
}

/// `nr` blocks of `size` bytes in `total` bytes, scattered without a pattern.
fn blocks(total: u64, size: u64, nr: u64, salt: u64) -> Vec<u64> {
    let places = total / size;
    let mut all: Vec<u64> = (0..nr)
        .map(|i| (i * (places / nr) + (i * 7919 + salt * 104_729) % (places / nr)) * size)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// One mapping, with these blocks touched 200 times a second per page, phase by phase of `ms`.
fn config(total: u64, size: u64, ms: u64, phases: &[Vec<u64>]) -> Config {
    let mut text = format!("m, {total}\n");
    for (nr, phase) in phases.iter().enumerate() {
        write!(text, "\nphase{nr}\n{ms}\n").unwrap();
        for at in phase {
            writeln!(text, "m, 1, 64, 1, rw, offset={at}, length={size}, hz=500").unwrap();
        }
    }
    Config::parse(&text).unwrap()
}

/// Precision and recall of the bytes that a snapshot calls hot, from half of the largest count on.
fn score(snapshot: &Snapshot, start: u64, hot: &[u64], size: u64) -> (f64, f64) {
    let regions = snapshot.targets.iter().flat_map(|t| &t.regions);
    let found = regions.filter(|r| r.nr_accesses * 2 >= snapshot.max_nr_accesses);
    let (mut bytes, mut right) = (0, 0);
    for region in found {
        bytes += region.range.len();
        for at in hot {
            let block = isotherm_core::AddrRange::new(start + at, start + at + size);
            right += block.overlap(&region.range);
        }
    }
    let share = |a: u64, b: u64| if b == 0 { 1.0 } else { a as f64 / b as f64 };
    (share(right, bytes), share(right, hot.len() as u64 * size))
}

#[test]
fn scattered_blocks_are_found_within_seconds() {
    let seed = seed();
    // (size of a block, number)
    for (size, nr) in [(2 * MIB, 10), (256 * KIB, 40), (64 * KIB, 100)] {
        let total = 256 * MIB;
        let hot = blocks(total, size, nr, seed);
        let config = config(total, size, 6000, std::slice::from_ref(&hot));
        let attrs = Attrs { method: Method::Census, ..Attrs::default() };
        let options = Options { seed, ..Options::default() };
        let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
        let mut last = (0.0, 0.0);
        while simulation.next_snapshot().is_some() {
            simulation.context().verify();
            let snapshot = simulation.context().snapshot();
            let start = snapshot.targets[0].regions[0].range.start;
            last = score(snapshot, start, &hot, size);
            let s = (snapshot.end.0 / 100_000_000) as f64 / 10.0;
            println!("{} KiB {s} s: {last:?} {} regions", size / KIB, snapshot.nr_regions());
        }
        assert!(last.0 >= 0.95 && last.1 >= 0.95, "{size} bytes: {last:?}");
        let truth = (hot.len() as u64 * size) as f64;
        for touched in touched(simulation.context().snapshot()) {
            assert!((touched / truth - 1.0).abs() <= 0.05, "{touched} of {truth} bytes touched");
        }
    }
}

/// The bytes touched within a window and within a second, as its regions tell.
fn touched(snapshot: &Snapshot) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for region in snapshot.targets.iter().flat_map(|t| &t.regions) {
        let share = region.touched.unwrap();
        assert_eq!(share.leaf_shift, 12);
        for (sum, share) in sums.iter_mut().zip([share.window, share.second]) {
            *sum += f64::from(share.unwrap()) * region.range.len() as f64;
        }
    }
    sums
}

/// From one phase to the next, hot memory goes cold and other memory becomes hot: a few blocks, and
/// so many at once that the budget for changes is spent.
#[test]
fn changes_are_seen_soon() {
    let seed = seed();
    for (total, nr, most_ms) in [(128 * MIB, 8, 1000), (1024 * MIB, 50, 400)] {
        let size = 2 * MIB;
        let phases: Vec<_> = (0..3).map(|i| blocks(total, size, nr, seed + i)).collect();
        let config = config(total, size, 6000, &phases);
        let attrs = Attrs { method: Method::Census, ..Attrs::default() };
        let options = Options { seed, ..Options::default() };
        let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
        let mut seen_after = [u64::MAX; 3];
        while simulation.next_snapshot().is_some() {
            let snapshot = simulation.context().snapshot();
            let phase = usize::try_from(snapshot.end.0 / 6_000_000_000).unwrap().min(2);
            let start = snapshot.targets[0].regions[0].range.start;
            let (precision, recall) = score(snapshot, start, &phases[phase], size);
            if precision >= 0.95 && recall >= 0.95 {
                let ms = (snapshot.end.0 - phase as u64 * 6_000_000_000) / 1_000_000;
                seen_after[phase] = seen_after[phase].min(ms);
            }
        }
        println!("{nr} blocks in {} MiB: seen after {seen_after:?} ms", total / MIB);
        // The first phase has to be found before it can change.
        assert!(seen_after[0] <= 5000, "{seen_after:?}");
        assert!(seen_after[1..].iter().all(|ms| *ms <= most_ms), "{seen_after:?}");
    }
}

/// The age of memory that nobody touches grows with the time, and its units are left alone.
#[test]
fn idle_memory_grows_old_and_costs_nothing() {
    let seed = seed();
    let total = 64 * MIB;
    let config = config(total, 2 * MIB, 8000, &[vec![0]]);
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let options = Options { seed, ..Options::default() };
    let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
    let (mut windows, mut late_clears) = (0, 0);
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        windows += 1;
        if windows > 20 {
            late_clears += snapshot.cost.clears;
        }
        let last = snapshot.targets[0].regions.last().unwrap();
        let age = u64::from(last.age) * snapshot.aggr_us;
        assert!(last.nr_accesses == 0 && last.resolved, "{last:?}");
        assert!(
            age <= snapshot.end.0 / 1000 + snapshot.aggr_us,
            "older than its process: {last:?}"
        );
        if windows > 30 {
            assert!(age + 1_000_000 >= snapshot.end.0 / 1000, "{last:?} at {:?}", snapshot.end);
        }
    }
    // The one hot unit, armed again at most every 1.2 s, and its probes.
    assert!(late_clears < 60 * 60, "{late_clears} bits of idle memory were cleared");
}

/// Memory that is mapped while the monitor runs is watched from the next update on.
#[test]
fn new_mappings_are_found() {
    let seed = seed();
    let config = Config::parse(
        "m, 32M\nlate, 32M, mapped=64K\n\nfirst\n2000\nm, 1, 64, 1, rw, length=2M, hz=500\n\n\
         second\n4000, resize=late:32M\nlate, 1, 64, 1, rw, offset=8M, length=4M, hz=500\n",
    );
    let config = config.unwrap();
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let options = Options { seed, ..Options::default() };
    let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
    let mut hot = 0;
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        let regions = snapshot.targets.iter().flat_map(|t| &t.regions);
        let found = regions.filter(|r| r.nr_accesses * 2 >= snapshot.max_nr_accesses);
        hot = found.map(|r| r.range.len()).sum();
    }
    assert!((4 * MIB..=5 * MIB).contains(&hot), "{hot} bytes are hot");
}

/// What was touched within spans is right for memory that is hot all the time, and within its
/// interval for a pointer that goes over all of it again and again.
#[test]
fn working_sets_by_span_hold_the_truth() {
    let seed = seed();
    let scattered = blocks(256 * MIB, 256 * KIB, 40, seed);
    let sweep = "m, 64M\n\nsweep\n30000\nm, 0, 4096, 1, rw, rate=16384\n";
    // (name, config, expected MiB by span, error of the mean that is allowed)
    for (name, config, expected, allowed) in [
        ("scattered", config(256 * MIB, 256 * KIB, 30_000, &[scattered]), [10.0; 4], 0.02),
        ("sweep", Config::parse(sweep).unwrap(), [0.32, 6.4, 64.0, 64.0], 0.25),
    ] {
        let attrs = Attrs { method: Method::Census, ..Attrs::default() };
        let options = Options { seed, ..Options::default() };
        let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
        let (mut nr, mut held, mut sums) = (0.0, [0.0; 4], [0.0; 4]);
        while simulation.next_snapshot().is_some() {
            let snapshot = simulation.context().snapshot();
            let touched = snapshot.targets[0].touched.unwrap();
            // Every fourth turn leaves time for ten seconds.
            if snapshot.end.0 < 20_000_000_000 {
                continue;
            }
            nr += 1.0;
            for (span, mib) in expected.iter().enumerate() {
                let touched = touched.spans[span].unwrap();
                let [bytes, lo, hi] =
                    [touched.bytes, touched.lo, touched.hi].map(|b| b as f64 / MIB as f64);
                assert!(lo <= bytes && bytes <= hi && touched.measured > 0, "{touched:?}");
                sums[span] += bytes;
                // Blocks are measured exactly, up to what chance touches in a sample.
                held[span] += f64::from(lo <= mib * 1.01 && mib * 0.99 <= hi);
            }
        }
        for (span, mib) in expected.iter().enumerate() {
            let (mean, held) = (sums[span] / nr, held[span] / nr);
            println!("{name}, span {span}: {mean:.2} of {mib} MiB, held {held:.2}");
            // A page is touched within a sample of 5 ms with 92 % chance at 500 touches per second.
            let mib = if span == 0 && name == "scattered" { mib * 0.918 } else { *mib };
            assert!((mean - mib).abs() <= allowed * mib, "{name}, span {span}: {mean} of {mib}");
            assert!(held >= 0.8 || span == 0, "{name}, span {span}: held {held}");
        }
    }
}

/// A snapshot tells of the units that have changed, and of nothing twice.
#[test]
fn snapshots_tell_of_changed_units() {
    let seed = seed();
    let hot = blocks(64 * MIB, 2 * MIB, 4, seed);
    let config = config(64 * MIB, 2 * MIB, 5000, std::slice::from_ref(&hot));
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let options = Options { seed, ..Options::default() };
    let mut simulation = Simulation::new(&config, &options, attrs).unwrap();
    let mut map = std::collections::BTreeMap::new();
    let mut late = 0;
    while simulation.next_snapshot().is_some() {
        let snapshot = simulation.context().snapshot();
        let units = &snapshot.targets[0].units;
        assert!(units.windows(2).all(|pair| pair[0].start < pair[1].start));
        for unit in units {
            let old = map.insert(unit.start, *unit);
            assert_ne!(old, Some(*unit), "nothing has changed");
            late += u64::from(snapshot.end.0 > 4_000_000_000);
        }
    }
    let start = *map.keys().next().unwrap();
    for (at, unit) in &map {
        let is_hot = hot.contains(&(at - start));
        let count = unit.touched[1].map(|pages| pages.count());
        assert_eq!(count, Some(if is_hot { 512 } else { 0 }), "{at:x}");
    }
    assert_eq!(map.len(), 32);
    assert!(late < 40, "{late} units in the last second, though nothing changes");
}
