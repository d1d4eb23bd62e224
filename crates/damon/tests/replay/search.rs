//! The search for what was not seen: the cuts, and the samples that each piece got.
//!
//! The core ages and merges from left to right, so a region of the next window comes from a run of
//! pieces, one after the other, and all that counts of a run is the mean count and age so far. The
//! search keeps the set of these that can be, piece by piece; a piece's count may be anything that
//! the core then merges (or, for the first piece of a region, does not merge with the region
//! before). The threshold is a tenth of the largest count of any piece: each possible one is tried.

use std::collections::BTreeSet;

use isotherm_core::{AddrRange, Region};

use super::explain::{Rules, target};
use super::trace_file::region;

/// A region of the window before, reset, with all ways to cut it that fit the boundaries seen.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) region: Region,
    pub(crate) ways: Vec<Vec<Region>>,
}

/// What is possible at some point of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Count and age of the region under way; none at its start.
    run: Option<(u32, u32)>,
    /// Whether some piece so far had a count that gives the threshold.
    largest_seen: bool,
    /// Which way the parent under way is cut, if it began in an earlier region.
    way: Option<usize>,
}

struct Search<'s> {
    threshold: u32,
    limit: u64,
    counts: Vec<u32>,
    rules: Rules,
    next: &'s [Region],
}

/// Whether there are cuts and counts that make `next` of the parents.
///
/// # Errors
///
/// Where the search ended, for the threshold that came furthest.
pub(crate) fn search(
    parents: &[Parent],
    next: &[Region],
    max_nr_accesses: u32,
    limit: u64,
    rules: Rules,
) -> Result<(), String> {
    let mut furthest = (0, String::new());
    for threshold in 0..=max_nr_accesses / 10 {
        let most = max_nr_accesses.min(10 * threshold + 9);
        let counts = (0..=most).collect();
        match (Search { threshold, limit, counts, rules, next }).run(parents) {
            Ok(()) => return Ok(()),
            Err((at, why)) if at >= furthest.0 => furthest = (at, why),
            Err(_) => {}
        }
    }
    Err(furthest.1)
}

impl Search<'_> {
    fn run(&self, parents: &[Parent]) -> Result<(), (usize, String)> {
        let start = State { run: None, largest_seen: self.threshold == 0, way: None };
        let mut states = BTreeSet::from([start]);
        let mut first = 0;
        for (i, region) in self.next.iter().enumerate() {
            while parents[first].region.range.end <= region.range.start {
                first += 1;
                states = states.iter().map(|s| State { way: None, ..*s }).collect();
            }
            let over =
                parents[first..].iter().take_while(|p| p.region.range.start < region.range.end);
            for (k, parent) in over.enumerate() {
                if 0 < k {
                    states = states.iter().map(|s| State { way: None, ..*s }).collect();
                }
                states = self.through(&states, parent, i);
            }
            let wanted = Some((region.nr_accesses, region.age));
            let reached: BTreeSet<_> = states.iter().filter_map(|s| s.run).collect();
            states.retain(|s| s.run == wanted);
            if states.is_empty() {
                return Err((i, self.refusal(region, &reached)));
            }
            states = states.iter().map(|s| State { run: None, ..*s }).collect();
        }
        if states.iter().any(|s| s.largest_seen) {
            return Ok(());
        }
        let n = self.next.len();
        Err((
            n,
            format!("no piece can have had the count that makes the threshold {}", self.threshold),
        ))
    }

    fn refusal(&self, region: &Region, reached: &BTreeSet<(u32, u32)>) -> String {
        let Region { range, nr_accesses, age, .. } = region;
        let mut text = format!(
            "region {range:x?} has {nr_accesses} accesses and age {age}; with threshold {} ",
            self.threshold
        );
        if reached.is_empty() {
            text.push_str("its pieces would not have merged");
            return text;
        }
        let same: Vec<_> =
            reached.iter().filter(|(nr, _)| nr == nr_accesses).map(|(_, a)| a).collect();
        match (same.first(), same.last()) {
            (Some(least), Some(most)) => {
                text.push_str(&format!(
                    "{nr_accesses} accesses give one of {} ages, {least} to {most}",
                    same.len()
                ));
            }
            _ => {
                let counts: BTreeSet<u32> = reached.iter().map(|(nr, _)| *nr).collect();
                text.push_str(&format!("it can have {counts:?} accesses"));
            }
        }
        text
    }

    /// Takes the pieces of `parent` that lie in region `i` into every state.
    fn through(&self, states: &BTreeSet<State>, parent: &Parent, i: usize) -> BTreeSet<State> {
        let region = &self.next[i];
        // A parent that goes on behind this region is cut there as it was cut here.
        let goes_on = region.range.end < parent.region.range.end;
        let began_before = parent.region.range.start < region.range.start;
        let mut out = BTreeSet::new();
        for (w, way) in parent.ways.iter().enumerate() {
            let now: BTreeSet<State> = states
                .iter()
                .filter(|s| !began_before || s.way.is_none_or(|way| way == w))
                .map(|s| State { way: (goes_on || began_before).then_some(w), ..*s })
                .collect();
            let inside = |p: &&Region| {
                region.range.start <= p.range.start && p.range.end <= region.range.end
            };
            let mut now = now;
            for piece in way.iter().filter(inside) {
                now = self.add(&now, piece, i);
            }
            out.extend(now);
        }
        out
    }

    fn add(&self, states: &BTreeSet<State>, piece: &Region, i: usize) -> BTreeSet<State> {
        let mut out = BTreeSet::new();
        for &count in &self.counts {
            let aged = self.aged(piece, count);
            let largest = 10 * self.threshold <= count;
            for state in states {
                let run = match state.run {
                    None => self.begins(&aged, i).then_some((count, aged.age)),
                    Some(run) => self.merged(run, &aged, i),
                };
                if run.is_some() {
                    out.insert(State {
                        run,
                        largest_seen: state.largest_seen || largest,
                        ..*state
                    });
                }
            }
        }
        out
    }

    /// The piece at the end of the window, older or young again.
    fn aged(&self, piece: &Region, count: u32) -> Region {
        let mut piece = *piece;
        piece.nr_accesses = count;
        if self.rules.zero_resets_age {
            piece.count_age(self.threshold);
            return piece;
        }
        // The rule of older kernels is the same one, far from zero.
        let mut far = piece;
        far.nr_accesses += 1;
        far.last_nr_accesses += 1;
        far.count_age(self.threshold);
        piece.age = far.age;
        piece
    }

    /// Whether a piece starts a region rather than being merged with the one before.
    fn begins(&self, piece: &Region, i: usize) -> bool {
        let Some(before) = i.checked_sub(1).map(|i| &self.next[i]) else { return true };
        self.merge(before, piece).is_none()
    }

    fn merged(
        &self,
        (nr_accesses, age): (u32, u32),
        piece: &Region,
        i: usize,
    ) -> Option<(u32, u32)> {
        // Far from the threshold nothing is merged; the core decides about the rest.
        if nr_accesses.abs_diff(piece.nr_accesses) > 2 * self.threshold + 2 {
            return None;
        }
        let start = self.next[i].range.start;
        let run = region(AddrRange::new(start, piece.range.start), nr_accesses, age);
        self.merge(&run, piece).map(|r| (r.nr_accesses, r.age))
    }

    /// What the core makes of two neighbours: one region, or none.
    fn merge(&self, left: &Region, right: &Region) -> Option<Region> {
        let mut target = target(vec![*left, *right]);
        target.merge(self.threshold, self.limit, false);
        (target.regions.len() == 1).then(|| target.regions.remove(0))
    }
}
