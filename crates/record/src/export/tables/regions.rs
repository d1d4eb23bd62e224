//! One row per region and snapshot.

use isotherm_core::Snapshot;

use super::super::batch::{Batch, Maybe, Texts, column};
use super::Rows;
use super::who::{Known, Stamp, Who, name_of};
use crate::event::Event;

/// The columns.
#[derive(Debug)]
pub(super) struct Regions {
    known: Known,
    stamp: Stamp,
    window_ns: Vec<u64>,
    start: Vec<u64>,
    end: Vec<u64>,
    mapping: Maybe<Texts>,
    kind: Maybe<Texts>,
    nr_accesses: Vec<u32>,
    max_nr_accesses: Vec<u32>,
    age: Vec<u32>,
    lo: Vec<f32>,
    hi: Vec<f32>,
    resolved: Vec<bool>,
    touched_window: Maybe<Vec<f32>>,
    touched_1s: Maybe<Vec<f32>>,
}

impl Regions {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            stamp: Stamp::default(),
            window_ns: Vec::new(),
            start: Vec::new(),
            end: Vec::new(),
            mapping: Maybe::default(),
            kind: Maybe::default(),
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
            let mut from = 0;
            for r in &target.regions {
                self.stamp.push(&self.known, s.end.as_ns(), who);
                self.window_ns.push(s.end.since(s.start));
                self.start.push(r.range.start);
                self.end.push(r.range.end);
                let mapping = who.unwrap_or(&nobody).mapping(r.range, &mut from);
                self.mapping.push_text(mapping.map(name_of));
                self.kind.push_text(mapping.map(|m| m.kind.name()));
                self.nr_accesses.push(r.nr_accesses);
                self.max_nr_accesses.push(s.max_nr_accesses);
                self.age.push(r.age);
                self.lo.push(r.lo);
                self.hi.push(r.hi);
                self.resolved.push(r.resolved);
                self.touched_window.push(r.touched.and_then(|t| t.window));
                self.touched_1s.push(r.touched.and_then(|t| t.second));
            }
        }
    }
}

impl Rows for Regions {
    fn push(&mut self, event: &Event<'_>) {
        self.known.learn(event);
        if let Event::Snapshot(s) = event {
            self.snapshot(s);
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
            column("mapping", &mut self.mapping),
            column("kind", &mut self.kind),
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
