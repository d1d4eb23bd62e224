//! `report ages`: for how long memory has not been accessed.
//!
//! A region without accesses has been idle for its age, which is counted in windows, of their real
//! lengths. A region with
//! accesses has been idle for 0. There are two histograms: one of each target's last snapshot, and
//! one of the mean over time.

use std::collections::BTreeMap;
use std::fmt::Write;

use isotherm_core::units::{mib, percent, span};
use isotherm_core::{Lengths, RegionInfo};
use isotherm_record::Record;
use serde::Serialize;

use crate::error::Error;
use crate::filter::Filter;
use crate::numbers::to_u64;
use crate::scan::Scan;

/// Lower ends of the classes of idle time, in ms. The first class holds memory that is accessed
/// now.
const CLASSES_MS: [u64; 15] = [
    0, 1, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_800_000, 3_600_000,
];
const BAR: usize = 40;

/// Bytes by idle time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Histogram {
    bytes: [f64; CLASSES_MS.len()],
    unresolved: f64,
}

impl Histogram {
    fn add(&mut self, r: &RegionInfo, lengths: &Lengths, weight: f64) {
        #[expect(clippy::cast_precision_loss, reason = "sizes below 2^53 are exact")]
        let bytes = r.range.len() as f64 * weight;
        if !r.resolved {
            self.unresolved += bytes;
            return;
        }
        let class = if r.nr_accesses > 0 {
            0
        } else {
            let idle_ms = (lengths.of_last(r.age) / 1_000_000).max(1);
            CLASSES_MS.partition_point(|&from| from <= idle_ms) - 1
        };
        self.bytes[class] += bytes;
    }

    fn plus(&mut self, o: &Self) {
        self.unresolved += o.unresolved;
        for (a, b) in self.bytes.iter_mut().zip(o.bytes) {
            *a += b;
        }
    }
}

/// One class of idle time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Class {
    /// Lower end, in ms; 0 means: accessed in the window itself.
    pub idle_ms: u64,
    /// Upper end, in ms; none for the last class.
    pub below_ms: Option<u64>,
    /// Bytes at the end.
    pub bytes: u64,
    /// Mean bytes over time.
    pub mean_bytes: u64,
}

/// The report.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Version of the JSON's format.
    pub schema_version: u32,
    /// What the report is about, such as `postgres (pid 4711)`.
    #[serde(rename = "target")]
    pub title: String,
    /// In order of idle time.
    pub classes: Vec<Class>,
    /// Bytes at the end that the operations set could not look at.
    pub unresolved: u64,
    /// Mean of these over time.
    pub mean_unresolved: u64,
    /// What could not be read; empty if nothing.
    #[serde(skip)]
    pub damage: String,
}

impl Report {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or no snapshot passes the filter.
    pub fn build(record: &Record, filter: &Filter) -> Result<Self, Error> {
        let mut mean = Histogram::default();
        let mut last: BTreeMap<u32, Histogram> = BTreeMap::new();
        let mut time = 0.0;
        let scan = Scan::run(record, filter, |scan, s| {
            #[expect(clippy::cast_precision_loss, reason = "times below 2^53 are exact")]
            let len = s.end.since(s.watched_from()).max(1) as f64;
            time += len;
            for (_, t) in scan.wanted(s) {
                let now = last.entry(t.id.0).or_default();
                *now = Histogram::default();
                for r in filter.regions(&t.regions) {
                    now.add(&r, &scan.lengths, 1.0);
                    mean.add(&r, &scan.lengths, len);
                }
            }
            Ok(())
        })?;
        let mut now = Histogram::default();
        last.values().for_each(|h| now.plus(h));
        let classes = CLASSES_MS.iter().enumerate().map(|(i, &idle_ms)| Class {
            idle_ms,
            below_ms: CLASSES_MS.get(i + 1).copied(),
            bytes: to_u64(now.bytes[i]),
            mean_bytes: to_u64(mean.bytes[i] / time),
        });
        Ok(Self {
            schema_version: crate::SCHEMA_VERSION,
            title: scan.title(),
            classes: classes.collect(),
            unresolved: to_u64(now.unresolved),
            mean_unresolved: to_u64(mean.unresolved / time),
            damage: scan.caveats(),
        })
    }

    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.text(&mut out).unwrap_or_default();
        out
    }

    fn text(&self, out: &mut String) -> std::fmt::Result {
        let total: u64 = self.classes.iter().map(|c| c.bytes).sum();
        let top = self.classes.iter().map(|c| c.bytes).max().unwrap_or(0);
        writeln!(out, "idle ages of {}: bytes by time without access", self.title)?;
        writeln!(out, "{:>20} {:>12} {:>8} {:>12}", "idle for", "at the end", "", "mean")?;
        let used = self.classes.iter().rposition(|c| c.bytes + c.mean_bytes > 0).unwrap_or(0);
        for c in &self.classes[..=used] {
            let bar = "#".repeat(crate::numbers::to_usize(
                float(c.bytes) / float(top.max(1)) * float(BAR as u64),
            ));
            let row = format!(
                "{:>20} {:>12} {:>8} {:>12}  {bar}",
                class_name(c),
                mib(float(c.bytes)),
                percent(float(c.bytes) / float(total.max(1))),
                mib(float(c.mean_bytes)),
            );
            writeln!(out, "{}", row.trim_end())?;
        }
        if self.unresolved + self.mean_unresolved > 0 {
            let (now, mean) = (mib(float(self.unresolved)), mib(float(self.mean_unresolved)));
            writeln!(out, "{:>20} {now:>12} {:>8} {mean:>12}", "unresolved", "")?;
        }
        if !self.damage.is_empty() {
            writeln!(out, "note: {}", self.damage)?;
        }
        Ok(())
    }

    /// The same as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn class_name(c: &Class) -> String {
    let ms = |x: u64| span(float(x) * 1e6);
    match (c.idle_ms, c.below_ms) {
        (0, _) => "accessed now".into(),
        (1, Some(to)) => format!("less than {}", ms(to)),
        (from, Some(to)) => format!("{} .. {}", ms(from), ms(to)),
        (from, None) => format!("{} and more", ms(from)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes below 2^53 are exact")]
fn float(x: u64) -> f64 {
    x as f64
}
