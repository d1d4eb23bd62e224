//! The truth of scattered patterns says what their sources did.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use isotherm_core::Time;
use isotherm_sim::config::Config;
use isotherm_sim::pattern::{Batch, LINE, Source, plans};
use isotherm_sim::truth::{Header, Line, Truth};
use proptest::prelude::*;

const BASE: u64 = 0x2000_0000_0000;
const MIB: u64 = 1 << 20;
const SLOT_NS: u64 = 100_000_000;
const SLOTS: u64 = 10;
/// Batches per slot, and accesses per batch.
const BATCHES: u64 = 20;
const BATCH: u32 = 100;
/// All accesses of a run of one second.
const TOTAL: f64 = 20_000.0;

/// The keys of a scattered pattern.
fn keys() -> impl Strategy<Value = String> {
    let size = prop::sample::select(vec!["4K", "8K", "64K", "1M"]);
    let pieces = (size, 0.1..100.0_f64, prop::option::of(1..400_u64));
    let pieces = pieces.prop_map(|(size, share, every)| {
        let every = every.map_or(String::new(), |ms| format!(", every={ms}"));
        format!("pieces={size}, share={share}{every}")
    });
    let zipf = (0.5..1.5_f64, prop::sample::select(vec!["yes", "no"]));
    let zipf = zipf.prop_map(|(x, scatter)| format!("zipf={x}, block=4K, scatter={scatter}"));
    prop_oneof![2 => pieces, 1 => zipf]
}

/// How often a source touched each page within a second, and the truth about it.
fn run(keys: &str, seed: u64) -> (Vec<u32>, Truth) {
    let text = format!("@seed={seed}\nm, 24M\n\np\n1000\nm, 1, 64, 1, rw, {keys}\n");
    let config = Config::parse(&text).unwrap();
    let plans = plans(&config);
    let plan = &plans[0][0];
    let mut lines = vec![
        Line::Header(Header::new("test", &config, &plans, 0, SLOT_NS)),
        Line::Process { p: 0, pid: 5, parent: None, ns: 0 },
        Line::Map { p: 0, r: 0, ns: 0, start: BASE, end: BASE + 24 * MIB, leaf: 4096 },
    ];
    let mut source = Source::new(plan, seed, 0.0);
    let mut hits = vec![0; 24 * 256];
    for k in 0..SLOTS {
        for i in 0..BATCHES {
            let at_ns = k * SLOT_NS + i * SLOT_NS / BATCHES;
            let Batch::Lines(lines) = source.batch(plan, at_ns, BATCH) else { panic!("{keys}") };
            for line in lines {
                hits[usize::try_from(u64::from(*line) * LINE / 4096).unwrap()] += 1;
            }
        }
        let counts = source.take_counts();
        let c = counts.into_iter().map(|(cell, n)| (0, cell, u64::from(n))).collect();
        lines.push(Line::Slot { p: 0, k, c });
    }
    let mut file = Vec::new();
    lines.iter().for_each(|l| l.write(&mut file).unwrap());
    (hits, Truth::read(file.as_slice()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_truth_is_what_the_source_did(keys in keys(), seed in any::<u32>()) {
        let (hits, truth) = run(&keys, u64::from(seed));
        let tiles = truth.tiles(truth.process(5).unwrap(), Time(0), Time(SLOTS * SLOT_NS), 500);
        let (mut accesses, mut distinct, mut variance, mut next) = (0.0, 0.0, 0.0, BASE);
        for tile in tiles {
            prop_assert_eq!(tile.range.start, next, "a gap in the truth");
            next = tile.range.end;
            // The mean number of touches of a page in the whole second.
            let mean = -(-tile.p).ln_1p() / 0.0005;
            let first = usize::try_from((tile.range.start - BASE) / 4096).unwrap();
            let pages = usize::try_from(tile.range.len() / 4096).unwrap();
            let touched = hits[first..first + pages].iter().filter(|n| **n > 0).count();
            prop_assert!(tile.p > 0.0 || touched == 0, "{tile:?}: {touched} pages were touched");
            let chance = -(-mean).exp_m1();
            accesses += pages as f64 * mean;
            distinct += pages as f64 * chance;
            variance += pages as f64 * chance * (1.0 - chance);
        }
        prop_assert_eq!(next, BASE + 24 * MIB);
        prop_assert!((accesses - TOTAL).abs() < 1e-3 * TOTAL, "{} accesses", accesses);
        let touched = hits.iter().filter(|n| **n > 0).count() as f64;
        let close = (touched - distinct).abs() < 6.0 * variance.sqrt() + 1.0;
        prop_assert!(close, "{} of {} pages, 1 sigma is {}", touched, distinct, variance.sqrt());
    }
}
