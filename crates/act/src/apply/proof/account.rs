//! The account of a scheme: asked, done, refaulted. Three numbers, in bytes of whole pages, that
//! can be held against `/proc/vmstat`.

use std::collections::VecDeque;

use isotherm_core::Time;
use isotherm_core::scheme::Counters;

use crate::Outcome;

/// Refaults of fewer bytes than this are no reason to slow down.
const LEAST: u64 = 1 << 20;

/// What became of a scheme's requests so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// The counters, of which this crate fills those of acting.
    pub counters: Counters,
    /// Done and refaulted, second by second, for the refault rate.
    seconds: VecDeque<Second>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Second {
    nr: u64,
    done: u64,
    refaulted: u64,
}

impl Account {
    pub(in crate::apply) fn acted(&mut self, outcome: &Outcome) {
        let counters = &mut self.counters;
        counters.asked_bytes += outcome.asked_bytes;
        counters.refused_bytes += outcome.refused_bytes;
        for refused in &outcome.refused {
            *counters.refused.entry(refused.errno).or_default() += refused.range.len();
        }
        counters.action_cpu_ns += outcome.cpu_ns;
    }

    /// Adds what a look afterwards shows, and returns the part that counts: pages that were asked
    /// for and not refused. Pages that the kernel refused and that are gone all the same went for
    /// another reason.
    pub(in crate::apply) fn done(&mut self, bytes: u64, dry_run: bool, now: Time) -> u64 {
        let counters = &mut self.counters;
        let answered = counters.refused_bytes + counters.done_bytes;
        let bytes = bytes.min(counters.asked_bytes.saturating_sub(answered));
        counters.done_bytes += bytes;
        counters.pretended_bytes += if dry_run { bytes } else { 0 };
        self.second(now).done += bytes;
        bytes
    }

    pub(in crate::apply) fn refaulted(&mut self, bytes: u64, now: Time) {
        self.counters.refaulted_bytes += bytes;
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
    pub(in crate::apply) fn refault_bp(&mut self, window_us: u64, now: Time) -> Option<u64> {
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
    fn the_refault_rate_is_that_of_the_window() {
        let counters = Counters { asked_bytes: u64::MAX, ..Counters::default() };
        let mut account = Account { counters, ..Account::default() };
        let s = |s: u64| Time(s * 1_000_000_000);
        assert_eq!(account.refault_bp(10_000_000, s(1)), None);
        account.done(1000 * LEAST, false, s(1));
        account.done(1000 * LEAST, false, s(5));
        account.refaulted(20 * LEAST, s(6));
        assert_eq!(account.refault_bp(10_000_000, s(7)), Some(100));
        assert_eq!(account.refault_bp(10_000_000, s(14)), Some(200), "the first second is out");
        assert_eq!(account.refault_bp(10_000_000, s(16)), Some(10_000), "nothing done any more");
        assert_eq!(account.refault_bp(10_000_000, s(30)), None);
        account.done(10, false, s(31));
        account.refaulted(10, s(31));
        assert_eq!(account.refault_bp(10_000_000, s(31)), Some(0), "too little to count");
        let refaulted = account.counters.refaulted_bytes - 10;
        assert_eq!(refaulted, 20 * LEAST, "the account itself forgets nothing");
    }

    proptest::proptest! {
        /// Whatever the kernel answers and a look shows, no byte is counted twice.
        #[test]
        fn what_was_asked_for_is_done_or_refused_or_neither(
            steps in proptest::collection::vec((0_u64..1000, 0_u64..1000, 0_u64..3000), 1..50),
        ) {
            let mut account = Account::default();
            for (nr, (accepted, refused, shown)) in (0..).zip(steps) {
                let asked_bytes = accepted + refused;
                let outcome = Outcome { asked_bytes, refused_bytes: refused, ..Outcome::default() };
                account.acted(&outcome);
                let counted = account.done(shown, false, Time(nr));
                proptest::prop_assert!(counted <= shown);
                let Counters { asked_bytes, done_bytes, refused_bytes, .. } = account.counters;
                proptest::prop_assert!(done_bytes + refused_bytes <= asked_bytes, "{account:?}");
            }
        }
    }
}
