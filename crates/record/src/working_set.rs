//! The working set of one snapshot with its error bar, as a pure function of its regions.
//!
//! The working set is defined as in DAMON: the bytes of all regions with `nr_accesses >= 1`.
//! Regions contribute to its error as follows:
//!
//! * A region in which **nothing was seen** may hold touched pages. Its upper bound `h` (a share of
//!   the maximum) corresponds to `n = ln 0.05 / ln (1 - h)` looks without a hit. The looks of all
//!   such regions together are treated as one sample. The looks need not be in proportion to the
//!   regions' sizes, so the effective number is weighted by size:
//!   `n_eff = (sum s)^2 / sum (s^2 / n)`. The bound is `1 - 0.05^(1 / n_eff)` of their bytes. A sum
//!   of each region's own worst case would be too wide to be useful for a large cold process.
//! * A region in which **every look saw an access** is treated alike, with its lower bound.
//! * A region **in between** counts with all its bytes, but only a share of its pages may be
//!   touched, at worst the share given by its lower bound. These errors are independent of each
//!   other.
//!
//! The parts are combined in quadrature. Regions that could not be looked at are in neither the
//! working set nor its interval, and are reported separately. Example: 1 GiB in which 60 looks saw
//! nothing adds `1 GiB * (1 - 0.05^(1/60))`, 50 MiB, to the upper end.

use isotherm_core::RegionInfo;

/// Share of cases that a one-sided bound may miss; both sides make the 90 % interval.
const MISS: f64 = 0.05;

/// A working set, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkingSet {
    /// Bytes of the regions with at least one access.
    pub bytes: u64,
    /// Lower end of the 90 % interval.
    pub lo: u64,
    /// Upper end of the 90 % interval.
    pub hi: u64,
    /// Bytes that could not be looked at. They are in none of the fields above.
    pub unresolved: u64,
    /// Bytes of all regions.
    pub mapped: u64,
}

/// Collects regions, of one or several targets, into a [`WorkingSet`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimate {
    /// All fields but the interval.
    plain: WorkingSet,
    zero: Pool,
    full: Pool,
    mixed_square: f64,
}

/// Regions whose looks are treated as one sample: their total size, and the size-weighted inverse
/// number of looks.
#[derive(Debug, Clone, Copy, Default)]
struct Pool {
    size: f64,
    square_per_look: f64,
    /// The sum of the regions' own bounds. The pooled bound is never wider.
    sum_of_bounds: f64,
    /// The last bound and its inverse number of looks: neighbours mostly have the same.
    last: (f64, f64),
}

impl Pool {
    /// `miss` is the region's own bound on the share of pages that differ from what was seen.
    fn add(&mut self, size: f64, miss: f64) {
        let miss = miss.clamp(0.0, 1.0);
        if miss.to_bits() != self.last.0.to_bits() {
            self.last = (miss, (1.0 - miss).max(1e-9).ln() / MISS.ln());
        }
        self.size += size;
        self.square_per_look += size * size * self.last.1;
        self.sum_of_bounds += size * miss;
    }

    fn bytes(&self) -> f64 {
        if self.size == 0.0 {
            return 0.0;
        }
        let per_look = self.square_per_look / (self.size * self.size);
        (self.size * (1.0 - MISS.powf(per_look))).min(self.sum_of_bounds)
    }
}

impl Estimate {
    /// Adds one region; `max` is the snapshot's `max_nr_accesses`.
    pub fn add(&mut self, r: &RegionInfo, max: u32) {
        let len = r.range.len();
        #[expect(clippy::cast_precision_loss, reason = "sizes below 2^53 are exact")]
        let size = len as f64;
        let max_rate = f64::from(max.max(1));
        self.plain.mapped += len;
        if !r.resolved {
            self.plain.unresolved += len;
        } else if r.nr_accesses == 0 {
            self.zero.add(size, f64::from(r.hi) / max_rate);
        } else {
            self.plain.bytes += len;
            let untouched = (1.0 - f64::from(r.lo) / max_rate).clamp(0.0, 1.0);
            if r.nr_accesses >= max {
                self.full.add(size, untouched);
            } else {
                self.mixed_square += (size * untouched).powi(2);
            }
        }
    }

    /// The working set of the regions that were added.
    #[must_use]
    pub fn working_set(&self) -> WorkingSet {
        let down = to_u64(self.full.bytes().hypot(self.mixed_square.sqrt()));
        let up = to_u64(self.zero.bytes());
        let bytes = self.plain.bytes;
        WorkingSet { lo: bytes.saturating_sub(down), hi: bytes + up, ..self.plain }
    }
}

/// A number of bytes. Negative ones are 0, and ones that are too large saturate.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded, and the conversion saturates"
)]
fn to_u64(x: f64) -> u64 {
    x.round() as u64
}

/// The working set of `regions`; `max` is the snapshot's `max_nr_accesses`.
///
/// Units: bytes.   Shape: any order, no two overlap.   Errors: none.
#[must_use]
pub fn estimate<'a>(regions: impl IntoIterator<Item = &'a RegionInfo>, max: u32) -> WorkingSet {
    let mut e = Estimate::default();
    for r in regions {
        e.add(r, max);
    }
    e.working_set()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::AddrRange;
    use isotherm_core::units::MIB;
    use proptest::prelude::*;

    fn region(mib: u64, nr: u32, lo: f32, hi: f32) -> RegionInfo {
        let range = AddrRange::new(0, mib << 20);
        RegionInfo { range, nr_accesses: nr, lo, hi, resolved: true, ..RegionInfo::default() }
    }

    /// The upper bound, in `nr_accesses` of 20, after `n` looks without a hit.
    fn after(n: f64) -> f32 {
        #[expect(clippy::cast_possible_truncation, reason = "a test value")]
        let hi = (20.0 * (1.0 - MISS.powf(1.0 / n))) as f32;
        hi
    }

    #[test]
    fn table() {
        let unresolved = RegionInfo { resolved: false, ..region(8, 0, 0.0, 20.0) };
        for (name, regions, mib) in [
            ("nothing", vec![], (0.0, 0.0, 0.0, 0.0)),
            (
                "certain",
                vec![region(4, 20, 20.0, 20.0), region(9, 0, 0.0, 0.0)],
                (4.0, 4.0, 4.0, 0.0),
            ),
            ("cold, 60 looks", vec![region(1024, 0, 0.0, after(60.0))], (0.0, 0.0, 49.87, 0.0)),
            (
                "the same in 4 parts",
                vec![region(256, 0, 0.0, after(15.0)); 4],
                (0.0, 0.0, 49.87, 0.0),
            ),
            (
                "hot, 60 looks",
                vec![region(1024, 20, 20.0 - after(60.0), 20.0)],
                (1024.0, 974.13, 1024.0, 0.0),
            ),
            ("half", vec![region(100, 10, 8.0, 12.0)], (100.0, 40.0, 100.0, 0.0)),
            ("knows nothing", vec![region(7, 0, 0.0, 20.0)], (0.0, 0.0, 7.0, 0.0)),
            ("unresolved", vec![unresolved, region(1, 20, 20.0, 20.0)], (1.0, 1.0, 1.0, 8.0)),
        ] {
            let w = estimate(&regions, 20);
            #[expect(clippy::cast_precision_loss, reason = "a test value")]
            let got = [w.bytes, w.lo, w.hi, w.unresolved].map(|b| b as f64 / MIB);
            let got = (got[0], got[1], got[2], got[3]);
            let near = |a: f64, b: f64| (a - b).abs() < 0.01;
            assert!(
                near(got.0, mib.0)
                    && near(got.1, mib.1)
                    && near(got.2, mib.2)
                    && near(got.3, mib.3),
                "{name}: {got:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_bar_holds_the_value_and_fits_the_memory(
            parts in prop::collection::vec((1u64..500, 0u32..21, 0f32..20.0, 0f32..20.0, any::<bool>()), 0..20)
        ) {
            let regions: Vec<_> = parts.iter().map(|&(mib, nr, a, b, resolved)| RegionInfo {
                resolved, ..region(mib, nr, a.min(b), a.max(b))
            }).collect();
            let w = estimate(&regions, 20);
            prop_assert!(w.lo <= w.bytes && w.bytes <= w.hi);
            prop_assert!(w.hi + w.unresolved <= w.mapped);
        }
    }
}
