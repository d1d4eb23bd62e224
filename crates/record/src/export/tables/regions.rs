//! One row per region and snapshot.

use isotherm_core::Snapshot;

use super::super::batch::{Batch, Maybe, Texts, column};
use super::Rows;
use super::who::{Known, Stamp, Who, name_of};
use crate::event::Event;
use crate::mapping::Mapping;

/// The columns.
#[derive(Debug)]
pub(super) struct Regions {
    known: Known,
    stamp: Stamp,
    window_ns: Vec<u64>,
    start: Vec<u64>,
    end: Vec<u64>,
    names: Names,
    nr_accesses: Vec<u32>,
    max_nr_accesses: Vec<u32>,
    age: Vec<u32>,
    lo: Vec<f32>,
    hi: Vec<f32>,
    resolved: Vec<bool>,
    touched_window: Maybe<Vec<f32>>,
    touched_1s: Maybe<Vec<f32>>,
}

/// What is mapped where the regions are.
#[derive(Debug, Default)]
struct Names {
    mapping: Maybe<Texts>,
    kind: Maybe<Texts>,
}

impl Regions {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            stamp: Stamp::default(),
            window_ns: Vec::new(),
            start: Vec::new(),
            end: Vec::new(),
            names: Names::default(),
            nr_accesses: Vec::new(),
            max_nr_accesses: Vec::new(),
            age: Vec::new(),
            lo: Vec::new(),
            hi: Vec::new(),
            resolved: Vec::new(),
            touched_window: Maybe::default(),
            touched_1s: Maybe::default(),
        }
    }

    fn snapshot(&mut self, s: &Snapshot) {
        let nobody = Who::default();
        for target in &s.targets {
            let who = self.known.of(target.id.0);
            // Column by column: a record has tens of millions of regions.
            let all = target.regions.iter();
            self.stamp.push_rows(&self.known, s.end.as_ns(), who, all.len());
            let rows = self.stamp.rows();
            self.window_ns.resize(rows, s.end.since(s.start));
            self.start.extend(all.clone().map(|r| r.range.start));
            self.end.extend(all.clone().map(|r| r.range.end));
            self.nr_accesses.extend(all.clone().map(|r| r.nr_accesses));
            self.max_nr_accesses.resize(rows, s.max_nr_accesses);
            self.age.extend(all.clone().map(|r| r.age));
            self.lo.extend(all.clone().map(|r| r.lo));
            self.hi.extend(all.clone().map(|r| r.hi));
            self.resolved.extend(all.clone().map(|r| r.resolved));
            // Only some methods tell them, and then of nearly all regions.
            if all.clone().all(|r| r.touched.is_none()) {
                self.touched_window.push_none(all.len());
                self.touched_1s.push_none(all.len());
            } else {
                self.touched_window.extend(all.clone().map(|r| r.touched?.window));
                self.touched_1s.extend(all.clone().map(|r| r.touched?.second));
            }
            let mut from = 0;
            let mut run = (None, 0);
            for r in all {
                let mapping = who.unwrap_or(&nobody).mapping(r.range, &mut from);
                if run.0.map(std::ptr::from_ref) != mapping.map(std::ptr::from_ref) {
                    self.names.push_rows(run);
                    run = (mapping, 0);
                }
                run.1 += 1;
            }
            self.names.push_rows(run);
        }
    }
}

impl Names {
    /// Adds some rows of one mapping.
    fn push_rows(&mut self, (mapping, n): (Option<&Mapping>, usize)) {
        self.mapping.push_rows(mapping.map(name_of), n);
        self.kind.push_rows(mapping.map(|m| m.kind.name()), n);
    }
}

impl Rows for Regions {
    fn push(&mut self, event: &Event<'_>) {
        self.known.learn(event);
        if let Event::Snapshot(s) = event {
            self.snapshot(s);
        }
    }

    fn reserve(&mut self, rows: usize) {
        self.stamp.reserve(rows);
        for column in [&mut self.window_ns, &mut self.start, &mut self.end] {
            column.reserve(rows);
        }
        for column in [&mut self.nr_accesses, &mut self.max_nr_accesses, &mut self.age] {
            column.reserve(rows);
        }
        for column in [&mut self.lo, &mut self.hi] {
            column.reserve(rows);
        }
        self.resolved.reserve(rows);
        for column in [&mut self.names.mapping, &mut self.names.kind] {
            column.reserve_with(rows, |names| &mut names.keys);
        }
        for column in [&mut self.touched_window, &mut self.touched_1s] {
            column.reserve_with(rows, |values| values);
        }
    }

    fn rows(&self) -> usize {
        self.stamp.rows()
    }

    fn take(&mut self) -> Batch {
        self.stamp.batch(vec![
            column("window_ns", &mut self.window_ns),
            column("start", &mut self.start),
            column("end", &mut self.end),
            column("mapping", &mut self.names.mapping),
            column("kind", &mut self.names.kind),
            column("nr_accesses", &mut self.nr_accesses),
            column("max_nr_accesses", &mut self.max_nr_accesses),
            column("age", &mut self.age),
            column("lo", &mut self.lo),
            column("hi", &mut self.hi),
            column("resolved", &mut self.resolved),
            column("touched_window", &mut self.touched_window),
            column("touched_1s", &mut self.touched_1s),
        ])
    }
}
