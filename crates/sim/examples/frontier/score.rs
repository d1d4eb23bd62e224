//! Scores snapshots against the truth of the simulated process 0.
//!
//! Memory is hot if it is touched in at least one sample of twenty; this holds for the truth and
//! for the estimate. A window is steady if it begins at least 3 s after the start and 1 s after a
//! change. All numbers but the delay are those of steady windows. The delay is the time from a
//! change to the end of the first window with precision and recall of at least 0.9 (or to the next
//! change, if there is no such window). `isotherm score` has the definitive definitions. This is a
//! second, independent implementation of them with more details.

use isotherm_core::{RegionInfo, Snapshot, TargetId, Time};
use isotherm_sim::truth::{ProcessTruth, Tile, Truth};

/// Memory that is touched in this share of the samples is hot.
const HOT: f64 = 0.05;
const WARM_UP_NS: u64 = 3_000_000_000;
const SETTLE_NS: u64 = 1_000_000_000;
/// A change counts as seen with this precision and recall.
const SEEN: f64 = 0.9;

/// What is summed up over a run.
#[derive(Debug)]
pub(crate) struct Scorer<'a> {
    truth: &'a Truth,
    process: &'a ProcessTruth,
    error: f64,
    signed: f64,
    rate: f64,
    bytes: f64,
    hot: f64,
    found: f64,
    right: f64,
    wss: Vec<f64>,
    covered: f64,
    regions: f64,
    covered_bytes: f64,
    region_bytes: f64,
    windows: u32,
    /// The last change, and whether the monitor has still to see it.
    edge: Time,
    waiting: bool,
    delays: Vec<f64>,
    clears: u64,
    checks: u64,
    first: Option<Time>,
    last: Time,
}

/// The numbers of one run.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Score {
    pub(crate) clears_per_s: f64,
    pub(crate) checks_per_s: f64,
    /// Mean |estimate - truth| over bytes, in counts of 20.
    pub(crate) error: f64,
    /// Mean (estimate - truth) over bytes, in counts of 20.
    pub(crate) bias: f64,
    /// The error by the mean true rate.
    pub(crate) relative: f64,
    pub(crate) wss_p50: f64,
    pub(crate) wss_p75: f64,
    pub(crate) precision: f64,
    pub(crate) recall: f64,
    /// Share of regions whose true mean is inside the interval.
    pub(crate) coverage: f64,
    /// Share of bytes in such regions.
    pub(crate) coverage_bytes: f64,
    pub(crate) delay_p50_ms: f64,
    pub(crate) delay_max_ms: f64,
    pub(crate) regions: f64,
    /// CPU time of the operations, in percent of the virtual time. Only where they have a cost.
    pub(crate) cpu: f64,
}

/// Hot bytes of one window.
#[derive(Debug, Default, Clone, Copy)]
struct Hot {
    hot: f64,
    found: f64,
    right: f64,
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(truth: &'a Truth, process: &'a ProcessTruth) -> Self {
        Self {
            truth,
            process,
            error: 0.0,
            signed: 0.0,
            rate: 0.0,
            bytes: 0.0,
            hot: 0.0,
            found: 0.0,
            right: 0.0,
            wss: Vec::new(),
            covered: 0.0,
            regions: 0.0,
            covered_bytes: 0.0,
            region_bytes: 0.0,
            windows: 0,
            edge: Time(0),
            waiting: false,
            delays: Vec::new(),
            clears: 0,
            checks: 0,
            first: None,
            last: Time(0),
        }
    }

    /// The truth about one window, in address order.
    pub(crate) fn tiles(&self, snapshot: &Snapshot) -> Vec<Tile> {
        self.truth.tiles(self.process, snapshot.start, snapshot.end, snapshot.sample_us)
    }

    /// Scores a snapshot. Returns whether its window was steady.
    pub(crate) fn add(&mut self, snapshot: &Snapshot) -> bool {
        self.first.get_or_insert(snapshot.start);
        self.last = snapshot.end;
        self.clears += snapshot.cost.clears;
        self.checks += snapshot.cost.checks;
        let tiles = self.tiles(snapshot);
        let Some(target) = snapshot.targets.iter().find(|t| t.id == TargetId(0)) else {
            return false;
        };
        if tiles.is_empty() {
            return false;
        }
        let edges = self.process.edges.iter().skip(1);
        let edge = edges.take_while(|e| **e < snapshot.end).last().copied();
        let whole = edge.is_none_or(|e| e <= snapshot.start);
        let max = f64::from(snapshot.max_nr_accesses);
        let hot = hot_bytes(&target.regions, &tiles, max);
        self.watch_change(edge, whole, snapshot.end, hot);
        let is_steady = snapshot.start.0 >= WARM_UP_NS
            && edge.is_none_or(|e| snapshot.start.0 >= e.0 + SETTLE_NS);
        if is_steady {
            self.add_steady(&target.regions, &tiles, max, hot);
        }
        is_steady
    }

    fn watch_change(&mut self, edge: Option<Time>, whole: bool, end: Time, hot: Hot) {
        if let Some(edge) = edge.filter(|e| *e > self.edge) {
            self.give_up(edge);
            (self.edge, self.waiting) = (edge, true);
        }
        let is_seen = whole && hot.right >= SEEN * hot.found && hot.right >= SEEN * hot.hot;
        if self.waiting && is_seen {
            self.give_up(end);
        }
    }

    /// Ends the wait for a change, whether it was seen or not.
    fn give_up(&mut self, at: Time) {
        if std::mem::take(&mut self.waiting) {
            self.delays.push(ms(at.since(self.edge)));
        }
    }

    fn add_steady(&mut self, regions: &[RegionInfo], tiles: &[Tile], max: f64, hot: Hot) {
        self.windows += 1;
        self.hot += hot.hot;
        self.found += hot.found;
        self.right += hot.right;
        self.wss.push((hot.found - hot.hot).abs() / hot.hot.max(4096.0));
        let mut seen = 0.0;
        for region in regions {
            let estimate = f64::from(region.nr_accesses) / max;
            let (mut bytes, mut sum) = (0.0, 0.0);
            for (tile, len) in overlaps(region, tiles) {
                self.error += (estimate - tile.p).abs() * len;
                self.signed += (estimate - tile.p) * len;
                bytes += len;
                sum += tile.p * len;
            }
            seen += bytes;
            if bytes > 0.0 && region.resolved {
                let mean = sum / bytes * max;
                let slack = 1e-3;
                let inside =
                    f64::from(region.lo) - slack <= mean && mean <= f64::from(region.hi) + slack;
                let share = f64::from(u8::from(inside));
                self.regions += 1.0;
                self.region_bytes += bytes;
                self.covered += share;
                self.covered_bytes += share * bytes;
            }
        }
        let all: f64 = tiles.iter().map(|t| to_f64(t.range.len())).sum();
        let rate: f64 = tiles.iter().map(|t| t.p * to_f64(t.range.len())).sum();
        // Memory that is in no region counts as estimated as never touched.
        let mean = rate / all.max(1.0);
        self.error += (all - seen).max(0.0) * mean;
        self.bytes += all;
        self.rate += rate;
    }

    pub(crate) fn finish(mut self) -> Score {
        let seconds = ms(self.last.since(self.first.unwrap_or_default())) / 1e3;
        self.give_up(self.last);
        self.wss.sort_by(f64::total_cmp);
        self.delays.sort_by(f64::total_cmp);
        Score {
            clears_per_s: to_f64(self.clears) / seconds,
            checks_per_s: to_f64(self.checks) / seconds,
            error: 20.0 * self.error / self.bytes,
            bias: 20.0 * self.signed / self.bytes,
            relative: self.error / self.rate,
            wss_p50: quantile(&self.wss, 0.5),
            wss_p75: quantile(&self.wss, 0.75),
            precision: self.right / self.found,
            recall: self.right / self.hot,
            coverage: self.covered / self.regions,
            coverage_bytes: self.covered_bytes / self.region_bytes,
            delay_p50_ms: quantile(&self.delays, 0.5),
            delay_max_ms: quantile(&self.delays, 1.0),
            regions: self.regions / f64::from(self.windows),
            cpu: f64::NAN,
        }
    }
}

/// The tiles that share bytes with a region, and how many.
pub(crate) fn overlaps<'t>(
    region: &RegionInfo,
    tiles: &'t [Tile],
) -> impl Iterator<Item = (&'t Tile, f64)> {
    let range = region.range;
    let first = tiles.partition_point(|t| t.range.end <= range.start);
    let inside = tiles[first..].iter().take_while(move |t| t.range.start < range.end);
    inside.map(move |t| (t, to_f64(t.range.overlap(&range))))
}

fn hot_bytes(regions: &[RegionInfo], tiles: &[Tile], max: f64) -> Hot {
    let is_hot = |t: &&Tile| t.p >= HOT;
    let mut sum = Hot {
        hot: tiles.iter().filter(is_hot).map(|t| to_f64(t.range.len())).sum(),
        ..Hot::default()
    };
    for region in regions.iter().filter(|r| f64::from(r.nr_accesses) >= HOT * max) {
        for (tile, len) in overlaps(region, tiles) {
            sum.found += len;
            sum.right += if tile.p >= HOT { len } else { 0.0 };
        }
    }
    sum
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let i = (sorted.len().saturating_sub(1) as f64 * q).round() as usize;
    sorted.get(i).copied().unwrap_or(f64::NAN)
}

fn ms(ns: u64) -> f64 {
    to_f64(ns) / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "bytes and counts of a run")]
fn to_f64(x: u64) -> f64 {
    x as f64
}
