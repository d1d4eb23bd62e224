//! damo's JSON: a list of records, each of one target under one set of parameters.
//!
//! A snapshot's `sample_interval_us` is ignored: damo 3.4.3 writes it in ns and reads it in µs, so
//! nobody knows what it is.

use std::io::Read;

use isotherm_core::AddrRange;
use serde::Deserialize;
use serde_json::Value;

use super::Found;
use super::numbers::{percent, time, whole};
use super::series::{Accesses, Intervals, Region, Series, Window};
use crate::error::Error;

#[derive(Deserialize)]
struct JsonRecord {
    #[serde(default)]
    intervals: Option<JsonIntervals>,
    #[serde(default)]
    target_id: Value,
    snapshots: Vec<JsonSnapshot>,
}

#[derive(Deserialize)]
struct JsonIntervals {
    sample_us: Value,
    aggr_us: Value,
    ops_update_us: Value,
}

#[derive(Deserialize)]
struct JsonSnapshot {
    start_time: Value,
    end_time: Value,
    regions: Vec<Parsed>,
}

/// A region, made small as soon as it is read: there may be millions. `None`: it has no numbers.
#[derive(Deserialize)]
#[serde(from = "JsonRegion")]
struct Parsed(Option<(AddrRange, Accesses, Age)>);

#[derive(Clone, Copy)]
enum Age {
    Windows(u64),
    Us(u64),
}

#[derive(Deserialize)]
struct JsonRegion {
    start: Value,
    end: Value,
    #[serde(default)]
    nr_accesses: Option<JsonAccesses>,
    #[serde(default)]
    age: Option<JsonAge>,
}

#[derive(Deserialize)]
struct JsonAccesses {
    #[serde(default)]
    samples: Value,
    #[serde(default)]
    percent: Value,
}

#[derive(Deserialize)]
struct JsonAge {
    #[serde(default)]
    usec: Value,
    #[serde(default)]
    aggr_intervals: Value,
}

/// Reads what damo wrote as `json`, or what `json_compressed` unpacks to.
pub(super) fn read(name: &str, input: impl Read) -> Result<Found, Error> {
    let records: Vec<JsonRecord> = serde_json::from_reader(input).map_err(|err| {
        if err.is_io() && !err.io_error_kind().is_some_and(is_about_content) {
            return Error::io(format!("read {name}"))(err.into());
        }
        Error::damo(&format!("as damo's JSON it is not understood: {err}"), HINT)
    })?;
    let mut lost = 0;
    let series = records.into_iter().map(|r| series(r, &mut lost)).collect();
    let notes = (lost > 0).then(|| format!("{lost} of its regions have no numbers: left out"));
    Ok((series, notes.into_iter().collect()))
}

const HINT: &str = "name a file that `damo record` or `damo convert_record_format` wrote";

/// Whether an error of reading says that the bytes are damaged, and not that they cannot be had.
fn is_about_content(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(kind, InvalidData | InvalidInput | UnexpectedEof)
}

fn series(r: JsonRecord, lost: &mut u64) -> Series {
    let intervals = r.intervals.and_then(|i| {
        let us = |value| time(value, 1e3).filter(|us| *us > 0);
        Some(Intervals {
            sample_us: us(&i.sample_us)?,
            aggr_us: us(&i.aggr_us)?,
            update_us: us(&i.ops_update_us)?,
        })
    });
    let target = match r.target_id {
        Value::String(text) => text,
        Value::Null => "0".into(),
        value => value.to_string(),
    };
    let aggr_us = intervals.map(|i| i.aggr_us);
    let windows = r.snapshots.into_iter().filter_map(|s| window(&s, aggr_us, lost)).collect();
    Series { target, intervals, windows }
}

/// A window; `None` if it has no end. Regions that are incomplete are counted in `lost`.
fn window(s: &JsonSnapshot, aggr_us: Option<u64>, lost: &mut u64) -> Option<Window> {
    let before = *lost;
    let regions: Vec<Region> = s
        .regions
        .iter()
        .filter_map(|r| {
            let region = region(r, aggr_us);
            *lost += u64::from(region.is_none());
            region
        })
        .collect();
    // damo ends some files with a made-up window that only tells how long the last one was.
    if regions.is_empty() && s.regions.len() == 1 {
        *lost = before;
        return None;
    }
    let end_ns = time(&s.end_time, 1.0)?;
    Some(Window { start_ns: time(&s.start_time, 1.0), end_ns, regions })
}

impl From<JsonRegion> for Parsed {
    fn from(r: JsonRegion) -> Self {
        Self(parsed(&r))
    }
}

fn parsed(r: &JsonRegion) -> Option<(AddrRange, Accesses, Age)> {
    let range = AddrRange::new(whole(&r.start)?, whole(&r.end)?);
    let (nr, age) = (r.nr_accesses.as_ref()?, r.age.as_ref()?);
    let samples = whole(&nr.samples).map(|nr| u32::try_from(nr).unwrap_or(u32::MAX));
    let accesses = match samples {
        Some(nr) => Accesses::Samples(nr),
        None => Accesses::Share(percent(&nr.percent)?),
    };
    let windows = whole(&age.aggr_intervals).map(Age::Windows);
    let age = windows.or_else(|| time(&age.usec, 1e3).map(Age::Us))?;
    (range.start < range.end).then_some((range, accesses, age))
}

fn region(parsed: &Parsed, aggr_us: Option<u64>) -> Option<Region> {
    let (range, accesses, age) = parsed.0?;
    let age = match age {
        Age::Windows(nr) => nr,
        Age::Us(us) => us.checked_div(aggr_us?)?,
    };
    Some(Region { range, accesses, age: u32::try_from(age).unwrap_or(u32::MAX) })
}
