//! What a plan needs from a record: how much is resident, how old what is idle is, and what the
//! page maps tell about huge pages and a slow tier.
//!
//! Sums are made once per second of the record. Memory that several targets share counts once.

use std::collections::BTreeMap;

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, Snapshot, UnitInfo};
use isotherm_record::once::{Sharing, counted_again};
use isotherm_record::{Mapping, MappingKind, Record};

use super::curve::Knot;
use super::huge::Huge;
use super::tier::{self, Tier};
use crate::error::Error;
use crate::filter::Filter;
use crate::price::Estimate;
use crate::scan::Scan;
use crate::shown::float;
use crate::wss;

/// Time between two sums, in ns.
const EVERY_NS: u64 = 1_000_000_000;
/// Idle times of which regions tell, in seconds.
const AGES_S: [u64; 16] = [1, 2, 3, 5, 7, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200];
/// A record has to be this many times as long as an idle time of which its regions are to tell.
const TIMES: f64 = 3.0;
/// Regions tell how memory ages between two spans of page maps if they show this share at least of
/// what page maps show.
const SHOWN: f64 = 0.5;
/// Of what regions tell about how idle memory ages, this share may be wrong: a region is a summary
/// of pages.
const OF_REGIONS: f64 = 0.25;

/// Idle memory by regions.
#[derive(Debug, Clone, Copy, Default)]
struct Idle {
    /// Sums over looks: bytes that were idle for so long, and all.
    idle: f64,
    all: f64,
}

impl Idle {
    fn share(&self) -> Option<f64> {
        (self.all > 0.0).then(|| self.idle / self.all)
    }
}

/// What one pass over a record has seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Names of the targets: for people, and to find them again.
    pub(super) title: String,
    pub(super) names: Vec<String>,
    /// Length of the record, in seconds.
    pub(super) len_s: f64,
    /// Mean resident memory, in bytes; address space where the record has no page maps.
    pub(super) resident: f64,
    /// The part of it that is anonymous, and so goes to swap.
    pub(super) anonymous: f64,
    /// The part that cannot be looked at, and so is never paged out for being idle.
    pub(super) unresolved: f64,
    pub(super) has_pages: bool,
    pub(super) knots: Vec<Knot>,
    pub(super) huge: Huge,
    pub(super) tier: Vec<tier::Row>,
    pub(super) caveats: Vec<String>,
}

#[derive(Debug, Default)]
struct Build {
    next_ns: u64,
    looks: f64,
    resident: f64,
    anonymous: f64,
    unresolved: f64,
    has_pages: bool,
    idle: [Idle; AGES_S.len()],
    address_space: f64,
    sharing: Sharing,
    /// By target: the version of its mappings, and the anonymous pages of its units.
    maps: BTreeMap<u32, (u64, BTreeMap<u64, PageBits>)>,
    huge: Huge,
    tier: Tier,
}

impl Seen {
    /// Mean resident memory for shares, in bytes: at least a page.
    pub(super) fn resident(&self) -> f64 {
        self.resident.max(float(PAGE_SIZE))
    }

    pub(super) fn of(record: &Record, filter: &Filter) -> Result<Self, Error> {
        let mut build = Build::default();
        let middle = middle_of(record, filter)?;
        let mut working_sets = wss::Build::default();
        let scan = Scan::run(record, filter, |scan, s| {
            working_sets.add(scan, s, filter);
            if s.end.0 >= build.next_ns {
                build.next_ns = s.end.0 + EVERY_NS;
                build.add(scan, s, s.end.0 < middle);
            }
            Ok(())
        })?;
        let report = working_sets.finish(&scan);
        Ok(build.finish(&scan, &report))
    }
}

/// The middle of the time that passes the filter, in ns of the record's clock.
fn middle_of(record: &Record, filter: &Filter) -> Result<u64, Error> {
    let scan = Scan::run(record, filter, |_, _| Ok(()))?;
    Ok(scan.seen_ns.map_or(0, |(from, to)| from.midpoint(to)))
}

impl Build {
    /// Takes in how everything is at the end of a snapshot.
    fn add(&mut self, scan: &Scan, s: &Snapshot, is_first_half: bool) {
        self.looks += 1.0;
        scan.tell_sharing(s, &mut self.sharing);
        self.ages(scan, s);
        let mut shared = Vec::new();
        self.huge = Huge::default();
        for (state, t) in scan.wanted(s) {
            let Some(map) = scan.pages.get(t.id) else { continue };
            self.has_pages = true;
            let (version, anonymous) = self.maps.entry(t.id.0).or_default();
            if *version != state.mappings_version {
                *version = state.mappings_version;
                *anonymous = anonymous_of(&state.mappings);
            }
            for unit in map.units.values() {
                let (present, unresolved) = (unit.present.count(), unit.unresolved.count());
                self.resident += float(present * PAGE_SIZE);
                self.unresolved += float(unresolved * PAGE_SIZE);
                let pages = anonymous.get(&unit.start).copied().unwrap_or_default();
                self.anonymous += float(unit.present.and(pages).count() * PAGE_SIZE);
                self.huge.add(unit, pages);
                self.tier.add(t.id.0, unit, is_first_half);
            }
            let planes = |unit: &UnitInfo| [unit.present];
            shared.extend(self.sharing.shared_units(t.id.0, &map.units, planes));
        }
        let [again] = counted_again(shared.iter());
        self.resident -= float(again);
    }

    /// How old what is idle is, by regions.
    fn ages(&mut self, scan: &Scan, s: &Snapshot) {
        let passed_s = scan.since_start(s.end.0) / 1_000_000_000;
        for (_, t) in scan.wanted(s) {
            for r in &t.regions {
                self.address_space += float(r.range.len());
                if !r.resolved {
                    continue;
                }
                let idle = float(r.range.len()) * (1.0 - r.in_use(s.max_nr_accesses));
                let age_s = scan.lengths.of_last(r.age) / 1_000_000_000;
                for (sum, from_s) in self.idle.iter_mut().zip(AGES_S) {
                    // Nothing is older than the record.
                    if passed_s >= from_s {
                        sum.all += float(r.range.len());
                        sum.idle += if age_s >= from_s { idle } else { 0.0 };
                    }
                }
            }
        }
    }

    fn finish(self, scan: &Scan, report: &wss::Report) -> Seen {
        let len_s = float(scan.seen_len()) / 1e9;
        let looks = self.looks.max(1.0);
        let resident =
            if self.has_pages { self.resident / looks } else { self.address_space / looks };
        let mut knots = page_knots(report, self.tier.turns());
        let has_pages = self.has_pages && !knots.is_empty();
        let told = self.idle.iter().zip(AGES_S.map(float));
        let told = told.filter(|(_, age)| age * TIMES <= len_s);
        let ages: Vec<_> = told.filter_map(|(sum, age)| Some((age, sum.share()?))).collect();
        if has_pages {
            by_ages(&mut knots, &ages, resident);
        } else {
            // A region with an access may hold idle pages, and one without hot ones.
            knots = ages
                .iter()
                .map(|&(span_s, idle)| {
                    let used = resident * (1.0 - idle);
                    Knot { span_s, bytes: Estimate::new(used / 2.0, used, resident) }
                })
                .collect();
        }
        let wanted = scan.targets.values().filter(|t| t.wanted);
        let mut names: Vec<_> = wanted.map(|t| t.target.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let mut caveats: Vec<_> = [scan.caveats(), scan.others().to_owned()].into();
        caveats.retain(|text| !text.is_empty());
        Seen {
            title: scan.title(),
            names,
            len_s,
            resident,
            anonymous: self.anonymous / looks,
            unresolved: self.unresolved / looks,
            has_pages,
            knots,
            huge: self.huge,
            tier: self.tier.rows(),
            caveats,
        }
    }
}

/// The working set at the spans of page maps. While less than half of the memory was measured for a
/// span, it is not known. A window's interval is that of one turn of each unit; the mean is over
/// so many `turns`, of which two in a row are seldom independent.
fn page_knots(report: &wss::Report, turns: f64) -> Vec<Knot> {
    let Some(profile) = &report.profile else { return Vec::new() };
    let of = |series: &wss::SpanSeries| {
        let mut known = series.clone();
        known.points.retain(|point| point.measured() >= 0.5);
        if known.points.is_empty() {
            return None;
        }
        let mean = known.mean().touched;
        let [lo, mid, hi] = [mean.lo, mean.bytes, mean.hi].map(float);
        let sure = (turns / 2.0).max(1.0).sqrt();
        let bytes = Estimate::new(mid - (mid - lo) / sure, mid, mid + (hi - mid) / sure);
        Some(Knot { span_s: float(known.span_us) / 1e6, bytes })
    };
    profile.spans.iter().filter_map(of).collect()
}

/// Adds knots between those of page maps, and behind the last one. How much is idle at those, page
/// maps tell; how it ages from one to the next, regions do. `ages`: idle times, and the share of
/// memory that was idle for so long by regions.
fn by_ages(knots: &mut Vec<Knot>, ages: &[(f64, f64)], resident: f64) {
    let share_at = |span_s: f64| {
        let near = |(age, _): &&(f64, f64)| (age - span_s).abs() < 1e-6 * span_s;
        ages.iter().find(near).map(|(_, share)| *share)
    };
    let mut more = Vec::new();
    for pair in knots.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let (Some(from), Some(to)) = (share_at(a.span_s), share_at(b.span_s)) else { continue };
        let rise = b.bytes.mid - a.bytes.mid;
        if (from - to) * resident < SHOWN * rise {
            continue;
        }
        let between = ages.iter().filter(|(age, _)| a.span_s < *age && *age < b.span_s);
        more.extend(between.map(|&(span_s, share)| {
            let part = ((from - share) / (from - to)).clamp(0.0, 1.0);
            between_knots(&a, &b, span_s, part)
        }));
    }
    if let Some(last) = knots.last().copied()
        && let Some(from) = share_at(last.span_s).filter(|share| *share > 0.0)
    {
        let idle = (resident - last.bytes.mid).max(0.0);
        let behind = ages.iter().filter(|(age, _)| *age > last.span_s);
        more.extend(behind.map(|&(span_s, share)| {
            let more = idle * (1.0 - (share / from).clamp(0.0, 1.0));
            let Estimate { lo, mid, hi } = last.bytes;
            let error = OF_REGIONS * more;
            Knot { span_s, bytes: Estimate::new(lo + more - error, mid + more, hi + more + error) }
        }));
    }
    knots.extend(more);
    knots.sort_by(|a, b| a.span_s.total_cmp(&b.span_s));
}

/// A knot between two: of the rise from one to the other, this part has come.
fn between_knots(a: &Knot, b: &Knot, span_s: f64, part: f64) -> Knot {
    let at = |from: f64, to: f64| from + part * (to - from);
    let mid = at(a.bytes.mid, b.bytes.mid);
    let error = OF_REGIONS * (b.bytes.mid - a.bytes.mid).max(0.0) * part.min(1.0 - part) * 2.0;
    let (lo, hi) = (at(a.bytes.lo, b.bytes.lo) - error, at(a.bytes.hi, b.bytes.hi) + error);
    Knot { span_s, bytes: Estimate::new(lo.max(a.bytes.lo), mid, hi.min(b.bytes.hi).max(mid)) }
}

/// By unit: the pages that belong to anonymous memory.
fn anonymous_of(mappings: &[Mapping]) -> BTreeMap<u64, PageBits> {
    let mut out: BTreeMap<u64, PageBits> = BTreeMap::new();
    let kinds = [MappingKind::Anonymous, MappingKind::Heap, MappingKind::Stack];
    for m in mappings.iter().filter(|m| kinds.contains(&m.kind)) {
        let mut start = round_down(m.start, UNIT);
        while start < m.end {
            let pages = PageBits::of(start, AddrRange::new(m.start, m.end));
            let all = out.entry(start).or_default();
            *all = all.or(pages);
            start = start.saturating_add(UNIT);
        }
    }
    out
}
