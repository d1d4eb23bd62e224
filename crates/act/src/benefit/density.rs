//! What the monitor's own short looks tell of how a program goes over its memory.
//!
//! The method `census` makes a unit old and looks again after about one sample (5 ms). The pages
//! that were touched in between each took a walk of the page table, at least one. Two things follow
//! from their number and their places:
//!
//! * *Scattered* pages come from random accesses. Of `n` pages that are drawn at random, `k` draws
//!   touch `n (1 - exp(-k / n))`, so the number of accesses is known from the share.
//! * *Runs* of neighbours come from a sweep. Each page of them took one walk, which its neighbour's
//!   made cheap.
//!
//! Invariants: looks are no more than that, so a unit that is not looked at in time is not known,
//! and huge pages tell nothing (they have one accessed bit for all). One look per unit is kept, the
//! last one, because units that change are armed more often.
//!
//! A unit of which all pages were touched can be either. It counts as swept once, unless so much
//! memory is touched that no sweep would come round in time. Then as many random accesses count as
//! are needed until no page is left out, which is the least that there can have been.

use std::collections::BTreeMap;

use isotherm_core::unit::UNIT;
use isotherm_core::{Time, UnitCheck};

use super::WalkPrice;

/// A look after more than this is not short, in ns.
const SHORT_NS: u64 = 30_000_000;
/// A look after less than this shows too little, in ns.
const LEAST_NS: u64 = 500_000;
/// For so long a look tells of the present, in ns.
const FRESH_NS: u64 = 20_000_000_000;
/// Units that are remembered: 8 GiB of them.
const MOST: usize = 4096;

/// What a short look showed of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sight {
    at: Time,
    span_ns: u64,
    /// Accesses to scattered pages, and pages that a sweep touched.
    scattered: f64,
    swept: f64,
    /// Whether no page was left out; then as many accesses, if they were random.
    full: Option<f64>,
}

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

/// The short looks at one target's units.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    armed: BTreeMap<u64, (Time, u64)>,
    seen: BTreeMap<u64, Sight>,
}

impl Looks {
    /// A unit was made old.
    pub(crate) fn made_old(&mut self, check: &UnitCheck, now: Time) {
        let pages = check.present.and(check.pages).minus(check.stuck).count();
        // A single page is armed to see whether the unit wakes up.
        if !check.answered || pages < 2 || 1 << check.leaf_shift == UNIT {
            self.armed.remove(&check.start);
        } else if self.armed.len() < MOST || self.armed.contains_key(&check.start) {
            self.armed.insert(check.start, (check.made_old.unwrap_or(now), pages));
        }
    }

    /// A unit was looked at.
    pub(crate) fn looked(&mut self, check: &UnitCheck, now: Time) {
        let Some((since, pages)) = self.armed.remove(&check.start) else { return };
        let at = check.looked.unwrap_or(now);
        let span_ns = at.since(since);
        let known = self.seen.len() < MOST || self.seen.contains_key(&check.start);
        if known && (LEAST_NS..=SHORT_NS).contains(&span_ns) {
            let young = check.young.and(check.present).and(check.pages).minus(check.stuck);
            let mut runs = 0.0;
            young.runs(|_, _| runs += 1.0);
            let [scattered, swept] = accesses(young.count(), runs, pages);
            let full = (young.count() >= pages).then(|| until_full(pages));
            self.seen.insert(check.start, Sight { at, span_ns, scattered, swept, full });
        }
    }

    /// Drops what is too old.
    pub(crate) fn sweep(&mut self, now: Time) {
        self.armed.retain(|_, (since, _)| now.since(*since) <= SHORT_NS);
        self.seen.retain(|_, sight| now.since(sight.at) <= FRESH_NS);
    }

    /// What small pages cost in this unit; none if it was not looked at lately.
    #[expect(clippy::cast_precision_loss, reason = "some ms")]
    pub(crate) fn cost(&self, start: u64, price: WalkPrice, now: Time) -> Option<Cost> {
        let sight = self.seen.get(&start).filter(|sight| now.since(sight.at) <= FRESH_NS)?;
        let ns = sight.scattered * price.random_ns + sight.swept * price.swept_ns;
        let random_ns = sight.full.map_or(ns, |draws| draws * price.random_ns);
        let span_ns = sight.span_ns as f64;
        Some(Cost {
            share: ns / span_ns,
            swept_per_s: sight.swept * 1e9 / span_ns,
            share_if_random: random_ns.max(ns) / span_ns,
        })
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
    use isotherm_core::{PageBits, TargetId};

    use super::*;

    fn look(young: PageBits, span_us: u64) -> Looks {
        let mut check = UnitCheck::new(TargetId(1), 0, PageBits::ALL);
        (check.answered, check.present, check.leaf_shift) = (true, PageBits::ALL, 12);
        let (mut looks, begin) = (Looks::default(), Time(1_000_000_000));
        looks.made_old(&check, begin);
        check.young = young;
        looks.looked(&check, begin.plus_us(span_us));
        looks
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
                sum += look(young, 5000).seen[&0].scattered;
            }
            let mean = sum / f64::from(turns);
            let share = mean / f64::from(draws);
            assert!((0.8..1.1).contains(&share), "seed {seed}: {draws} draws look like {mean}");
        }
    }

    #[test]
    fn a_sweep_is_told_from_random_accesses() {
        let price = WalkPrice { random_ns: 5.0, swept_ns: 1.0 };
        let first_half = PageBits([u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0, 0, 0, 0]);
        let scattered = PageBits([0x9249_2492_4924_9249 | 0x8421_0842_1084_2108; 8]);
        let costs = |young| look(young, 5000).cost(0, price, Time(1_000_000_000)).unwrap();
        let cost = |young| costs(young).share;
        assert_eq!(cost(PageBits::default()), 0.0);
        assert!((cost(PageBits::ALL) - 512.0 / 5e6).abs() < 1e-9);
        // 3500 draws until all 512 pages are touched.
        assert!((costs(PageBits::ALL).share_if_random - 3490.0 * 5.0 / 5e6).abs() < 1e-4);
        assert_eq!(costs(scattered).share_if_random, cost(scattered));
        assert!(cost(first_half) < 300.0 / 5e6 && cost(scattered) > 1000.0 / 5e6);
    }

    #[test]
    fn only_short_looks_at_small_pages_tell_something() {
        for (span_us, is_known) in [(100, false), (5000, true), (100_000, false)] {
            let looks = look(PageBits::ALL, span_us);
            let cost = looks.cost(0, WalkPrice::GUESS, Time(1_000_000_000));
            assert_eq!(cost.is_some(), is_known, "{span_us} us");
        }
        let mut looks = look(PageBits::ALL, 5000);
        let later = Time(1_000_000_000).plus_us(60_000_000);
        assert_eq!(looks.cost(0, WalkPrice::GUESS, later), None);
        looks.sweep(later);
        assert!(looks.seen.is_empty() && looks.armed.is_empty());
    }
}
