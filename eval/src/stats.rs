//! Medians and intervals. Noisy numbers are never averaged.

use serde::{Deserialize, Serialize};

/// A median with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Middle {
    /// The median.
    pub(crate) median: f64,
    /// Lower end of its 95 % interval.
    pub(crate) lo: f64,
    /// Upper end.
    pub(crate) hi: f64,
    /// Number of values.
    pub(crate) n: usize,
}

impl Middle {
    /// Of `values`: the interval is that of two order statistics, which assumes nothing about the
    /// distribution. The number of values below the true median is binomial (n, 1/2). The ranks k
    /// and `n + 1 - k` enclose it with probability 1 - 2 P(X < k). Fewer than six values give their
    /// whole range, which is less than 95 %.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 {
            return None;
        }
        let k = rank(n);
        let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        Some(Self { median, lo: sorted[k - 1], hi: sorted[n - k], n })
    }
}

/// The largest k with P(X < k) <= 2.5 %, X binomial (n, 1/2); at least 1.
fn rank(n: usize) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "numbers of measurements are small")]
    let n_real = n as f64;
    // Logarithms: 2^-n is zero for long runs.
    let mut log_p = -n_real * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut k = 0.0;
    let mut rank = 0;
    while below + log_p.exp() <= 0.025 && rank < n.div_ceil(2) {
        below += log_p.exp();
        log_p += ((n_real - k) / (k + 1.0)).ln();
        k += 1.0;
        rank += 1;
    }
    rank.max(1)
}

/// The value below or at which a share of `q` lies (nearest rank).
pub(crate) fn percentile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank, not above the length"
    )]
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// For sums and counts that become ratios.
#[expect(clippy::cast_precision_loss, reason = "rounding does not matter to a ratio")]
pub(crate) const fn to_f64(x: u64) -> f64 {
    x as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks from the tables for the sign test.
    #[test]
    fn ranks_are_those_of_the_tables() {
        for (n, k) in [(1, 1), (5, 1), (6, 1), (9, 2), (16, 4), (20, 6), (50, 18), (100, 40)] {
            assert_eq!(rank(n), k, "n = {n}");
        }
        assert!((4800..5000).contains(&rank(10_000)));
    }

    #[test]
    fn the_middle_of_16() {
        let values: Vec<f64> = (1..=16).rev().map(f64::from).collect();
        let m = Middle::of(&values).unwrap();
        assert_eq!((m.median, m.lo, m.hi, m.n), (8.5, 4.0, 13.0, 16));
        assert_eq!(Middle::of(&[]), None);
        assert_eq!(Middle::of(&[f64::NAN, 3.0]).map(|m| (m.median, m.n)), Some((3.0, 1)));
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        for (q, v) in [(0.0, 1.0), (0.2, 1.0), (0.5, 3.0), (0.75, 4.0), (1.0, 5.0)] {
            assert_eq!(percentile(&values, q), Some(v));
        }
        assert_eq!(percentile(&[], 0.5), None);
    }
}
