//! The account of a scheme: asked, done, refaulted. Three numbers, in bytes of whole pages, that
//! can be held against `/proc/vmstat`.

use isotherm_core::Time;
use isotherm_core::scheme::{Counters, Refaults};

use crate::Outcome;

/// What became of a scheme's requests so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// The counters, of which this crate fills those of acting.
    pub counters: Counters,
    /// For the refault rate.
    refaults: Refaults,
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
        self.refaults.done(bytes, now);
        bytes
    }

    pub(in crate::apply) fn refaulted(&mut self, bytes: u64, now: Time) {
        self.counters.refaulted_bytes += bytes;
        self.refaults.refaulted(bytes, now);
    }

    /// The share of the last `window_us` microseconds' work that was touched again, in basis
    /// points; see [`Refaults::rate_bp`].
    pub(in crate::apply) fn refault_bp(&mut self, window_us: u64, now: Time) -> Option<u64> {
        self.refaults.rate_bp(window_us, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
