//! Whether a number of a long run grows: a slope with an interval.

use serde::{Deserialize, Serialize};

/// Blocks of time whose means are compared. What happens within a block (clients that come and go)
/// is no trend.
const BLOCKS: usize = 20;
/// The quantile of 95 % (two sides) of Student's distribution with 18 degrees of freedom.
const STUDENT: f64 = 2.101;

/// How a number changes per hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trend {
    /// Its mean.
    pub(crate) mean: f64,
    /// The slope per hour, and its 95 % interval.
    pub(crate) per_hour: f64,
    /// Lower end.
    pub(crate) lo: f64,
    /// Upper end.
    pub(crate) hi: f64,
}

impl Trend {
    /// Of values by their time in hours: a straight line through the means of blocks of equal time.
    /// `None` if a block is empty.
    pub(crate) fn of(values: &[(f64, f64)]) -> Option<Self> {
        let from = values.first()?.0;
        let length = values.last()?.0 - from;
        if length <= 0.0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (blocks, mut x, mut y) = (BLOCKS as f64, Vec::new(), Vec::new());
        for nr in 0..BLOCKS {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let at = nr as f64;
            let is_in = |(t, _): &&(f64, f64)| {
                let block = ((t - from) / length * blocks).floor().min(blocks - 1.0);
                (block - at).abs() < 0.5
            };
            let of_block: Vec<f64> = values.iter().filter(is_in).map(|(_, value)| *value).collect();
            y.push(mean(&of_block)?);
            x.push(from + (at + 0.5) / blocks * length);
        }
        let (mx, my) = (mean(&x)?, mean(&y)?);
        let sxx: f64 = x.iter().map(|x| (x - mx).powi(2)).sum();
        let sxy: f64 = x.iter().zip(&y).map(|(x, y)| (x - mx) * (y - my)).sum();
        let slope = sxy / sxx;
        let rest: f64 = x.iter().zip(&y).map(|(x, y)| (y - my - slope * (x - mx)).powi(2)).sum();
        let error = STUDENT * (rest / (blocks - 2.0) / sxx).sqrt();
        Some(Self { mean: my, per_hour: slope, lo: slope - error, hi: slope + error })
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let n = values.len() as f64;
    (n > 0.0).then(|| values.iter().sum::<f64>() / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope_and_noise_has_none() {
        let times = (0..2000).map(|nr| f64::from(nr) / 1000.0);
        let line: Vec<_> = times.clone().map(|t| (t, 10.0 + 3.0 * t)).collect();
        let trend = Trend::of(&line).unwrap();
        assert!((trend.per_hour - 3.0).abs() < 0.01 && trend.hi - trend.lo < 0.01, "{trend:?}");
        // A saw of 7 values, from 0 to 6.
        let saw: Vec<_> = times.zip((0..7).cycle()).map(|(t, v)| (t, f64::from(v))).collect();
        let trend = Trend::of(&saw).unwrap();
        assert!(trend.lo < 0.0 && trend.hi > 0.0 && trend.hi < 0.1, "{trend:?}");
        assert!((trend.mean - 3.0).abs() < 0.1, "{trend:?}");
        assert_eq!(Trend::of(&[(0.0, 1.0)]), None);
    }
}
