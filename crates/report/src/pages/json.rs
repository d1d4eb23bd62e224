//! The report on pages as JSON.

use isotherm_core::{PageBits, SPANS};
use serde::Serialize;

use super::{Line, Report, UnitLine};
use crate::mappings::kind_name;
use crate::page_maps::{KnownAge, PageSums};

impl Report {
    /// The report as one JSON object; with the units, if they are wanted.
    #[must_use]
    pub fn to_json(&self, with_units: bool) -> String {
        let json = Json {
            schema_version: crate::SCHEMA_VERSION,
            target: &self.title,
            t_ns: self.t_ns,
            mappings: self.lines.iter().map(|l| JsonLine::of(l, &self.spans_us)).collect(),
            total: JsonSums::of(&self.total, self.age, &self.spans_us),
            units: with_units
                .then(|| self.units.iter().map(|l| JsonUnit::of(l, &self.spans_us)).collect()),
        };
        serde_json::to_string(&json).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    target: &'a str,
    t_ns: u64,
    mappings: Vec<JsonLine<'a>>,
    total: JsonSums,
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<Vec<JsonUnit<'a>>>,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    target: &'a str,
    pid: u32,
    kind: &'static str,
    name: &'a str,
    #[serde(flatten)]
    sums: JsonSums,
}

impl<'a> JsonLine<'a> {
    fn of(l: &'a Line, spans_us: &[u64; SPANS]) -> Self {
        Self {
            target: &l.target,
            pid: l.pid,
            kind: kind_name(l.kind),
            name: &l.name,
            sums: JsonSums::of(&l.sums, l.age, spans_us),
        }
    }
}

/// Bytes.
#[derive(Serialize)]
struct JsonSums {
    mapped: u64,
    present: u64,
    unresolved: u64,
    not_measured: u64,
    cold: u64,
    /// Since the pages were made old last, of half of them and of the oldest; `null` where nothing
    /// is known.
    age_median_ns: Option<u64>,
    age_oldest_ns: Option<u64>,
    touched: Vec<JsonSpan>,
}

#[derive(Serialize)]
struct JsonSpan {
    span_us: u64,
    bytes: u64,
    measured: u64,
}

impl JsonSums {
    fn of(sums: &PageSums, age: Option<KnownAge>, spans_us: &[u64; SPANS]) -> Self {
        let touched = spans_us.iter().zip(sums.touched).map(|(us, span)| JsonSpan {
            span_us: *us,
            bytes: span.bytes,
            measured: span.measured,
        });
        Self {
            mapped: sums.mapped,
            present: sums.present,
            unresolved: sums.unresolved,
            not_measured: sums.not_measured,
            cold: sums.cold,
            age_median_ns: age.map(|age| age.median_ns),
            age_oldest_ns: age.map(|age| age.oldest_ns),
            touched: touched.collect(),
        }
    }
}

/// Numbers of pages; `null` where a span was not measured.
#[derive(Serialize)]
struct JsonUnit<'a> {
    target: &'a str,
    pid: u32,
    mapping: &'a str,
    start: u64,
    since_ns: u64,
    leaf_shift: u8,
    nr_present: u64,
    nr_unresolved: u64,
    touched: Vec<JsonPages>,
    /// By cell of 64 KiB.
    idle_ms: Vec<Option<u64>>,
}

#[derive(Serialize)]
struct JsonPages {
    span_us: u64,
    nr_pages: Option<u64>,
}

impl<'a> JsonUnit<'a> {
    fn of(l: &'a UnitLine, spans_us: &[u64; SPANS]) -> Self {
        let spans = spans_us.iter().zip(l.unit.touched);
        let touched = spans
            .map(|(us, plane)| JsonPages { span_us: *us, nr_pages: plane.map(PageBits::count) });
        Self {
            target: &l.target,
            pid: l.pid,
            mapping: &l.mapping,
            start: l.unit.start,
            since_ns: l.unit.since.0,
            leaf_shift: l.unit.leaf_shift,
            nr_present: l.unit.present.count(),
            nr_unresolved: l.unit.unresolved.count(),
            touched: touched.collect(),
            idle_ms: l.idle_ms.to_vec(),
        }
    }
}
