//! `report wss`: the working set of every snapshot, with its distribution and error bars.
//!
//! There are two definitions. *By regions*, as DAMON has it: the bytes of all regions with an
//! access, see [`estimate`](mod@estimate). *By pages*: the pages that were touched within a span,
//! for several spans, see [`profile`]. Only the method census knows single pages.
//!
//! Memory that several targets share counts once, see [`once`](isotherm_record::once); the text and
//! the JSON also tell the sum over the targets.

pub mod over;
pub mod profile;

use std::fmt::Write;

use isotherm_core::units::{counted, span};
use isotherm_core::{PageBits, SPANS, Snapshot, TargetId, TargetInfo, Time, Touched};
use isotherm_record::Record;
use isotherm_record::once::Sharing;
use serde::Serialize;

pub use isotherm_record::working_set::{self as estimate, Estimate, WorkingSet, estimate};
pub use profile::{Profile, SpanPoint, SpanSeries, without};

use crate::error::Error;
use crate::filter::Filter;
use crate::numbers::to_usize;
use crate::page_maps::{Armed, KnownAge};
use crate::scan::{self, Scan};
use crate::shown::{float, mib, written};

/// The working set in one window, all chosen targets together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// End of the window, in ns of the record's clock.
    pub t_ns: u64,
    /// The estimate.
    pub wss: WorkingSet,
}

/// The order of the percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Sorted by size: p50 is the median.
    #[default]
    Size,
    /// In order of time: p50 is the middle of the record.
    Time,
}

/// The working set over a record.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What the report is about, such as `postgres (pid 4711)`.
    pub title: String,
    /// Start of the record, in ns of its clock.
    pub origin_ns: u64,
    /// One per window, in order of time.
    pub points: Vec<Point>,
    /// The same with shared memory counted once per target; empty if targets share none.
    pub apart: Vec<Point>,
    /// The working set by span, if the record knows it and the filter does not name addresses.
    pub profile: Option<Profile>,
    /// What could not be read; empty if nothing.
    pub damage: String,
    /// What others hid by clearing accessed bits; empty if that does not matter.
    pub others: String,
}

/// What a sum over targets counts again, by span. It is looked up once per second of the record.
#[derive(Debug, Default)]
struct Again {
    at_ns: u64,
    bytes: [u64; SPANS],
}

impl Again {
    fn at(&mut self, now_ns: u64, look: impl FnOnce() -> [u64; SPANS]) -> [u64; SPANS] {
        if self.bytes == [0; SPANS] || now_ns.saturating_sub(self.at_ns) >= LOOK_NS {
            self.at_ns = now_ns;
            self.bytes = look();
        }
        self.bytes
    }
}

/// What a pass over a record collects for the report.
#[derive(Debug, Default)]
pub(crate) struct Build {
    points: Vec<Point>,
    apart: Vec<Point>,
    profile: Profile,
    sharing: Sharing,
    again: Again,
    is_shared: bool,
}

impl Build {
    /// Takes in the next snapshot.
    pub(crate) fn add(&mut self, scan: &Scan, s: &Snapshot, filter: &Filter) {
        scan.tell_sharing(s, &mut self.sharing);
        let regions = || {
            let of = |t: &TargetInfo| filter.regions(&t.regions).collect::<Vec<_>>();
            scan.wanted(s).map(move |(_, t)| (t.id.0, of(t)))
        };
        let mut all = Estimate::default();
        for (_, t) in scan.wanted(s) {
            filter.regions(&t.regions).for_each(|r| all.add(&r, s.max_nr_accesses));
        }
        let wss = all.working_set();
        self.apart.push(Point { t_ns: s.end.0, wss });
        let shares = self.sharing.is_any(scan.wanted(s).map(|(_, t)| t.id.0));
        self.is_shared |= shares;
        let once = shares.then(|| self.sharing.regions(regions()));
        let once = once.map(|all| estimate(all.iter().map(|(_, r)| r), s.max_nr_accesses));
        self.points.push(Point { t_ns: s.end.0, wss: once.unwrap_or(wss) });
        // A working set by span is that of the whole target.
        if filter.address.is_some() {
            return;
        }
        let touched = |id| scan.pages.get(id).and_then(|map| map.touched);
        let targets = scan.wanted(s).filter_map(|(_, t)| touched(t.id));
        if let Some(all) = targets.reduce(Touched::with) {
            let again = self.again.at(s.end.0, || {
                let maps = scan
                    .wanted(s)
                    .filter_map(|(_, t)| scan.pages.get(t.id).map(|map| (t.id.0, &map.units)));
                if shares { self.sharing.touched_again(maps) } else { [0; SPANS] }
            });
            self.profile.push(s.end.0, scan.pages.spans_us(), &all, again);
        }
    }

    /// The report on all snapshots so far.
    pub(crate) fn finish(mut self, scan: &Scan) -> Report {
        self.profile.end();
        self.profile.age = age(scan);
        Report {
            title: scan.title(),
            origin_ns: scan.origin_ns,
            points: self.points,
            apart: if self.is_shared { self.apart } else { Vec::new() },
            profile: (!self.profile.is_empty()).then_some(self.profile),
            damage: scan.caveats(),
            others: scan.others().to_owned(),
        }
    }
}

/// How old what is known of the pages of all chosen targets is.
fn age(scan: &Scan) -> Option<KnownAge> {
    let mut armed = Armed::default();
    let wanted = scan.targets.iter().filter(|(_, target)| target.wanted);
    for map in wanted.filter_map(|(id, _)| scan.pages.get(TargetId(*id))) {
        map.units.values().for_each(|unit| armed.add(unit, PageBits::ALL));
    }
    armed.age(Time(scan.seen_ns?.1))
}

/// The percentiles that are printed.
pub const PERCENTILES: [u32; 5] = [0, 25, 50, 75, 100];
const BAR: usize = 40;
/// Time between two looks at what is shared, in ns.
const LOOK_NS: u64 = 1_000_000_000;

impl Report {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or no snapshot passes the filter.
    pub fn build(record: &Record, filter: &Filter) -> Result<Self, Error> {
        scan::build(record, filter, Build::add, Build::finish)
    }

    /// The points in the order that percentiles are taken of.
    #[must_use]
    pub fn sorted(&self, order: Order) -> Vec<Point> {
        let mut points = self.points.clone();
        if order == Order::Size {
            points.sort_by_key(|p| p.wss.bytes);
        }
        points
    }

    /// The mean of all points. The ends of the interval are averaged as well, because the errors of
    /// neighbouring windows are alike and do not cancel out.
    #[must_use]
    pub fn mean(&self) -> WorkingSet {
        Self::mean_of(&self.points)
    }

    /// The same of the sums over the targets, if these share memory.
    pub(crate) fn apart_mean(&self) -> Option<WorkingSet> {
        (!self.apart.is_empty()).then(|| Self::mean_of(&self.apart))
    }

    fn mean_of(points: &[Point]) -> WorkingSet {
        let n = points.len().max(1) as u128;
        let mean = |f: fn(&WorkingSet) -> u64| {
            let sum: u128 = points.iter().map(|p| u128::from(f(&p.wss))).sum();
            u64::try_from(sum / n).unwrap_or(u64::MAX)
        };
        WorkingSet {
            bytes: mean(|w| w.bytes),
            lo: mean(|w| w.lo),
            hi: mean(|w| w.hi),
            unresolved: mean(|w| w.unresolved),
            mapped: mean(|w| w.mapped),
        }
    }

    /// The working set by pages as text; `None` if it is not known.
    #[must_use]
    pub fn profile_text(&self, order: Order) -> Option<String> {
        let profile = self.profile.as_ref()?;
        let nr = counted(self.points.len() as u64, "snapshot");
        let mut out = format!("working set of {} by pages: {nr}\n", self.title);
        profile.text(&mut out, order).unwrap_or_default();
        if !self.others.is_empty() {
            writeln!(out, "note: {}", self.others).unwrap_or_default();
        }
        if !self.damage.is_empty() {
            writeln!(out, "note: {}", self.damage).unwrap_or_default();
        }
        Some(out)
    }

    /// The working set by regions as text.
    #[must_use]
    pub fn to_text(&self, order: Order) -> String {
        written(|out| self.text(out, order))
    }

    fn text(&self, out: &mut String, order: Order) -> std::fmt::Result {
        let points = self.sorted(order);
        let mean = self.mean();
        let top = points.iter().map(|p| p.wss.hi).max().unwrap_or(0);
        writeln!(
            out,
            "working set of {}: {}",
            self.title,
            counted(points.len() as u64, "snapshot")
        )?;
        let by = match order {
            Order::Size => "by size",
            Order::Time => "by time",
        };
        writeln!(out, "{by:>8} {:>12}   90 % interval", "bytes")?;
        for p in PERCENTILES {
            let point = percentile(&points, p);
            let when = match order {
                Order::Size => String::new(),
                Order::Time => {
                    format!("  at {}", span(float(point.t_ns.saturating_sub(self.origin_ns))))
                }
            };
            row(out, &format!("p{p}"), &point.wss, top, &when)?;
        }
        row(out, "mean", &mean, top, "")?;
        writeln!(
            out,
            "mapped {} on average; unresolved {}",
            mib(mean.mapped),
            mib(mean.unresolved)
        )?;
        if let Some(apart) = self.apart_mean() {
            writeln!(
                out,
                "memory that processes share is counted once; the sum over processes is {} on \
                 average, mapped {}",
                mib(apart.bytes),
                mib(apart.mapped)
            )?;
        }
        if !self.damage.is_empty() {
            writeln!(out, "note: {}", self.damage)?;
        }
        Ok(())
    }

    /// Both, with the whole series, as one JSON object.
    #[must_use]
    pub fn to_json(&self, order: Order) -> String {
        let points = self.sorted(order);
        let json = Json {
            schema_version: crate::SCHEMA_VERSION,
            target: &self.title,
            snapshots: self.points.len(),
            order: match order {
                Order::Size => "size",
                Order::Time => "time",
            },
            percentiles: PERCENTILES
                .iter()
                .map(|&p| JsonPercentile { p, at: JsonPoint::of(percentile(&points, p)) })
                .collect(),
            mean: JsonPoint::of(Point { t_ns: 0, wss: self.mean() }),
            sum_over_processes: self.apart_mean().map(|wss| JsonPoint::of(Point { t_ns: 0, wss })),
            series: self.points.iter().map(|p| JsonPoint::of(*p)).collect(),
            pages: self.profile.as_ref().map(|profile| profile.json(order)),
        };
        serde_json::to_string(&json).unwrap_or_default()
    }
}

/// The point of nearest rank. `points` are in the order of the percentiles.
#[must_use]
pub fn percentile(points: &[Point], p: u32) -> Point {
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let last = points.len().saturating_sub(1) as f64;
    points.get(to_usize(last * f64::from(p) / 100.0)).copied().unwrap_or_default()
}

fn row(out: &mut String, name: &str, w: &WorkingSet, top: u64, when: &str) -> std::fmt::Result {
    let interval = format!("{} .. {}", mib(w.lo), mib(w.hi));
    writeln!(out, "{name:>8} {:>12}   {interval:<26} |{}|{when}", mib(w.bytes), bar(w, top))
}

/// A bar as `####++--`: `#` up to the lower end of the interval, `+` up to the estimate, `-` up to
/// the upper end.
fn bar(w: &WorkingSet, top: u64) -> String {
    let at = |x: u64| to_usize(float(x) / float(top.max(1)) * float(BAR as u64));
    let (lo, mid, hi) = (at(w.lo), at(w.bytes), at(w.hi));
    let part = |c: &str, n: usize| c.repeat(n);
    let used =
        part("#", lo) + &part("+", mid.saturating_sub(lo)) + &part("-", hi.saturating_sub(mid));
    format!("{used:<BAR$}")
}

#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    target: &'a str,
    snapshots: usize,
    order: &'static str,
    percentiles: Vec<JsonPercentile>,
    mean: JsonPoint,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_over_processes: Option<JsonPoint>,
    series: Vec<JsonPoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<profile::JsonProfile>,
}

#[derive(Serialize)]
struct JsonPercentile {
    p: u32,
    #[serde(flatten)]
    at: JsonPoint,
}

#[derive(Serialize)]
struct JsonPoint {
    t_ns: u64,
    bytes: u64,
    lo: u64,
    hi: u64,
    unresolved: u64,
    mapped: u64,
}

impl JsonPoint {
    fn of(p: Point) -> Self {
        let w = p.wss;
        Self {
            t_ns: p.t_ns,
            bytes: w.bytes,
            lo: w.lo,
            hi: w.hi,
            unresolved: w.unresolved,
            mapped: w.mapped,
        }
    }
}
