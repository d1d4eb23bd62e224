//! A budget of time: a fixed amount per second. Unused time is saved up to a limit.

use isotherm_core::Time;

/// Time that may be used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    ns_per_s: u64,
    most_ns: u64,
    left_ns: i64,
    at: Time,
}

impl Budget {
    /// `ns_per_s` nanoseconds per second; up to `most_ns` are saved up, and are there to begin
    /// with.
    pub(super) fn new(ns_per_s: u64, most_ns: u64) -> Self {
        Self { ns_per_s, most_ns, left_ns: signed(most_ns), at: Time(0) }
    }

    /// What is there now, in ns.
    pub(super) fn left(&mut self, now: Time) -> u64 {
        // Time beyond what fills the budget does not count, so nothing overflows.
        let us = (now.since(self.at) / 1000).min(1_000_000_000);
        let earned = us * self.ns_per_s / 1_000_000;
        self.left_ns = (self.left_ns + signed(earned)).min(signed(self.most_ns));
        self.at = now;
        u64::try_from(self.left_ns).unwrap_or(0)
    }

    /// Uses some time. Time used beyond the budget is owed.
    pub(super) fn spend(&mut self, ns: u64) {
        self.left_ns = self.left_ns.saturating_sub(signed(ns));
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_is_saved_and_what_is_too_much_is_owed() {
        let mut budget = Budget::new(1_000, 10_000);
        let at = |s: u64| Time(s * 1_000_000_000);
        assert_eq!(budget.left(at(5)), 10_000);
        budget.spend(12_000);
        for (s, left) in [(5, 0), (6, 0), (7, 0), (8, 1_000), (100, 10_000), (1 << 33, 10_000)] {
            assert_eq!(budget.left(at(s)), left, "second {s}");
        }
    }
}
