//! The metrics: every name, what it means, its labels, and how a reading fills it.

mod cgroups;
mod contexts;
mod fleet;
mod own;

use isotherm_agent::monitor::{BOUNDS_US, Durations};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::reading::Reading;

/// Names, with what is common to all of them.
pub const PREFIX: &str = "isotherm";

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only goes up; samples end in `_total`.
    Counter,
    /// How often which values came; samples end in `_bucket` (with a label `le`), `_sum`, `_count`.
    Histogram,
    /// Says what something is; samples end in `_info` and are 1.
    Info,
}

/// What a metric counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A share, mostly from 0 to 1. The name ends in `_ratio`, which is no unit of OpenMetrics.
    Ratio,
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The name behind [`PREFIX`], without unit and suffix.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its unit.
    pub measure: Measure,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    fill: Fill,
}

/// Gives a sample to be written: the values of the labels, in their order, and the value.
pub(crate) type Emit<'a> = dyn FnMut(&[&str], Value) -> std::fmt::Result + 'a;
/// Gives all samples of a metric.
type Fill = fn(&Reading, &mut Emit<'_>) -> std::fmt::Result;

/// The value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    /// How many were in which class, and their sum.
    Spread(Durations),
}

impl Family {
    /// The name that samples have, as a query writes it; of a histogram without its suffixes.
    #[must_use]
    pub fn sample_name(&self) -> String {
        let unit = match self.measure {
            Measure::Count | Measure::Ratio => "",
            Measure::Bytes => "_bytes",
            Measure::Seconds => "_seconds",
        };
        let suffix = match self.kind {
            Kind::Gauge | Kind::Histogram => "",
            Kind::Counter => "_total",
            Kind::Info => "_info",
        };
        format!("{PREFIX}_{}{unit}{suffix}", self.name)
    }

    /// Writes all samples of a reading.
    pub(crate) fn encode(
        &self,
        reading: &Reading,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> std::fmt::Result {
        let (kind, unit) = (self.kind, self.unit());
        let of_library = match kind {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        };
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, unit.as_ref(), of_library)?;
        (self.fill)(reading, &mut |values, value| {
            debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
            let labels: Vec<(&str, &str)> =
                self.labels.iter().copied().zip(values.iter().copied()).collect();
            if kind == Kind::Info {
                return metric.encode_info(&labels);
            }
            if labels.is_empty() {
                return sample(&mut metric, kind, value);
            }
            sample(&mut metric.encode_family(&labels)?, kind, value)
        })
    }

    const fn unit(&self) -> Option<Unit> {
        match self.measure {
            Measure::Count | Measure::Ratio => None,
            Measure::Bytes => Some(Unit::Bytes),
            Measure::Seconds => Some(Unit::Seconds),
        }
    }
}

fn sample(metric: &mut MetricEncoder<'_>, kind: Kind, value: Value) -> std::fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Whole(n)) => metric.encode_counter::<NoLabels, _, u64>(&n, None),
        (Kind::Counter, Value::Real(x)) => metric.encode_counter::<NoLabels, _, u64>(&x, None),
        (_, Value::Whole(n)) => metric.encode_gauge(&n),
        (_, Value::Real(x)) => metric.encode_gauge(&x),
        (_, Value::Spread(durations)) => spread(metric, &durations),
    }
}

/// Writes a histogram of times, in seconds.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating point numbers")]
fn spread(metric: &mut MetricEncoder<'_>, durations: &Durations) -> std::fmt::Result {
    let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(durations.counts).collect();
    let count = durations.counts.iter().sum();
    metric.encode_histogram::<NoLabels>(durations.sum_ns as f64 / 1e9, count, &buckets, None)
}

type NoLabels = [(&'static str, &'static str); 0];

/// All metrics.
pub fn families() -> impl Iterator<Item = &'static Family> {
    let own = own::FAMILIES.iter().chain(fleet::FAMILIES);
    own.chain(contexts::FAMILIES).chain(cgroups::FAMILIES)
}

/// A metric, without its fields' names.
const fn family(
    name: &'static str,
    kind: Kind,
    measure: Measure,
    labels: &'static [&'static str],
    help: &'static str,
    fill: Fill,
) -> Family {
    Family { name, help, kind, measure, labels, fill }
}
