//! `report` without a word: a record on one page. What was watched, how much of it was in use, what
//! is hottest and coldest, what watching cost, and what to be careful about.
//!
//! The numbers are those of the other reports, which have more of them.

use std::fmt::Write;

use isotherm_core::units::{counted, mib, percent, span};
use isotherm_core::{Cost, TouchedBytes};
use isotherm_record::Record;
use serde_json::{Value, json};

use crate::error::Error;
use crate::filter::Filter;
use crate::mappings::{self, Line};
use crate::scan::{Scan, TargetState};
use crate::shown::{float, written};
use crate::wss::{self, SpanSeries};

/// Largest number of targets and of mappings that are named.
const MOST: usize = 5;
/// A share of unresolved memory that is worth a warning.
const MUCH: f64 = 0.1;
/// Messages of every recorder that are no warnings.
const USUAL: [&str; 2] = ["operations set", "peak rss"];

/// The page.
#[derive(Debug, Clone)]
pub struct Report {
    /// About the whole record.
    scan: Scan,
    wss: wss::Report,
    mappings: mappings::Report,
    /// Of all windows.
    cost: Cost,
}

impl Report {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or no snapshot passes the filter.
    pub fn build(record: &Record, filter: &Filter) -> Result<Self, Error> {
        let mut cost = Cost::default();
        let scan = Scan::run(record, filter, |_, s| {
            cost.add(&s.cost);
            Ok(())
        })?;
        let wss = wss::Report::build(record, filter)?;
        let mappings = mappings::Report::build(record, filter)?;
        Ok(Self { scan, wss, mappings, cost })
    }

    /// The page as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        written(|out| self.text(out))
    }

    fn text(&self, out: &mut String) -> std::fmt::Result {
        let header = &self.scan.header;
        let seconds = span(float(self.scan.seen_len()));
        let taken = self.scan.taken;
        write!(out, "record of {seconds}: {}", counted(taken, "snapshot"))?;
        if !header.host.is_empty() {
            write!(out, ", {}, Linux {}, by {}", header.host, header.kernel, header.ops)?;
        }
        writeln!(out)?;
        self.targets(out)?;
        self.working_set(out)?;
        if !self.wss.apart.is_empty() {
            writeln!(out, "{:13}memory that processes share is counted once", "")?;
        }
        list(out, "hottest", &self.hottest(), |l| l.heat.hot + l.heat.warm)?;
        list(out, "coldest", &self.coldest(), |l| l.heat.cold)?;
        let Cost { checks, clears, cpu_ns, target_ns } = self.cost;
        let time = float(self.scan.seen_len().max(1));
        let paid = target_ns
            .map(|ns| format!(", and {} that the targets paid", percent(float(ns) / time)))
            .unwrap_or_default();
        writeln!(
            out,
            "cost         {} of one CPU{paid}; {:.0} looks and {:.0} clears per second",
            percent(float(cpu_ns) / time),
            float(checks) * 1e9 / time,
            float(clears) * 1e9 / time
        )?;
        for warning in self.warnings() {
            writeln!(out, "warning      {warning}")?;
        }
        writeln!(
            out,
            "more         isotherm report html | heatmap | wss | mappings | ages | pages | diff"
        )
    }

    fn targets(&self, out: &mut String) -> std::fmt::Result {
        let wanted: Vec<&TargetState> = self.scan.targets.values().filter(|t| t.wanted).collect();
        for (nr, t) in wanted.iter().take(MOST).enumerate() {
            let head = if nr == 0 { "targets" } else { "" };
            let gone = if t.exited_ns.is_some() { ", exited" } else { "" };
            writeln!(out, "{head:13}{}{gone}", t.title())?;
        }
        if wanted.len() > MOST {
            writeln!(out, "{:13}and {} more", "", wanted.len() - MOST)?;
        }
        Ok(())
    }

    /// By pages where they are known: what was touched within a window, then within other spans.
    /// Then by regions, as DAMON counts.
    fn working_set(&self, out: &mut String) -> std::fmt::Result {
        let by_regions = self.wss.mean();
        let mapped = mib(float(by_regions.mapped));
        let on_average = |of: [u64; 3]| {
            let [bytes, lo, hi] = of.map(|b| mib(float(b)));
            format!("{bytes} on average (90 %: {lo} .. {hi})")
        };
        let mut head = "working set";
        for series in self.spans() {
            let TouchedBytes { bytes, lo, hi, .. } = series.mean().touched;
            let name = crate::page_maps::span_name(series.span_us);
            write!(out, "{head:13}touched within {name}: {}", on_average([bytes, lo, hi]))?;
            let of = if head.is_empty() { String::new() } else { format!(" of {mapped} mapped") };
            writeln!(out, "{of}")?;
            head = "";
        }
        let by = if head.is_empty() { "by regions, as DAMON counts: " } else { "" };
        let of = if head.is_empty() { String::new() } else { format!(" of {mapped} mapped") };
        let wss::WorkingSet { bytes, lo, hi, .. } = by_regions;
        writeln!(out, "{head:13}{by}{}{of}", on_average([bytes, lo, hi]))
    }

    /// What is known of single pages, by span: a window first.
    fn spans(&self) -> impl Iterator<Item = &SpanSeries> {
        let profile = self.wss.profile.iter();
        let spans = profile.flat_map(|p| [1, 0, 2, 3, 4].map(|nr| &p.spans[nr]));
        spans.filter(|series| !series.points.is_empty())
    }

    fn hottest(&self) -> Vec<&Line> {
        let lines = self.mappings.lines.iter().filter(|l| l.heat.hot + l.heat.warm > 0.0);
        lines.take(MOST).collect()
    }

    fn coldest(&self) -> Vec<&Line> {
        let mut lines: Vec<_> = self.mappings.lines.iter().filter(|l| l.heat.cold > 0.0).collect();
        lines.sort_by(|a, b| b.heat.cold.total_cmp(&a.heat.cold));
        lines.truncate(MOST);
        lines
    }

    /// What a reader should know before the numbers are used.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        warnings(&self.scan, &self.wss.mean())
    }

    /// The same as one JSON object; bytes as integers.
    #[must_use]
    pub fn to_json(&self) -> String {
        let wanted = self.scan.targets.values().filter(|t| t.wanted);
        let targets: Vec<Value> =
            wanted.map(|t| json!({ "pid": t.target.pid, "name": t.target.name })).collect();
        let lines = |lines: Vec<&Line>| -> Vec<Value> {
            let of = |l: &&Line| {
                let [hot, warm, cold] =
                    [l.heat.hot, l.heat.warm, l.heat.cold].map(crate::numbers::to_u64);
                json!({ "pid": l.pid, "name": l.name, "hot": hot, "warm": warm, "cold": cold })
            };
            lines.iter().map(of).collect()
        };
        let mean = self.wss.mean();
        let touched: Vec<Value> = self
            .spans()
            .map(|series| {
                let TouchedBytes { bytes, lo, hi, .. } = series.mean().touched;
                json!({ "span_us": series.span_us, "bytes": bytes, "lo": lo, "hi": hi })
            })
            .collect();
        let Cost { checks, clears, cpu_ns, target_ns } = self.cost;
        json!({
            "schema_version": crate::SCHEMA_VERSION,
            "target": self.scan.title(),
            "targets": targets,
            "snapshots": self.scan.taken,
            "seen_ns": self.scan.seen_len(),
            "working_set": { "bytes": mean.bytes, "lo": mean.lo, "hi": mean.hi,
                "unresolved": mean.unresolved, "mapped": mean.mapped },
            "touched": touched,
            "hottest": lines(self.hottest()),
            "coldest": lines(self.coldest()),
            "cost": { "cpu_ns": cpu_ns, "target_ns": target_ns, "checks": checks,
                "clears": clears },
            "warnings": self.warnings(),
        })
        .to_string()
    }
}

/// What a reader of a record should know before its numbers are used. `mean`: its working set.
pub(crate) fn warnings(scan: &Scan, mean: &wss::WorkingSet) -> Vec<String> {
    let mut out = Vec::new();
    let share = float(mean.unresolved) / float(mean.mapped.max(1));
    if share >= MUCH {
        out.push(format!(
            "{} of the memory is unresolved: it could not be looked at, so it is neither hot nor cold",
            percent(share)
        ));
    }
    if scan.end.is_none() {
        out.push("the recorder was killed; its last second may be missing".into());
    }
    let caveats = scan.caveats();
    out.extend((!caveats.is_empty()).then_some(caveats));
    // The recorder tells some of it as well.
    for note in &scan.notes {
        let is_usual = USUAL.iter().any(|usual| note.text.starts_with(usual));
        if !is_usual && !out.iter().any(|told| told.contains(&note.text)) {
            out.push(note.text.clone());
        }
    }
    out
}

/// Lines of mappings, each with some of its bytes.
fn list(
    out: &mut String,
    head: &str,
    lines: &[&Line],
    of: impl Fn(&Line) -> f64,
) -> std::fmt::Result {
    for (nr, l) in lines.iter().enumerate() {
        let head = if nr == 0 { head } else { "" };
        let (bytes, all) = (mib(of(l)), mib(l.heat.bytes()));
        writeln!(out, "{head:13}{bytes:>10} of {all:>10}  {} of {} ({})", l.name, l.target, l.pid)?;
    }
    if lines.is_empty() {
        writeln!(out, "{head:13}nothing")?;
    }
    Ok(())
}
