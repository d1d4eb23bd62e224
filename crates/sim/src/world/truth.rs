//! The truth about a world, in the form in which a real workload writes it.
//!
//! The counts of random accesses are the expected ones, rounded so that sums over time are right.

use std::collections::BTreeMap;
use std::io::{self, Write};

use isotherm_core::Time;

use super::memory::Memory;
use super::process::Process;
use super::{World, pid};
use crate::truth::{Header, Line, ReadError, Truth};

/// Length of a slot of the truth.
const SLOT_NS: u64 = 100_000_000;

impl World {
    /// Writes the truth about the whole run.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written to.
    pub fn write_truth(&self, name: &str, out: &mut impl Write) -> io::Result<()> {
        let mut config = self.config.clone();
        config.settings.seed = self.options.seed;
        Line::Header(Header::new(name, &config, &self.plans, 0, SLOT_NS)).write(out)?;
        for process in &self.processes {
            let (p, parent) = (process.number, process.parent);
            Line::Process { p, pid: pid(p), parent, ns: process.start.0 }.write(out)?;
            for (r, memory) in process.memory.iter().enumerate() {
                write_extents(process, r, memory, out)?;
            }
            self.write_edges(process, out)?;
            self.write_slots(process, out)?;
            Line::End { p, ns: process.end.0 }.write(out)?;
        }
        Ok(())
    }

    /// The truth about the whole run, as a reader of the file would have it.
    ///
    /// # Errors
    ///
    /// None in practice, because a world's own lines can be read.
    pub fn read_truth(&self, name: &str) -> Result<Truth, ReadError> {
        let mut text = Vec::new();
        self.write_truth(name, &mut text).map_err(ReadError::Io)?;
        Truth::read(text.as_slice())
    }

    fn write_edges(&self, process: &Process, out: &mut impl Write) -> io::Result<()> {
        let p = process.number;
        for slice in self.schedule.slices(process.start, process.end) {
            let begin = process.begin_of(slice.from);
            Line::Phase { p, i: slice.phase, ns: begin.0 }.write(out)?;
            for lane in process.lanes_of(slice.phase) {
                let Some(every) = lane.plan.moves_every_ns().filter(|e| *e > 0) else { continue };
                let mut at = slice.from + every;
                while at < slice.until.min(process.end) {
                    if at > begin {
                        Line::Move { p, id: lane.plan.id, ns: at.0 }.write(out)?;
                    }
                    at = at + every;
                }
            }
        }
        Ok(())
    }

    fn write_slots(&self, process: &Process, out: &mut impl Write) -> io::Result<()> {
        for k in process.start.0 / SLOT_NS..process.end.0.div_ceil(SLOT_NS) {
            let from = Time(k * SLOT_NS).max(process.start);
            let until = Time((k + 1) * SLOT_NS).min(process.end);
            let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for slice in self.schedule.slices(from, until) {
                let begin = process.begin_of(slice.from);
                for lane in process.lanes_of(slice.phase) {
                    let (from, until) = (from.max(begin), until.min(slice.until));
                    let since = lane.counts_from(slice.from, begin);
                    for (cell, n) in lane.counts(since, from, until) {
                        *counts.entry((lane.plan.id, cell)).or_default() += n;
                    }
                }
            }
            if !counts.is_empty() {
                let c = counts.into_iter().map(|((id, cell), n)| (id, cell, n)).collect();
                Line::Slot { p: process.number, k, c }.write(out)?;
            }
        }
        Ok(())
    }
}

fn write_extents(
    process: &Process,
    r: usize,
    memory: &Memory,
    out: &mut impl Write,
) -> io::Result<()> {
    let leaf = memory.leaf_size();
    let at_start = (process.start, memory.mapped(process.start));
    let later = memory.extents().filter(|(at, _)| process.start < *at && *at < process.end);
    for (at, range) in std::iter::once(at_start).chain(later) {
        let (start, end) = (range.start, range.end);
        Line::Map { p: process.number, r, ns: at.0, start, end, leaf }.write(out)?;
    }
    Ok(())
}
