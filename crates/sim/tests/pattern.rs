//! Sources draw where the plan says, and count what they draw.

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

fn cell_of(plan: &Plan, byte: u64) -> Option<u64> {
    (0..plan.cells.count()).find(|&i| {
        let (start, end) = plan.cells.range(i);
        (start..end).contains(&byte)
    })
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
    ];
    for pattern in patterns {
        let plan = plan(pattern);
        let mut source = Source::new(&plan, 3, 0.3);
        let mut drawn: BTreeMap<u32, u32> = BTreeMap::new();
        let mut total = 0;
        for (i, n) in [1, 7, 2000, 13, 4096, 9999].into_iter().enumerate() {
            let at_ns = i as u64 * 7_000_000;
            for byte in bytes(&source.batch(&plan, at_ns, n)) {
                let cell = cell_of(&plan, byte).unwrap_or_else(|| panic!("{pattern}: {byte}"));
                *drawn.entry(u32::try_from(cell).unwrap()).or_default() += 1;
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
