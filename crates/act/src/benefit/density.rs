//! What short looks tell of how a program goes over its memory.
//!
//! A unit that is drawn at random, at a time that the program does not choose, is made old and
//! looked at some milliseconds later. The pages that were touched in between each took a walk of
//! the page table, at least one. Two things follow from their number and their places:
//!
//! * *Scattered* pages come from random accesses. Of `n` pages that are drawn at random, `k` draws
//!   touch `n (1 - exp(-k / n))`, so the number of accesses is known from the share.
//! * *Runs* of neighbours come from a sweep. Each page of them took one walk, which its neighbour's
//!   made cheap.
//!
//! A unit of which all pages were touched can be either. It counts as swept once, unless so much
//! memory is touched that no sweep would come round in time. Then as many random accesses count as
//! are needed until no page is left out, which is the least that there can have been.
//!
//! Invariant: a look is one at random. The monitor's own looks are not: it makes old what has just
//! changed, so a sweep would seem to be everywhere.

use isotherm_core::PageBits;

use super::WalkPrice;

/// What small pages cost in a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    /// As a share of time.
    pub(crate) share: f64,
    /// Pages per second that a sweep touched, as it looks.
    pub(crate) swept_per_s: f64,
    /// The share if it was no sweep that touched all pages of the unit.
    pub(crate) share_if_random: f64,
}

impl Cost {
    /// Of a unit of which these pages were old at first, and those of them were touched within so
    /// many ns.
    #[expect(clippy::cast_precision_loss, reason = "512 pages and some ms")]
    pub(crate) fn of(old: PageBits, touched: PageBits, span_ns: u64, price: WalkPrice) -> Self {
        let (pages, touched) = (old.count(), touched.and(old));
        let mut runs = 0.0;
        touched.runs(|_, _| runs += 1.0);
        let [scattered, swept] = accesses(touched.count(), runs, pages);
        let ns = scattered * price.random_ns + swept * price.swept_ns;
        let is_full = pages > 1 && touched == old;
        let random_ns = if is_full { until_full(pages) * price.random_ns } else { ns };
        let span_ns = span_ns.max(1) as f64;
        Self {
            share: ns / span_ns,
            swept_per_s: swept * 1e9 / span_ns,
            share_if_random: random_ns.max(ns) / span_ns,
        }
    }
}

/// Accesses to scattered pages, and pages that were swept over: of `young` touched pages of
/// `pages`, in so many runs.
#[expect(clippy::cast_precision_loss, reason = "512 pages")]
fn accesses(young: u64, runs: f64, pages: u64) -> [f64; 2] {
    let (young, pages) = (young.min(pages) as f64, pages as f64);
    if young == 0.0 {
        return [0.0; 2];
    }
    // So many runs have pages that are drawn at random.
    let by_chance = young * (pages - young + 1.0) / pages;
    let random = if young < pages { (runs / by_chance).min(1.0) } else { 0.0 };
    let draws = -pages * (-young / (pages + 1.0)).ln_1p();
    [random * draws, (1.0 - random) * young]
}

/// How many draws it takes on average until none of the pages is left out.
#[expect(clippy::cast_precision_loss, reason = "512 pages")]
fn until_full(pages: u64) -> f64 {
    const EULER: f64 = 0.577_2;
    pages as f64 * ((pages.max(1) as f64).ln() + EULER)
}

#[cfg(test)]
mod tests {
    use isotherm_core::Rng;

    use super::*;

    const PRICE: WalkPrice = WalkPrice { random_ns: 5.0, swept_ns: 1.0 };

    fn cost(touched: PageBits) -> Cost {
        Cost::of(PageBits::ALL, touched, 5_000_000, PRICE)
    }

    #[test]
    fn random_accesses_are_counted_from_the_pages_that_they_touch() {
        let seed = std::process::id().into();
        let mut rng = Rng::seeded(seed);
        for draws in [1_u16, 20, 200, 1000] {
            let (mut sum, turns) = (0.0, 200);
            for _ in 0..turns {
                let mut young = PageBits::default();
                for _ in 0..draws {
                    let page = u16::try_from(rng.range(0, 512)).unwrap();
                    young = young.or(PageBits::page(page));
                }
                let mut runs = 0.0;
                young.runs(|_, _| runs += 1.0);
                sum += accesses(young.count(), runs, 512)[0];
            }
            let mean = sum / f64::from(turns);
            let share = mean / f64::from(draws);
            assert!((0.8..1.1).contains(&share), "seed {seed}: {draws} draws look like {mean}");
        }
    }

    #[test]
    fn a_sweep_is_told_from_random_accesses() {
        let first_half = PageBits([u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0, 0, 0, 0]);
        let scattered = PageBits([0x9249_2492_4924_9249 | 0x8421_0842_1084_2108; 8]);
        assert_eq!(cost(PageBits::default()).share_if_random, 0.0);
        assert!((cost(PageBits::ALL).share - 512.0 / 5e6).abs() < 1e-9);
        // 3490 draws until all 512 pages are touched.
        assert!((cost(PageBits::ALL).share_if_random - 3490.0 * 5.0 / 5e6).abs() < 1e-4);
        assert_eq!(cost(scattered).share_if_random, cost(scattered).share);
        assert!(cost(first_half).share < 300.0 / 5e6 && cost(scattered).share > 1000.0 / 5e6);
    }

    #[test]
    fn what_could_not_be_made_old_tells_nothing() {
        let nothing = Cost::of(PageBits::default(), PageBits::ALL, 5_000_000, PRICE);
        assert_eq!((nothing.share, nothing.share_if_random), (0.0, 0.0));
    }
}
