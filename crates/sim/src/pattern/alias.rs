//! Draws an index with given weights in constant time (Vose's alias method, 1991).

/// A table for weighted draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Alias {
    /// By column: a threshold, and another index. A coin below the threshold draws the column's own
    /// index, otherwise the other one.
    columns: Vec<(f64, u32)>,
}

impl Alias {
    /// A table for `weights`, which must not be negative.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let n = u32::try_from(weights.len()).unwrap_or(u32::MAX);
        let sum: f64 = weights.iter().sum();
        let mut p: Vec<f64> = weights.iter().map(|w| w / sum * f64::from(n)).collect();
        let mut columns: Vec<(f64, u32)> = (0..n).map(|i| (1.0, i)).collect();
        let at = |i: u32| i as usize;
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..n).partition(|&i| p[at(i)] < 1.0);
        while let (Some(s), Some(l)) = (small.pop(), large.pop()) {
            columns[at(s)] = (p[at(s)], l);
            p[at(l)] -= 1.0 - p[at(s)];
            if p[at(l)] < 1.0 { small.push(l) } else { large.push(l) }
        }
        Self { columns }
    }

    /// Draws an index. `column` (below the number of weights) and `coin` (in [0, 1)) are random
    /// numbers.
    #[must_use]
    pub fn draw(&self, column: usize, coin: f64) -> usize {
        let (threshold, other) = self.columns[column];
        if coin < threshold { column } else { other as usize }
    }

    /// The chance of each index.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.columns.len()];
        #[expect(clippy::cast_precision_loss, reason = "a number of columns")]
        let column = 1.0 / self.columns.len() as f64;
        for (i, &(threshold, other)) in self.columns.iter().enumerate() {
            shares[i] += threshold * column;
            shares[other as usize] += (1.0 - threshold) * column;
        }
        shares
    }

    /// Number of weights.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Alias;

    /// The shares that all columns give to an index must add up to its weight, exactly.
    #[test]
    fn columns_hold_the_weights() {
        for weights in [vec![1.0], vec![1.0, 1.0], vec![8.0, 1.0, 1.0], vec![0.0, 3.0, 1.0, 0.0]] {
            let table = Alias::new(&weights);
            let sum: f64 = weights.iter().sum();
            let shares = table.shares();
            for (share, w) in shares.iter().zip(&weights) {
                assert!((share - w / sum).abs() < 1e-9, "{weights:?}: {shares:?}");
            }
        }
    }
}
