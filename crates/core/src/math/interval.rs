//! Intervals of a share that was estimated from a sample.

use alloc::vec::Vec;

/// The standard normal's 95 % point: a two-sided interval of 90 %.
pub const Z90: f32 = 1.644_854;

/// The Wilson score interval, at 90 %, of a share estimated as `p` from `n` independent
/// observations (E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
/// Inference", JASA 22, 1927), widened by half an observation on either side (R. G. Newcombe,
/// Statistics in Medicine 17, 1998, method 4, in its simplest form). The widening accounts for
/// whole numbers of pages and samples: 19 of 20 does not rule out a share of 1. `n` may be
/// fractional (an effective number). Unlike the normal interval it stays inside `[0, 1]` and has a
/// width at both ends: 0 of 4 gives `(0, 0.53)`.
///
/// Nothing observed gives `(0, 1)`.
#[must_use]
pub fn wilson(p: f32, n: f32) -> (f32, f32) {
    if n <= 0.0 {
        return (0.0, 1.0);
    }
    let z2n = Z90 * Z90 / n;
    let scale = 1.0 / (1.0 + z2n);
    let mid = (p + z2n / 2.0) * scale;
    let variance = (p * (1.0 - p)).max(0.0) / n + z2n / (4.0 * n);
    let half = Z90 * libm::sqrtf(variance) * scale + 0.5 / n;
    ((mid - half).clamp(0.0, p), (mid + half).clamp(p, 1.0))
}

/// The 90 % intervals of counts in windows of one length. Regions of a window share a few counts,
/// so each is computed once and then looked up.
#[derive(Debug, Default)]
pub(crate) struct CountIntervals {
    nr_samples: u32,
    of_count: Vec<(f32, f32)>,
}

impl CountIntervals {
    /// Longest window, in samples, that has a table.
    const LONGEST: u32 = 1024;

    /// Makes the table for windows of `nr_samples` samples.
    pub(crate) fn prepare(&mut self, nr_samples: u32) {
        if self.nr_samples == nr_samples {
            return;
        }
        self.nr_samples = nr_samples;
        self.of_count.clear();
        if nr_samples <= Self::LONGEST {
            let counts = 0..=nr_samples;
            self.of_count.extend(counts.map(|nr| of_count(nr, nr_samples, nr_samples)));
        }
    }

    /// The ends of the interval of a count, in counts. `nr_evidence` samples gave evidence for it.
    pub(crate) fn of(&self, nr_accesses: u32, nr_evidence: u32) -> (f32, f32) {
        let known = self.of_count.get(nr_accesses as usize);
        match known.filter(|_| nr_evidence == self.nr_samples) {
            Some(interval) => *interval,
            None => of_count(nr_accesses, nr_evidence, self.nr_samples),
        }
    }
}

fn of_count(nr_accesses: u32, nr_evidence: u32, nr_samples: u32) -> (f32, f32) {
    let max = count(nr_samples);
    let (lo, hi) = wilson((count(nr_accesses) / max).min(1.0), count(nr_evidence));
    (lo * max, hi * max)
}

/// A number of pages or of ns, for an estimate.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and close enough beyond")]
pub(crate) const fn float(n: u64) -> f64 {
    n as f64
}

/// A count as a float; exact up to 2^24, far beyond any window.
#[expect(clippy::cast_precision_loss, reason = "counts of samples in a window are small")]
pub(crate) const fn count(n: u32) -> f32 {
    n as f32
}
