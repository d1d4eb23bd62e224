//! Whether the kernel reclaims memory of a target now.
//!
//! Reclaim decides by the accessed bits that the monitor clears. While it is at work, a monitor
//! that clears the bits of all memory every few seconds takes away what reclaim has to know, and
//! memory in use is paged out.

use std::collections::BTreeMap;

use isotherm_core::TargetId;
use isotherm_host::reclaim::Reclaim;

/// Growth of the counters from one question to the next, usually a second, from which on reclaim is
/// at work: 1 MiB looked at, in pages.
const AT_WORK: u64 = 256;

/// What was counted last.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    reclaim: Option<Reclaim>,
    totals: BTreeMap<TargetId, u64>,
}

impl Pressure {
    /// Whether memory of this process was being reclaimed since this was asked last.
    pub(super) fn is_on(&mut self, target: TargetId, pid: u32) -> bool {
        let total = self.reclaim.get_or_insert_with(Reclaim::of_machine).total(pid);
        let before = self.totals.insert(target, total);
        before.is_some_and(|before| total.saturating_sub(before) >= AT_WORK)
    }

    pub(super) fn forget(&mut self, target: TargetId) {
        self.totals.remove(&target);
    }
}
