//! Changes of the access pattern, and when the record shows them.

use isotherm_core::{AddrRange, RegionInfo, Snapshot, Time};
use isotherm_sim::truth::{ProcessTruth, Truth};

use super::ranges::{both, minus, push, sum};
use super::{SETTLE_NS, to_f64};

/// A change counts as seen if precision and recall are at least this.
const SEEN: f64 = 0.9;
/// If the record ends sooner than this after an edge, the change does not count as missed.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Bytes that turn hot or not hot at an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    edge: Time,
    /// The next edge, or the process's end.
    until: Time,
    to_hot: Vec<AddrRange>,
    to_cold: Vec<AddrRange>,
    seen: Option<Time>,
    /// When nearly all that turned hot was called hot.
    seen_hot: Option<Time>,
    /// When nearly nothing that turned cold was called hot any more.
    seen_cold: Option<Time>,
    /// Whether the record covers the time of the edge.
    watched: bool,
}

/// All changes of `process`. A slot can span an edge, so the patterns before and after the edge are
/// taken from slots that are at least one slot away.
pub(super) fn changes(
    truth: &Truth,
    process: &ProcessTruth,
    s: &Snapshot,
    hot: f64,
) -> Vec<Change> {
    let slot = truth.header.slot_ns;
    let mut all = Vec::new();
    let mut edges: Vec<Time> = process.edges.clone();
    edges.retain(|e| process.start < *e && *e < process.end);
    for (i, &edge) in edges.iter().enumerate() {
        let last = if i == 0 { process.start } else { edges[i - 1] };
        let until = edges.get(i + 1).copied().unwrap_or(process.end);
        let before_end = Time(edge.as_ns().saturating_sub(slot));
        let before_start = Time(before_end.as_ns().saturating_sub(SETTLE_NS)).max(last + slot);
        let after_start = edge + slot;
        let after_end = (after_start + SETTLE_NS).min(Time(until.as_ns().saturating_sub(slot)));
        let lists = |from, to| hot_and_known(truth, process, (from, to), s, hot);
        let (Some((hot_before, _)), Some((hot_after, known_after))) =
            (lists(before_start, before_end), lists(after_start, after_end))
        else {
            continue;
        };
        let to_hot = minus(&hot_after, &hot_before);
        let to_cold = minus(&both(&hot_before, &known_after), &hot_after);
        if !to_hot.is_empty() || !to_cold.is_empty() {
            let (seen, seen_hot, seen_cold) = (None, None, None);
            all.push(Change {
                edge,
                until,
                to_hot,
                to_cold,
                seen,
                seen_hot,
                seen_cold,
                watched: false,
            });
        }
    }
    all
}

/// Hot bytes and all known bytes, as ranges; `None` if the time is too short to tell.
fn hot_and_known(
    truth: &Truth,
    process: &ProcessTruth,
    (from, to): (Time, Time),
    s: &Snapshot,
    hot: f64,
) -> Option<(Vec<AddrRange>, Vec<AddrRange>)> {
    if to.since(from) < truth.header.slot_ns {
        return None;
    }
    let (mut hot_bytes, mut known) = (Vec::new(), Vec::new());
    for tile in truth.tiles(process, from, to, s.sample_us) {
        push(&mut known, tile.range);
        if tile.p * f64::from(s.max_nr_accesses) >= hot {
            push(&mut hot_bytes, tile.range);
        }
    }
    Some((hot_bytes, known))
}

impl Change {
    /// Checks whether a snapshot's regions show the change.
    pub(super) fn look(&mut self, s: &Snapshot, regions: &[RegionInfo], hot: f64) {
        self.watched |= s.start <= self.edge && self.edge < s.end;
        let all_seen = self.seen.and(self.seen_hot).and(self.seen_cold).is_some();
        if all_seen || s.end <= self.edge || s.end > self.until {
            return;
        }
        let mut reported = Vec::new();
        for region in regions.iter().filter(|r| f64::from(r.nr_accesses) >= hot) {
            push(&mut reported, region.range);
        }
        let right = to_f64(sum(&both(&self.to_hot, &reported)));
        let wrong = to_f64(sum(&both(&self.to_cold, &reported)));
        let (hot, cold) = (to_f64(sum(&self.to_hot)), to_f64(sum(&self.to_cold)));
        // If no byte turned hot, precision is not defined. Then the share that is still called hot
        // decides.
        let precision = if hot > 0.0 { right / (right + wrong) } else { 1.0 - wrong / cold };
        let recall = if hot > 0.0 { right / hot } else { 1.0 };
        let still_hot = if cold > 0.0 { wrong / cold } else { 0.0 };
        let note = |seen: &mut Option<Time>, is_seen: bool| {
            if is_seen && seen.is_none() {
                *seen = Some(s.end);
            }
        };
        note(&mut self.seen, precision >= SEEN && recall >= SEEN);
        note(&mut self.seen_hot, recall >= SEEN);
        note(&mut self.seen_cold, still_hot <= 1.0 - SEEN);
    }

    /// Whether the record covers the edge, and either saw the change or had time to see it.
    pub(super) fn is_judged(&self, span: Option<(Time, Time)>) -> bool {
        let enough =
            span.is_some_and(|(_, end)| end >= self.until || end >= self.edge + PATIENCE_NS);
        self.watched && (self.seen.is_some() || enough)
    }

    /// Time until it was seen.
    pub(super) fn delay_ns(&self) -> Option<u64> {
        self.seen.map(|t| t.since(self.edge))
    }

    /// Time until what turned hot was seen to be hot, in ns, for ever if it was not; `None` if
    /// nothing turned hot.
    pub(super) fn delay_to_hot_ns(&self) -> Option<f64> {
        (!self.to_hot.is_empty()).then(|| self.since_edge(self.seen_hot))
    }

    /// The same for what turned cold.
    pub(super) fn delay_to_cold_ns(&self) -> Option<f64> {
        (!self.to_cold.is_empty()).then(|| self.since_edge(self.seen_cold))
    }

    fn since_edge(&self, seen: Option<Time>) -> f64 {
        seen.map_or(f64::INFINITY, |t| to_f64(t.since(self.edge)))
    }
}
