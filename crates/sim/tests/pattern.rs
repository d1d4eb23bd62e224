//! Sources draw where the plan says, and count what they draw.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use isotherm_sim::config::Config;
use isotherm_sim::pattern::{Batch, LINE, Plan, Source, plans};

fn plan(pattern: &str) -> Plan {
    let config = Config::parse(&format!("m, 64M\n\np\n1000\n{pattern}\n")).unwrap();
    plans(&config).remove(0).remove(0)
}

/// The bytes of a batch, one access at a time.
fn bytes(batch: &Batch<'_>) -> Vec<u64> {
    match *batch {
        Batch::Lines(lines) => lines.iter().map(|l| u64::from(*l) * LINE).collect(),
        Batch::Sweep { start, touches, stride, first, n } => {
            (0..n).map(|k| start + (first + k) % touches * stride).collect()
        }
    }
}

/// The cells that `byte` lies in: several, if sets of pieces have pieces in common.
fn cells_of(plan: &Plan, byte: u64) -> Vec<u32> {
    let cells = &plan.cells;
    let nr = (byte - cells.offset) / cells.pitch;
    let (start, end) = cells.piece(nr);
    if !(start..end).contains(&byte) {
        return Vec::new();
    }
    let piece = u32::try_from(nr).unwrap();
    if cells.sets.is_empty() {
        return vec![piece];
    }
    let sets = (0..).zip(&cells.sets).filter(|(_, set)| set.binary_search(&piece).is_ok());
    sets.map(|(cell, _)| cell).collect()
}

#[test]
fn counts_are_exactly_what_was_drawn() {
    let patterns = [
        "m, 0, 4096, 1",
        "m, 0, 64, 1, wo, offset=4K, length=40K, rate=100",
        "m, 0, 10000, 1, wo, length=1M, rate=100",
        "m, 0, 4096, 1, wo, length=1M, rate=100",
        "m, 1, 64, 1",
        "m, 1, 64, 1, wo, offset=1M, length=8K",
        "m, 1, 64, 1, wo, zipf=1.0, block=1M, length=9M",
        "m, 1, 64, 1, wo, zipf=1.2, block=1M, scatter=yes",
        "m, 1, 64, 1, wo, sparse=2M",
        "m, 1, 64, 1, wo, sparse=12K, length=64K",
        "m, 1, 64, 1, wo, offset=4M, length=8M, step=2M, every=10",
        "m, 1, 64, 1, wo, pieces=64K, share=10",
        "m, 1, 64, 1, wo, pieces=4K, share=50, offset=1M, length=1M",
        "m, 1, 64, 1, wo, zipf=1.0, block=4K, scatter=yes",
        "m, 1, 64, 1, wo, zipf=1.0, block=4K, length=20M",
    ];
    for pattern in patterns {
        let plan = plan(pattern);
        let mut source = Source::new(&plan, 3, 0.3);
        let mut drawn: BTreeMap<u32, u32> = BTreeMap::new();
        let mut total = 0;
        for (i, n) in [1, 7, 2000, 13, 4096, 9999].into_iter().enumerate() {
            let at_ns = i as u64 * 7_000_000;
            for byte in bytes(&source.batch(&plan, at_ns, n)) {
                let &[cell] = cells_of(&plan, byte).as_slice() else { panic!("{pattern}: {byte}") };
                *drawn.entry(cell).or_default() += 1;
            }
            total += n;
        }
        assert_eq!(drawn.values().sum::<u32>(), total, "{pattern}");
        assert_eq!(source.take_counts(), drawn.into_iter().collect::<Vec<_>>(), "{pattern}");
        assert_eq!(source.take_counts(), [], "{pattern}: counts start over");
    }
}

#[test]
fn a_sweep_goes_on_where_the_last_batch_ended() {
    let plan = plan("m, 0, 5000, 1, wo, length=64K");
    let mut source = Source::new(&plan, 1, 0.0);
    let mut all = Vec::new();
    for n in [3, 1, 10, 26] {
        all.extend(bytes(&source.batch(&plan, 0, n)));
    }
    let expected: Vec<u64> = (0..40).map(|k| k % 14 * 5000).collect();
    assert_eq!(all, expected);
}

#[test]
fn the_same_seed_draws_the_same() {
    let plan = plan("m, 1, 64, 1, wo, zipf=1.0");
    let draw = |seed| bytes(&Source::new(&plan, seed, 0.0).batch(&plan, 0, 100));
    assert_eq!(draw(5), draw(5));
    assert_ne!(draw(5), draw(6));
}

#[test]
fn zipf_weights_fall_with_the_rank() {
    let plan = plan("m, 1, 64, 1, wo, zipf=1.0, block=16M");
    let mut source = Source::new(&plan, 1, 0.0);
    source.batch(&plan, 0, 1_000_000);
    let counts: Vec<f64> = source.take_counts().iter().map(|(_, n)| f64::from(*n)).collect();
    let sum: f64 = 1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0;
    for (k, n) in (1..).zip(&counts) {
        let expected = 1e6 / f64::from(k) / sum;
        assert!((n - expected).abs() < 0.01 * expected, "{counts:?}");
    }
}

/// Sets of blocks have the weights that single blocks would have.
#[test]
fn zipf_over_many_blocks_is_the_same_law() {
    let few = plan("m, 1, 64, 1, wo, zipf=1.0, block=16K");
    let many = plan("m, 1, 64, 1, wo, zipf=1.0, block=8K");
    assert!(few.cells.sets.is_empty() && !many.cells.sets.is_empty());
    let share_of_first_mib = |plan: &Plan| {
        let mut source = Source::new(plan, 1, 0.0);
        let drawn = bytes(&source.batch(plan, 0, 100_000));
        drawn.iter().filter(|b| **b < 1 << 20).count() as f64 / 1e5
    };
    // The first 64 of 4096, and the first 128 of 8192.
    let law = |n: u32| (1..=n).map(|k| 1.0 / f64::from(k)).sum::<f64>();
    let (a, b) = (share_of_first_mib(&few), share_of_first_mib(&many));
    assert!((a - law(64) / law(4096)).abs() < 0.01, "{a}");
    assert!((b - law(128) / law(8192)).abs() < 0.01, "{b}");
}

#[test]
fn scattered_pieces_are_the_share_that_was_asked_for() {
    // (pattern, pieces, touched pieces, cells)
    let cases = [
        ("pieces=2M, share=10", 32, 3, 1),
        ("pieces=4K, share=0.001", 16_384, 1, 1),
        ("pieces=4K, share=100", 16_384, 16_384, 1),
        ("pieces=64K, share=3, offset=32M", 512, 15, 1),
        ("pieces=64K, share=10, every=300", 1024, 102, 4),
        ("pieces=64K, share=10, every=5000", 1024, 102, 1),
        ("pieces=64K, share=10, every=1", 1024, 102, 64),
    ];
    for (keys, pieces, touched, cells) in cases {
        let plan = plan(&format!("m, 1, 64, 1, wo, {keys}"));
        assert_eq!((plan.cells.nr_pieces(), plan.cells.count()), (pieces, cells), "{keys}");
        assert!(plan.cells.sets.iter().all(|set| set.len() == touched), "{keys}");
    }
    let other = plan("m, 1, 64, 1, wo, pieces=64K, share=10");
    let config = Config::parse(
        "@seed=2\nm, 64M\n\np\n1000\nm, 1, 64, 1, wo, pieces=64K, share=10\n\
         m, 1, 64, 1, wo, pieces=64K, share=10\n",
    );
    let [first, second] = plans(&config.unwrap()).remove(0).try_into().unwrap();
    assert_ne!(other.cells, first.cells, "another seed");
    assert_ne!(first.cells, second.cells, "each pattern chooses its own");
}

#[test]
fn scattered_pieces_move_and_come_around() {
    let plan = plan("m, 1, 64, 1, wo, pieces=1M, share=10, every=10");
    let mut source = Source::new(&plan, 1, 0.0);
    for (ms, cell) in [(0, 0), (9, 0), (10, 1), (639, 63), (640, 0), (999, 35)] {
        let drawn = bytes(&source.batch(&plan, ms * 1_000_000, 1000));
        assert!(drawn.iter().all(|b| cells_of(&plan, *b).contains(&cell)), "after {ms} ms");
        assert_eq!(source.take_counts(), [(cell, 1000)], "after {ms} ms");
    }
}

#[test]
fn the_hot_part_moves_and_comes_around() {
    let plan = plan("m, 1, 64, 1, wo, offset=0, length=4M, step=2M, every=10");
    let mut source = Source::new(&plan, 1, 0.0);
    for (ms, cells) in [(0, [0, 1]), (9, [0, 1]), (10, [1, 2]), (310, [0, 31]), (320, [0, 1])] {
        source.batch(&plan, ms * 1_000_000, 1000);
        let hot: Vec<u32> = source.take_counts().iter().map(|(cell, _)| *cell).collect();
        assert_eq!(hot, cells, "after {ms} ms");
    }
}
