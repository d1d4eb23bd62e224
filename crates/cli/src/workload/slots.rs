//! Adds up what the threads count, slot by slot.

use std::collections::BTreeMap;

/// (pattern, cell, accesses).
pub(super) type Counts = Vec<(u32, u32, u64)>;

/// What a thread did in a slot, or that the thread ended.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) thread: usize,
    pub(super) slot: u64,
    pub(super) counts: Counts,
    pub(super) last: bool,
}

/// The slots that at least one thread has not finished. Threads report in order, so only the slots
/// between the slowest and the fastest thread are held.
#[derive(Debug)]
pub(super) struct Slots {
    open: BTreeMap<u64, BTreeMap<(u32, u32), u64>>,
    /// The first slot that each thread can still report on.
    next: Vec<u64>,
}

impl Slots {
    pub(super) fn new(threads: usize) -> Self {
        Self { open: BTreeMap::new(), next: vec![0; threads] }
    }

    /// Takes a report, and returns the slots that are now complete, in order.
    pub(super) fn add(&mut self, report: Report) -> Vec<(u64, Counts)> {
        let slot = self.open.entry(report.slot).or_default();
        for (pattern, cell, count) in report.counts {
            *slot.entry((pattern, cell)).or_default() += count;
        }
        if let Some(next) = self.next.get_mut(report.thread) {
            *next = if report.last { u64::MAX } else { report.slot + 1 };
        }
        let complete = self.next.iter().copied().min().unwrap_or(u64::MAX);
        let open = self.open.split_off(&complete);
        let done = std::mem::replace(&mut self.open, open);
        let flat = |counts: BTreeMap<(u32, u32), u64>| {
            counts.into_iter().map(|((pattern, cell), n)| (pattern, cell, n)).collect()
        };
        done.into_iter().map(|(k, counts)| (k, flat(counts))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(thread: usize, slot: u64, count: u64, last: bool) -> Report {
        Report { thread, slot, counts: vec![(0, 3, count)], last }
    }

    #[test]
    fn a_slot_is_complete_when_every_thread_is_past_it() {
        let mut slots = Slots::new(2);
        assert_eq!(slots.add(report(0, 5, 1, false)), []);
        assert_eq!(slots.add(report(0, 6, 10, false)), []);
        assert_eq!(slots.add(report(1, 5, 100, false)), [(5, vec![(0, 3, 101)])]);
        assert_eq!(slots.add(report(0, 7, 2, true)), []);
        assert_eq!(
            slots.add(report(1, 6, 1000, true)),
            [(6, vec![(0, 3, 1010)]), (7, vec![(0, 3, 2)])]
        );
    }
}
