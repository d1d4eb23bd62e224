//! The score: compares a record with the truth of the workload that was recorded.
//!
//! Definitions. A *window* is one snapshot of one target. It counts if it lies inside the life of
//! the process that has the target's pid in the truth. Only bytes of the workload's own regions
//! that were mapped for the whole window are judged, because the process's libraries and stacks are
//! not in the truth. The true `nr_accesses` of a page is p * `max_nr_accesses`, where p is the
//! chance that the page is touched within one sample interval, from the accesses that were really
//! executed ([`isotherm_sim::truth::rate`]). A page is the smallest unit that the MMU
//! distinguishes. If a huge leaf backs it, all 2 MiB are as hot as the whole leaf, however little
//! of it is used.
//!
//! * A byte is *hot* if `nr_accesses` >= 1 ([`Options::hot`]): about one touch per window. Truth
//!   and record use the same limit. Bytes that the record does not cover, or could not resolve, are
//!   judged as it reports them: as not accessed.
//! * `precision`: the share of the bytes called hot by the record that are hot. `recall`: the share
//!   of the hot bytes that the record calls hot. Both are sums over all windows.
//! * `precision_clear`, `recall_clear`: the same without the bytes whose true rate is within a
//!   factor of two of the limit. A count of samples cannot tell 0.9 touches per window from 1.1; if
//!   these two are good and the plain ones are not, the workload has much memory near the limit.
//! * `wss_error_p50`, `_p75`: percentiles over time of |estimated - true| / true hot bytes, all
//!   targets of a snapshot together. If nothing is hot in truth, the error is 0 if the record
//!   agrees, else 1.
//! * `rate_error`: mean over bytes and windows of |estimated - true| `nr_accesses`, by the maximum.
//! * `coverage`: of all regions of all windows that lie to at least 90 % in judged bytes, the share
//!   whose true mean rate (over these bytes) is inside `[lo, hi]`. Unresolved regions are left out.
//!   `bars_width`: the mean width of the bars of these regions, as a share of the maximum.
//! * `detection_delay_ms`: median over changes of the time from the edge until the end of the first
//!   window in which, among the bytes that changed between hot and not hot, both precision and
//!   recall are >= 0.9. Changes that were not seen before the next edge are `changes_missed`.
//! * `delay_to_hot_ms`, `delay_to_cold_ms`: the same for each way alone: until >= 0.9 of the bytes
//!   that turned hot are called hot, and until <= 0.1 of those that turned cold are. Unlike the
//!   number before, changes that were not seen count, as the latest.
//!
//! All numbers but delays use only windows of the *steady state*, which begin at least 1 s after
//! any edge and after the record's begin. [`Options::all`] uses all windows. [`Options::from_ns`]
//! and [`Options::to_ns`] take a part of the time, counted from the truth's start. So two records
//! of equal runs can be judged by the same windows. What the monitor takes is that of this part,
//! too, steady or not.
//!
//! If the record has page maps, `pages` has the same by page, and the error of the working set of
//! several spans; see [`PageScore`].
//!
//! Example: half of a region of 8 pages is hot. A record that calls 6 pages hot, and among them the
//! 4 hot ones, has precision 0.67, recall 1 and a working-set error of 0.5.

mod change;
mod pages;
mod ranges;
mod text;
mod window;

use std::collections::BTreeMap;

use isotherm_core::{Snapshot, TargetId, Time};
use isotherm_record::Pages;
use isotherm_sim::truth::{ProcessTruth, Truth};
use serde::Serialize;

pub use pages::{PageScore, SpanScore};

use change::Change;
use pages::{ByPage, Judged};
use window::Tally;

/// Time after an edge in which windows are not steady.
const SETTLE_NS: u64 = 1_000_000_000;

/// Options of the score: which bytes are hot, and which windows count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// A byte is hot from this `nr_accesses` on.
    pub hot: f64,
    /// All windows, not only steady ones.
    pub all: bool,
    /// Windows that begin earlier, in ns after the truth's start, do not count.
    pub from_ns: u64,
    /// Windows that end later, in ns after the truth's start, do not count.
    pub to_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { hot: 1.0, all: false, from_ns: 0, to_ns: u64::MAX }
    }
}

/// The score. A field is `None` (null) if there was nothing to judge.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Score {
    /// Byte-weighted precision of hot bytes.
    pub precision: Option<f64>,
    /// Byte-weighted recall of hot bytes.
    pub recall: Option<f64>,
    /// Precision among bytes whose true rate is not within a factor of two of the limit.
    pub precision_clear: Option<f64>,
    /// Recall among these.
    pub recall_clear: Option<f64>,
    /// Median relative error of the working set.
    pub wss_error_p50: Option<f64>,
    /// 75th percentile of it.
    pub wss_error_p75: Option<f64>,
    /// Byte-weighted mean error of the access rate, as a share of the maximum.
    pub rate_error: Option<f64>,
    /// Median time from a change until it is seen.
    pub detection_delay_ms: Option<f64>,
    /// Median time until what turned hot is seen, in ms. What was never seen counts as later than
    /// all else, so this is `None` if that is so for half of the changes.
    pub delay_to_hot_ms: Option<f64>,
    /// The same for what turned cold.
    pub delay_to_cold_ms: Option<f64>,
    /// Share of regions whose truth is inside their error bar.
    pub coverage: Option<f64>,
    /// Mean width of these error bars, as a share of the maximum. Bars that hold everything say
    /// nothing, so this belongs to the coverage.
    pub bars_width: Option<f64>,
    /// The monitor's own CPU time, in percent of one CPU.
    pub cpu_percent: Option<f64>,
    /// The monitor's own memory.
    pub rss_bytes: Option<u64>,
    /// Judged windows (one per target and snapshot).
    pub windows: u64,
    /// Windows of targets or times that the truth does not know, or that were not steady.
    pub windows_left_out: u64,
    /// Mean number of regions per snapshot.
    pub regions: Option<f64>,
    /// Share of judged bytes that the monitor could not resolve.
    pub unresolved: Option<f64>,
    /// Mean true working set per snapshot.
    pub wss_true_bytes: Option<f64>,
    /// Mean estimated working set per snapshot.
    pub wss_estimated_bytes: Option<f64>,
    /// Changes of the access pattern that could be judged.
    pub changes: u64,
    /// Those of them that were not seen.
    pub changes_missed: u64,
    /// Cleared accessed bits per second.
    pub clears_per_sec: Option<f64>,
    /// Looks at pages per second.
    pub checks_per_sec: Option<f64>,
    /// The score by page, if the record has page maps.
    pub pages: Option<PageScore>,
}

/// Collects snapshots, in the order of their times.
#[derive(Debug)]
pub struct Scorer<'t> {
    truth: &'t Truth,
    options: Options,
    pids: BTreeMap<TargetId, u32>,
    changes: BTreeMap<u32, Vec<Change>>,
    tally: Tally,
    wss: Vec<(u64, u64)>,
    windows: u64,
    left_out: u64,
    snapshots: u64,
    regions: u64,
    cost: isotherm_core::Cost,
    span: Option<(Time, Time)>,
    /// The part of it that was asked for.
    asked: Option<(Time, Time)>,
    rss_bytes: Option<u64>,
    by_page: ByPage,
}

impl<'t> Scorer<'t> {
    /// A scorer that compares snapshots with `truth`.
    #[must_use]
    pub fn new(truth: &'t Truth, options: Options) -> Self {
        Self {
            truth,
            options,
            pids: BTreeMap::new(),
            changes: BTreeMap::new(),
            tally: Tally::default(),
            wss: Vec::new(),
            windows: 0,
            left_out: 0,
            snapshots: 0,
            regions: 0,
            cost: isotherm_core::Cost::default(),
            span: None,
            asked: None,
            rss_bytes: None,
            by_page: ByPage::default(),
        }
    }

    /// Sets which process a target is.
    pub fn target(&mut self, id: TargetId, pid: u32) {
        self.pids.insert(id, pid);
    }

    /// Sets how much memory the monitor itself used.
    pub fn monitor_rss(&mut self, bytes: u64) {
        self.rss_bytes = Some(self.rss_bytes.unwrap_or(0).max(bytes));
    }

    /// Takes in page maps. They precede the snapshots of their windows.
    pub fn pages(&mut self, pages: &Pages) {
        self.by_page.learn(pages);
    }

    /// Judges one snapshot.
    pub fn snapshot(&mut self, s: &Snapshot) {
        let begin = self.span.map_or(s.start, |(begin, _)| begin);
        self.span = Some((begin, s.end));
        if self.is_asked_for(s) {
            self.asked = Some((self.asked.map_or(s.start, |(begin, _)| begin), s.end));
            self.snapshots += 1;
            self.regions += s.nr_regions() as u64;
            self.cost.add(&s.cost);
        }
        self.by_page.begin(s);
        let mut wss: Option<(u64, u64)> = None;
        for target in &s.targets {
            let found = self.pids.get(&target.id).and_then(|pid| self.truth.process(*pid));
            let Some(process) = found else {
                self.left_out += 1;
                continue;
            };
            let changes = self
                .changes
                .entry(process.pid)
                .or_insert_with(|| change::changes(self.truth, process, s, self.options.hot));
            changes.iter_mut().for_each(|c| c.look(s, &target.regions, self.options.hot));
            let steady = (self.options.all || is_steady(process, begin, s)) && self.is_asked_for(s);
            let tiles = self.truth.tiles(process, s.start, s.end, s.sample_us);
            if !steady || tiles.is_empty() {
                self.left_out += 1;
                continue;
            }
            self.windows += 1;
            let hot = self.options.hot;
            let (truly, estimated) =
                self.tally.window(&tiles, &target.regions, s.max_nr_accesses, hot);
            let (a, b) = wss.unwrap_or_default();
            wss = Some((a + truly, b + estimated));
            let (truth, target, all) = (self.truth, target.id, self.options.all);
            let judged = Judged { truth, process, target, tiles: &tiles, hot, all };
            self.by_page.target(s, &judged);
        }
        self.by_page.end(s);
        self.wss.extend(wss);
    }

    /// Whether the window lies in the time that counts.
    fn is_asked_for(&self, s: &Snapshot) -> bool {
        let start = self.truth.header.start_ns;
        let since = |at: Time| at.as_ns().saturating_sub(start);
        since(s.start) >= self.options.from_ns && since(s.end) <= self.options.to_ns
    }

    /// The score of all snapshots so far.
    #[must_use]
    pub fn finish(self) -> Score {
        let mut errors: Vec<f64> = self.wss.iter().map(|&(t, e)| relative_error(t, e)).collect();
        let judged = self.changes.values().flatten().filter(|c| c.is_judged(self.span));
        let judged: Vec<&Change> = judged.collect();
        let median = |delay: fn(&Change) -> Option<f64>| {
            let mut delays: Vec<f64> = judged.iter().filter_map(|c| delay(c)).collect();
            percentile(&mut delays, 0.5).filter(|ns| ns.is_finite()).map(|ns| ns / 1e6)
        };
        let (to_hot, to_cold) = (median(Change::delay_to_hot_ns), median(Change::delay_to_cold_ns));
        let (seen, missed): (Vec<_>, Vec<_>) =
            judged.into_iter().partition(|c| c.delay_ns().is_some());
        let mut delays: Vec<f64> =
            seen.iter().filter_map(|c| c.delay_ns()).map(|ns| to_f64(ns) / 1e6).collect();
        let seconds = self.asked.map_or(0.0, |(from, to)| to_f64(to.since(from)) / 1e9);
        let per_second = |n: u64| ratio(to_f64(n), seconds);
        let windows = to_f64(self.wss.len() as u64);
        let mean = |f: fn(&(u64, u64)) -> u64| ratio(to_f64(self.wss.iter().map(f).sum()), windows);
        let t = &self.tally;
        Score {
            precision: t.all.precision(),
            recall: t.all.recall(),
            precision_clear: t.clear.precision(),
            recall_clear: t.clear.recall(),
            wss_error_p50: percentile(&mut errors, 0.5),
            wss_error_p75: percentile(&mut errors, 0.75),
            rate_error: ratio(t.error, to_f64(t.bytes)),
            detection_delay_ms: percentile(&mut delays, 0.5),
            delay_to_hot_ms: to_hot,
            delay_to_cold_ms: to_cold,
            coverage: ratio(to_f64(t.covered), to_f64(t.bars)),
            bars_width: ratio(t.bars_width, to_f64(t.bars)),
            cpu_percent: per_second(self.cost.cpu_ns).map(|ns| ns / 1e7),
            rss_bytes: self.rss_bytes,
            windows: self.windows,
            windows_left_out: self.left_out,
            regions: ratio(to_f64(self.regions), to_f64(self.snapshots)),
            unresolved: ratio(to_f64(t.unresolved), to_f64(t.bytes)),
            wss_true_bytes: mean(|w| w.0),
            wss_estimated_bytes: mean(|w| w.1),
            changes: (seen.len() + missed.len()) as u64,
            changes_missed: missed.len() as u64,
            clears_per_sec: per_second(self.cost.clears),
            checks_per_sec: per_second(self.cost.checks),
            pages: self.by_page.finish(),
        }
    }
}

/// Whether the window is steady: neither an edge nor the record's `begin` lies inside it or less
/// than a second before it.
fn is_steady(process: &ProcessTruth, begin: Time, s: &Snapshot) -> bool {
    let recent = |edge: &Time| *edge + SETTLE_NS > s.start && *edge < s.end;
    !process.edges.iter().any(recent) && begin + SETTLE_NS <= s.start
}

fn relative_error(truly: u64, estimated: u64) -> f64 {
    match (truly, estimated) {
        (0, 0) => 0.0,
        (0, _) => 1.0,
        (t, e) => to_f64(t.abs_diff(e)) / to_f64(t),
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// The smallest value such that at least a share `q` of all values is not above it.
fn percentile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index below the length"
    )]
    let i = (values.len() as f64 * q).ceil() as usize;
    values.get(i.saturating_sub(1)).copied()
}

#[expect(clippy::cast_precision_loss, reason = "rounding of large sums does not matter to a ratio")]
const fn to_f64(x: u64) -> f64 {
    x as f64
}

#[cfg(test)]
mod tests;
