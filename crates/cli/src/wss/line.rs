//! What the lines of an interval say: the working set of each target over it, and of all.

use std::collections::BTreeMap;

use isotherm::raw::agent::monitor::Monitor;
use isotherm::raw::core::{RegionInfo, SPANS, Snapshot, Touched, TouchedBytes};
use isotherm::raw::report::wss::over::{over, union};
use isotherm::raw::report::wss::{WorkingSet, estimate};
use serde_json::{Value, json};

use super::shared::{Once, Shared};

/// The working set of one target, or of all, over an interval.
#[derive(Debug)]
pub(super) struct Line {
    /// 0 for physical memory and for all targets.
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) over: TouchedBytes,
    /// Whether `over` is by pages. As long as it is not known by them, it is the last window's by
    /// regions, with a wide interval.
    by_pages: bool,
    /// By span, if the method sees single pages.
    pub(super) touched: Option<Touched>,
    /// By regions, without the interval.
    pub(super) regions: WorkingSet,
    /// Time since the last look at its memory, on average over it, in ns; of all targets that of
    /// the one that waits the longest. None if the method does not see single pages.
    pub(super) look_age_ns: Option<u64>,
}

/// What is printed for an interval.
#[derive(Debug)]
pub(super) struct Now {
    pub(super) interval_us: u64,
    pub(super) spans_us: Vec<u64>,
    /// The largest working set first.
    pub(super) lines: Vec<Line>,
    /// Over all targets; memory that they share counts once.
    pub(super) total: Line,
    /// The sum over the targets, in bytes.
    pub(super) sum: u64,
    /// Whether they share memory.
    pub(super) is_shared: bool,
}

/// What is gathered over an interval.
#[derive(Debug)]
pub(super) struct Lines {
    interval_us: u64,
    shared: Shared,
    /// The union of the windows so far, for methods that do not see single pages.
    unions: BTreeMap<u32, Vec<RegionInfo>>,
}

impl Line {
    /// A line of a target over `interval_us`. `spans_us` are those of `touched`, which is none if
    /// the method does not see single pages.
    pub(super) fn new(
        (pid, name): (u32, String),
        touched: Option<Touched>,
        regions: WorkingSet,
        spans_us: [u64; SPANS],
        interval_us: u64,
    ) -> Self {
        let by_pages = touched.and_then(|touched| over(&touched, spans_us, interval_us));
        let over = by_pages.unwrap_or_else(|| of_regions(regions));
        Self { pid, name, over, by_pages: by_pages.is_some(), touched, regions, look_age_ns: None }
    }
}

impl Lines {
    pub(super) fn new(interval_us: u64) -> Self {
        Self { interval_us, shared: Shared::default(), unions: BTreeMap::new() }
    }

    /// Takes in a window.
    pub(super) fn learn(&mut self, s: &Snapshot) {
        self.shared.learn(s);
        self.unions.retain(|id, _| s.targets.iter().any(|t| t.id.0 == *id));
        for t in s.targets.iter().filter(|t| t.touched.is_none()) {
            let regions = self.unions.entry(t.id.0).or_default();
            *regions = union(regions, &t.regions);
        }
    }

    /// The lines of the interval that ends with the last window. The next one begins.
    pub(super) fn take(&mut self, monitor: &mut Monitor) -> Now {
        let Self { interval_us, unions, .. } = self;
        let names: BTreeMap<u32, (u32, String)> =
            monitor.tracker().targets().map(|t| (t.id.0, (t.pid, t.name.clone()))).collect();
        let looked = monitor.looks().watched;
        let s = monitor.snapshot();
        let spans_us = s.spans_us();
        let of =
            |whose, touched, regions| Line::new(whose, touched, regions, spans_us, *interval_us);
        let line = |t: &isotherm::raw::core::TargetInfo| {
            let whose = names.get(&t.id.0)?.clone();
            let regions = unions.get(&t.id.0).unwrap_or(&t.regions);
            let line = of(whose, t.touched, estimate(regions, s.max_nr_accesses));
            let looked = looked.get(&t.id).filter(|_| t.touched.is_some());
            Some(Line { look_age_ns: looked.map(|at| s.end.since(*at)), ..line })
        };
        let mut lines: Vec<Line> = s.targets.iter().filter_map(line).collect();
        lines.sort_by_key(|l| std::cmp::Reverse(l.over.bytes));
        let sum = lines.iter().map(|l| l.over.bytes).sum();
        let Once { regions, touched, is_shared } = self.shared.once(monitor, unions);
        let whose = (0, format!("total ({})", lines.len()));
        let look_age_ns = lines.iter().filter_map(|line| line.look_age_ns).max();
        let mut total = Line { look_age_ns, ..of(whose, touched, regions) };
        if is_shared {
            // Spans are measured at different times, so what is between them could say more.
            total.over.bytes = total.over.bytes.min(sum);
            total.over.lo = total.over.lo.min(sum);
        }
        let (interval_us, spans_us) = (*interval_us, spans_us.to_vec());
        unions.clear();
        Now { interval_us, spans_us, lines, total, sum, is_shared }
    }
}

fn of_regions(regions: WorkingSet) -> TouchedBytes {
    let WorkingSet { bytes, lo, hi, mapped, unresolved } = regions;
    TouchedBytes { bytes, lo, hi, measured: mapped.saturating_sub(unresolved) }
}

impl Now {
    /// One JSON object. The last window ended at `t_ns`, and had so many regions.
    pub(super) fn json(&self, t_ns: u64, regions: usize) -> Value {
        let mut line = self.fields(&self.total);
        line["t_ns"] = t_ns.into();
        line["interval_us"] = self.interval_us.into();
        line["regions"] = regions.into();
        line["targets"] = self.lines.len().into();
        line["sum_over_processes_bytes"] = self.sum.into();
        let of_one = |l: &Line| {
            let mut fields = self.fields(l);
            (fields["pid"], fields["name"]) = (l.pid.into(), l.name.as_str().into());
            fields
        };
        line["processes"] = self.lines.iter().map(of_one).collect();
        line
    }

    fn fields(&self, line: &Line) -> Value {
        let mut fields = json!({
            "wss_bytes": line.over.bytes, "lo": line.over.lo, "hi": line.over.hi,
            "by": if line.by_pages { "pages" } else { "regions" },
            "unresolved_bytes": line.regions.unresolved,
        });
        if let Some(touched) = line.touched {
            fields["watched_bytes"] = touched.watched.into();
            fields["touched"] = self.spans(&touched);
            fields["look_age_ms"] = line.look_age_ns.map(|ns| ns / 1_000_000).into();
        }
        fields
    }

    /// The working set by span. A span that was not measured yet is missing.
    fn spans(&self, touched: &Touched) -> Value {
        let spans = self.spans_us.iter().zip(touched.spans).filter_map(|(us, within)| {
            let TouchedBytes { bytes, lo, hi, measured } = within?;
            Some(json!({
                "span_us": us, "bytes": bytes, "lo": lo, "hi": hi, "measured_bytes": measured,
            }))
        });
        spans.collect()
    }
}
