//! What cross-sections have found, and which of it is past.
//!
//! A cross-section is right for the time at which it was made. Units have their turns one after the
//! other, so they tell of a change later, and do not tell when it was. So there are two rules:
//!
//! * Cross-sections are compared with each other. Where chance does not explain by how much the
//!   newest differ from all before them, something has changed in between, and those before are
//!   past.
//! * Where turns count another number than at the time of a cross-section, it is past too, unless
//!   what it has found is nearer to the new number. Then it was made after the change, and turns
//!   are on their way to what it says.
//!
//! Invariant: a cross-section that nothing contradicts is kept until it is too old, or too many
//! came after it. Absent: what varies slowly. Then cross-sections differ by more than chance, and
//! count as a mean.

use super::super::curve::Pages;
use super::{Cross, FEW, SEEN};
use crate::interval::float;
use crate::time::Time;

/// Standard deviations from which on another number is no chance.
const CHANGED: f64 = 3.0;
/// The least standard deviation of one cross-section, in pages of it: events come whole.
const LEAST_SIGMA: f64 = 1.0;
/// Of the two numbers of a span, the one that does not depend on turns.
const NOW: usize = 1;

/// The share of a target's pages that was touched, and its variance if its pages did not depend on
/// each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    pub(super) share: f64,
    variance: f64,
}

/// What one cross-section has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    pub(super) at: Time,
    /// By span: the sum over turns, corrected; and what is touched now.
    pub(super) numbers: [[Option<Number>; 2]; SEEN.len()],
    /// By span: the sum over turns at that time, as a share.
    pub(super) counted: [Option<Pages>; SEEN.len()],
    /// What one of its pages stands for, as a share of the target's.
    pub(super) each: f64,
}

/// A sum of weighted numbers of pages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) weight: f64,
    sum: f64,
    squares: f64,
}

impl Sum {
    pub(super) fn add(&mut self, weight: f64, x: f64) {
        self.weight += weight;
        self.sum += weight * x;
        self.squares += weight * weight * x * x;
    }

    /// As a share of all, to be added to another one.
    pub(super) fn number(&self, to: f64) -> Number {
        let weight = self.weight.max(1.0);
        let share = (to + self.sum / weight).clamp(0.0, 1.0);
        Number { share, variance: self.squares / (weight * weight) }
    }
}

impl Found {
    /// Whether it tells of the present use of memory, of which turns have counted so much now: it
    /// is as when this was found, or what was found then is nearer to what it is now.
    fn is_of_now(&self, at: usize, now: Option<Pages>) -> bool {
        let Some((now, then)) = now.zip(self.counted[at]) else { return true };
        let is_nearer =
            |found: Number| (found.share - now.mean).abs() < (found.share - then.mean).abs();
        now.is_within(then, CHANGED) || self.numbers[at][NOW].is_some_and(is_nearer)
    }
}

/// Numbers of one span that followed each other.
#[derive(Debug, Clone, Copy)]
struct Group {
    nr: f64,
    mean: f64,
    /// By how much they differ from the mean, squared.
    squares: f64,
    /// The variance of one if its pages did not depend on each other, and the least that it has.
    alone: f64,
    least: f64,
}

impl Group {
    /// Of one of the two numbers; none if it is not known.
    fn of(found: &[Found], at: usize, way: usize) -> Option<Self> {
        let numbers = || found.iter().filter_map(|found| found.numbers[at][way]);
        let nr = float(numbers().count() as u64);
        let mean = numbers().map(|n| n.share).sum::<f64>() / nr;
        let squares = numbers().map(|n| (n.share - mean) * (n.share - mean)).sum();
        let alone = numbers().map(|n| n.variance).sum::<f64>() / nr;
        let least = found.iter().map(|found| found.each).fold(0.0, f64::max) * LEAST_SIGMA;
        (nr > 0.0).then_some(Self { nr, mean, squares, alone, least: least * least })
    }
}

impl Cross {
    /// Gives up what turns contradict, which count so much now.
    pub(super) fn forget_contradicted(&mut self, now: &[Option<Pages>; SEEN.len()]) {
        self.found.retain(|found| (0..SEEN.len()).all(|at| found.is_of_now(at, now[at])));
    }

    /// Gives up what was found before a change: where chance does not explain by how much the
    /// newest differ from all before them. Returns whether there was one.
    pub(super) fn forget_before_change(&mut self) -> bool {
        let splits = (1..self.found.len()).flat_map(|nr| (0..SEEN.len()).map(move |at| (nr, at)));
        let apart = splits.filter_map(|(nr, at)| Some((nr, self.sigmas_apart(nr, at)?)));
        let change = apart.max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((nr, _)) = change.filter(|(_, sigmas)| *sigmas > CHANGED) else { return false };
        self.found.drain(..nr);
        true
    }

    /// The mean of one of the two numbers of a span, as a share.
    pub(super) fn mean(&self, at: usize, way: usize) -> Option<Pages> {
        let Group { nr, mean, squares, alone, least } = Group::of(&self.found, at, way)?;
        let one = (squares / (nr - 1.0).max(1.0)).max(least);
        // What a few numbers tell of their own deviation counts one less than there are.
        let is_few = nr <= float(FEW as u64);
        let variance = if is_few { one.max(alone) } else { (one * (nr - 1.0) + alone) / nr };
        Some(Pages { mean, sigma: libm::sqrt(variance / nr) })
    }

    /// How many standard deviations the first `nr` and the others are apart, of one span.
    fn sigmas_apart(&self, nr: usize, at: usize) -> Option<f64> {
        let (before, after) = self.found.split_at(nr);
        let (before, after) = (Group::of(before, at, NOW)?, Group::of(after, at, NOW)?);
        let degrees = before.nr + after.nr - 2.0;
        let between = (before.squares + after.squares) / degrees.max(1.0);
        let variance = |group: Group| between.max(group.alone).max(group.least) / group.nr;
        let sigma = libm::sqrt(variance(before) + variance(after));
        (sigma > 0.0).then(|| (before.mean - after.mean).abs() / sigma)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NR, SPANS_NS, make, units};
    use super::*;
    use crate::rng::Rng;
    use crate::time::Time;

    /// One page in so many is in use all the time, at random.
    fn scattered(one_in: u64) -> impl Fn(u64, u16, u64) -> u64 {
        move |nr, page, from| {
            let drawn = Rng::seeded(nr * 512 + u64::from(page)).range(0, one_in);
            if drawn == 0 { from + 1 } else { u64::MAX }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn what_was_found_before_a_change_is_past() {
        let (mut nr_changes, mut nr_held, mut nr_kept) = (0, 0, 0);
        for seed in 1..=8 {
            let mut rng = Rng::seeded(seed);
            let (few, many) = (scattered(20), scattered(5));
            let mut units = units(&few, &mut rng);
            let mut cross = Cross::default();
            for nr in 0..5 {
                make(&mut cross, &mut units, &mut rng, &few, 20_000 + nr * 1370);
            }
            nr_kept += cross.found.len();
            make(&mut cross, &mut units, &mut rng, &many, 40_000);
            nr_changes += usize::from(cross.found.len() == 1);
            let (told, truth) = (cross.told(1, &SPANS_NS, NR * 512), float(NR * 512 / 5));
            let (lo, hi) = told.unwrap().interval();
            nr_held += usize::from(lo <= truth && truth <= hi);
        }
        let note = alloc::format!("{nr_changes} of 8 seen, {nr_held} hold, {nr_kept} of 40 kept");
        assert!(nr_changes >= 7 && nr_held >= 6 && nr_kept >= 38, "{note}");
    }

    #[test]
    fn turns_that_begin_to_tell_of_a_change_leave_what_was_found_after_it() {
        let pages = |mean: f64| Pages { mean, sigma: 0.002 };
        let found = |then: f64, share: f64| Found {
            at: Time(0),
            numbers: [[None, Some(Number { share, variance: 0.0001 })]; SEEN.len()],
            counted: [Some(pages(then)); SEEN.len()],
            each: 1.0 / 256.0,
        };
        for (name, then, share, now, is_of_now) in [
            ("nothing has changed", 0.05, 0.06, 0.051, true),
            ("found before", 0.05, 0.05, 0.08, false),
            ("found after, and turns follow", 0.05, 0.13, 0.08, true),
            ("found after, and it is over", 0.13, 0.05, 0.1, true),
            ("found before, and it is over", 0.13, 0.13, 0.1, false),
        ] {
            assert_eq!(found(then, share).is_of_now(0, Some(pages(now))), is_of_now, "{name}");
        }
    }
}
