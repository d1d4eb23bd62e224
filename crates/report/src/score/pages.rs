//! The score by page, for records with page maps.
//!
//! * A page is *hot* in the record if it was touched within a window's span. If the limit is at
//!   least half of the maximum it must have been touched within a sample. In the truth it is hot as
//!   its bytes are, see the [score](super). Pages that nobody looked at are judged as not touched.
//! * The true *working set of a span* is what one expects to be touched within it: the sum over
//!   pages of the chance that a page is, from the accesses that were executed in the span that ends
//!   with the window. A window counts if no edge lies in that span or less than a second before it.
//!   Longer spans are judged four times per span, shorter ones in each window.
//! * The *recall of a span* is judged in the same cases, over the pages that are all but certain to
//!   be touched within it. It is told in bytes of all cases.
//! * The estimate is the record's working set of that span, less what its page maps say was touched
//!   outside of the judged bytes. How much that was is not judged, so the interval's lower end goes
//!   down by all pages there that were touched within any span, and its upper end by none.

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, SPANS, Snapshot, TargetId, Time, TouchedBytes, UnitInfo};
use isotherm_record::Pages;
use isotherm_sim::truth::{ProcessTruth, Tile, Truth};
use serde::Serialize;

use super::window::Hot;
use super::{SETTLE_NS, percentile, ratio, relative_error, to_f64};
use crate::numbers::to_u64;
use crate::page_maps::{PageMap, PageMaps};

/// Spans that are judged: a sample, a window, 1 s and 10 s. For longer ones few runs are long
/// enough.
const JUDGED: usize = 4;
/// How often a span is judged within its length.
const TIMES: u64 = 4;
/// From this chance on a page is all but certain to be touched.
const CERTAIN: f64 = 0.95;

/// The score by page. A field is `None` (null) if there was nothing to judge.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PageScore {
    /// Share of the pages called hot by the record that are hot.
    pub precision: Option<f64>,
    /// Share of the hot pages that the record calls hot.
    pub recall: Option<f64>,
    /// Precision among pages whose true rate is not within a factor of two of the limit.
    pub precision_clear: Option<f64>,
    /// Recall among these.
    pub recall_clear: Option<f64>,
    /// Share of the judged pages of which the record knows nothing.
    pub not_measured: Option<f64>,
    /// Working sets, from the shortest span to the longest.
    pub spans: Vec<SpanScore>,
}

/// The score of the working set of one span.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SpanScore {
    /// Length of the span, in microseconds.
    pub span_us: u64,
    /// Median of |estimated - true| / true.
    pub error_p50: Option<f64>,
    /// 75th percentile of it.
    pub error_p75: Option<f64>,
    /// Share of the cases in which the truth is inside the 90 % interval.
    pub coverage: Option<f64>,
    /// Of the pages that are touched within the span with a chance of at least 95 %, the share that
    /// the page map shows as touched within it.
    pub recall: Option<f64>,
    /// Judged cases.
    pub cases: u64,
    /// Mean true working set.
    pub true_bytes: Option<f64>,
    /// Mean estimated working set.
    pub estimated_bytes: Option<f64>,
}

/// One working set, all judged targets of a snapshot together.
#[derive(Debug, Clone, Copy, Default)]
struct Case {
    truly: f64,
    estimated: TouchedBytes,
    /// Bytes that are all but certain to be touched, and those of them that the page map has.
    certain: u64,
    found: u64,
}

/// Collects what is judged by page.
#[derive(Debug, Default)]
pub(super) struct ByPage {
    maps: PageMaps,
    /// Whether the record has page maps.
    is_any: bool,
    all: Hot,
    clear: Hot,
    bytes: u64,
    not_measured: u64,
    cases: [Vec<Case>; JUDGED],
    /// The sums of the present snapshot.
    case: [Option<Case>; JUDGED],
    /// When each span was judged last.
    judged: [Option<Time>; JUDGED],
}

/// A window of a target that is judged.
pub(super) struct Judged<'a> {
    pub(super) truth: &'a Truth,
    pub(super) process: &'a ProcessTruth,
    pub(super) target: TargetId,
    /// The truth of the window, for a sample interval.
    pub(super) tiles: &'a [Tile],
    /// From how many accesses per window on a page is hot.
    pub(super) hot: f64,
    /// Whether windows near edges are judged, too.
    pub(super) all: bool,
}

impl ByPage {
    pub(super) fn learn(&mut self, pages: &Pages) {
        self.is_any = true;
        self.maps.learn(pages);
    }

    /// A snapshot begins.
    pub(super) fn begin(&mut self, s: &Snapshot) {
        self.maps.advance(s.end);
    }

    /// Judges one target of a snapshot.
    pub(super) fn target(&mut self, s: &Snapshot, judged: &Judged<'_>) {
        if !self.is_any {
            return;
        }
        let none = PageMap::default();
        let maps = std::mem::take(&mut self.maps);
        let map = maps.get(judged.target).unwrap_or(&none);
        self.hot_pages(s, judged, map);
        let spans_us = maps.spans_us();
        for nr in 0..JUDGED {
            let step = if nr < 2 { 0 } else { spans_us[nr].saturating_mul(1000) / TIMES };
            let is_due = self.judged[nr].is_none_or(|last| s.end.since(last) >= step);
            if is_due && let Some(case) = case(s, judged, map, nr, spans_us) {
                let sum = self.case[nr].get_or_insert_default();
                sum.truly += case.truly;
                sum.certain = sum.certain.saturating_add(case.certain);
                sum.found = sum.found.saturating_add(case.found);
                let (estimated, other) = (&mut sum.estimated, case.estimated);
                estimated.bytes = estimated.bytes.saturating_add(other.bytes);
                estimated.lo = estimated.lo.saturating_add(other.lo);
                estimated.hi = estimated.hi.saturating_add(other.hi);
            }
        }
        self.maps = maps;
    }

    /// All targets of a snapshot were judged.
    pub(super) fn end(&mut self, s: &Snapshot) {
        for ((case, cases), judged) in
            self.case.iter_mut().zip(&mut self.cases).zip(&mut self.judged)
        {
            if let Some(case) = case.take() {
                cases.push(case);
                *judged = Some(s.end);
            }
        }
    }

    /// Compares the hot pages of a window.
    fn hot_pages(&mut self, s: &Snapshot, judged: &Judged<'_>, map: &PageMap) {
        let (hot, max) = (judged.hot, f64::from(s.max_nr_accesses.max(1)));
        let span = usize::from(hot * 2.0 < max);
        for tile in judged.tiles {
            let truly = tile.p * max;
            let is_clear = truly >= hot * 2.0 || truly < hot / 2.0;
            each_unit(map, tile.range, |unit, pages| {
                let plane = unit.and_then(|u| u.touched[span]);
                let known = plane
                    .map_or(PageBits::default(), |_| pages)
                    .minus(unit.map_or(PageBits::default(), |u| u.unresolved));
                let called_hot = plane.unwrap_or_default().and(known).count() * PAGE_SIZE;
                let bytes = pages.count() * PAGE_SIZE;
                self.bytes += bytes;
                self.not_measured += bytes - known.count() * PAGE_SIZE;
                for (tally, counts) in [(&mut self.all, true), (&mut self.clear, is_clear)] {
                    if counts {
                        tally.add(called_hot, truly >= hot, true);
                        tally.add(bytes - called_hot, truly >= hot, false);
                    }
                }
            });
        }
    }

    pub(super) fn finish(mut self) -> Option<PageScore> {
        let spans_us = self.maps.spans_us();
        self.is_any.then(|| PageScore {
            precision: self.all.precision(),
            recall: self.all.recall(),
            precision_clear: self.clear.precision(),
            recall_clear: self.clear.recall(),
            not_measured: ratio(to_f64(self.not_measured), to_f64(self.bytes)),
            spans: (0..JUDGED).map(|nr| score(&mut self.cases[nr], spans_us[nr])).collect(),
        })
    }
}

fn score(cases: &mut [Case], span_us: u64) -> SpanScore {
    let nr = to_f64(cases.len() as u64);
    let error = |case: &Case| relative_error(to_u64(case.truly), case.estimated.bytes);
    let mut errors: Vec<f64> = cases.iter().map(error).collect();
    let mean = |f: fn(&Case) -> f64| ratio(cases.iter().map(f).sum(), nr);
    let sum = |f: fn(&Case) -> u64| to_f64(cases.iter().map(f).fold(0, u64::saturating_add));
    // The truth is computed in floating point, so it may be off a little.
    let is_covered = |case: &&Case| {
        let (slack, e) = (case.truly * 1e-4 + 1.0, case.estimated);
        to_f64(e.lo) - slack <= case.truly && case.truly <= to_f64(e.hi) + slack
    };
    SpanScore {
        span_us,
        error_p50: percentile(&mut errors, 0.5),
        error_p75: percentile(&mut errors, 0.75),
        coverage: ratio(to_f64(cases.iter().filter(is_covered).count() as u64), nr),
        recall: ratio(sum(|case| case.found), sum(|case| case.certain)),
        cases: cases.len() as u64,
        true_bytes: mean(|case| case.truly),
        estimated_bytes: mean(|case| to_f64(case.estimated.bytes)),
    }
}

/// The working set of a span in truth and record; `None` if one of them does not know it.
fn case(
    s: &Snapshot,
    judged: &Judged<'_>,
    map: &PageMap,
    nr: usize,
    spans_us: [u64; SPANS],
) -> Option<Case> {
    let estimated = map.touched?.spans[nr]?;
    let span_us = spans_us[nr];
    let span_ns = span_us.saturating_mul(1000);
    let start = if nr < 2 { s.start } else { Time(s.end.0.checked_sub(span_ns)?) };
    let near = |edge: &Time| *edge + SETTLE_NS + s.end.since(start) > s.end && *edge < s.end;
    if !judged.all && judged.process.edges.iter().any(near) {
        return None;
    }
    let tiles = judged.truth.tiles(judged.process, start, s.end, span_us);
    if tiles.is_empty() {
        return None;
    }
    let truly = tiles.iter().map(|tile| to_f64(tile.range.len()) * tile.p).sum();
    // Pages that were touched within the span, and within any.
    let touched = |range: AddrRange| {
        let mut nr_pages = [0; 2];
        each_unit(map, range, |unit, pages| {
            let planes = unit.iter().flat_map(|unit| unit.touched.into_iter().flatten());
            let any = planes.fold(PageBits::default(), PageBits::or);
            let plane = unit.and_then(|unit| unit.touched[nr]).unwrap_or_default();
            nr_pages[0] += plane.and(pages).count();
            nr_pages[1] += any.and(pages).count();
        });
        nr_pages
    };
    let sum = |a: [u64; 2], b: [u64; 2]| [a[0] + b[0], a[1] + b[1]];
    // The map also has what was unmapped since, and the estimate has not.
    let target = s.targets.iter().find(|target| target.id == judged.target)?;
    let regions = target.regions.iter().map(|region| touched(region.range));
    let (everywhere, inside) =
        (regions.fold([0; 2], sum), tiles.iter().map(|t| touched(t.range)).fold([0; 2], sum));
    let [outside, most] = [0, 1].map(|i| everywhere[i].saturating_sub(inside[i]) * PAGE_SIZE);
    let TouchedBytes { bytes, lo, hi, measured } = estimated;
    let (bytes, lo) = (bytes.saturating_sub(outside), lo.saturating_sub(most));
    let estimated = TouchedBytes { bytes, lo, hi, measured };
    let certain = tiles.iter().filter(|tile| tile.p >= CERTAIN);
    let (certain, found) = certain.fold((0, 0), |(certain, found), tile| {
        (certain + tile.range.len(), found + touched(tile.range)[0] * PAGE_SIZE)
    });
    Some(Case { truly, estimated, certain, found })
}

/// Calls `f` for each unit that a range meets, with the pages of it that are in the range.
fn each_unit(map: &PageMap, range: AddrRange, mut f: impl FnMut(Option<&UnitInfo>, PageBits)) {
    let mut start = round_down(range.start, UNIT);
    while start < range.end {
        f(map.units.get(&start), PageBits::of(start, range));
        start = start.saturating_add(UNIT);
    }
}
