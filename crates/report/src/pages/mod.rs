//! `report pages`: which pages were touched within spans of 5 ms to 1 min, by mapping and by unit
//! of 2 MiB.
//!
//! The report is a map at one time: the last snapshot that passes the filter. Each span was
//! measured when the unit's turn came, up to about a minute before. A column says how long ago the
//! pages were made old last, when all spans began: of half of them at most, and of the oldest.
//! Each unit also tells for how long its cells of 64 KiB have been idle.
//! Parts of one file are one line. Each anonymous mapping without a name has its own line, with its
//! address. Memory that nobody looked at is *not measured*; it is never counted as cold.

mod json;
mod text;

use std::collections::BTreeMap;

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, SPANS, TargetId, Time, UnitInfo};
use isotherm_record::{Mapping, MappingKind, Record, Target};

use crate::error::Error;
use crate::filter::Filter;
use crate::mappings;
use crate::page_maps::{Armed, CELLS, Idle, IdleUnit, KnownAge, PageMap, PageSums, learn};
use crate::scan::Scan;

/// One mapping of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Name of the target.
    pub target: String,
    /// Its process.
    pub pid: u32,
    /// What the mapping holds; `None` where no mapping is known.
    pub kind: Option<MappingKind>,
    /// Path, bracketed name, or `[anon] 0x...`.
    pub name: String,
    /// Its pages.
    pub sums: PageSums,
    /// How old what is known of them is; none if nothing is.
    pub age: Option<KnownAge>,
}

/// One unit of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitLine {
    /// Name of the target.
    pub target: String,
    /// Its process.
    pub pid: u32,
    /// Short name of the first mapping in the unit; empty if none is known.
    pub mapping: String,
    /// The unit, cut to what the filter names.
    pub unit: UnitInfo,
    /// By cell of 64 KiB: for how long none of its pages was touched, in ms; 0 if one was within
    /// the window. `None`: nothing is mapped there, or of a page nothing is known.
    pub idle_ms: [Option<u64>; CELLS],
}

/// The report.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What the report is about, such as `postgres (pid 4711)`.
    pub title: String,
    /// When it was like this, in ns of the record's clock.
    pub t_ns: u64,
    /// Start of the record, in ns of its clock.
    pub origin_ns: u64,
    /// Lengths of the spans, in microseconds.
    pub spans_us: [u64; SPANS],
    /// One line per mapping: the one with the most touched pages first.
    pub lines: Vec<Line>,
    /// All lines together.
    pub total: PageSums,
    /// How old what is known of all of them is.
    pub age: Option<KnownAge>,
    /// The units, by target and address.
    pub units: Vec<UnitLine>,
    /// What could not be read; empty if nothing.
    pub damage: String,
}

/// The mappings of the targets, as they were in the last snapshot that passed the filter.
type Known = BTreeMap<u32, (u64, Vec<Mapping>)>;

impl Report {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, no snapshot passes the filter, or it has no page maps.
    pub fn build(record: &Record, filter: &Filter) -> Result<Self, Error> {
        let mut known = Known::new();
        let mut idle = Idle::new();
        let scan = Scan::run(record, filter, |scan, s| {
            for (state, t) in scan.wanted(s) {
                learn(&mut idle, &scan.pages, t.id, s.end);
                let (version, mappings) = known.entry(t.id.0).or_default();
                if *version != state.mappings_version {
                    *version = state.mappings_version;
                    mappings.clone_from(&state.mappings);
                }
            }
            Ok(())
        })?;
        let mut report = Self {
            title: scan.title(),
            t_ns: scan.seen_ns.map_or(0, |(_, end)| end),
            origin_ns: scan.origin_ns,
            spans_us: scan.pages.spans_us(),
            damage: scan.caveats(),
            ..Self::default()
        };
        let (mut is_any, mut armed) = (false, Armed::default());
        for (id, (_, mappings)) in &known {
            let target = scan.targets.get(id).map(|t| t.target.clone()).unwrap_or_default();
            // The first mappings of a short record may come after its last snapshot.
            let later = scan.targets.get(id).map(|t| &t.mappings).filter(|_| mappings.is_empty());
            let mappings = later.unwrap_or(mappings);
            let map = scan.pages.get(TargetId(*id));
            is_any |= map.is_some();
            let none = PageMap::default();
            report.add(&target, mappings, map.unwrap_or(&none), filter, &mut armed);
            report.tell_idle(target.pid, idle.get(&TargetId(*id)));
        }
        if !is_any {
            return Err(Error::Nothing {
                why: "the record has no page maps".into(),
                hint: "`isotherm record --method census` makes them, with a set that can look at \
                       single pages",
            });
        }
        report.age = armed.age(Time(report.t_ns));
        report.lines.sort_by_key(|l| {
            let touched = l.sums.touched.map(|span| span.bytes);
            std::cmp::Reverse((touched[1], touched[2], l.sums.present, l.sums.mapped))
        });
        Ok(report)
    }

    /// Adds a target. `armed`: of all lines.
    fn add(
        &mut self,
        target: &Target,
        mappings: &[Mapping],
        map: &PageMap,
        filter: &Filter,
        armed: &mut Armed,
    ) {
        let keep = filter.address.unwrap_or(AddrRange::new(0, u64::MAX));
        let cut = |r: AddrRange| AddrRange::new(r.start.max(keep.start), r.end.min(keep.end));
        let mut lines: BTreeMap<(Option<MappingKind>, String), (PageSums, Armed)> = BTreeMap::new();
        for m in mappings {
            let range = cut(AddrRange::new(m.start, m.end));
            if !range.is_empty() {
                let (sums, armed) = lines.entry((Some(m.kind), mappings::name(m))).or_default();
                sums.plus(&PageSums::of(map, range));
                armed.plus(&Armed::of(map, range));
            }
        }
        for unit in map.units.values() {
            let pages = PageBits::of(unit.start, keep);
            let range = cut(AddrRange::new(unit.start, unit.start.saturating_add(UNIT)));
            let first = mappings.partition_point(|m| m.end <= range.start);
            let mapping = mappings.get(first).filter(|m| m.start < range.end);
            // A unit outside of all mappings is what was unmapped since.
            if pages.is_empty() || (mapping.is_none() && !mappings.is_empty()) {
                continue;
            }
            if mappings.is_empty() {
                let (sums, armed) = lines.entry((None, "(no mapping known)".into())).or_default();
                sums.mapped += unit.present.and(pages).count() * isotherm_core::addr::PAGE_SIZE;
                sums.add(unit, pages);
                armed.add(unit, pages);
            }
            self.units.push(UnitLine {
                target: target.name.clone(),
                pid: target.pid,
                mapping: mapping.map(|m| m.label().to_owned()).unwrap_or_default(),
                unit: cut_unit(unit, pages),
                idle_ms: [None; CELLS],
            });
        }
        for ((kind, name), (sums, of_line)) in lines {
            self.total.plus(&sums);
            armed.plus(&of_line);
            let age = of_line.age(Time(self.t_ns));
            let (target, pid) = (target.name.clone(), target.pid);
            self.lines.push(Line { target, pid, kind, name, sums, age });
        }
    }
}

impl Report {
    /// Says of the units of a process for how long their cells have been idle.
    fn tell_idle(&mut self, pid: u32, idle: Option<&BTreeMap<u64, IdleUnit>>) {
        let Some(idle) = idle else { return };
        for line in self.units.iter_mut().filter(|line| line.pid == pid) {
            if let Some(unit) = idle.get(&line.unit.start) {
                line.idle_ms = unit.cells_ms(self.spans_us, self.t_ns);
            }
        }
    }
}

/// The unit with only these pages.
fn cut_unit(unit: &UnitInfo, pages: PageBits) -> UnitInfo {
    UnitInfo {
        present: unit.present.and(pages),
        unresolved: unit.unresolved.and(unit.present).and(pages),
        touched: unit.touched.map(|plane| plane.map(|p| p.and(unit.present).and(pages))),
        found: unit.found.map(|found| found.and(pages)),
        young: unit.young.map(|young| young.and(pages)),
        ..*unit
    }
}
