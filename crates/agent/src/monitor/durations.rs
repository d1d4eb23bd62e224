//! How long samples take: from waking up to sleeping again.

/// Upper bounds of the classes, in µs. What takes longer is in one class more.
pub const BOUNDS_US: [u64; 12] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000];

/// How many samples took how long. A sample is all that is done between two sleeps: looking,
/// arming, schemes, and what the caller does with a window that ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Durations {
    /// How many are in each class of [`BOUNDS_US`], the longest last; none counts twice.
    pub counts: [u64; BOUNDS_US.len() + 1],
    /// The sum of all, in ns.
    pub sum_ns: u64,
}

impl Durations {
    /// Takes one in.
    pub(super) fn note(&mut self, ns: u64) {
        let class = BOUNDS_US.partition_point(|us| us.saturating_mul(1000) < ns);
        if let Some(count) = self.counts.get_mut(class) {
            *count = count.saturating_add(1);
        }
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_in_the_least_class_that_holds_it() {
        let mut durations = Durations::default();
        for (ns, class) in
            [(0, 0), (50_000, 0), (50_001, 1), (1_000_000_000, 11), (1_000_000_001, 12)]
        {
            let before = durations;
            durations.note(ns);
            assert_eq!(durations.counts[class], before.counts[class] + 1, "{ns}");
            assert_eq!(durations.counts.iter().sum::<u64>(), before.counts.iter().sum::<u64>() + 1);
            assert_eq!(durations.sum_ns, before.sum_ns + ns);
        }
    }
}
