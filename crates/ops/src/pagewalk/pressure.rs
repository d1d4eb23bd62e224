//! Whether the kernel reclaims memory of a target now.
//!
//! Reclaim decides by the accessed bits that the monitor clears. While it is at work, a monitor
//! that clears the bits of all memory every few seconds takes away what reclaim has to know, and
//! memory in use is paged out.

use std::collections::BTreeMap;

use isotherm_core::{TargetId, Time};
use isotherm_host::reclaim::Reclaim;

/// Growth of the counters per second from one question to the next, from which on reclaim is at
/// work: 1 MiB looked at, in pages.
const AT_WORK: u64 = 256;
const SECOND_NS: u64 = 1_000_000_000;
/// After this time without reclaim, in ns, it is told again when it begins.
const QUIET_NS: u64 = 60_000_000_000;

/// What was counted last.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    reclaim: Option<Reclaim>,
    of: BTreeMap<TargetId, Last>,
    news: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Last {
    /// When the counters were read, and what they were.
    total: Option<(Time, u64)>,
    /// When reclaim was at work last.
    on: Option<Time>,
}

/// Whether counters that were `before` so long ago say that reclaim is at work. Whoever asks rarely
/// sees more growth, and is not to spare a target for what it finds in a second.
fn is_at_work(total: u64, before: u64, elapsed_ns: u64) -> bool {
    let grown = u128::from(total.saturating_sub(before)) * u128::from(SECOND_NS);
    grown >= u128::from(AT_WORK) * u128::from(elapsed_ns.max(SECOND_NS))
}

impl Pressure {
    /// Whether memory of this process was being reclaimed since this was asked last.
    pub(super) fn is_on(&mut self, target: TargetId, pid: u32, now: Time) -> bool {
        let reclaim = self.reclaim.get_or_insert_with(Reclaim::of_machine);
        let total = reclaim.total(pid, now.as_ns());
        let last = self.of.entry(target).or_default();
        let before = last.total.replace((now, total));
        let is_on = before.is_some_and(|(at, before)| is_at_work(total, before, now.since(at)));
        if is_on && last.on.replace(now).is_none_or(|on| now.since(on) > QUIET_NS) {
            self.news.push(format!(
                "the kernel is reclaiming memory of process {pid}: to leave it the accessed bits \
                 that it needs, little memory is made old meanwhile, so that what is reported is \
                 older than usual"
            ));
        }
        is_on
    }

    /// What is to be told to people, once.
    pub(super) fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    pub(super) fn forget(&mut self, target: TargetId) {
        self.of.remove(&target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_slowly_is_no_reclaim_at_work_however_rarely_it_is_asked() {
        let s = |s: u64| s * SECOND_NS;
        for (grown, elapsed, at_work) in [
            (255, s(1), false),
            (256, s(1), true),
            (256, s(1) / 2, true),
            (2559, s(10), false),
            (2560, s(10), true),
        ] {
            assert_eq!(is_at_work(1000 + grown, 1000, elapsed), at_work, "{grown} in {elapsed} ns");
        }
        assert!(!is_at_work(10, 1000, s(1)), "it has moved to another cgroup");
    }
}
