//! `report mappings`: which heap, library, file or other mapping is hot and which is cold.
//!
//! Every region is divided among the mappings of that time, by bytes. Numbers are means over the
//! time in which the target was seen. A byte is *hot* if its region was touched in at least half
//! of the samples of a window, *warm* if it was touched in fewer, and *cold* if in none. Where
//! single pages are known, those that were touched within a second are warm, also if the region
//! seems cold, and the others are cold, also if the region seems warm. What was not touched and
//! holds no page is *absent*, in a column of its own. Parts of one file are one line. Each
//! anonymous mapping without a name has its own line, with its address. Memory that several
//! targets share is in the lines of each of them, and once in the sums by kind, see
//! [`once`](isotherm_record::once). Records with page maps also tell how many pages are hot and
//! cold, see [`PageHeat`].

mod absent;
mod by_page;
mod merged;
mod sums;

use std::collections::BTreeMap;
use std::fmt::Write;

use isotherm_core::units::{mib, percent};
use isotherm_core::{RegionInfo, Snapshot};
use isotherm_record::once::Sharing;
use isotherm_record::{Mapping, MappingKind, Record, Target};
use serde::Serialize;

pub use by_page::PageHeat;
pub use merged::Merged;
pub(crate) use merged::is_of_file;

use self::absent::{Absent, Gaps};
use self::by_page::{ByPage, JsonPages};
use self::sums::Sums;
use crate::error::Error;
use crate::filter::Filter;
use crate::numbers::to_u64;
use crate::rate::rate;
use crate::scan::{self, Scan};
use crate::shown::{float, written};

/// A region with at least this share of touched samples is hot.
pub const HOT: f64 = 0.5;
/// Largest number of lines of the text. The JSON has all.
const MOST_LINES: usize = 40;
/// What the column of that name means.
const ABSENT: &str = "absent: address space without a page in any process (never filled, paged out \
                      or dropped); it is in no other column";

/// Mean bytes by temperature.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Heat {
    /// Touched in at least half of the samples.
    pub hot: f64,
    /// Touched in fewer samples.
    pub warm: f64,
    /// Not touched.
    pub cold: f64,
    /// The operations set could not look.
    pub unresolved: f64,
    /// Address space that was not touched and of which page maps show that it holds no page in any
    /// process: never filled, paged out or dropped. It is no memory, and in no sum.
    pub absent: f64,
    /// Sum of bytes times rate; see [`Heat::rate`].
    touched: f64,
}

impl Heat {
    /// All bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.hot + self.warm + self.cold + self.unresolved
    }

    /// Mean rate of the bytes that could be looked at, 0 to 1.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let seen = self.hot + self.warm + self.cold;
        if seen > 0.0 { self.touched / seen } else { 0.0 }
    }

    /// Whether there is neither memory nor address space.
    fn is_none(&self) -> bool {
        self.bytes() + self.absent == 0.0
    }

    /// Adds a part of a region for some time. Where something was touched, all of it
    /// counts: that is newer than what the page maps show.
    fn add_part(&mut self, r: &RegionInfo, gaps: Gaps<'_>, max: u32, time: f64) {
        let is_quiet = r.resolved && r.nr_accesses == 0;
        let none = if is_quiet { gaps.bytes(r.range) } else { 0 };
        self.absent += float(none) * time;
        let bytes = r.range.len().saturating_sub(none);
        // What was touched is a share of all of the region, and lies in what is there.
        let mut there = *r;
        if let Some(touched) = &mut there.touched {
            #[expect(clippy::cast_possible_truncation, reason = "a share")]
            let more = (float(r.range.len()) / float(bytes.max(1))) as f32;
            let shares = [&mut touched.window, &mut touched.second];
            shares.into_iter().flatten().for_each(|share| *share = (*share * more).min(1.0));
        }
        self.add(float(bytes) * time, &there, max);
    }

    fn add(&mut self, bytes: f64, r: &RegionInfo, max: u32) {
        if !r.resolved {
            self.unresolved += bytes;
            return;
        }
        let rate = rate(r, max);
        self.touched += bytes * rate;
        let in_use = bytes * r.in_use(max);
        if rate >= HOT {
            self.hot += in_use;
        } else {
            self.warm += in_use;
        }
        self.cold += bytes - in_use;
    }

    pub(crate) fn plus(&mut self, o: &Self) {
        self.hot += o.hot;
        self.warm += o.warm;
        self.cold += o.cold;
        self.unresolved += o.unresolved;
        self.absent += o.absent;
        self.touched += o.touched;
    }

    fn scaled(&self, f: f64) -> Self {
        Self {
            hot: self.hot * f,
            warm: self.warm * f,
            cold: self.cold * f,
            unresolved: self.unresolved * f,
            absent: self.absent * f,
            touched: self.touched * f,
        }
    }
}

/// One mapping of one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name of the target.
    pub target: String,
    /// Its process.
    pub pid: u32,
    /// What it holds; `None` where no mapping is known.
    pub kind: Option<MappingKind>,
    /// Path, bracketed name, or `[anon] 0x...`.
    pub name: String,
    /// Its bytes.
    pub heat: Heat,
    /// Its pages, if the record has page maps.
    pub pages: Option<PageHeat>,
}

/// The report.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What the report is about, such as `postgres (pid 4711)`.
    pub title: String,
    /// One line per mapping, sorted by bytes times rate, then by size.
    pub lines: Vec<Line>,
    /// Per kind, all targets together. Memory that they share counts once; then what is known of
    /// pages is left out, since it is summed up over the targets.
    pub kinds: Vec<(Option<MappingKind>, Heat, Option<PageHeat>)>,
    /// The same merged by file across the targets, hottest first.
    pub merged: Vec<Merged>,
    /// The sum over the targets, if they share memory.
    pub apart: Option<Heat>,
    /// What could not be read; empty if nothing.
    pub damage: String,
}

/// What a pass over a record collects for the report.
#[derive(Default)]
pub(crate) struct Build {
    sums: Sums,
    /// The same with shared memory counted once.
    once: Sums,
    sharing: Sharing,
    is_shared: bool,
    by_page: ByPage,
    absent: Absent,
    whole: f64,
}

impl Build {
    /// Takes in the next snapshot.
    pub(crate) fn add(&mut self, scan: &Scan, s: &Snapshot, filter: &Filter) {
        scan.tell_sharing(s, &mut self.sharing);
        self.is_shared |= self.sharing.is_any(scan.wanted(s).map(|(_, t)| t.id.0));
        self.absent.look(scan, s, &self.sharing);
        let time = float(s.end.since(s.watched_from()).max(1));
        self.whole += time;
        for (state, t) in scan.wanted(s) {
            self.once.learn(state, &self.absent);
            self.sums.learn(state, &self.absent);
            if let Some(known) = self.sums.known.get_mut(&t.id.0) {
                known.seen_ns += time;
                if let Some(map) = scan.pages.get(t.id) {
                    self.by_page.look(t.id.0, s.end.0, map, &known.ranges, filter);
                }
            }
            let gaps = self.absent.of(t.id.0);
            let mut at = 0;
            for r in filter.regions(&t.regions) {
                self.sums.add(t.id.0, (&r, gaps), s.max_nr_accesses, time, &mut at);
            }
        }
        if !self.is_shared {
            return;
        }
        let regions = scan.wanted(s).map(|(_, t)| (t.id.0, filter.regions(&t.regions).collect()));
        let mut last = (0, 0);
        for (id, r) in self.sharing.regions(regions) {
            last = if last.0 == id { last } else { (id, 0) };
            let gaps = self.absent.of(id);
            self.once.add(id, (&r, gaps), s.max_nr_accesses, time, &mut last.1);
        }
    }

    /// The report on all snapshots so far.
    pub(crate) fn finish(mut self, scan: &Scan) -> Report {
        for state in scan.targets.values() {
            let both = [&mut self.sums, &mut self.once];
            both.into_iter().for_each(|sums| sums.end(state, &self.absent));
        }
        let mut report =
            Report { title: scan.title(), damage: scan.caveats(), ..Report::default() };
        report.add_up(&self.sums, &self.by_page, scan);
        let per_ns = 1.0 / self.whole.max(1.0);
        if self.is_shared {
            report.share(&self.once, &self.sums, per_ns);
        }
        let once = if self.is_shared { &self.once } else { &self.sums };
        report.merged = merged::lines(once, &self.sums, scan, per_ns);
        report
    }
}

/// The name of a line: path, bracketed name, or `[anon] 0x...`.
pub(crate) fn name(m: &Mapping) -> String {
    if m.name.is_empty() { format!("[anon] {:#x}", m.start) } else { m.name.clone() }
}

impl Report {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or no snapshot passes the filter.
    pub fn build(record: &Record, filter: &Filter) -> Result<Self, Error> {
        scan::build(record, filter, Build::add, Build::finish)
    }

    /// Counts shared memory once in the sums by kind. These are means over the whole time then,
    /// since such memory belongs to no target. `per_ns`: one by the length of that time.
    fn share(&mut self, once: &Sums, sums: &Sums, per_ns: f64) {
        let mut kinds: BTreeMap<_, Heat> = BTreeMap::new();
        for ((_, kind, _), heat) in once.lines.iter().filter(|(_, heat)| !heat.is_none()) {
            kinds.entry(*kind).or_default().plus(&heat.scaled(per_ns));
        }
        self.kinds = kinds.into_iter().map(|(kind, heat)| (kind, heat, None)).collect();
        let mut apart = Heat::default();
        sums.lines.iter().for_each(|(_, heat)| apart.plus(&heat.scaled(per_ns)));
        self.apart = Some(apart);
    }

    /// Makes the lines and the sums by kind.
    fn add_up(&mut self, sums: &Sums, by_page: &ByPage, scan: &Scan) {
        let mut kinds: BTreeMap<_, (Heat, Option<PageHeat>)> = BTreeMap::new();
        for (nr, ((id, kind, name), heat)) in sums.lines.iter().enumerate() {
            // A target's numbers are means over the time in which it was seen.
            let seen = sums.known.get(id).map_or(1.0, |k| k.seen_ns.max(1.0));
            let heat = heat.scaled(1.0 / seen);
            if heat.is_none() {
                continue;
            }
            let pages = by_page.mean(*id, nr);
            let of_kind = kinds.entry(*kind).or_default();
            of_kind.0.plus(&heat);
            if let Some(pages) = &pages {
                of_kind.1.get_or_insert_default().plus(pages);
            }
            let target = scan.targets.get(id).map(|t| t.target.clone()).unwrap_or_default();
            let Target { name: target, pid, .. } = target;
            self.lines.push(Line { target, pid, kind: *kind, name: name.clone(), heat, pages });
        }
        self.lines.sort_by(|a, b| {
            let by = |l: &Line| (l.heat.touched, l.heat.bytes());
            by(b).partial_cmp(&by(a)).unwrap_or(std::cmp::Ordering::Equal)
        });
        self.kinds = kinds.into_iter().map(|(kind, (heat, pages))| (kind, heat, pages)).collect();
    }

    /// Whether there is a column of what is absent.
    fn has_absent(&self) -> bool {
        self.kinds.iter().any(|(_, heat, _)| heat.absent > 0.0)
    }

    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        written(|out| self.text(out))
    }

    fn text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "mappings of {}: means over time", self.title)?;
        let with_absent = self.has_absent();
        let heads = ["hot", "warm", "cold", "unresolved", "absent"];
        for head in &heads[..4 + usize::from(with_absent)] {
            write!(out, "{head:>12} ")?;
        }
        write!(out, "{:>8}  ", "rate")?;
        let with_pages = self.lines.iter().any(|l| l.pages.is_some());
        if with_pages {
            write!(out, "{:>12} {:>12}  ", "hot pages", "cold pages")?;
        }
        writeln!(out, "mapping")?;
        let pages_of = |pages: Option<PageHeat>| with_pages.then(|| pages.unwrap_or_default());
        let several = self.lines.iter().any(|l| l.pid != self.lines[0].pid);
        for l in self.lines.iter().take(MOST_LINES) {
            let whose =
                if several { format!(" of {} ({})", l.target, l.pid) } else { String::new() };
            let name = format!("{} {}{whose}", kind_name(l.kind), l.name);
            heat_line(out, &l.heat, pages_of(l.pages), with_absent, &name)?;
        }
        if self.lines.len() > MOST_LINES {
            let rest = &self.lines[MOST_LINES..];
            let (mut heat, mut pages) = (Heat::default(), PageHeat::default());
            rest.iter().for_each(|l| heat.plus(&l.heat));
            rest.iter().flat_map(|l| &l.pages).for_each(|p| pages.plus(p));
            let name = format!("{} more", rest.len());
            heat_line(out, &heat, pages_of(Some(pages)), with_absent, &name)?;
        }
        match &self.apart {
            None => writeln!(out, "by kind:")?,
            Some(_) => writeln!(out, "by kind, means over the whole time:")?,
        }
        for (kind, heat, pages) in &self.kinds {
            let pages = pages_of(*pages).filter(|_| self.apart.is_none());
            heat_line(out, heat, pages, with_absent, kind_name(*kind))?;
        }
        if with_absent {
            writeln!(out, "{ABSENT}")?;
        }
        if let Some(apart) = &self.apart {
            let mut once = Heat::default();
            self.kinds.iter().for_each(|(_, heat, _)| once.plus(heat));
            writeln!(
                out,
                "memory that processes share is counted once by kind, {} in all; the sum over \
                 processes is {}",
                mib(once.bytes()),
                mib(apart.bytes())
            )?;
        }
        if !self.damage.is_empty() {
            writeln!(out, "note: {}", self.damage)?;
        }
        Ok(())
    }

    /// The same as one JSON object; bytes as integers.
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = Json {
            schema_version: crate::SCHEMA_VERSION,
            target: &self.title,
            sum_over_processes: self.apart.as_ref().map(JsonHeat::of),
            mappings: self
                .lines
                .iter()
                .map(|l| JsonLine {
                    target: &l.target,
                    pid: l.pid,
                    kind: kind_name(l.kind),
                    name: &l.name,
                    heat: JsonHeat::of(&l.heat),
                    pages: l.pages.as_ref().map(JsonPages::of),
                })
                .collect(),
            kinds: self
                .kinds
                .iter()
                .map(|(kind, heat, pages)| JsonKind {
                    kind: kind_name(*kind),
                    heat: JsonHeat::of(heat),
                    pages: pages.as_ref().map(JsonPages::of),
                })
                .collect(),
        };
        serde_json::to_string(&json).unwrap_or_default()
    }
}

fn heat_line(
    out: &mut String,
    h: &Heat,
    pages: Option<PageHeat>,
    with_absent: bool,
    name: &str,
) -> std::fmt::Result {
    let bytes = [h.hot, h.warm, h.cold, h.unresolved, h.absent];
    for bytes in &bytes[..4 + usize::from(with_absent)] {
        write!(out, "{:>12} ", mib(*bytes))?;
    }
    write!(out, "{:>8}  ", percent(h.rate()))?;
    if let Some(pages) = pages {
        write!(out, "{:>12} {:>12}  ", mib(pages.hot), mib(pages.cold))?;
    }
    writeln!(out, "{name}")
}

/// The name of a kind, in text and JSON.
pub(crate) fn kind_name(kind: Option<MappingKind>) -> &'static str {
    kind.map_or("unknown", MappingKind::name)
}

#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    target: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_over_processes: Option<JsonHeat>,
    mappings: Vec<JsonLine<'a>>,
    kinds: Vec<JsonKind>,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    target: &'a str,
    pid: u32,
    kind: &'static str,
    name: &'a str,
    #[serde(flatten)]
    heat: JsonHeat,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<JsonPages>,
}

#[derive(Serialize)]
struct JsonKind {
    kind: &'static str,
    #[serde(flatten)]
    heat: JsonHeat,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<JsonPages>,
}

#[derive(Serialize)]
struct JsonHeat {
    hot: u64,
    warm: u64,
    cold: u64,
    unresolved: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<u64>,
    rate: f64,
}

impl JsonHeat {
    fn of(h: &Heat) -> Self {
        Self {
            hot: to_u64(h.hot),
            warm: to_u64(h.warm),
            cold: to_u64(h.cold),
            unresolved: to_u64(h.unresolved),
            absent: (h.absent > 0.0).then(|| to_u64(h.absent)),
            rate: (h.rate() * 1e6).round() / 1e6,
        }
    }
}
