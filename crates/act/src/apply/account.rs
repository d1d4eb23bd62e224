//! The account of a scheme: asked, done, refaulted. Three numbers, in bytes of whole pages, that can be held
//! against `/proc/vmstat`.

use std::collections::{BTreeMap, VecDeque};

use isotherm_core::Time;
use serde::Serialize;

use crate::Outcome;

/// Refaults of less than this, in bytes, are no reason to slow down.
const LEAST: u64 = 1 << 20;

/// What became of a scheme's wishes so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Account {
    /// Bytes that the kernel was asked to act on; in a dry run: would have been.
    pub asked_bytes: u64,
    /// Bytes for which a look afterwards showed that it had; in a dry run: that would have been asked for.
    pub done_bytes: u64,
    /// Bytes done that were touched again within the refault window.
    pub refaulted_bytes: u64,
    /// Bytes that the kernel refused: locked, shared, holes and so on.
    pub refused_bytes: u64,
    /// The same by the kernel's answer (errno); the sum can be less, because only some are kept per call.
    pub refused: BTreeMap<i32, u64>,
    /// Bytes that stayed untouched for the confirm time.
    pub confirmed_bytes: u64,
    /// Bytes that were armed and then touched before the confirm time was over.
    pub refuted_bytes: u64,
    /// Bytes confirmed idle that the scheme's filters kept.
    pub filtered_bytes: u64,
    /// Bytes of physical memory that could not be reached through a process that has them alone.
    pub unreached_bytes: u64,
    /// The same by reason: `unmapped` (page cache that no process maps; its evidence is not gathered), `shared` (several do),
    /// `own` (Isotherm's), `gone` (moved or given back since it was looked at).
    pub unreached: BTreeMap<&'static str, u64>,
    /// Bytes moved to where they came from within the last minute; only of schemes that take from one node.
    pub ping_pong_bytes: u64,
    /// Bytes made old to gather evidence.
    pub armed_bytes: u64,
    /// Time spent on acting and on gathering evidence, in ns.
    pub action_ns: u64,
    /// CPU time of that, in ns; without the looks.
    pub action_cpu_ns: u64,
    #[serde(skip)]
    seconds: VecDeque<Second>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Second {
    nr: u64,
    done: u64,
    refaulted: u64,
}

impl Account {
    pub(super) fn acted(&mut self, outcome: &Outcome) {
        self.asked_bytes += outcome.asked_bytes;
        self.refused_bytes += outcome.refused_bytes;
        for refused in &outcome.refused {
            *self.refused.entry(refused.errno).or_default() += refused.range.len();
        }
        self.action_cpu_ns += outcome.cpu_ns;
    }

    /// Takes in what a look afterwards shows, and returns what of it counts: what was asked for and not refused. A range
    /// that the kernel refused, and that is gone all the same, went for another reason.
    pub(super) fn done(&mut self, bytes: u64, now: Time) -> u64 {
        let answered = self.refused_bytes + self.done_bytes;
        let bytes = bytes.min(self.asked_bytes.saturating_sub(answered));
        self.done_bytes += bytes;
        self.second(now).done += bytes;
        bytes
    }

    pub(super) fn refaulted(&mut self, bytes: u64, now: Time) {
        self.refaulted_bytes += bytes;
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

    /// The share of the last `window_us` microseconds' work that was touched again, in basis points; none
    /// if there was no work. Less than a MiB counts as nothing: a few pages of a program's stack and code
    /// always come back.
    pub(super) fn refault_bp(&mut self, window_us: u64, now: Time) -> Option<u64> {
        let first = (now.as_ns() / 1000).saturating_sub(window_us) / 1_000_000;
        while self.seconds.front().is_some_and(|s| s.nr < first) {
            self.seconds.pop_front();
        }
        let sum = |f: fn(&Second) -> u64| self.seconds.iter().map(f).sum::<u64>();
        let (done, refaulted) = (sum(|s| s.done), sum(|s| s.refaulted));
        // Memory that comes back when nothing more is taken is as bad: all of it.
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
        let mut account = Account { asked_bytes: u64::MAX, ..Account::default() };
        let s = |s: u64| Time(s * 1_000_000_000);
        assert_eq!(account.refault_bp(10_000_000, s(1)), None);
        account.done(1000 * LEAST, s(1));
        account.done(1000 * LEAST, s(5));
        account.refaulted(20 * LEAST, s(6));
        assert_eq!(account.refault_bp(10_000_000, s(7)), Some(100));
        assert_eq!(account.refault_bp(10_000_000, s(14)), Some(200), "the first second is out");
        assert_eq!(account.refault_bp(10_000_000, s(16)), Some(10_000), "nothing done any more");
        assert_eq!(account.refault_bp(10_000_000, s(30)), None);
        account.done(10, s(31));
        account.refaulted(10, s(31));
        assert_eq!(account.refault_bp(10_000_000, s(31)), Some(0), "too little to count");
        account.refaulted_bytes -= 10;
        assert_eq!(account.refaulted_bytes, 20 * LEAST, "the account itself forgets nothing");
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
                let counted = account.done(shown, Time(nr));
                proptest::prop_assert!(counted <= shown);
                let answered = account.done_bytes + account.refused_bytes;
                proptest::prop_assert!(answered <= account.asked_bytes, "{account:?}");
            }
        }
    }
}
