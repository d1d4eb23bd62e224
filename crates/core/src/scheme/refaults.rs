//! How much of what a scheme took came back, second by second: the rate that brakes and goals use.

use alloc::collections::VecDeque;

use crate::time::Time;

/// Refaults of fewer bytes than this are no reason to slow down.
const LEAST: u64 = 1 << 20;

/// Bytes done and refaulted in the last seconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refaults {
    seconds: VecDeque<Second>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Second {
    nr: u64,
    done: u64,
    refaulted: u64,
}

impl Refaults {
    /// Bytes were acted on at `now`.
    pub fn done(&mut self, bytes: u64, now: Time) {
        self.second(now).done += bytes;
    }

    /// Bytes that had been acted on were touched again at `now`.
    pub fn refaulted(&mut self, bytes: u64, now: Time) {
        self.second(now).refaulted += bytes;
    }

    fn second(&mut self, now: Time) -> &mut Second {
        let nr = now.as_ns() / 1_000_000_000;
        if self.seconds.back().is_none_or(|last| last.nr < nr) {
            self.seconds.push_back(Second { nr, done: 0, refaulted: 0 });
        }
        let last = self.seconds.len() - 1;
        &mut self.seconds[last]
    }

    /// The share of the last `window_us` microseconds' work that was touched again, in basis
    /// points; none if there was no work. Less than a MiB counts as nothing: a few pages of a
    /// program's stack and code always come back.
    pub fn rate_bp(&mut self, window_us: u64, now: Time) -> Option<u64> {
        let first = (now.as_ns() / 1000).saturating_sub(window_us) / 1_000_000;
        while self.seconds.front().is_some_and(|s| s.nr < first) {
            self.seconds.pop_front();
        }
        let sum = |f: fn(&Second) -> u64| self.seconds.iter().map(f).sum::<u64>();
        let (done, refaulted) = (sum(|s| s.done), sum(|s| s.refaulted));
        // If memory comes back while none was taken, all of the work was in vain: 10 000 basis
        // points.
        match (done, refaulted) {
            (0, 0) => None,
            (_, refaulted) if refaulted < LEAST => Some(0),
            (0, _) => Some(10_000),
            _ => Some(refaulted.saturating_mul(10_000) / done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_window() {
        let mut all = Refaults::default();
        let s = |s: u64| Time(s * 1_000_000_000);
        assert_eq!(all.rate_bp(10_000_000, s(1)), None);
        all.done(1000 * LEAST, s(1));
        all.done(1000 * LEAST, s(5));
        all.refaulted(20 * LEAST, s(6));
        assert_eq!(all.rate_bp(10_000_000, s(7)), Some(100));
        assert_eq!(all.rate_bp(10_000_000, s(14)), Some(200), "the first second is out");
        assert_eq!(all.rate_bp(10_000_000, s(16)), Some(10_000), "nothing done any more");
        assert_eq!(all.rate_bp(10_000_000, s(30)), None);
        all.done(10, s(31));
        all.refaulted(10, s(31));
        assert_eq!(all.rate_bp(10_000_000, s(31)), Some(0), "too little to count");
    }
}
