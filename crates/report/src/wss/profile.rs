//! The working-set profile: how much memory was touched within spans of 5 ms to 1 min.
//!
//! The numbers are those of a method that sees single pages. A page counts whole, whatever part of
//! it was touched. Several targets are added up, see [`Touched::with`]. Touched pages that they
//! share count once.

use std::fmt::Write;

use isotherm_core::units::{percent, span};
use isotherm_core::{SPANS, Touched, TouchedBytes};
use serde::Serialize;

use super::{Order, PERCENTILES};
use crate::numbers::to_usize;
use crate::page_maps::{KnownAge, span_name};
use crate::shown::{float, mib};

/// How much was touched within a span, in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanPoint {
    /// End of the window, in ns of the record's clock.
    pub t_ns: u64,
    /// The estimate.
    pub touched: TouchedBytes,
    /// What a sum over the targets would count again, in bytes.
    pub again: u64,
    /// Bytes of address space that were watched.
    pub watched: u64,
}

/// One span over a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpanSeries {
    /// Length of the span, in microseconds.
    pub span_us: u64,
    /// One per window in which the span was known, in order of time.
    pub points: Vec<SpanPoint>,
}

/// The working set by span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// From the shortest to the longest.
    pub spans: [SpanSeries; SPANS],
    /// How old what is known of the pages is at the end; none if nothing is known.
    pub age: Option<KnownAge>,
}

impl Profile {
    /// Takes in the working set of one window, all targets together.
    /// `again`: what that counts more than once.
    pub(super) fn push(
        &mut self,
        t_ns: u64,
        spans_us: [u64; SPANS],
        all: &Touched,
        again: [u64; SPANS],
    ) {
        let spans = self.spans.iter_mut().zip(all.spans).zip(spans_us).zip(again);
        for (((series, touched), span_us), again) in spans {
            if let Some(sum) = touched {
                series.span_us = span_us;
                let again = again.min(sum.bytes);
                let touched = without(sum, again);
                series.points.push(SpanPoint { t_ns, touched, again, watched: all.watched });
            }
        }
    }

    /// Page maps come once a second, so in the first second nothing is known to be shared. What the
    /// first ones show is taken for that second as well.
    pub(super) fn end(&mut self) {
        for points in self.spans.iter_mut().map(|series| &mut series.points) {
            let Some(first) = points.iter().position(|p| p.again > 0) else { continue };
            let SpanPoint { touched, again, .. } = points[first];
            for p in &mut points[..first] {
                let share = u128::from(p.touched.bytes) * u128::from(again)
                    / u128::from((touched.bytes + again).max(1));
                p.again = u64::try_from(share).unwrap_or(0);
                p.touched = without(p.touched, p.again);
            }
        }
    }

    /// Whether nothing is known of any span.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(|series| series.points.is_empty())
    }

    pub(super) fn text(&self, out: &mut String, order: Order) -> std::fmt::Result {
        let by = match order {
            Order::Size => "by size",
            Order::Time => "by time",
        };
        write!(out, "{:<16}", "touched within")?;
        PERCENTILES.iter().try_for_each(|p| write!(out, " {:>12}", format!("p{p}")))?;
        writeln!(out, " {:>12}   {:<26} {:>8}", "mean", "90 % interval of the mean", "measured")?;
        for series in self.spans.iter().filter(|series| !series.points.is_empty()) {
            let points = series.sorted(order);
            write!(out, "{:<16}", span_name(series.span_us))?;
            for p in PERCENTILES {
                write!(out, " {:>12}", mib(percentile(&points, p).touched.bytes))?;
            }
            let mean = series.mean();
            let interval = format!("{} .. {}", mib(mean.touched.lo), mib(mean.touched.hi));
            let mean_bytes = mib(mean.touched.bytes);
            writeln!(out, " {mean_bytes:>12}   {interval:<26} {:>8}", percent(mean.measured()))?;
        }
        writeln!(
            out,
            "percentiles over windows, {by}; a page counts as touched within a span if it was \
             accessed at least once in it"
        )?;
        if let Some(KnownAge { median_ns, oldest_ns }) = self.age {
            writeln!(
                out,
                "at the end, half of the pages had been made old in the last {}, and the oldest {} ago",
                span(float(median_ns)),
                span(float(oldest_ns))
            )?;
        }
        let mut again =
            self.spans.iter().filter(|s| s.points.iter().any(|p| p.again > 0)).peekable();
        if again.peek().is_some() {
            let sums = again.map(|series| {
                let mean = series.mean();
                format!("{}: {}", span_name(series.span_us), mib(mean.touched.bytes + mean.again))
            });
            let sums: Vec<_> = sums.collect();
            writeln!(
                out,
                "memory that processes share is counted once; the sum over processes is on average {}",
                sums.join(", ")
            )?;
        }
        Ok(())
    }

    pub(super) fn json(&self, order: Order) -> JsonProfile {
        let spans = self.spans.iter().filter(|series| !series.points.is_empty());
        let spans = spans.map(|series| {
            let points = series.sorted(order);
            let at = |p| JsonPercentile { p, at: JsonPoint::of(&percentile(&points, p)) };
            JsonSpan {
                span_us: series.span_us,
                percentiles: PERCENTILES.into_iter().map(at).collect(),
                mean: JsonPoint::of(&series.mean()),
                series: series.points.iter().map(JsonPoint::of).collect(),
            }
        });
        JsonProfile {
            age_median_ns: self.age.map(|age| age.median_ns),
            age_oldest_ns: self.age.map(|age| age.oldest_ns),
            spans: spans.collect(),
        }
    }
}

impl SpanSeries {
    fn sorted(&self, order: Order) -> Vec<SpanPoint> {
        let mut points = self.points.clone();
        if order == Order::Size {
            points.sort_by_key(|p| p.touched.bytes);
        }
        points
    }

    /// The mean of all points, of the ends of the intervals as well: the errors of neighbouring
    /// windows are alike and do not cancel out. The time is 0.
    #[must_use]
    pub fn mean(&self) -> SpanPoint {
        let n = self.points.len().max(1) as u128;
        let mean = |f: fn(&SpanPoint) -> u64| {
            let sum: u128 = self.points.iter().map(|p| u128::from(f(p))).sum();
            u64::try_from(sum / n).unwrap_or(u64::MAX)
        };
        SpanPoint {
            t_ns: 0,
            touched: TouchedBytes {
                bytes: mean(|p| p.touched.bytes),
                lo: mean(|p| p.touched.lo),
                hi: mean(|p| p.touched.hi),
                measured: mean(|p| p.touched.measured),
            },
            again: mean(|p| p.again),
            watched: mean(|p| p.watched),
        }
    }
}

impl SpanPoint {
    /// The share of the watched memory for which the span was measured.
    #[must_use]
    pub fn measured(&self) -> f64 {
        float(self.touched.measured) / float(self.watched.max(1))
    }
}

/// The point of nearest rank. `points` are in the order of the percentiles.
fn percentile(points: &[SpanPoint], p: u32) -> SpanPoint {
    let last = float(points.len().saturating_sub(1) as u64);
    points.get(to_usize(last * f64::from(p) / 100.0)).copied().unwrap_or_default()
}

/// A sum over targets without what it counts again. The errors shrink with it.
#[must_use]
pub fn without(sum: TouchedBytes, again: u64) -> TouchedBytes {
    sum.without(again)
}

/// The profile as JSON.
#[derive(Serialize)]
pub(super) struct JsonProfile {
    /// At the end: since the pages were made old last, of half of them and of the oldest.
    age_median_ns: Option<u64>,
    age_oldest_ns: Option<u64>,
    spans: Vec<JsonSpan>,
}

#[derive(Serialize)]
struct JsonSpan {
    span_us: u64,
    percentiles: Vec<JsonPercentile>,
    mean: JsonPoint,
    series: Vec<JsonPoint>,
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
    measured: u64,
    watched: u64,
    /// What the sum over processes counts more than once.
    #[serde(skip_serializing_if = "is_zero")]
    counted_again: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(x: &u64) -> bool {
    *x == 0
}

impl JsonPoint {
    const fn of(p: &SpanPoint) -> Self {
        let TouchedBytes { bytes, lo, hi, measured } = p.touched;
        let counted_again = p.again;
        Self { t_ns: p.t_ns, bytes, lo, hi, measured, watched: p.watched, counted_again }
    }
}
