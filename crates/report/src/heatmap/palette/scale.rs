//! Which rate gets which shade.
//!
//! Rates differ by workload and method: all of a hot array may be touched in every sample, or in
//! one of a hundred. With the same scale for all, the second would be one shade. So the scale ends
//! at the rate that only one cell in a hundred exceeds, and grows by factors where most cells would
//! be in the lowest shade of an even one. The legend always says which scale it is.

use isotherm_core::units::percent;

use crate::heatmap::{Cell, Panel};

/// Steps of a scale that grows by factors. Each is twice the one before.
const DOUBLINGS: f64 = 8.0;
/// Where more than this share of the cells with accesses is in the lowest step of an even scale,
/// the scale grows by factors.
const MOST_LOW: f64 = 0.5;

/// From rates to shades.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The rate of the brightest shade; higher rates have it, too. Above 0, at most 1.
    pub max: f32,
    /// Whether each step is twice the one before, rather than as much more.
    pub doubling: bool,
}

impl Default for Scale {
    fn default() -> Self {
        Self { max: 1.0, doubling: false }
    }
}

impl Scale {
    /// The scale that shows the most of these panels.
    pub(in crate::heatmap) fn of(panels: &[Panel]) -> Self {
        let cells = panels.iter().flat_map(|p| &p.rows).flat_map(|row| &row.cells);
        let mut rates: Vec<f32> = cells.filter_map(rate).filter(|rate| *rate > 0.0).collect();
        rates.sort_by(f32::total_cmp);
        let Some(last) = rates.len().checked_sub(1) else { return Self::default() };
        let max = round_up(rates[last - last / 100]);
        let low = rates.partition_point(|rate| f64::from(*rate) <= f64::from(max) / DOUBLINGS);
        #[expect(clippy::cast_precision_loss, reason = "numbers of cells")]
        let share = low as f64 / rates.len() as f64;
        Self { max, doubling: share > MOST_LOW }
    }

    /// Where a rate is on the scale: 0 for never, above 0 for any access, 1 for the brightest.
    pub(crate) fn share(self, rate: f32) -> f32 {
        let part = f64::from(rate) / f64::from(self.max);
        let share = match (part > 0.0, self.doubling) {
            (false, _) => 0.0,
            (true, false) => part,
            (true, true) => 1.0 + part.log2() / DOUBLINGS,
        };
        #[expect(clippy::cast_possible_truncation, reason = "a share for display")]
        let share = share as f32;
        if rate > 0.0 { share.clamp(f32::MIN_POSITIVE, 1.0) } else { 0.0 }
    }

    /// The rate at a place on the scale, from 0 to 1.
    pub(in crate::heatmap) fn rate(self, share: f64) -> f64 {
        match (share > 0.0, self.doubling) {
            (false, _) => 0.0,
            (true, false) => share * f64::from(self.max),
            (true, true) => ((share - 1.0) * DOUBLINGS).exp2() * f64::from(self.max),
        }
    }

    /// What the end of the legend says.
    pub(crate) fn end(self) -> String {
        let mut out = format!("{} of samples", short(self.max));
        if self.max < 1.0 {
            out += " or more";
        }
        if self.doubling {
            out += ", each step twice the one before";
        }
        out
    }
}

fn rate(cell: &Cell) -> Option<f32> {
    match cell {
        Cell::Rate(rate) => Some(*rate),
        _ => None,
    }
}

/// `100 %` rather than `100.0 %`.
fn short(rate: f32) -> String {
    percent(f64::from(rate)).replace(".0 %", " %")
}

/// The next of 1, 2, 5 times a power of ten; at most 1.
fn round_up(rate: f32) -> f32 {
    // In units of 0.01 %, so that each step is exact.
    let steps =
        [1.0, 10.0, 100.0, 1000.0].into_iter().flat_map(|unit| [1.0, 2.0, 5.0].map(|n| n * unit));
    let mut steps = steps.map(|step: f32| step / 10_000.0);
    steps.find(|step| rate <= step * 1.001).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heatmap::Row;

    fn scale(rates: &[f32]) -> Scale {
        let cells = rates.iter().map(|rate| Cell::Rate(*rate)).collect();
        let range = isotherm_core::AddrRange::new(0, 4096);
        let row = Row { range, mapping: String::new(), area: 0, cells };
        Scale::of(&[Panel { rows: vec![row], ..Panel::default() }])
    }

    #[test]
    fn the_scale_fits_what_was_seen() {
        for (rates, max, doubling) in [
            (&[][..], 1.0, false),
            (&[0.0, 0.0], 1.0, false),
            (&[0.9, 0.7, 0.5], 1.0, false),
            (&[0.05, 0.04, 0.02], 0.05, false),
            (&[0.003, 0.001], 0.005, false),
            (&[1.0, 0.01, 0.02, 0.05], 1.0, true),
        ] {
            let scale = scale(rates);
            assert!((scale.max - max).abs() < 1e-6 && scale.doubling == doubling, "{scale:?}");
        }
        // One cell in two hundred does not count.
        let mut rates = vec![0.02; 199];
        rates.push(1.0);
        assert!((scale(&rates).max - 0.02).abs() < 1e-6);
    }

    #[test]
    fn shades() {
        let even = Scale { max: 0.1, doubling: false };
        let factors = Scale { max: 1.0, doubling: true };
        for (scale, rate, want) in [
            (even, 0.0, 0.0),
            (even, 0.05, 0.5),
            (even, 0.4, 1.0),
            (factors, 1.0, 1.0),
            (factors, 0.5, 0.875),
            (factors, 0.0625, 0.5),
            (factors, 0.0, 0.0),
        ] {
            assert!((scale.share(rate) - want).abs() < 1e-6, "{rate}");
        }
        assert!(factors.share(1e-6) > 0.0, "any access is more than none");
        assert_eq!(Scale::default().end(), "100 % of samples");
        assert_eq!(even.end(), "10 % of samples or more");
        assert_eq!(factors.end(), "100 % of samples, each step twice the one before");
    }
}
