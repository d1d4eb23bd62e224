//! One row per target and snapshot: the working set in all its definitions, and the window's cost.

use std::collections::BTreeMap;

use isotherm_core::{SPANS, Snapshot, TargetId, Time, Touched, TouchedBytes};

use super::super::batch::{Batch, Maybe, column};
use super::Rows;
use super::who::{Known, Stamp};
use crate::event::Event;
use crate::pages::Pages;
use crate::working_set::{WorkingSet, estimate};

/// Working sets that wait for their snapshots at most. A frame of page maps has a second of them.
const MOST_TOLD: usize = 1 << 16;

/// The working set of one span.
#[derive(Debug, Default)]
struct Span {
    bytes: Maybe<Vec<u64>>,
    lo: Maybe<Vec<u64>>,
    hi: Maybe<Vec<u64>>,
    measured: Maybe<Vec<u64>>,
}

/// The columns.
#[derive(Debug)]
pub(super) struct Snapshots {
    known: Known,
    stamp: Stamp,
    seq: Vec<u64>,
    window_ns: Vec<u64>,
    missing_ns: Vec<u64>,
    sample_us: Vec<u64>,
    aggr_us: Vec<u64>,
    nr_regions: Vec<u64>,
    mapped: Vec<u64>,
    unresolved: Vec<u64>,
    wss: [Vec<u64>; 3],
    watched: Maybe<Vec<u64>>,
    spans: [Span; SPANS],
    cost: [Vec<u64>; 3],
    target_ns: Maybe<Vec<u64>>,
    /// What page maps have told of windows whose snapshots are to come.
    told: BTreeMap<(Time, TargetId), Touched>,
}

impl Snapshots {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            stamp: Stamp::default(),
            seq: Vec::new(),
            window_ns: Vec::new(),
            missing_ns: Vec::new(),
            sample_us: Vec::new(),
            aggr_us: Vec::new(),
            nr_regions: Vec::new(),
            mapped: Vec::new(),
            unresolved: Vec::new(),
            wss: Default::default(),
            watched: Maybe::default(),
            spans: Default::default(),
            cost: Default::default(),
            target_ns: Maybe::default(),
            told: BTreeMap::new(),
        }
    }

    /// A record keeps the working sets with the page maps, which come before their snapshots.
    fn pages(&mut self, pages: &Pages) {
        for window in &pages.windows {
            let touched = window.touched.iter();
            self.told.extend(touched.map(|(target, touched)| ((window.end, *target), *touched)));
        }
        // The snapshots of those may be damaged.
        while self.told.len() > MOST_TOLD {
            self.told.pop_first();
        }
    }

    fn snapshot(&mut self, s: &Snapshot) {
        for target in &s.targets {
            self.stamp.push(&self.known, s.end.as_ns(), self.known.of(target.id.0));
            self.seq.push(s.seq);
            self.window_ns.push(s.end.since(s.start));
            self.missing_ns.push(s.missing_ns());
            self.sample_us.push(s.sample_us);
            self.aggr_us.push(s.aggr_us);
            self.nr_regions.push(target.regions.len() as u64);
            let WorkingSet { bytes, lo, hi, unresolved, mapped } =
                estimate(&target.regions, s.max_nr_accesses);
            self.mapped.push(mapped);
            self.unresolved.push(unresolved);
            for (column, value) in self.wss.iter_mut().zip([bytes, lo, hi]) {
                column.push(value);
            }
            let touched = target.touched.or_else(|| self.told.remove(&(s.end, target.id)));
            self.watched.push(touched.map(|t| t.watched));
            for (span, column) in self.spans.iter_mut().enumerate() {
                let within: Option<TouchedBytes> = touched.and_then(|t| t.spans[span]);
                column.bytes.push(within.map(|t| t.bytes));
                column.lo.push(within.map(|t| t.lo));
                column.hi.push(within.map(|t| t.hi));
                column.measured.push(within.map(|t| t.measured));
            }
            let cost = [s.cost.checks, s.cost.clears, s.cost.cpu_ns];
            for (column, value) in self.cost.iter_mut().zip(cost) {
                column.push(value);
            }
            self.target_ns.push(s.cost.target_ns);
        }
    }
}

/// The names of the columns of a span: bytes, both ends of the interval, and what was measured.
const SPAN_NAMES: [[&str; 4]; SPANS] = [
    ["touched_sample", "touched_sample_lo", "touched_sample_hi", "touched_sample_measured"],
    ["touched_window", "touched_window_lo", "touched_window_hi", "touched_window_measured"],
    ["touched_1s", "touched_1s_lo", "touched_1s_hi", "touched_1s_measured"],
    ["touched_10s", "touched_10s_lo", "touched_10s_hi", "touched_10s_measured"],
    ["touched_1min", "touched_1min_lo", "touched_1min_hi", "touched_1min_measured"],
];

impl Rows for Snapshots {
    fn push(&mut self, event: &Event<'_>) {
        self.known.learn(event);
        match event {
            Event::Snapshot(s) => self.snapshot(s),
            Event::Pages(pages) => self.pages(pages),
            _ => {}
        }
    }

    fn rows(&self) -> usize {
        self.stamp.rows()
    }

    fn take(&mut self) -> Batch {
        let mut columns = vec![
            column("seq", &mut self.seq),
            column("window_ns", &mut self.window_ns),
            column("missing_ns", &mut self.missing_ns),
            column("sample_us", &mut self.sample_us),
            column("aggr_us", &mut self.aggr_us),
            column("nr_regions", &mut self.nr_regions),
            column("mapped", &mut self.mapped),
            column("unresolved", &mut self.unresolved),
        ];
        let wss = ["wss", "wss_lo", "wss_hi"].into_iter().zip(&mut self.wss);
        columns.extend(wss.map(|(name, values)| column(name, values)));
        columns.push(column("watched", &mut self.watched));
        for ([bytes, lo, hi, measured], span) in SPAN_NAMES.into_iter().zip(&mut self.spans) {
            columns.push(column(bytes, &mut span.bytes));
            columns.push(column(lo, &mut span.lo));
            columns.push(column(hi, &mut span.hi));
            columns.push(column(measured, &mut span.measured));
        }
        let cost = ["checks", "clears", "cpu_ns"].into_iter().zip(&mut self.cost);
        columns.extend(cost.map(|(name, values)| column(name, values)));
        columns.push(column("target_ns", &mut self.target_ns));
        self.stamp.batch(columns)
    }
}
