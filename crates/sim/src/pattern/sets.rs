//! Sets of pieces that are accessed alike, scattered by a seed.

/// Ranks from k to this share above k have one common weight.
const ALIKE: f64 = 0.05;

/// `nr_sets` independent choices of `size` among `nr_pieces` pieces. Each set is sorted.
pub(super) fn choices(nr_pieces: u64, size: u64, nr_sets: u64, seed: u64) -> Vec<Vec<u32>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut all: Vec<u32> = numbers(nr_pieces);
    let size = usize::try_from(size).unwrap_or(usize::MAX).min(all.len());
    let choice = |_| {
        rng.shuffle(&mut all);
        let mut chosen = all[..size].to_vec();
        chosen.sort_unstable();
        chosen
    };
    (0..nr_sets).map(choice).collect()
}

/// All blocks in sets of about the same weight under zipf's law, and the weights of the sets. The
/// block of rank k has weight 1 / k^`exponent`, or rather the mean of its set. Ranks are shuffled
/// by `scatter`, if there is such a seed; otherwise they rise with the address.
pub(super) fn ranks(
    nr_blocks: u64,
    exponent: f64,
    scatter: Option<u64>,
) -> (Vec<Vec<u32>>, Vec<f64>) {
    let mut by_rank = numbers(nr_blocks);
    if let Some(seed) = scatter {
        fastrand::Rng::with_seed(seed).shuffle(&mut by_rank);
    }
    let (mut sets, mut weights) = (Vec::new(), Vec::new());
    let mut rank = 1.0;
    let mut rest = by_rank.as_slice();
    while !rest.is_empty() {
        let (set, behind) = rest.split_at(alike(rank).min(rest.len()));
        let mut weight = 0.0;
        for _ in set {
            weight += f64::powf(rank, -exponent);
            rank += 1.0;
        }
        let mut set = set.to_vec();
        set.sort_unstable();
        sets.push(set);
        weights.push(weight);
        rest = behind;
    }
    (sets, weights)
}

/// How many ranks from `rank` on have one common weight: at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of blocks, far below 2^52"
)]
fn alike(rank: f64) -> usize {
    ((rank * ALIKE) as usize).max(1)
}

fn numbers(n: u64) -> Vec<u32> {
    (0..u32::try_from(n).unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_sorted_distinct_and_differ() {
        let sets = choices(1000, 100, 3, 7);
        assert_eq!(sets.len(), 3);
        for set in &sets {
            assert_eq!(set.len(), 100);
            assert!(set.windows(2).all(|w| w[0] < w[1]) && set[99] < 1000, "{set:?}");
        }
        assert!(sets[0] != sets[1] && sets[1] != sets[2]);
        assert_eq!(choices(1000, 100, 2, 7), sets[..2], "the seed decides");
        assert_ne!(choices(1000, 100, 1, 8), sets[..1]);
    }

    /// Every block is in one set, the sum of all weights is that of zipf's law, and no block's
    /// weight is off by more than the ranks of its set differ.
    #[test]
    fn ranks_follow_the_law() {
        let (nr, exponent) = (20_000, 1.2);
        let (sets, weights) = ranks(nr, exponent, Some(3));
        let mut all: Vec<u32> = sets.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, numbers(nr));
        let law = |k: f64| k.powf(-exponent);
        let mut rank = 1.0;
        let mut sum = 0.0;
        for (set, weight) in sets.iter().zip(&weights) {
            let each = weight / set.len() as f64;
            let last = rank + set.len() as f64 - 1.0;
            assert!(each <= law(rank) * 1.0001 && each >= law(last) * 0.9999, "rank {rank}");
            assert!(last < rank * 1.05 + 1.0, "rank {rank} to {last}");
            (rank, sum) = (last + 1.0, sum + weight);
        }
        let expected: f64 = (1..=nr).map(|k| law(k as f64)).sum();
        assert!((sum - expected).abs() < 1e-9 * expected);
        assert!(sets.len() < 200, "{} sets", sets.len());
        // Without a shuffle the first blocks are the hottest.
        assert_eq!(ranks(5000, 1.0, None).0[..2], [vec![0], vec![1]]);
    }
}
