//! Computes from counts of accesses what a monitor should see.
//!
//! A monitor asks, per page and sample interval of `s` seconds: was it touched? The page's true
//! `nr_accesses` over a window of m samples is m times the probability p of a yes. A "page" is the
//! smallest unit that the MMU distinguishes (the *granule*): 4 KiB, or 2 MiB for a huge leaf.
//!
//! **Random**, evenly over a cell of L bytes, c accesses in T seconds: the number of touches of g
//! bytes within s is Poisson with mean m = (c / T) * (g / L) * s, so p = 1 - exp(-m).
//!
//! **Sweep**: each granule is touched once per sweep. From its first to its last touch passes a
//! share of the sweep's period P of `f = (g - stride) / W`, where W is the size of the whole part.
//! An interval of length s that begins at any time meets a stretch of length f * P that comes back
//! every P with probability min(1, (s + f P) / P) = min(1, v s + f), with v = 1 / P = sweeps per
//! second. v is counted: accesses of the cell, divided by those that one sweep makes in it, and by
//! T. If less than one sweep passed (v T < 1), f is scaled by v T: a granule is then visited at
//! most once, with that chance. A stride larger than the granule touches only g / stride of the
//! granules.
//!
//! Patterns are independent of each other, so the probability that none touches the page is the
//! product of their probabilities not to.
//!
//! Example: 1000 random accesses per second over 1000 pages, s = 5 ms: p = 1 - exp(-0.005); in 20
//! samples, a true `nr_accesses` of 0.1.

use super::Kind;

/// Accesses of one cell over some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellRate {
    /// Order of the accesses.
    pub kind: Kind,
    /// Size of the cell, in bytes.
    pub cell_len: f64,
    /// Size of the whole part that is swept, in bytes.
    pub part_len: f64,
    /// Accesses.
    pub count: f64,
    /// Time in which they happened, in seconds.
    pub seconds: f64,
}

impl CellRate {
    /// The probability that `granule` bytes (the part of a page or huge page that lies in the cell)
    /// are touched within `sample_s` seconds.
    #[must_use]
    pub fn touched_within(&self, granule: f64, sample_s: f64) -> f64 {
        if self.count <= 0.0 || self.seconds <= 0.0 || self.cell_len <= 0.0 {
            return 0.0;
        }
        let share = (granule / self.cell_len).min(1.0);
        match self.kind {
            Kind::Random => {
                let mean = self.count / self.seconds * share * sample_s;
                -(-mean).exp_m1()
            }
            Kind::Sweep { stride } => {
                #[expect(clippy::cast_precision_loss, reason = "a stride in bytes")]
                let stride = stride as f64;
                let of_sweep = (self.cell_len / stride).max(1.0);
                let sweeps = self.count / of_sweep;
                let dwell = (granule - stride).max(0.0) / self.part_len;
                let dwell = dwell.min(1.0) * sweeps.min(1.0);
                let touched = (granule / stride).min(1.0);
                (sweeps / self.seconds * sample_s + dwell).min(1.0) * touched
            }
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers made by these tests"
)]
mod tests {
    use super::*;

    /// Lays `accesses` (time, byte) out on granules and counts the sample intervals with a touch.
    fn brute_force(accesses: &[(f64, u64)], bytes: u64, granule: u64, s: f64, seconds: f64) -> f64 {
        let granules = usize::try_from(bytes / granule).unwrap();
        let samples = (seconds / s).round() as usize;
        let mut touched = vec![false; granules * samples];
        for &(t, byte) in accesses {
            let sample = ((t / s) as usize).min(samples - 1);
            touched[sample * granules + usize::try_from(byte / granule).unwrap()] = true;
        }
        touched.iter().filter(|t| **t).count() as f64 / touched.len() as f64
    }

    /// Accesses evenly spread over the time, as a rate-controlled workload makes them.
    fn times(n: u64, seconds: f64) -> impl Iterator<Item = f64> {
        (0..n).map(move |i| (i as f64 + 0.5) / n as f64 * seconds)
    }

    #[test]
    fn random_agrees_with_counting() {
        let (bytes, seconds, s) = (1 << 20, 2.0, 0.005);
        for (n, granule) in [(500, 4096), (20_000, 4096), (200_000, 4096), (3000, 65_536)] {
            let mut rng = fastrand::Rng::with_seed(7);
            let accesses: Vec<_> =
                (0..n).map(|_| (rng.f64() * seconds, rng.u64(..bytes))).collect();
            let counted = brute_force(&accesses, bytes, granule, s, seconds);
            let rate = CellRate {
                kind: Kind::Random,
                cell_len: bytes as f64,
                part_len: bytes as f64,
                count: n as f64,
                seconds,
            };
            let model = rate.touched_within(granule as f64, s);
            assert!((model - counted).abs() < 0.03 * counted + 1e-4, "{n}: {model} {counted}");
        }
    }

    #[test]
    fn sweep_agrees_with_counting() {
        let (bytes, seconds, s) = (1u64 << 20, 4.0, 0.005);
        // (sweeps in all, stride, granule); the periods do not divide the sample interval, or the
        // share depends on how the two are aligned.
        let cases = [
            (3.0, 4096, 4096),
            (97.0, 4096, 4096),
            (503.0, 64, 4096),
            (2000.0, 4096, 4096),
            (41.0, 4096, 65_536),
            (307.0, 4096, 262_144),
            (97.0, 16_384, 4096),
        ];
        for (sweeps, stride, granule) in cases {
            let per_sweep = bytes / stride;
            let n = (sweeps * per_sweep as f64) as u64;
            let accesses: Vec<_> =
                times(n, seconds).zip((0..n).map(|i| i % per_sweep * stride)).collect();
            let counted = brute_force(&accesses, bytes, granule, s, seconds);
            let rate = CellRate {
                kind: Kind::Sweep { stride },
                cell_len: bytes as f64,
                part_len: bytes as f64,
                count: n as f64,
                seconds,
            };
            let model = rate.touched_within(granule as f64, s);
            let close = (model - counted).abs() < 0.05 * counted + 1e-4;
            assert!(close, "{sweeps} {stride} {granule}: {model} {counted}");
        }
    }

    #[test]
    fn nothing_touched_is_never_hot() {
        let none = CellRate {
            kind: Kind::Sweep { stride: 64 },
            cell_len: 4096.0,
            part_len: 4096.0,
            count: 0.0,
            seconds: 1.0,
        };
        assert_eq!(none.touched_within(4096.0, 0.005), 0.0);
        let random = CellRate { kind: Kind::Random, ..none };
        assert_eq!(random.touched_within(4096.0, 0.005), 0.0);
    }
}
