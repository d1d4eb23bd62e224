//! When a policy that failed is tried again.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(300);
/// A policy that ran for so long begins with the shortest wait again.
const GOOD: Duration = Duration::from_secs(60);

/// Waits that double, from 1 s up to 5 min.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
    started: Option<Instant>,
}

impl Backoff {
    /// How many times in a row it has failed.
    pub(super) const fn tries(&self) -> u32 {
        self.tries
    }

    /// It runs now.
    pub(super) const fn started(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// It failed now. Returns when it is to be tried again.
    pub(super) fn failed(&mut self, now: Instant) -> Instant {
        let ran = self.started.take().map(|started| now.duration_since(started));
        if ran.is_some_and(|ran| ran >= GOOD) {
            self.tries = 0;
        }
        let wait = FIRST.saturating_mul(1 << self.tries.min(16)).min(MOST);
        self.tries = self.tries.saturating_add(1);
        now + wait
    }

    /// Forgets all failures.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_until_it_runs_well() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..11 {
            // It starts, and fails at once.
            backoff.started(now);
            waits.push((backoff.failed(now) - now).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.tries(), 11);
        backoff.started(now);
        let later = now + GOOD;
        assert_eq!(backoff.failed(later) - later, FIRST);
        backoff.reset();
        assert_eq!(backoff.tries(), 0);
    }
}
