//! Whether the kernel reclaims memory of a target now.
//!
//! Reclaim decides by the accessed bits that the monitor clears. While it is at work, a monitor
//! that clears the bits of all memory every few seconds takes away what reclaim has to know, and
//! memory in use is paged out.

use std::collections::BTreeMap;

use isotherm_core::{TargetId, Time};
use isotherm_host::reclaim::Reclaim;

/// Growth of the counters from one question to the next, usually a second, from which on reclaim is
/// at work: 1 MiB looked at, in pages.
const AT_WORK: u64 = 256;
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
    total: Option<u64>,
    /// When reclaim was at work last.
    on: Option<Time>,
}

impl Pressure {
    /// Whether memory of this process was being reclaimed since this was asked last.
    pub(super) fn is_on(&mut self, target: TargetId, pid: u32, now: Time) -> bool {
        let total = self.reclaim.get_or_insert_with(Reclaim::of_machine).total(pid);
        let last = self.of.entry(target).or_default();
        let before = last.total.replace(total);
        let is_on = before.is_some_and(|before| total.saturating_sub(before) >= AT_WORK);
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
