//! What a policy would have done to the memory of a record: the schemes run over its snapshots.
//!
//! The core decides as it does over a real process (the same regions, quotas, goals by refaults,
//! brakes, filters), by the method *observed*: windows and regions are the record's. What is acted
//! on, the page maps say: pages that are proven idle for as long as the scheme asks, less where so
//! many wake up that Isotherm would wait (`pages`). Memory that was taken and that the record shows
//! to be touched later has come back.
//!
//! Absent: what the program would have done differently, as it waits for pages; pressure, nodes and
//! free memory, of which a record knows nothing. A touch between two looks of the recorder is not
//! in the record, so a little too much is taken, and comes back without being seen to.

mod filters;
mod pages;
mod text;
mod world;

use std::fmt;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::scheme::{Action, Counters, Scheme};
use isotherm_core::{Attrs, Context, Driver, Event, Method, PageBits, Snapshot};
use isotherm_record::once::counted_again;
use isotherm_record::{Record, Target};
use serde::Serialize;

use self::filters::is_known;
use self::world::{Until, World};
use crate::error::Error;
use crate::filter::Filter;
use crate::price::{Estimate, Price};
use crate::scan::Scan;
use crate::shown::float;

/// Time between two points of the series, in ns.
const EVERY_NS: u64 = 1_000_000_000;

/// Whether the pattern of this number matches this name.
pub type Matches = Box<dyn Fn(u32, &str) -> bool>;

/// One scheme that is to be run.
pub struct What {
    /// Its name.
    pub name: String,
    /// What the core decides by.
    pub scheme: Scheme,
    /// For how long single pages have to stay untouched before they are taken, in µs; none: the
    /// numbers of regions decide.
    pub confirm_us: Option<u64>,
    /// Memory that is touched within this time after the action counts as refaulted, in µs.
    pub refault_window_us: u64,
    /// Collapse: the least share of a huge page that has to be in use, in basis points.
    pub min_touched_bp: u32,
    /// Whether the pattern of a filter, by its number, matches the name of a mapping.
    pub matches_mapping: Matches,
}

impl fmt::Debug for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("What").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a scheme would have done. All numbers are bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchemeReport {
    /// Its name.
    pub name: String,
    /// Its action.
    pub action: &'static str,
    /// Matching memory, summed over passes.
    pub tried_bytes: u64,
    /// Memory acted on.
    pub done_bytes: f64,
    /// The part of it that was touched again within the refault window.
    pub refaulted_bytes: f64,
    /// The part of it that was touched again before the record's end.
    pub returned_bytes: f64,
    /// Memory in huge pages that it made.
    pub collapsed_bytes: u64,
    /// How often the quota was used up.
    pub quota_exceeds: u64,
    /// The most that was charged in one window of the quota.
    pub max_window_bytes: u64,
    /// What it had paged out on average in the second half of the record, as a share of what was
    /// resident.
    pub saved_share_late: f64,
    /// Pages that it had paged out and that come back per second, in the second half.
    pub pages_back_per_s: f64,
}

/// How it was at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Seconds since the record's start.
    pub t_s: f64,
    /// Resident memory of the recorded program, in bytes.
    pub recorded: f64,
    /// The part of it that would have been paged out.
    pub paged_out: f64,
    /// What huge pages would have added.
    pub bloat: f64,
    /// Pages that had been paged out and had come back by then.
    pub pages_back: f64,
}

/// The same of one scheme at one time: bytes that it has paged out, and pages that have come back.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    paged_out: f64,
    pages_back: f64,
}

/// What a policy would have done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of the JSON's format.
    pub schema_version: u32,
    /// What was recorded.
    pub title: String,
    /// The context.
    pub context: String,
    /// Length of the record, in seconds.
    pub len_s: f64,
    /// Mean resident memory of the recorded program, in bytes.
    pub recorded: f64,
    /// Mean of what would have been paged out, in bytes.
    pub saved: f64,
    /// The same, as a share of what was resident.
    pub saved_share: f64,
    /// The same over the second half of the record, when schemes have come to an end with what was
    /// there at the start.
    pub saved_share_late: f64,
    /// Pages that were paged out and come back per second, in the second half.
    pub pages_back_per_s: f64,
    /// The time that the program would wait for them, as a share.
    pub slowdown: Estimate,
    /// What a page that comes back costs.
    pub price: Price,
    /// What huge pages would have added at the end, in bytes.
    pub bloat: f64,
    /// Every scheme.
    pub schemes: Vec<SchemeReport>,
    /// Every second.
    pub series: Vec<Point>,
    /// What a reader has to keep in mind.
    pub notes: Vec<String>,
}

/// One context of a policy.
#[derive(Debug)]
pub struct Replayed<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its schemes.
    pub schemes: &'a [What],
}

impl Report {
    /// Runs the schemes of a context over a record. `wants` says which targets of the record are
    /// the context's.
    ///
    /// # Errors
    ///
    /// The errors of reading. [`Error::Usage`] if no target of the record is the context's.
    pub fn build(
        record: &Record,
        filter: &Filter,
        context: &Replayed<'_>,
        wants: &dyn Fn(&Target) -> bool,
        price: Price,
    ) -> Result<Self, Error> {
        let mut build: Option<Build<'_>> = None;
        let scan = Scan::run(record, filter, |scan, s| {
            if build.is_none() {
                build = Some(Build::begin(s, context.schemes)?);
            }
            if let Some(build) = &mut build {
                build.step(scan, s, wants);
            }
            Ok(())
        })?;
        match build {
            Some(build) if build.has_targets => Ok(build.finish(&scan, context.name, price)),
            _ => Err(Error::Usage(format!(
                "context `{}`: the record has none of its targets\n  why:   the record holds {}\n  \
                 hint:  name one of them in the policy, or leave out `targets`",
                context.name,
                scan.title()
            ))),
        }
    }

    /// The report as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

struct Build<'a> {
    driver: Driver<World<'a>, Until>,
    has_targets: bool,
    next_ns: u64,
    series: Vec<Point>,
    /// By time as `series`, and by scheme.
    parts: Vec<Vec<Part>>,
}

impl<'a> Build<'a> {
    fn begin(first: &Snapshot, whats: &'a [What]) -> Result<Self, Error> {
        let attrs = Attrs {
            method: Method::Observed,
            sample_us: first.sample_us.max(1),
            aggr_us: first.aggr_us.max(first.sample_us).max(1),
            ..Attrs::default()
        };
        let mut context = Context::new(attrs, 0)
            .map_err(|why| Error::Usage(format!("the record's intervals cannot be: {why}")))?;
        let schemes: Vec<Scheme> = whats
            .iter()
            .map(|what| Scheme { by_page: what.confirm_us.is_some(), ..what.scheme.clone() })
            .collect();
        context.commit_schemes(schemes);
        let clock = Until { now: first.start, end: first.start };
        let driver = Driver::new(context, World::new(whats), clock);
        Ok(Self { driver, has_targets: false, next_ns: 0, series: Vec::new(), parts: Vec::new() })
    }

    fn step(&mut self, scan: &Scan, s: &Snapshot, wants: &dyn Fn(&Target) -> bool) {
        let wanted = |id: u32| scan.targets.get(&id).is_some_and(|state| wants(&state.target));
        for id in self.driver.ops.learn(scan, s, wanted) {
            self.driver.context.add_target(id);
            self.has_targets = true;
        }
        if !self.has_targets {
            return;
        }
        self.driver.clock.end = s.end;
        while self.driver.run() == Event::Snapshot {}
        if s.end.0 >= self.next_ns {
            self.next_ns = s.end.0 + EVERY_NS;
            let t_s = float(scan.since_start(s.end.0)) / 1e9;
            let (point, parts) = self.driver.ops.point(scan, t_s);
            self.series.push(point);
            self.parts.push(parts);
        }
    }

    fn finish(self, scan: &Scan, context: &str, price: Price) -> Report {
        let (world, len_s) = (&self.driver.ops, float(scan.seen_len()) / 1e9);
        let half = self.series.len() / 2;
        let (late, parts) = (&self.series[half..], &self.parts[half..]);
        let share = |points: &[Point]| {
            mean(points, |p| p.paged_out) / mean(points, |p| p.recorded).max(1.0)
        };
        let late_s = late.first().zip(late.last()).map_or(0.0, |(a, b)| b.t_s - a.t_s);
        let per_s =
            |first: f64, last: f64| if late_s > 0.0 { (last - first) / late_s } else { 0.0 };
        let ends = late.first().zip(late.last());
        let pages_back_per_s = ends.map_or(0.0, |(a, b)| per_s(a.pages_back, b.pages_back));
        let pages = Estimate::new(pages_back_per_s, pages_back_per_s, pages_back_per_s);
        let installed = self.driver.context.schemes();
        let schemes = installed.iter().zip(world.whats).zip(&world.done).enumerate();
        let schemes = schemes.map(|(nr, ((scheme, what), done))| {
            let Counters { sz_tried, qt_exceeds, max_window_sz, .. } = scheme.stats().clone();
            let ends = parts.first().zip(parts.last()).map(|(a, b)| (a[nr], b[nr]));
            SchemeReport {
                name: what.name.clone(),
                action: what.scheme.action.name(),
                tried_bytes: sz_tried,
                done_bytes: done.done.max(0.0),
                refaulted_bytes: done.refaulted,
                returned_bytes: done.returned,
                collapsed_bytes: done.collapsed,
                quota_exceeds: qt_exceeds,
                max_window_bytes: max_window_sz,
                saved_share_late: mean(parts, |parts| parts[nr].paged_out)
                    / mean(late, |p| p.recorded).max(1.0),
                pages_back_per_s: ends.map_or(0.0, |(a, b)| per_s(a.pages_back, b.pages_back)),
            }
        });
        Report {
            schema_version: crate::SCHEMA_VERSION,
            title: scan.title(),
            context: context.to_owned(),
            len_s,
            recorded: mean(&self.series, |p| p.recorded),
            saved: mean(&self.series, |p| p.paged_out),
            saved_share: share(&self.series),
            saved_share_late: share(late),
            pages_back_per_s,
            slowdown: pages.by(price.us).times(1e-6 / price.cpus.max(0.01)),
            price,
            bloat: self.series.last().map_or(0.0, |p| p.bloat),
            schemes: schemes.collect(),
            notes: notes(scan, world),
            series: self.series,
        }
    }
}

fn mean<T>(of: &[T], value: impl Fn(&T) -> f64) -> f64 {
    of.iter().map(value).sum::<f64>() / float(of.len().max(1) as u64)
}

/// What a reader has to keep in mind.
fn notes(scan: &Scan, world: &World<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if world.lacks_pages {
        notes.push(
            "the record has no page maps, so regions stand for their pages: too little is taken of \
             memory of which a part is hot, and what comes back is an upper bound; `isotherm record` \
             with the method census makes page maps"
                .to_owned(),
        );
    }
    notes.extend(world.left_out.iter().map(|what| format!("not played back: {what}")));
    let filters = world.whats.iter().flat_map(|what| &what.scheme.filters.ops);
    if filters.into_iter().any(|filter| !is_known(&filter.kind)) {
        notes.push(
            "a record does not answer filters by cgroup, LRU list or unmapped page cache, so such \
             schemes leave all memory alone here"
                .to_owned(),
        );
    }
    notes.extend([scan.caveats(), scan.others().to_owned()].into_iter().filter(|t| !t.is_empty()));
    notes
}

impl World<'_> {
    /// How it is now, and the part of each scheme.
    fn point(&self, scan: &Scan, t_s: f64) -> (Point, Vec<Part>) {
        let takes = |what: &What| what.scheme.action == Action::Pageout;
        let takers: Vec<usize> =
            self.whats.iter().enumerate().filter(|(_, w)| takes(w)).map(|(nr, _)| nr).collect();
        let (mut present, mut out, mut bloat) = (0, 0, 0);
        let mut each = vec![0; self.whats.len()];
        let mut shared = Vec::new();
        for (id, memory) in &self.targets {
            for unit in memory.units.values() {
                let mut all = PageBits::default();
                for nr in &takers {
                    let taken = unit.taken(*nr);
                    each[*nr] += taken.count();
                    all = all.or(taken);
                }
                present += unit.present().count();
                out += all.count();
                bloat += unit.bloat();
            }
            if let Some(map) = scan.pages.get(*id) {
                shared.extend(self.sharing.shared_units(id.0, &map.units, |unit| [unit.present]));
            }
        }
        let [again] = counted_again(shared.iter());
        let mut parts = vec![Part::default(); self.whats.len()];
        for nr in takers {
            let paged_out = float(each[nr] * PAGE_SIZE);
            parts[nr] = Part { paged_out, pages_back: self.done[nr].returned / 4096.0 };
        }
        let point = Point {
            t_s,
            recorded: float((present * PAGE_SIZE).saturating_sub(again)),
            paged_out: float(out * PAGE_SIZE),
            bloat: float(bloat),
            pages_back: parts.iter().map(|part| part.pages_back).sum(),
        };
        (point, parts)
    }
}
