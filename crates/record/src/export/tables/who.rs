//! What rows say besides their own numbers: the host, the time by the wall clock, whose memory it
//! is at that time, and what is mapped there.

use std::collections::BTreeMap;

use isotherm_core::AddrRange;

use super::super::batch::{Batch, Column, Maybe, Texts, Times, column};
use crate::event::{Event, Header};
use crate::mapping::Mapping;

/// A target at the present point of the record.
#[derive(Debug, Clone, Default)]
pub(super) struct Who {
    pub(super) pid: u32,
    pub(super) name: String,
    mappings: Vec<Mapping>,
}

/// All targets, and the clocks.
#[derive(Debug, Clone, Default)]
pub(in crate::export) struct Known {
    pub(super) host: String,
    /// The wall clock minus the monotonic clock, in ns; `None` if the record does not say.
    offset_ns: Option<i128>,
    targets: BTreeMap<u32, Who>,
}

impl Known {
    pub(in crate::export) fn new(header: &Header) -> Self {
        let wall = header.started_unix_ns;
        let offset_ns = (wall > 0).then(|| i128::from(wall) - i128::from(header.started_ns));
        Self { host: header.host.clone(), offset_ns, targets: BTreeMap::new() }
    }

    pub(in crate::export) fn learn(&mut self, event: &Event<'_>) {
        match event {
            Event::Target(t) => {
                let who = self.targets.entry(t.id).or_default();
                (who.pid, who.name) = (t.pid, t.name.clone());
                if let Some(memory) = &t.memory {
                    who.name = format!("physical memory ({memory})");
                }
            }
            Event::Exec(e) => self.targets.entry(e.id).or_default().name.clone_from(&e.name),
            Event::Mappings { target, mappings, .. } => {
                self.targets.entry(*target).or_default().mappings = mappings.to_vec();
            }
            Event::Exit(_)
            | Event::Snapshot(_)
            | Event::Pages(_)
            | Event::Ram(_)
            | Event::Frames(_)
            | Event::Cgroups(_)
            | Event::Note(_)
            | Event::End(_) => {}
        }
    }

    /// Nanoseconds since 1970.
    pub(super) fn unix_ns(&self, t_ns: u64) -> Option<i64> {
        i64::try_from(self.offset_ns? + i128::from(t_ns)).ok()
    }

    pub(super) fn of(&self, target: u32) -> Option<&Who> {
        self.targets.get(&target)
    }
}

impl Who {
    /// The mapping that holds most of `range`. `from` is the index where the search begins, and is
    /// moved to where that of the next range of higher addresses may begin.
    pub(super) fn mapping(&self, range: AddrRange, from: &mut usize) -> Option<&Mapping> {
        while self.mappings.get(*from).is_some_and(|m| m.end <= range.start) {
            *from += 1;
        }
        let inside = self.mappings[*from..].iter().take_while(|m| m.start < range.end);
        let shared = |m: &Mapping| m.end.min(range.end).saturating_sub(m.start.max(range.start));
        // Of equal ones the first counts.
        inside.fold(None, |best: Option<&Mapping>, m| match best {
            Some(b) if shared(b) >= shared(m) => Some(b),
            _ => Some(m),
        })
    }
}

/// A mapping's name for a column: its path, its bracketed name, or `[anon]`.
pub(super) fn name_of(mapping: &Mapping) -> &str {
    if mapping.name.is_empty() { "[anon]" } else { &mapping.name }
}

/// The columns that begin every table.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    host: Texts,
    t_ns: Vec<u64>,
    time: Maybe<Times>,
    pid: Vec<u32>,
    target: Texts,
}

impl Stamp {
    /// Adds a row about `target` at `t_ns`.
    pub(super) fn push(&mut self, known: &Known, t_ns: u64, who: Option<&Who>) {
        self.push_rows(known, t_ns, who, 1);
    }

    /// Adds `n` rows about `target` at `t_ns`.
    pub(super) fn push_rows(&mut self, known: &Known, t_ns: u64, who: Option<&Who>, n: usize) {
        let rows = self.rows() + n;
        self.host.push_rows(&known.host, n);
        self.t_ns.resize(rows, t_ns);
        self.time.push_rows(known.unix_ns(t_ns), n);
        self.pid.resize(rows, who.map_or(0, |who| who.pid));
        self.target.push_rows(who.map_or("", |who| &who.name), n);
    }

    /// Makes room for `n` rows.
    pub(super) fn reserve(&mut self, n: usize) {
        self.host.keys.reserve(n);
        self.t_ns.reserve(n);
        self.time.reserve_with(n, |times| &mut times.0);
        self.pid.reserve(n);
        self.target.keys.reserve(n);
    }

    pub(super) fn rows(&self) -> usize {
        self.t_ns.len()
    }

    /// These columns and `more`.
    pub(super) fn batch(&mut self, more: Vec<Column>) -> Batch {
        let mut columns = vec![
            column("host", &mut self.host),
            column("t_ns", &mut self.t_ns),
            column("time", &mut self.time),
            column("pid", &mut self.pid),
            column("target", &mut self.target),
        ];
        columns.extend(more);
        Batch::new(columns)
    }
}
