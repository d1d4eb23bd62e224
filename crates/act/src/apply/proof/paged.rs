//! What was paged out of each target: asked, done, refaulted. Accounts tell it scheme by scheme;
//! who asks for a cgroup has to know whose memory it was.
//!
//! Only what really happened is counted: nothing that a dry run would have done, and no action but
//! paging out. Physical memory has no owner here, so it is not counted.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::TargetId;

/// What was paged out of one target, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PagedOut {
    /// The kernel was asked for.
    pub asked: u64,
    /// Was gone afterwards.
    pub done: u64,
    /// Of that, what was touched again within the time that counts as a refault.
    pub refaulted: u64,
}

/// What was paged out since that was last taken, by target.
#[derive(Debug, Default)]
pub(in crate::apply) struct Ledger {
    by_target: BTreeMap<TargetId, PagedOut>,
    /// The schemes that paged out.
    schemes: BTreeSet<usize>,
}

impl Ledger {
    /// Adds what the kernel was asked for, and what was gone afterwards.
    pub(in crate::apply) fn acted(
        &mut self,
        scheme: usize,
        target: TargetId,
        asked: u64,
        done: u64,
    ) {
        self.schemes.insert(scheme);
        let sum = self.by_target.entry(target).or_default();
        sum.asked = sum.asked.saturating_add(asked);
        sum.done = sum.done.saturating_add(done);
    }

    /// Adds what came back of what a scheme did; nothing if that was something else.
    pub(in crate::apply) fn refaulted(&mut self, scheme: usize, target: TargetId, bytes: u64) {
        if self.schemes.contains(&scheme) {
            let sum = self.by_target.entry(target).or_default();
            sum.refaulted = sum.refaulted.saturating_add(bytes);
        }
    }

    /// The schemes are others now. What comes back of what a former one paged out is not counted.
    pub(in crate::apply) fn forget_schemes(&mut self) {
        self.schemes.clear();
    }

    /// Forgets a target that is gone, with what was not taken.
    pub(in crate::apply) fn forget(&mut self, target: TargetId) {
        self.by_target.remove(&target);
    }

    /// What was paged out since the last call.
    pub(in crate::apply) fn take(&mut self) -> BTreeMap<TargetId, PagedOut> {
        std::mem::take(&mut self.by_target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_schemes_that_paged_out_have_refaults() {
        let mut ledger = Ledger::default();
        let (a, b) = (TargetId(1), TargetId(2));
        ledger.refaulted(0, a, 4096);
        assert!(ledger.take().is_empty(), "it did something else");
        ledger.acted(0, a, 8192, 4096);
        ledger.acted(0, a, 8192, 8192);
        ledger.refaulted(0, b, 4096);
        ledger.refaulted(1, b, 1 << 20);
        let taken = ledger.take();
        assert_eq!(taken[&a], PagedOut { asked: 16384, done: 12288, refaulted: 0 });
        assert_eq!(taken[&b], PagedOut { refaulted: 4096, ..PagedOut::default() });
        ledger.refaulted(0, a, 4096);
        ledger.forget_schemes();
        ledger.refaulted(0, b, 4096);
        ledger.forget(a);
        assert!(ledger.take().is_empty(), "it was taken, or is gone");
    }
}
