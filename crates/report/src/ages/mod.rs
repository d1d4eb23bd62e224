//! `report ages`: for how long memory has not been accessed.
//!
//! Where a record has page maps, single pages count, see `by_page`. Elsewhere a region without
//! accesses has been idle for its age, which is counted in windows, of their real lengths, and one
//! with accesses for 0. There are two histograms: one of the end of the record, and one of the mean
//! over time. Memory that several targets share counts
//! once, see [`once`](isotherm_record::once); the text and the JSON also tell the sum over the
//! targets.

mod by_page;

use std::collections::BTreeMap;
use std::fmt::Write;

use isotherm_core::units::{mib, percent, span};
use isotherm_core::{Lengths, RegionInfo, Snapshot, TargetInfo};
use isotherm_record::Record;
use isotherm_record::once::Sharing;
use serde::Serialize;

use self::by_page::ByPage;
use crate::error::Error;
use crate::filter::Filter;
use crate::numbers::to_u64;
use crate::scan::{self, Scan};
use crate::shown::{float, written};

/// Lower ends of the classes of idle time, in ms. The first class holds memory that is accessed
/// now.
const CLASSES_MS: [u64; 15] = [
    0, 1, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_800_000, 3_600_000,
];
const BAR: usize = 40;
/// Many regions have the same age. How many ages of a snapshot are remembered at most.
const KNOWN: usize = 64;

/// Bytes by idle time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Histogram {
    bytes: [f64; CLASSES_MS.len()],
    unresolved: f64,
}

impl Histogram {
    /// Adds a region whose age is in ms. `max`: the largest count of accesses.
    fn add(&mut self, r: &RegionInfo, max: u32, weight: f64) {
        let bytes = float(r.range.len()) * weight;
        if !r.resolved {
            self.unresolved += bytes;
            return;
        }
        let in_use = bytes * r.in_use(max);
        self.bytes[0] += in_use;
        self.bytes[class_of(u64::from(r.age))] += bytes - in_use;
    }

    fn plus(&mut self, other: &Self, weight: f64) {
        self.bytes.iter_mut().zip(other.bytes).for_each(|(sum, bytes)| *sum += bytes * weight);
        self.unresolved += other.unresolved * weight;
    }

    fn all(&self) -> f64 {
        self.unresolved + self.bytes.iter().sum::<f64>()
    }
}

/// The class of what has been idle for so long, and is not in use.
fn class_of(idle_ms: u64) -> usize {
    CLASSES_MS.partition_point(|&from| from <= idle_ms.max(1)) - 1
}

/// One class of idle time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Class {
    /// Lower end, in ms; 0 means: accessed in the window itself.
    pub idle_ms: u64,
    /// Upper end, in ms; none for the last class.
    pub below_ms: Option<u64>,
    /// Bytes at the end.
    pub bytes: u64,
    /// Mean bytes over time.
    pub mean_bytes: u64,
}

/// All bytes, with those that targets share counted once per target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// At the end.
    pub bytes: u64,
    /// Mean over time.
    pub mean_bytes: u64,
}

/// The report.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Version of the JSON's format.
    pub schema_version: u32,
    /// What the report is about, such as `postgres (pid 4711)`.
    #[serde(rename = "target")]
    pub title: String,
    /// In order of idle time.
    pub classes: Vec<Class>,
    /// Bytes at the end that the operations set could not look at.
    pub unresolved: u64,
    /// Mean of these over time.
    pub mean_unresolved: u64,
    /// All bytes at the end, the unresolved ones included.
    pub bytes: u64,
    /// Mean of all bytes over time.
    pub mean_bytes: u64,
    /// The sum over the targets, if they share memory.
    #[serde(rename = "sum_over_processes", skip_serializing_if = "Option::is_none")]
    pub apart: Option<Sum>,
    /// What could not be read; empty if nothing.
    #[serde(skip)]
    pub damage: String,
}

/// What a pass over a record collects for the report.
#[derive(Debug, Default)]
pub(crate) struct Build {
    mean: Histogram,
    /// The regions of each target's last snapshot, with ages in ms.
    last: BTreeMap<u32, Vec<RegionInfo>>,
    time: f64,
    /// The targets whose single pages are known.
    pages: ByPage,
    /// The largest count of accesses, in the last snapshot.
    max: u32,
    sharing: Sharing,
    is_shared: bool,
    /// The sum over the targets, in bytes times ns.
    apart: f64,
}

impl Build {
    /// Takes in the next snapshot.
    pub(crate) fn add(&mut self, scan: &Scan, s: &Snapshot, filter: &Filter) {
        let len = float(s.end.since(s.watched_from()).max(1));
        self.time += len;
        let max = s.max_nr_accesses;
        self.max = max;
        scan.tell_sharing(s, &mut self.sharing);
        if self.pages.learn(scan, s, filter) {
            self.pages.look(&self.sharing);
        }
        let by_regions = |t: &TargetInfo| scan.pages.get(t.id).is_none();
        let ids = || scan.wanted(s).filter(|(_, t)| by_regions(t)).map(|(_, t)| t.id.0);
        let mut known = [None; KNOWN];
        for (_, t) in scan.wanted(s) {
            if !by_regions(t) {
                self.last.remove(&t.id.0);
                continue;
            }
            let last = self.last.entry(t.id.0).or_default();
            last.clear();
            last.reserve(t.regions.len());
            last.extend(filter.regions(&t.regions).map(|r| in_ms(r, &scan.lengths, &mut known)));
            self.apart += len * last.iter().map(|r| float(r.range.len())).sum::<f64>();
        }
        if self.sharing.is_any(ids()) {
            self.is_shared = true;
            let all = ids().map(|id| (id, self.last[&id].clone()));
            self.sharing.regions(all).iter().for_each(|(_, r)| self.mean.add(r, max, len));
        } else {
            ids().flat_map(|id| &self.last[&id]).for_each(|r| self.mean.add(r, max, len));
        }
    }

    /// The report on all snapshots so far.
    pub(crate) fn finish(mut self, scan: &Scan) -> Report {
        let mut now = Histogram::default();
        let all = || self.last.iter().map(|(id, regions)| (*id, regions.clone()));
        let mut apart_now: u64 = all().flat_map(|(_, all)| all).map(|r| r.range.len()).sum();
        self.sharing.regions(all()).iter().for_each(|(_, r)| now.add(r, self.max, 1.0));
        let time = self.time.max(1.0);
        if let Some(pages) = self.pages.finish(&self.sharing) {
            now.plus(&pages.now, 1.0);
            self.mean.plus(&pages.mean, time);
            apart_now += to_u64(pages.apart_now);
            self.apart += pages.apart * time;
            self.is_shared |= pages.is_shared;
        }
        let classes = CLASSES_MS.iter().enumerate().map(|(i, &idle_ms)| Class {
            idle_ms,
            below_ms: CLASSES_MS.get(i + 1).copied(),
            bytes: to_u64(now.bytes[i]),
            mean_bytes: to_u64(self.mean.bytes[i] / time),
        });
        let apart = Sum { bytes: apart_now, mean_bytes: to_u64(self.apart / time) };
        Report {
            schema_version: crate::SCHEMA_VERSION,
            title: scan.title(),
            classes: classes.collect(),
            unresolved: to_u64(now.unresolved),
            mean_unresolved: to_u64(self.mean.unresolved / time),
            bytes: to_u64(now.all()),
            mean_bytes: to_u64(self.mean.all() / time),
            apart: self.is_shared.then_some(apart),
            damage: scan.caveats(),
        }
    }
}

/// The region with its age in ms, by how long the windows really took. `known`: ages of this
/// snapshot, and what they are in ms.
fn in_ms(r: RegionInfo, lengths: &Lengths, known: &mut [Option<(u32, u32)>; KNOWN]) -> RegionInfo {
    let place = &mut known[usize::try_from(r.age).unwrap_or(0) % KNOWN];
    let age = match *place {
        Some((windows, ms)) if windows == r.age => ms,
        _ => {
            let ms = u32::try_from(lengths.of_last(r.age) / 1_000_000).unwrap_or(u32::MAX);
            *place = Some((r.age, ms));
            ms
        }
    };
    RegionInfo { age, ..r }
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

    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        written(|out| self.text(out))
    }

    fn text(&self, out: &mut String) -> std::fmt::Result {
        let total: u64 = self.classes.iter().map(|c| c.bytes).sum();
        let top = self.classes.iter().map(|c| c.bytes).max().unwrap_or(0);
        writeln!(out, "idle ages of {}: bytes by time without access", self.title)?;
        writeln!(out, "{:>20} {:>12} {:>8} {:>12}", "idle for", "at the end", "", "mean")?;
        let used = self.classes.iter().rposition(|c| c.bytes + c.mean_bytes > 0).unwrap_or(0);
        for c in &self.classes[..=used] {
            let bar = "#".repeat(crate::numbers::to_usize(
                float(c.bytes) / float(top.max(1)) * float(BAR as u64),
            ));
            let row = format!(
                "{:>20} {:>12} {:>8} {:>12}  {bar}",
                class_name(c.idle_ms, c.below_ms),
                mib(float(c.bytes)),
                percent(float(c.bytes) / float(total.max(1))),
                mib(float(c.mean_bytes)),
            );
            writeln!(out, "{}", row.trim_end())?;
        }
        if self.unresolved + self.mean_unresolved > 0 {
            let (now, mean) = (mib(float(self.unresolved)), mib(float(self.mean_unresolved)));
            writeln!(out, "{:>20} {now:>12} {:>8} {mean:>12}", "unresolved", "")?;
        }
        if let Some(apart) = self.apart {
            let [once, mean] = [self.bytes, self.mean_bytes].map(|b| mib(float(b)));
            let (sum, mean_sum) = (mib(float(apart.bytes)), mib(float(apart.mean_bytes)));
            writeln!(
                out,
                "memory that processes share is counted once, {once} in all at the end and {mean} \
                 on average; the sum over processes is {sum} and {mean_sum}"
            )?;
        }
        if !self.damage.is_empty() {
            writeln!(out, "note: {}", self.damage)?;
        }
        Ok(())
    }

    /// The same as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The name of a class of idle time, from its ends in ms.
pub(crate) fn class_name(idle_ms: u64, below_ms: Option<u64>) -> String {
    let ms = |x: u64| span(float(x) * 1e6);
    match (idle_ms, below_ms) {
        (0, _) => "accessed now".into(),
        (1, Some(to)) => format!("less than {}", ms(to)),
        (from, Some(to)) => format!("{} .. {}", ms(from), ms(to)),
        (from, None) => format!("{} and more", ms(from)),
    }
}
