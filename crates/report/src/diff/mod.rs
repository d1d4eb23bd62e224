//! `report diff`: two records beside each other, one from before a change and one from after it.
//!
//! Every number is that of the report of the same name: working sets as means over time with their
//! 90 % intervals, bytes of mappings by heat, and mean bytes by idle time.
//!
//! **Whether a change is one.** The errors of two records are independent of each other, so the
//! interval of a difference has the errors of both, in quadrature. If it holds 0, the change is
//! *within the error*. The interval is that of measuring. How much the workload itself differs from
//! run to run is not in it; only more records tell.
//!
//! Files are matched by kind and path, other memory by kind, name and program, since addresses
//! differ from run to run.

mod text;

use std::collections::BTreeMap;

use isotherm_core::TouchedBytes;
use isotherm_record::{MappingKind, Record};
use serde::Serialize;

use crate::error::Error;
use crate::filter::Filter;
use crate::mappings::{self, Heat, is_of_file, kind_name};
use crate::numbers::to_u64;
use crate::page_maps::span_name;
use crate::scan::Scan;
use crate::shown::float;
use crate::{ages, wss};

/// One of the two records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// What it is about, such as `postgres (pid 4711)`.
    pub target: String,
    /// Number of snapshots.
    pub snapshots: u64,
    /// Length of the time that was seen, in ns.
    pub seen_ns: u64,
    /// What a reader should know of it; empty if nothing.
    pub caveats: String,
}

/// Mean bytes with the 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// The estimate.
    pub bytes: u64,
    /// Lower end.
    pub lo: u64,
    /// Upper end.
    pub hi: u64,
}

/// What a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Larger than before by more than the error.
    Larger,
    /// Smaller than before by more than the error.
    Smaller,
    /// Not to be told from no change.
    WithinError,
}

/// One working set in both records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkingSet {
    /// How it is counted: `by regions`, or the span.
    pub name: String,
    /// Before.
    pub before: Bytes,
    /// After.
    pub after: Bytes,
    /// The difference in bytes, and the ends of its 90 % interval.
    pub change: [f64; 3],
    /// What that means.
    pub verdict: Verdict,
}

/// One mapping in both records; what one of them lacks has no bytes there.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    /// What it holds; `None` where no mapping is known.
    pub kind: Option<MappingKind>,
    /// Path, bracketed name, or `[anon]`.
    pub name: String,
    /// The program, if the name alone does not say whose memory it is.
    pub program: Option<String>,
    /// Before.
    pub before: Heat,
    /// After.
    pub after: Heat,
}

/// A class of idle time in both records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Age {
    /// Lower end, in ms; 0 means: accessed in the window itself.
    pub idle_ms: u64,
    /// Upper end, in ms; none for the last class.
    pub below_ms: Option<u64>,
    /// Mean bytes before and after.
    pub mean_bytes: [u64; 2],
}

/// The report.
#[derive(Debug, Clone)]
pub struct Report {
    /// Before and after.
    pub sides: [Side; 2],
    /// How the records differ in how they were made; empty if they do not.
    pub differences: Vec<String>,
    /// Working sets that both records know.
    pub working_sets: Vec<WorkingSet>,
    /// Mappings: the one whose accessed bytes changed most first.
    pub mappings: Vec<Mapping>,
    /// By idle time.
    pub ages: Vec<Age>,
}

/// What one record says.
struct Read {
    scan: Scan,
    wss: wss::Report,
    mappings: mappings::Report,
    ages: ages::Report,
}

impl Read {
    fn new(record: &Record, filter: &Filter) -> Result<Self, Error> {
        let mut builds =
            (wss::Build::default(), mappings::Build::default(), ages::Build::default());
        let scan = Scan::run(record, filter, |scan, s| {
            builds.0.add(scan, s, filter);
            builds.1.add(scan, s, filter);
            builds.2.add(scan, s, filter);
            Ok(())
        })?;
        let (wss, mappings, ages) =
            (builds.0.finish(&scan), builds.1.finish(&scan), builds.2.finish(&scan));
        Ok(Self { scan, wss, mappings, ages })
    }

    fn side(&self) -> Side {
        Side {
            target: self.scan.title(),
            snapshots: self.scan.taken,
            seen_ns: self.scan.seen_len(),
            caveats: self.scan.caveats(),
        }
    }

    /// Mean working sets by what they are called, in order.
    fn working_sets(&self) -> Vec<(String, Bytes)> {
        let mean = self.wss.mean();
        let regions = Bytes { bytes: mean.bytes, lo: mean.lo, hi: mean.hi };
        let mut out = vec![("by regions".to_owned(), regions)];
        let spans = self.wss.profile.iter().flat_map(|p| &p.spans);
        out.extend(spans.filter(|series| !series.points.is_empty()).map(|series| {
            let TouchedBytes { bytes, lo, hi, .. } = series.mean().touched;
            let name = format!("touched within {}", span_name(series.span_us));
            (name, Bytes { bytes, lo, hi })
        }));
        out
    }

    /// Bytes by mapping, without addresses.
    fn mappings(&self) -> BTreeMap<Key, Heat> {
        let only = self.mappings.lines.first().map(|line| line.target.clone());
        let mut out: BTreeMap<Key, Heat> = BTreeMap::new();
        for line in &self.mappings.merged {
            let name = line.name.split_once(" 0x").map_or(line.name.as_str(), |(name, _)| name);
            let own = !is_of_file(line.kind, &line.name);
            let program = line.program.clone().or_else(|| only.clone()).filter(|_| own);
            out.entry((line.kind, name.to_owned(), program)).or_default().plus(&line.heat);
        }
        out
    }
}

type Key = (Option<MappingKind>, String, Option<String>);

impl Report {
    /// Reads two records.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read, or has no snapshot that passes the filter.
    pub fn build(before: &Record, after: &Record, filter: &Filter) -> Result<Self, Error> {
        let [before, after] = [Read::new(before, filter)?, Read::new(after, filter)?];
        let later = after.working_sets();
        let working_sets = before.working_sets().into_iter().filter_map(|(name, old)| {
            let (_, new) = later.iter().find(|(other, _)| *other == name)?;
            Some(WorkingSet::of(name, old, *new))
        });
        let ages = before.ages.classes.iter().zip(&after.ages.classes).map(|(a, b)| Age {
            idle_ms: a.idle_ms,
            below_ms: a.below_ms,
            mean_bytes: [a.mean_bytes, b.mean_bytes],
        });
        Ok(Self {
            sides: [before.side(), after.side()],
            differences: differences(&before.scan, &after.scan),
            working_sets: working_sets.collect(),
            mappings: changes(before.mappings(), &after.mappings()),
            ages: ages.collect(),
        })
    }

    /// The same as one JSON object; bytes as integers.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mappings = self.mappings.iter().map(|m| {
            let heat = |h: &Heat| {
                let [hot, warm, cold, unresolved] =
                    [h.hot, h.warm, h.cold, h.unresolved].map(to_u64);
                serde_json::json!({ "hot": hot, "warm": warm, "cold": cold, "unresolved": unresolved })
            };
            serde_json::json!({
                "kind": kind_name(m.kind), "name": m.name, "program": m.program,
                "before": heat(&m.before), "after": heat(&m.after),
            })
        });
        let [before, after] = &self.sides;
        serde_json::json!({
            "schema_version": crate::SCHEMA_VERSION,
            "before": before,
            "after": after,
            "differences": self.differences,
            "working_sets": self.working_sets,
            "mappings": mappings.collect::<Vec<_>>(),
            "ages": self.ages,
        })
        .to_string()
    }
}

impl WorkingSet {
    fn of(name: String, before: Bytes, after: Bytes) -> Self {
        let change = float(after.bytes) - float(before.bytes);
        let apart = |a: u64, b: u64| float(a.saturating_sub(b));
        let down = apart(after.bytes, after.lo).hypot(apart(before.hi, before.bytes));
        let up = apart(after.hi, after.bytes).hypot(apart(before.bytes, before.lo));
        let (lo, hi) = (change - down, change + up);
        let verdict = match (lo > 0.0, hi < 0.0) {
            (true, _) => Verdict::Larger,
            (_, true) => Verdict::Smaller,
            _ => Verdict::WithinError,
        };
        Self { name, before, after, change: [change, lo, hi], verdict }
    }
}

/// The mappings of both, by how much the accessed bytes changed; then by size.
fn changes(mut before: BTreeMap<Key, Heat>, after: &BTreeMap<Key, Heat>) -> Vec<Mapping> {
    for key in after.keys() {
        before.entry(key.clone()).or_default();
    }
    let all = before.into_iter().map(|((kind, name, program), before)| {
        let key = (kind, name, program);
        let after = after.get(&key).copied().unwrap_or_default();
        let (kind, name, program) = key;
        Mapping { kind, name, program, before, after }
    });
    let mut all: Vec<Mapping> = all.collect();
    let by = |m: &Mapping| (m.change().abs(), m.before.bytes().max(m.after.bytes()));
    all.sort_by(|a, b| by(b).partial_cmp(&by(a)).unwrap_or(std::cmp::Ordering::Equal));
    all
}

impl Mapping {
    /// By how many bytes the accessed part grew.
    #[must_use]
    pub fn change(&self) -> f64 {
        (self.after.hot + self.after.warm) - (self.before.hot + self.before.warm)
    }
}

/// How two records were made differently, as far as that changes numbers.
fn differences(before: &Scan, after: &Scan) -> Vec<String> {
    let [a, b] = [&before.header, &after.header];
    let interval = |us: u64| isotherm_core::units::show_interval(us);
    let facts = [
        ("method", a.attrs.method.clone(), b.attrs.method.clone()),
        ("operations set", a.ops.clone(), b.ops.clone()),
        ("sample interval", interval(a.attrs.sample_us), interval(b.attrs.sample_us)),
        ("aggregation interval", interval(a.attrs.aggr_us), interval(b.attrs.aggr_us)),
    ];
    let facts = facts.into_iter().filter(|(_, a, b)| a != b);
    facts.map(|(what, a, b)| format!("{what}: {a} before, {b} after")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_if_it_exceeds_the_error_of_both() {
        let of = |bytes, lo, hi| Bytes { bytes, lo, hi };
        for (before, after, want) in [
            (of(100, 100, 100), of(101, 101, 101), Verdict::Larger),
            (of(100, 90, 110), of(110, 100, 120), Verdict::WithinError),
            // 14.1 is the error of both; neither interval holds the other's value.
            (of(100, 90, 110), of(115, 105, 125), Verdict::Larger),
            (of(100, 90, 110), of(85, 75, 95), Verdict::Smaller),
            (of(100, 40, 100), of(50, 50, 50), Verdict::WithinError),
            (of(0, 0, 0), of(0, 0, 0), Verdict::WithinError),
        ] {
            let set = WorkingSet::of(String::new(), before, after);
            assert_eq!(set.verdict, want, "{set:?}");
            assert!(set.change[1] <= set.change[0] && set.change[0] <= set.change[2]);
        }
    }
}
