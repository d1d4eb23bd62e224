//! Reads a truth file into memory.

use std::collections::BTreeMap;
use std::io::BufRead;

use isotherm_core::{AddrRange, Time};

use super::{Header, Line, VERSION};

/// Where a region is, and the size of the leaves that back it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Addresses; empty if it is not mapped.
    pub range: AddrRange,
    /// Leaf size, as in [`Line::Map`].
    pub leaf: u64,
}

/// A region changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapEvent {
    /// Which region.
    pub region: usize,
    /// When.
    pub at: Time,
    /// Its extent from then on.
    pub extent: Extent,
}

/// What one process did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessTruth {
    /// Its pid.
    pub pid: u32,
    /// The number of the process that forked it.
    pub parent: Option<u32>,
    /// Its begin.
    pub start: Time,
    /// Its end, or the end of its last slot if it did not write an end.
    pub end: Time,
    /// Its mappings over time.
    pub maps: Vec<MapEvent>,
    /// When its access pattern changed, in order: phases that began and hot parts that moved.
    pub edges: Vec<Time>,
    /// (pattern, cell, accesses) by slot.
    pub slots: BTreeMap<u64, Vec<(u32, u32, u64)>>,
}

/// A whole truth file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// The header: facts that hold for the whole run.
    pub header: Header,
    /// The processes, by their number.
    pub processes: BTreeMap<u32, ProcessTruth>,
}

/// Why a truth file cannot be used.
#[derive(Debug)]
pub enum ReadError {
    /// It could not be read.
    Io(std::io::Error),
    /// It does not begin with a truth header.
    NotTruth,
    /// It was made by another version.
    Version(u32),
    /// A line in the middle cannot be read.
    Line {
        /// Its number, from 1.
        line: usize,
        /// Why.
        why: String,
    },
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "read: {e}"),
            Self::NotTruth => f.write_str("no truth file: the first line is not a truth header"),
            Self::Version(v) => {
                write!(f, "truth file of version {v}; this program reads 1 to {VERSION}")
            }
            Self::Line { line, why } => write!(f, "line {line}: {why}"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            _ => None,
        }
    }
}

impl Truth {
    /// Reads a truth file. A last line that was cut off is dropped.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn read(mut input: impl BufRead) -> Result<Self, ReadError> {
        let mut text = Vec::new();
        input.read_until(b'\n', &mut text).map_err(ReadError::Io)?;
        let Ok(Line::Header(header)) = serde_json::from_slice(&text) else {
            return Err(ReadError::NotTruth);
        };
        if !(1..=VERSION).contains(&header.version) {
            return Err(ReadError::Version(header.version));
        }
        let mut truth = Self { header, processes: BTreeMap::new() };
        for no in 2.. {
            text.clear();
            if input.read_until(b'\n', &mut text).map_err(ReadError::Io)? == 0
                || text.last() != Some(&b'\n')
            {
                break;
            }
            let line: Line = serde_json::from_slice(&text)
                .map_err(|e| ReadError::Line { line: no, why: e.to_string() })?;
            truth.add(line).map_err(|why| ReadError::Line { line: no, why: why.to_owned() })?;
        }
        for process in truth.processes.values_mut() {
            process.edges.sort_unstable();
        }
        Ok(truth)
    }

    fn add(&mut self, line: Line) -> Result<(), &'static str> {
        let slot_ns = self.header.slot_ns;
        let start_ns = self.header.start_ns;
        match line {
            Line::Header(_) => return Err("a second header"),
            Line::Process { p, pid, parent, ns } => {
                let process = self.processes.entry(p).or_default();
                (process.pid, process.parent) = (pid, parent);
                (process.start, process.end) = (Time(ns), process.end.max(Time(ns)));
            }
            Line::Map { p, r, ns, start, end, leaf } => {
                if r >= self.header.regions.len() {
                    return Err("a region that the header does not know");
                }
                let extent = Extent { range: AddrRange::new(start, end), leaf };
                let event = MapEvent { region: r, at: Time(ns), extent };
                self.processes.entry(p).or_default().maps.push(event);
            }
            Line::Phase { p, ns, .. } | Line::Move { p, ns, .. } => {
                self.processes.entry(p).or_default().edges.push(Time(ns));
            }
            Line::Slot { p, k, c } => {
                let process = self.processes.entry(p).or_default();
                let end = start_ns.saturating_add((k.saturating_add(1)).saturating_mul(slot_ns));
                process.end = process.end.max(Time(end));
                process.slots.entry(k).or_default().extend(c);
            }
            Line::End { p, ns } => self.processes.entry(p).or_default().end = Time(ns),
        }
        Ok(())
    }
}
