//! The space of the ranges: between a point of it and numbers from 0 to 1, and points that fill it.
//!
//! Times and bytes are spread by factors, shares evenly. Values are rounded to what a person would
//! write: two digits for times, four bits for bytes.

use crate::policy::{Key, Policy, Range};
use isotherm_act::benefit::stats::count;

/// The ranges, and the points within.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    ranges: Vec<Range>,
}

/// Bases of the sequence that fills a space of several ranges (Halton).
const PRIMES: [usize; 10] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29];

impl Space {
    /// The space of these ranges.
    #[must_use]
    pub const fn new(ranges: Vec<Range>) -> Self {
        Self { ranges }
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The policy with the values of a point.
    #[must_use]
    pub fn apply(&self, policy: &Policy, point: &[u64]) -> Policy {
        let mut policy = policy.clone();
        for (range, value) in self.ranges.iter().zip(point) {
            range.set(&mut policy, *value);
        }
        policy
    }

    /// The point where a policy is now. What it has no limit for is at the upper end.
    #[must_use]
    pub fn of(&self, policy: &Policy) -> Vec<u64> {
        self.ranges.iter().map(|range| range.get(policy).unwrap_or(range.high)).collect()
    }

    /// A point, with names and units.
    #[must_use]
    pub fn show(&self, point: &[u64]) -> String {
        let values = self.ranges.iter().zip(point);
        let values = values.map(|(range, value)| {
            format!("{}.{}={}", range.scheme, range.key.name(), range.key.show(*value))
        });
        values.collect::<Vec<_>>().join(" ")
    }

    /// `n` points that fill the space: evenly spaced from end to end for one range, a sequence that
    /// leaves no large gaps for several.
    #[must_use]
    pub fn spread(&self, n: usize) -> Vec<Vec<u64>> {
        (0..n)
            .map(|k| {
                let at = |dimension: usize| match self.ranges.len() {
                    1 if n > 1 => count(k) / count(n - 1),
                    1 => 0.5,
                    _ => radical_inverse(k + 1, PRIMES[dimension % PRIMES.len()]),
                };
                let values = self.ranges.iter().enumerate();
                values.map(|(dimension, range)| value(range, at(dimension))).collect()
            })
            .collect()
    }

    /// The value so many notches away from another, in one of the ranges. A notch is a factor of
    /// the square root of 2 for times and bytes, and a tenth of the range for shares. It stays
    /// within the range, so at its end nothing changes.
    ///
    /// # Panics
    ///
    /// If there are fewer ranges.
    #[must_use]
    pub fn step(&self, range: usize, from: u64, notches: i32) -> u64 {
        let range = &self.ranges[range];
        let [low, high] = [range.low, range.high].map(float);
        let notch =
            if range.key.is_log() { 0.5 * 2_f64.ln() / (high / low).ln() } else { 1.0 / 10.0 };
        let to = value(range, unit(range, from) + f64::from(notches) * notch);
        // Rounding must not undo a step.
        match notches.signum() {
            1 if to <= from => from.saturating_add(1).min(range.high),
            -1 if to >= from => from.saturating_sub(1).max(range.low),
            _ => to,
        }
    }

    /// The point half way between two.
    #[must_use]
    pub fn between(&self, a: &[u64], b: &[u64]) -> Vec<u64> {
        let ends = a.iter().zip(b);
        let middle = |(range, (a, b)): (&Range, (&u64, &u64))| {
            if a == b {
                return *a;
            }
            value(range, f64::midpoint(unit(range, *a), unit(range, *b)))
        };
        self.ranges.iter().zip(ends).map(middle).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a value is rounded anyway")]
const fn float(x: u64) -> f64 {
    x as f64
}

/// Where a value is in its range: 0 at the lower end, 1 at the upper one.
fn unit(range: &Range, value: u64) -> f64 {
    let [low, high, value] = [range.low, range.high, value.max(1)].map(float);
    if range.key.is_log() {
        (value / low).ln() / (high / low).ln()
    } else {
        (value - low) / (high - low)
    }
}

/// The value at a place of a range, rounded, and never outside of it.
fn value(range: &Range, unit: f64) -> u64 {
    let [low, high] = [range.low, range.high].map(float);
    let unit = unit.clamp(0.0, 1.0);
    let exact =
        if range.key.is_log() { low * (high / low).powf(unit) } else { low + (high - low) * unit };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in the range")]
    let exact = exact.round() as u64;
    rounded(range.key, exact).clamp(range.low, range.high)
}

/// The nearest value that a person would write.
const fn rounded(key: Key, value: u64) -> u64 {
    let step = match key {
        Key::QuotaSize => match value.checked_ilog2() {
            Some(bits) if bits > 3 => 1 << (bits - 3),
            _ => 1,
        },
        Key::Age | Key::Confirm | Key::QuotaTime => match value.checked_ilog10() {
            Some(digits) if digits > 1 => 10_u64.pow(digits - 1),
            _ => 1,
        },
        Key::Frequency | Key::MinTouched => 1,
    };
    value.saturating_add(step / 2) / step * step
}

/// The digits of `k` behind the point, in reverse (van der Corput).
fn radical_inverse(mut k: usize, base: usize) -> f64 {
    let (mut out, mut place) = (0.0, 1.0);
    while k > 0 {
        place /= count(base);
        out += place * count(k % base);
        k /= base;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space(ranges: &[&str]) -> Space {
        Space::new(ranges.iter().map(|text| Range::parse(text).unwrap()).collect())
    }

    #[test]
    fn one_range_is_filled_from_end_to_end() {
        let space = space(&["cold.age=1s..60s"]);
        let shown: Vec<_> = space.spread(4).iter().map(|p| space.show(p)).collect();
        assert_eq!(shown, ["cold.age=1s", "cold.age=3900ms", "cold.age=15s", "cold.age=60s"]);
        assert_eq!(space.between(&[1_000_000], &[4_000_000]), [2_000_000]);
    }

    #[test]
    fn several_ranges_are_filled_without_large_gaps() {
        let space = space(&["cold.age=1s..60s", "cold.quota.size=1M..1G"]);
        let points = space.spread(16);
        // Each quarter of the square has its points.
        for (age, bytes) in [(false, false), (false, true), (true, false), (true, true)] {
            let inside = |p: &&Vec<u64>| (p[0] > 7_746_000, p[1] > 32 << 20) == (age, bytes);
            assert!((2..=6).contains(&points.iter().filter(inside).count()), "{points:?}");
        }
    }

    #[test]
    fn steps_are_factors_of_times_and_tenths_of_shares() {
        let space = space(&["cold.age=1s..60s", "cold.frequency=0%..20%"]);
        let ages = [1, 2, 4, -1, -8].map(|notches| space.step(0, 4_000_000, notches));
        assert_eq!(ages, [5_700_000, 8_000_000, 16_000_000, 2_800_000, 1_000_000]);
        let shares = [1, -1, -9, 20].map(|notches| space.step(1, 1000, notches));
        assert_eq!(shares, [1200, 800, 0, 2000]);
        assert_eq!(
            [space.step(0, 1_000_000, -1), space.step(0, 60_000_000, 1)],
            [1_000_000, 60_000_000]
        );
    }

    proptest! {
        #[test]
        fn a_step_goes_its_way_and_stays_within(low in 1_u64..1000, more in 1_u64..1 << 40, at in 0.0..1.0, n in 1_i32..5) {
            for key in [Key::Age, Key::QuotaSize, Key::QuotaTime] {
                let range = Range { scheme: "s".into(), key, low, high: low + more };
                let space = Space::new(vec![range.clone()]);
                let from = value(&range, at);
                let (up, down) = (space.step(0, from, n), space.step(0, from, -n));
                prop_assert!(up > from || from == range.high, "{from} up {n}: {up}");
                prop_assert!(down < from || from == range.low, "{from} down {n}: {down}");
                prop_assert!(down >= range.low && up <= range.high);
            }
        }

        #[test]
        fn points_stay_within_and_come_back(low in 1_u64..1 << 40, more in 2_u64..1 << 40, at in 0.0..1.0) {
            for key in [Key::Age, Key::QuotaSize, Key::QuotaTime] {
                let range = Range { scheme: "s".into(), key, low, high: low + more };
                let value = value(&range, at);
                prop_assert!((low..=low + more).contains(&value));
                // Rounding moves a value by at most a sixteenth.
                let exact = low as f64 * ((low + more) as f64 / low as f64).powf(at);
                prop_assert!((value as f64 / exact - 1.0).abs() < 0.07 || value < 20);
            }
        }
    }
}
