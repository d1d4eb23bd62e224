//! When the mappings of a target are read: as it is added, once per update interval (less often if
//! that costs much, and while it maps as much as before), and before a snapshot that shows memory
//! of which no mapping was read.
//!
//! So whoever reads a record knows the mappings before the accesses. A target whose memory cannot
//! be named (it was unmapped in the meantime) is read once per change of its outline, not once per
//! window.

use std::collections::BTreeMap;

use isotherm_core::{AddrRange, Snapshot, TargetId, TargetInfo, Time};
use isotherm_record::Mapping;

/// Time between two readings of all mappings, as a multiple of what one costs: 1 % of a CPU.
const REST: u64 = 100;
/// The same while a target maps as much as before: 0.1 %. What moved without that, or has another
/// name, is noticed later.
const SAME_SIZE_REST: u64 = 1000;

/// When all mappings are read again, after that took `cost_ns` of CPU time.
pub(crate) fn next_reading(now: Time, every_ns: u64, cost_ns: u64) -> Time {
    now + every_ns.max(cost_ns.saturating_mul(REST))
}

/// How the mappings of a target were read last.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Time,
    /// How much it mapped just before.
    size: [u64; 3],
    cost_ns: u64,
}

/// What was read of the targets' mappings.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    /// How it was read, where the kernel told how much the target maps.
    readings: BTreeMap<TargetId, Reading>,
    /// Where mappings are, neighbours joined.
    mapped: BTreeMap<TargetId, Vec<AddrRange>>,
    /// What the regions of the last snapshots covered, neighbours joined.
    outlines: BTreeMap<TargetId, Vec<AddrRange>>,
}

impl Maps {
    /// Takes in what was read of a target.
    pub(crate) fn learn(&mut self, id: TargetId, mappings: &[Mapping]) {
        let mapped = mappings.iter().map(|m| AddrRange::new(m.start, m.end));
        self.mapped.insert(id, joined(mapped));
    }

    /// Notes that a target's mappings are read, which cost so much CPU time; `size` is how much it
    /// mapped just before.
    pub(crate) fn note(&mut self, id: TargetId, size: Option<[u64; 3]>, at: Time, cost_ns: u64) {
        match size {
            Some(size) => self.readings.insert(id, Reading { at, size, cost_ns }),
            None => self.readings.remove(&id),
        };
    }

    /// Whether a target's mappings need not be read again yet, since it maps as much as before.
    pub(crate) fn may_rest(&self, id: TargetId, size: Option<[u64; 3]>, now: Time) -> bool {
        let all_ns: u64 = self.readings.values().map(|reading| reading.cost_ns).sum();
        self.readings.get(&id).is_some_and(|last| {
            let is_early = now.since(last.at) < all_ns.saturating_mul(SAME_SIZE_REST);
            size == Some(last.size) && is_early
        })
    }

    /// Forgets a target that is gone.
    pub(crate) fn forget(&mut self, id: TargetId) {
        self.readings.remove(&id);
        self.mapped.remove(&id);
        self.outlines.remove(&id);
    }

    /// The targets of which the snapshot shows new memory without a mapping.
    pub(crate) fn unknown(&mut self, s: &Snapshot) -> Vec<TargetId> {
        s.targets.iter().filter(|t| self.is_unknown(t)).map(|t| t.id).collect()
    }

    fn is_unknown(&mut self, t: &TargetInfo) -> bool {
        let outline = joined(t.regions.iter().map(|r| r.range));
        let last = self.outlines.entry(t.id).or_default();
        if *last == outline {
            return false;
        }
        *last = outline;
        let mapped = self.mapped.get(&t.id).map_or(&[][..], Vec::as_slice);
        last.iter().any(|range| {
            let at = mapped.partition_point(|m| m.end <= range.start);
            mapped.get(at).is_none_or(|m| m.start > range.start || m.end < range.end)
        })
    }
}

/// The ranges with neighbours joined. They are in address order.
fn joined(ranges: impl Iterator<Item = AddrRange>) -> Vec<AddrRange> {
    let mut out: Vec<AddrRange> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::RegionInfo;

    fn snapshot(ranges: &[(u64, u64)]) -> Snapshot {
        let region = |&(a, b)| RegionInfo { range: AddrRange::new(a, b), ..RegionInfo::default() };
        let regions = ranges.iter().map(region).collect();
        let target = TargetInfo { id: TargetId(3), regions, ..TargetInfo::default() };
        Snapshot { targets: vec![target], ..Snapshot::default() }
    }

    #[test]
    fn what_costs_much_is_read_seldom() {
        const SECOND: u64 = 1_000_000_000;
        // CPU time of a reading, in ms, and seconds until the next.
        for (cost_ms, seconds) in
            [(0, 1), (10, 1), (60, 6), (u64::MAX / 1_000_000, u64::MAX / SECOND)]
        {
            let next = next_reading(Time(0), SECOND, cost_ms * 1_000_000);
            assert_eq!(next.0 / SECOND, seconds, "{cost_ms} ms");
        }
    }

    #[test]
    fn targets_that_map_as_much_as_before_are_read_seldom_if_all_of_them_cost_much() {
        const MS: u64 = 1_000_000;
        let mut maps = Maps::default();
        let size = Some([3, 2, 1]);
        assert!(!maps.may_rest(TargetId(1), size, Time(0)), "it was never read");
        for id in 1..=4 {
            maps.note(TargetId(id), size, Time(0), MS);
        }
        // Each takes a millisecond, so all of them may be read every four seconds.
        let may_rest = |maps: &Maps, size, ms| maps.may_rest(TargetId(1), size, Time(ms * MS));
        assert!(may_rest(&maps, size, 3999) && !may_rest(&maps, size, 4000));
        for other in [Some([4, 2, 1]), Some([3, 2, 2]), None] {
            assert!(!may_rest(&maps, other, 1), "{other:?}");
        }
        maps.forget(TargetId(2));
        maps.note(TargetId(3), None, Time(0), MS);
        assert!(may_rest(&maps, size, 1999) && !may_rest(&maps, size, 2000), "two are left");
    }

    #[test]
    fn memory_without_a_mapping_is_asked_for_once() {
        let mut maps = Maps::default();
        let id = TargetId(3);
        assert_eq!(maps.unknown(&snapshot(&[(0, 10)])), [id], "nothing was read yet");
        assert_eq!(maps.unknown(&snapshot(&[(0, 4), (4, 10)])), [], "the same memory");
        maps.learn(id, &[Mapping::new(0, 6, "", "a"), Mapping::new(6, 12, "", "b")]);
        assert_eq!(maps.unknown(&snapshot(&[(0, 3), (5, 12)])), [], "all of it is known");
        assert_eq!(maps.unknown(&snapshot(&[(0, 12), (20, 30)])), [id], "it has grown");
        maps.learn(id, &[Mapping::new(0, 30, "", "a")]);
        maps.forget(id);
        assert_eq!(maps.unknown(&snapshot(&[(0, 12)])), [id]);
    }
}
