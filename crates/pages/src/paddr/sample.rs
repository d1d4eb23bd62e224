//! Draws a sample of frames: one at a random place in each of equal strides of RAM.
//!
//! So every byte of RAM has the same chance, and the sample is spread evenly. Unlike a fixed grid,
//! it does not miss memory that is laid out in steps of a power of two. Each frame stands for one
//! stride.

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, Rng};

/// Draws at most `nr` frames of `ranges` (sorted, in whole pages). Sorted.
#[must_use]
pub fn sample(ranges: &[AddrRange], nr: u64, rng: &mut Rng) -> Vec<u64> {
    let total: u64 = ranges.iter().map(|r| r.len() / PAGE_SIZE).sum();
    let nr = nr.min(total);
    let mut frames = Vec::with_capacity(usize::try_from(nr).unwrap_or(0));
    let (mut ranges, mut before) = (ranges.iter().copied().peekable(), 0);
    for i in 0..nr {
        // The strides' borders are rounded, so the strides differ by up to one frame.
        let (from, to) = (border(i, total, nr), border(i + 1, total, nr));
        let place = rng.range(from, to);
        while let Some(range) = ranges.peek() {
            let len = range.len() / PAGE_SIZE;
            if place < before + len {
                frames.push(range.start / PAGE_SIZE + (place - before));
                break;
            }
            before += len;
            ranges.next();
        }
    }
    frames
}

fn border(i: u64, total: u64, nr: u64) -> u64 {
    let at = u128::from(i) * u128::from(total) / u128::from(nr.max(1));
    u64::try_from(at).unwrap_or(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::Rng;
    use proptest::prelude::*;

    fn pages(a: u64, b: u64) -> AddrRange {
        AddrRange::new(a * PAGE_SIZE, b * PAGE_SIZE)
    }

    #[test]
    fn all_of_a_small_memory_and_none_of_no_memory() {
        let mut rng = Rng::seeded(1);
        let ranges = [pages(1, 4), pages(10, 12)];
        assert_eq!(sample(&ranges, 100, &mut rng), [1, 2, 3, 10, 11]);
        assert!(sample(&[], 100, &mut rng).is_empty());
        assert!(sample(&ranges, 0, &mut rng).is_empty());
    }

    proptest! {
        /// Sorted, inside, without repetition, as many as wanted, and evenly spread.
        #[test]
        fn frames_are_spread(lens in prop::collection::vec((1_u64..5000, 1_u64..500), 1..6), nr in 1_u64..600, seed: u64) {
            let (mut at, mut ranges) = (0, Vec::new());
            for (len, gap) in lens {
                ranges.push(pages(at + gap, at + gap + len));
                at += gap + len;
            }
            let total: u64 = ranges.iter().map(|r| r.len() / PAGE_SIZE).sum();
            let frames = sample(&ranges, nr, &mut Rng::seeded(seed));
            prop_assert_eq!(frames.len() as u64, nr.min(total));
            prop_assert!(frames.windows(2).all(|f| f[0] < f[1]));
            let inside = |f: &u64| ranges.iter().any(|r| r.contains(f * PAGE_SIZE));
            prop_assert!(frames.iter().all(inside));
            for range in &ranges {
                let got = frames.iter().filter(|f| range.contains(**f * PAGE_SIZE)).count() as f64;
                let due = nr.min(total) as f64 * range.len() as f64 / (total * PAGE_SIZE) as f64;
                prop_assert!((got - due).abs() <= 2.0, "{} of {}", got, due);
            }
        }
    }
}
