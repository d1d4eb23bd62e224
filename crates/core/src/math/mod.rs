//! Integer arithmetic as the kernel does it: it truncates, in the type that the kernel uses.
//!
//! The modules inside have the random numbers and the confidence intervals.

pub mod interval;
pub mod rng;

use crate::addr::AddrRange;

/// `floor(x * n / d)`, which overflows only for larger numbers than the plain product does (the
/// kernel's `mult_frac()`).
///
/// # Panics
///
/// If `d` is 0.
#[must_use]
pub const fn mult_frac(x: u64, n: u64, d: u64) -> u64 {
    (x / d).wrapping_mul(n).wrapping_add((x % d).wrapping_mul(n) / d)
}

/// A divisor of many numbers. Dividing by it takes one multiplication, and the result is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisor {
    /// The largest multiple of `1 / 2^64` that is below `1 / d`.
    reciprocal: u64,
}

impl Divisor {
    /// The divisor `d`.
    ///
    /// # Panics
    ///
    /// If `d` is 0.
    #[must_use]
    pub const fn new(d: u32) -> Self {
        Self { reciprocal: u64::MAX / d as u64 }
    }

    /// `floor(n / d)`.
    ///
    /// The product is `(n + 1) / d`, less at most `2^-32`. For whole numbers of 32 bits
    /// `(n + 1) / d` lies at least `1 / d` above `floor(n / d)`, which is more than that, and at
    /// most 1 above it.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a quotient is not larger than `n`")]
    pub const fn divide(self, n: u32) -> u32 {
        (((n as u128 + 1) * self.reciprocal as u128) >> 64) as u32
    }
}

/// One step of the feedback loop (`damon_feed_loop_next_input()`). At a score of 10,000 the goal is
/// exactly met. Below that score the result is larger than `last`, at most twice as large. Above it
/// the result is smaller, but never below 10,000.
#[must_use]
pub fn feed(last: u64, score: u64) -> u64 {
    const GOAL: u64 = 10_000;
    const LEAST: u64 = 10_000;
    if score == GOAL {
        return last;
    }
    if score >= 2 * GOAL {
        return LEAST;
    }
    let diff = score.abs_diff(GOAL);
    let step =
        if last < u64::MAX / diff { last * diff / GOAL } else { (last / GOAL).wrapping_mul(diff) };
    if score > GOAL { last.saturating_sub(step).max(LEAST) } else { last.saturating_add(step) }
}

/// One step of the pseudo moving sum (`damon_moving_sum()`): the previous window's total counts as
/// evenly spread over `len` samples. One sample's share is subtracted, and `new` is added.
#[must_use]
pub const fn moving_sum(sum: u32, last_total: u32, len: Divisor, new: u32) -> u32 {
    sum.wrapping_sub(len.divide(last_total)).wrapping_add(new)
}

/// Mean of `a` and `b`, weighted by two sizes, truncated.
#[must_use]
pub fn weighted(a: u32, sz_a: u64, b: u32, sz_b: u64) -> u32 {
    // Fast paths: merged neighbours are mostly equal, or small enough for a division in 64 bits.
    if a == b && (sz_a | sz_b) != 0 {
        return a;
    }
    let part = |x: u32, sz: u64| u64::from(x).checked_mul(sz);
    let narrow = part(a, sz_a).zip(part(b, sz_b)).and_then(|(a, b)| a.checked_add(b));
    if let Some(sum) = narrow {
        return u32::try_from(sum / (sz_a + sz_b).max(1)).unwrap_or(u32::MAX);
    }
    let sum = u128::from(a) * u128::from(sz_a) + u128::from(b) * u128::from(sz_b);
    let mean = sum / u128::from(sz_a + sz_b).max(1);
    u32::try_from(mean).unwrap_or(u32::MAX)
}

/// The part `k / n` of a range's length, rounded down to a multiple of the power of two `m`.
#[must_use]
pub const fn part(range: &AddrRange, k: u64, n: u64, m: u64) -> u64 {
    crate::addr::round_down(range.len() * k / n, m)
}
