//! Bytes by mapping: every region is divided among the mappings of its target.
//!
//! A record tells mappings once per update interval, so memory can be seen before its mapping is
//! known, and after it was unmapped. What no present mapping holds goes to the mapping that held it
//! before, else it waits for the next mappings. What those do not hold either is no memory if it
//! lies between mappings: areas keep small gaps. Outside of all mappings it is unknown.

use std::collections::BTreeMap;

use isotherm_core::{AddrRange, RegionInfo};
use isotherm_record::MappingKind;

use super::absent::{Absent, Gaps};
use super::{Heat, name};
use crate::scan::TargetState;

/// Parts of regions that wait for their mapping, per target. Any further ones are unknown at once.
const MOST_WAITING: usize = 1 << 14;

/// The key of a line: memory with the same key is added up.
pub(super) type Key = (u32, Option<MappingKind>, String);

/// The mappings of one target, each with the index of its line.
#[derive(Default)]
pub(super) struct Known {
    version: u64,
    pub(super) ranges: Vec<(AddrRange, usize)>,
    before: Vec<(AddrRange, usize)>,
    waiting: Vec<(RegionInfo, u32, f64)>,
    other: usize,
    pub(super) seen_ns: f64,
}

/// Sums by line.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) lines: Vec<(Key, Heat)>,
    index: BTreeMap<Key, usize>,
    pub(super) known: BTreeMap<u32, Known>,
}

impl Sums {
    fn line(&mut self, key: Key) -> usize {
        *self.index.entry(key.clone()).or_insert_with(|| {
            self.lines.push((key, Heat::default()));
            self.lines.len() - 1
        })
    }

    /// Takes in the mappings of a target, unless this version of them was taken in before.
    pub(super) fn learn(&mut self, state: &TargetState, absent: &Absent) {
        let id = state.target.id;
        let fresh = !self.known.contains_key(&id);
        let version = self.known.get(&id).map_or(0, |k| k.version);
        if !fresh && version == state.mappings_version {
            return;
        }
        let mut ranges = Vec::new();
        for m in &state.mappings {
            let line = self.line((id, Some(m.kind), name(m)));
            ranges.push((AddrRange::new(m.start, m.end), line));
        }
        let other = self.line((id, None, "(no mapping known)".into()));
        let known = self.known.entry(id).or_default();
        known.version = state.mappings_version;
        known.before = std::mem::replace(&mut known.ranges, ranges);
        known.other = other;
        self.settle(id, absent);
    }

    /// Adds a region of a target for some time. `at`: where the last region was, among the
    /// mappings; regions come in address order.
    pub(super) fn add(
        &mut self,
        id: u32,
        (r, gaps): (&RegionInfo, Gaps<'_>),
        max: u32,
        time: f64,
        at: &mut usize,
    ) {
        let Some(known) = self.known.get_mut(&id) else { return };
        let skip = known.ranges[(*at).min(known.ranges.len())..].iter();
        *at += skip.take_while(|(m, _)| m.end <= r.range.start).count();
        let lines = &mut self.lines;
        let mut give = |part: &RegionInfo, line: usize| {
            lines[line].1.add_part(part, gaps, max, time);
        };
        // Most regions lie in one mapping.
        if let Some((m, line)) = known.ranges.get(*at)
            && m.start <= r.range.start
            && r.range.end <= m.end
        {
            return give(r, *line);
        }
        let mut rest = Vec::new();
        divide(r, &known.ranges[*at..], &mut give, &mut rest);
        for part in rest {
            let mut unknown = Vec::new();
            let first = known.before.partition_point(|(m, _)| m.end <= part.range.start);
            divide(&part, &known.before[first..], &mut give, &mut unknown);
            for part in unknown {
                if known.waiting.len() < MOST_WAITING {
                    known.waiting.push((part, max, time));
                } else {
                    give(&part, known.other);
                }
            }
        }
    }

    /// Takes in the last mappings of a target, if something still waits for them.
    pub(super) fn end(&mut self, state: &TargetState, absent: &Absent) {
        let id = state.target.id;
        if self.known.get(&id).is_some_and(|known| !known.waiting.is_empty()) {
            self.learn(state, absent);
            self.settle(id, absent);
        }
    }

    /// Divides what waits among the present mappings of a target. The rest is unknown.
    fn settle(&mut self, id: u32, absent: &Absent) {
        let Some(known) = self.known.get_mut(&id) else { return };
        let lines = &mut self.lines;
        let gaps = absent.of(id);
        for (r, max, time) in std::mem::take(&mut known.waiting) {
            let mut give = |part: &RegionInfo, line: usize| {
                lines[line].1.add_part(part, gaps, max, time);
            };
            let mut rest = Vec::new();
            let first = known.ranges.partition_point(|(m, _)| m.end <= r.range.start);
            divide(&r, &known.ranges[first..], &mut give, &mut rest);
            let mapped = known.ranges.first().zip(known.ranges.last());
            let mapped = mapped.map(|((first, _), (last, _))| first.start..last.end);
            let is_gap = |part: &&RegionInfo| {
                mapped.as_ref().is_some_and(|all| all.contains(&part.range.start))
            };
            rest.iter().filter(|part| !is_gap(part)).for_each(|part| give(part, known.other));
        }
    }
}

/// Gives the parts of a region to the ranges that hold them, from the first range that does not end
/// before it; what none holds is appended to `rest`.
fn divide(
    r: &RegionInfo,
    ranges: &[(AddrRange, usize)],
    give: &mut impl FnMut(&RegionInfo, usize),
    rest: &mut Vec<RegionInfo>,
) {
    let cut = |start, end| RegionInfo { range: AddrRange::new(start, end), ..*r };
    let mut at = r.range.start;
    for (m, line) in ranges.iter().take_while(|(m, _)| m.start < r.range.end) {
        let (start, end) = (m.start.max(at), m.end.min(r.range.end));
        if start >= end {
            continue;
        }
        if at < start {
            rest.push(cut(at, start));
        }
        give(&cut(start, end), *line);
        at = end;
    }
    if at < r.range.end {
        rest.push(cut(at, r.range.end));
    }
}
