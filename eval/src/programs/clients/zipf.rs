//! A long, fixed sequence of keys with Zipf's frequencies, drawn before the load begins.

/// Draws `n` numbers below `keys`, of which number r has the weight 1 / (r + 1)^`s`; then renames
/// them by a shuffle, for the frequency of a key says nothing of where it lies.
pub(crate) fn sequence(keys: u32, s: f64, n: usize, seed: u64) -> Vec<u32> {
    let mut sums = Vec::with_capacity(keys as usize);
    let mut sum = 0.0;
    for r in 1..=keys {
        sum += f64::from(r).powf(-s);
        sums.push(sum);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut names: Vec<u32> = (0..keys).collect();
    random.shuffle(&mut names);
    (0..n)
        .map(|_| {
            let x = random.f64() * sum;
            let rank = sums.partition_point(|s| *s <= x);
            names[rank.min(names.len() - 1)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_those_of_zipf() {
        let (keys, n) = (100, 200_000);
        let mut counts = vec![0u32; keys as usize];
        for k in sequence(keys, 1.0, n, 3) {
            counts[k as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // 1/1 and 1/10 of the harmonic number 5.187.
        for (rank, share) in [(0, 0.1928), (9, 0.01928)] {
            let got = f64::from(counts[rank]) / 200_000.0;
            assert!((got - share).abs() < 0.1 * share, "rank {rank}: {got} instead of {share}");
        }
    }
}
