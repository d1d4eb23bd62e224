//! Whether the kernel reclaims memory of a target now.
//!
//! Reclaim decides by the accessed bits that the monitor clears. While it is at work, a monitor
//! that clears the bits of all memory every few seconds takes away what reclaim has to know, and
//! memory in use is paged out.
//!
//! What this program asks a cgroup to reclaim does not count. It asks for no more than it has seen
//! to be idle, and to make less memory old because of that would take away what it decides by.

use std::collections::BTreeMap;

use isotherm_core::{TargetId, Time};
use isotherm_host::reclaim::{Counted, Reclaim};

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
    /// When the counters were read, and what they said.
    counted: Option<(Time, Counted)>,
    /// When reclaim was at work last.
    on: Option<Time>,
}

/// Whether counters that said `before` so long ago say that reclaim is at work, other than ours.
/// Whoever asks rarely sees more growth, and is not to spare a target for what it finds in a
/// second.
fn is_at_work(now: Counted, before: Counted, elapsed_ns: u64) -> bool {
    let all = now.all.saturating_sub(before.all);
    let ours = now.ours.saturating_sub(before.ours);
    // The kernel adds such counters up late, so what is seen of ours while we ask is too little.
    let others = all.saturating_sub(ours.saturating_add(ours / 4));
    let grown = u128::from(others) * u128::from(SECOND_NS);
    grown >= u128::from(AT_WORK) * u128::from(elapsed_ns.max(SECOND_NS))
}

impl Pressure {
    /// Whether memory of this process was being reclaimed since this was asked last.
    pub(super) fn is_on(&mut self, target: TargetId, pid: u32, now: Time) -> bool {
        let reclaim = self.reclaim.get_or_insert_with(Reclaim::of_machine);
        let counted = reclaim.counted(pid, now.as_ns());
        let last = self.of.entry(target).or_default();
        let before = last.counted.replace((now, counted));
        let is_on = before.is_some_and(|(at, before)| is_at_work(counted, before, now.since(at)));
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

    const fn counted(all: u64, ours: u64) -> Counted {
        Counted { all, ours }
    }

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
            let is = is_at_work(counted(1000 + grown, 0), counted(1000, 0), elapsed);
            assert_eq!(is, at_work, "{grown} in {elapsed} ns");
        }
        let moved = is_at_work(counted(10, 0), counted(1000, 0), s(1));
        assert!(!moved, "it has moved to another cgroup");
    }

    #[test]
    fn what_we_asked_for_is_not_the_kernels_reclaim() {
        for (all, ours, at_work) in [
            (8192, 8192, false),
            (9000, 8192, false),
            (10_240 + 255, 8192, false),
            (10_240 + 256, 8192, true),
            (8192, 0, true),
            // The cgroup above was asked, and others below it have paid.
            (0, 8192, false),
        ] {
            let before = counted(5000, 300);
            let is = is_at_work(counted(5000 + all, 300 + ours), before, SECOND_NS);
            assert_eq!(is, at_work, "{all}, {ours} of them ours");
        }
    }
}
