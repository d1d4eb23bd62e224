//! Values over time, as many as a page can show.

use serde::Serialize;

use crate::shown::float;
use crate::wss;

/// Most points of a series. Neighbours are averaged where there are more.
pub(super) const MOST_POINTS: usize = 1200;
/// Most gaps; the longest are kept.
const MOST_GAPS: usize = 500;

/// A working set over time. Sizes are in KiB.
#[derive(Debug, Default, Serialize)]
pub(super) struct Band {
    name: String,
    /// Mean of the estimates and of the ends of their 90 % intervals, in bytes.
    mean: [u64; 3],
    /// Share of the memory for which it was measured, 0 to 1.
    measured: f64,
    /// Seconds since the start.
    t: Vec<f64>,
    lo: Vec<u64>,
    mid: Vec<u64>,
    hi: Vec<u64>,
}

/// The working sets of a record.
#[derive(Debug, Serialize)]
pub(super) struct WorkingSets {
    regions: Band,
    spans: Vec<Band>,
    /// Bytes on average: mapped, and those that could not be looked at.
    mapped: u64,
    unresolved: u64,
    /// The same as the sum over processes, if these share memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_over_processes: Option<u64>,
}

impl WorkingSets {
    pub(super) fn of(report: &wss::Report) -> Self {
        let seconds = |t_ns: u64| seconds(t_ns.saturating_sub(report.origin_ns));
        let mean = report.mean();
        let points =
            report.points.iter().map(|p| (seconds(p.t_ns), [p.wss.lo, p.wss.bytes, p.wss.hi]));
        let regions = Band::of("by regions".into(), points.collect(), 1.0);
        let regions = Band { mean: [mean.lo, mean.bytes, mean.hi], ..regions };
        let spans = report.profile.iter().flat_map(|p| &p.spans);
        let spans = spans.filter(|series| !series.points.is_empty()).map(|series| {
            let points = series
                .points
                .iter()
                .map(|p| (seconds(p.t_ns), [p.touched.lo, p.touched.bytes, p.touched.hi]));
            let all = series.mean();
            let name = format!("touched within {}", crate::page_maps::span_name(series.span_us));
            let band = Band::of(name, points.collect(), all.measured());
            Band { mean: [all.touched.lo, all.touched.bytes, all.touched.hi], ..band }
        });
        Self {
            spans: spans.collect(),
            regions,
            mapped: mean.mapped,
            unresolved: mean.unresolved,
            sum_over_processes: report.apart_mean().map(|apart| apart.bytes),
        }
    }
}

impl Band {
    fn of(name: String, points: Vec<(f64, [u64; 3])>, measured: f64) -> Self {
        let mut band = Self { name, measured, ..Self::default() };
        for group in points.chunks(points.len().div_ceil(MOST_POINTS).max(1)) {
            let n = group.len() as u64;
            let mean = |of: usize| {
                let sum: u128 = group.iter().map(|(_, x)| u128::from(x[of])).sum();
                u64::try_from(sum / u128::from(n) / 1024).unwrap_or(u64::MAX)
            };
            band.t.push(group[group.len() - 1].0);
            band.lo.push(mean(0));
            band.mid.push(mean(1));
            band.hi.push(mean(2));
        }
        band
    }
}

/// Times that nobody watched, in ns since the start.
#[derive(Debug, Default)]
pub(super) struct Gaps(Vec<(u64, u64)>);

impl Gaps {
    /// Takes in one; they come in order of time.
    pub(super) fn add(&mut self, from: u64, to: u64) {
        if to <= from {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.1 >= from => last.1 = to,
            _ => self.0.push((from, to)),
        }
        if self.0.len() > 2 * MOST_GAPS {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.0.sort_by_key(|(from, to)| std::cmp::Reverse(to - from));
        self.0.truncate(MOST_GAPS);
        self.0.sort_unstable();
    }

    /// In seconds.
    pub(super) fn finish(mut self) -> Vec<(f64, f64)> {
        self.shorten();
        self.0.iter().map(|(from, to)| (seconds(*from), seconds(*to))).collect()
    }
}

/// Seconds with a precision of a millisecond, which keeps the text short.
pub(super) fn seconds(ns: u64) -> f64 {
    (float(ns) / 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_averaged() {
        let points =
            (0..3000_u32).map(|n| (f64::from(n), [1 << 20, 2 << 20, (u64::from(n) % 3) << 20]));
        let band = Band::of("x".into(), points.collect(), 1.0);
        assert_eq!((band.t.len(), band.t.last()), (1000, Some(&2999.0)));
        assert!(band.lo.iter().all(|x| *x == 1024) && band.hi.iter().all(|x| *x == 1024));
        assert_eq!(Band::of("x".into(), vec![], 1.0).t.len(), 0);
    }

    #[test]
    fn the_longest_gaps_stay_and_neighbours_are_one() {
        let mut gaps = Gaps::default();
        gaps.add(5, 5);
        gaps.add(1_000_000_000, 2_000_000_000);
        gaps.add(2_000_000_000, 3_000_000_000);
        (10..2_000).for_each(|n| gaps.add(n * 1_000_000_000, n * 1_000_000_000 + n * 1000));
        let all = gaps.finish();
        assert_eq!((all.len(), all[0]), (MOST_GAPS, (1.0, 3.0)));
    }
}
