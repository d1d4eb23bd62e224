//! Means of few trials and what they are worth: one spread for all candidates, and Student's t.
//!
//! A candidate has one to a few trials, too few to know its own spread. But noise comes from the
//! machine and the program, so it is about the same for all. Deviations of all candidates from
//! their own means, and trials in which nothing was changed, are put together.

/// The least that a single trial is taken to be off, as a share.
const LEAST: f64 = 0.005;

/// A mean with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The lower end; minus infinity if the spread is not known.
    pub low: f64,
    /// The mean.
    pub mean: f64,
    /// The upper end.
    pub high: f64,
}

/// How far a single trial is off by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Sum of squares.
    squares: f64,
    /// How many independent deviations that is.
    free: usize,
    /// The least deviation.
    least: f64,
}

impl Default for Spread {
    fn default() -> Self {
        Self::with_least(LEAST)
    }
}

impl Spread {
    /// Nothing is known yet. A single trial is taken to be off by this much at least, as a share:
    /// few trials of a measure that did not move do not say that it never does.
    #[must_use]
    pub const fn with_least(least: f64) -> Self {
        Self { squares: 0.0, free: 0, least }
    }

    /// The same with a variance that is larger by this factor: for trials that are not independent,
    /// so that their mean is off by more than their deviations tell.
    #[must_use]
    pub const fn widened(self, factor: f64) -> Self {
        Self { squares: factor * self.squares, ..self }
    }

    /// Adds trials that are alike, whose mean is not known.
    pub fn add_group(&mut self, values: &[f64]) {
        if values.len() > 1 {
            let mean = mean(values);
            self.squares += values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            self.free += values.len() - 1;
        }
    }

    /// Adds trials whose true value is 0.
    pub fn add_nulls(&mut self, values: impl IntoIterator<Item = f64>) {
        for x in values {
            self.squares += x * x;
            self.free += 1;
        }
    }

    /// The standard deviation of one trial, at least the least; none if nothing is known of it.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        (self.free > 0).then(|| (self.squares / count(self.free)).sqrt().max(self.least))
    }

    /// The mean of trials of a candidate.
    #[must_use]
    pub fn estimate(&self, values: &[f64]) -> Estimate {
        let mean = mean(values);
        let half = self.deviation().map_or(f64::INFINITY, |sd| {
            t_quantile(0.95, self.free) * sd / count(values.len()).sqrt()
        });
        Estimate { low: mean - half, mean, high: mean + half }
    }

    /// How likely it is that the mean of `values` is truly above `bound`. One half if the spread is
    /// not known.
    #[must_use]
    pub fn above(&self, values: &[f64], bound: f64) -> f64 {
        self.likely(mean(values) - bound, 1.0 / count(values.len()))
    }

    /// How likely it is that the true mean of `a` is above that of `b`.
    #[must_use]
    pub fn better(&self, a: &[f64], b: &[f64]) -> f64 {
        self.likely(mean(a) - mean(b), 1.0 / count(a.len()) + 1.0 / count(b.len()))
    }

    fn likely(&self, difference: f64, variances: f64) -> f64 {
        self.deviation().map_or(0.5, |sd| t_cdf(difference / (sd * variances.sqrt()), self.free))
    }
}

/// A small number as a float.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a few trials")]
pub const fn count(n: usize) -> f64 {
    n as f64
}

/// The mean; not a number for none.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values.len())
}

/// The distribution of Student's t with `free` degrees of freedom (Abramowitz and Stegun, 26.7.3
/// and 26.7.4).
#[must_use]
pub fn t_cdf(t: f64, free: usize) -> f64 {
    let free = free.max(1);
    let angle = (t.abs() / count(free).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let first = 1 + free % 2;
    let (mut sum, mut term) = (0.0, if first == 2 { cos } else { 1.0 });
    // The terms' exponents are 1, 3, .. free - 2, or 0, 2, .. free - 2.
    let mut k = first;
    while k < free {
        sum += term;
        term *= cos * cos * count(k) / count(k + 1);
        k += 2;
    }
    let within =
        if first == 2 { (angle + sin * sum) * std::f64::consts::FRAC_2_PI } else { sin * sum };
    0.5 + t.signum() * within / 2.0
}

/// Below which value Student's t stays with this probability of more than one half.
fn t_quantile(share: f64, free: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if t_cdf(middle, free) < share { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (free, expected) in
            [(1, 6.3138), (2, 2.9200), (3, 2.3534), (5, 2.0150), (10, 1.8125), (29, 1.6991)]
        {
            let found = t_quantile(0.95, free);
            assert!((found - expected).abs() < 1e-3, "{free}: {found}");
        }
        for free in 1..40 {
            assert!((t_cdf(1.3, free) + t_cdf(-1.3, free) - 1.0).abs() < 1e-12);
            assert!((t_cdf(0.0, free) - 0.5).abs() < 1e-12);
        }
    }

    #[test]
    fn spreads_are_pooled() {
        let mut spread = Spread::default();
        assert_eq!((spread.deviation(), spread.above(&[1.0], 0.0)), (None, 0.5));
        assert_eq!(spread.estimate(&[1.0]).high, f64::INFINITY);
        spread.add_group(&[1.0, 3.0]);
        spread.add_group(&[10.0]);
        spread.add_nulls([-1.0, 1.0]);
        assert_eq!(spread.deviation(), Some((4.0_f64 / 3.0).sqrt()));
        let known = spread.estimate(&[2.0, 4.0]);
        assert!((known.mean - 3.0).abs() < 1e-12 && known.low > 0.5 && known.high < 5.5);
        assert!(spread.above(&[9.0], 0.0) > 0.99 && spread.better(&[1.0], &[9.0]) < 0.01);
    }

    #[test]
    fn a_measure_that_did_not_move_makes_nothing_certain() {
        let mut still = Spread::default();
        still.add_nulls([0.0]);
        assert_eq!(still.deviation(), Some(LEAST));
        assert!(still.above(&[LEAST], 0.0) < 0.8 && still.above(&[1.0], 0.0) > 0.99);
        assert!(still.above(&[1.0], 2.0) < 0.01);
    }
}
