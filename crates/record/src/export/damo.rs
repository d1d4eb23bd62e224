//! Writes records for damo, the user's tool of the kernel's DAMON (see [`damo`](crate::damo)).
//!
//! Regions that could not be looked at are left out, since damo would show them as cold. Error
//! bars, mappings and page maps stay behind, for damo has no place for them.
//!
//! A record of damo is of one target under one set of intervals, from beginning to end. So for the
//! JSON our record is read once per such pair, and nothing is kept in memory.

use std::io::{self, BufWriter, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use isotherm_core::{RegionInfo, Snapshot};

use crate::error::Error;
use crate::event::Event;
use crate::frame::Damage;
use crate::source::Record;

/// What an export holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exported {
    /// Regions, over all windows.
    pub regions: u64,
    /// Regions that were left out because nobody could look at them.
    pub unresolved: u64,
    /// What could not be read.
    pub damage: Damage,
}

/// A target under one set of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    target: u32,
    sample_us: u64,
    aggr_us: u64,
}

impl Part {
    fn of(s: &Snapshot, target: u32) -> Self {
        Self { target, sample_us: s.sample_us, aggr_us: s.aggr_us }
    }
}

/// Calls `f` for every window of every target that has regions that could be looked at.
fn each(
    record: &Record,
    mut f: impl FnMut(&Snapshot, u32, &[RegionInfo]) -> io::Result<()>,
) -> Result<Exported, Error> {
    let mut reader = record.reader()?;
    let mut exported = Exported::default();
    let mut known = Vec::new();
    while let Some(event) = reader.next_event()? {
        let Event::Snapshot(s) = event else { continue };
        for t in &s.targets {
            known.clear();
            known.extend(t.regions.iter().filter(|r| r.resolved));
            exported.regions += known.len() as u64;
            exported.unresolved += (t.regions.len() - known.len()) as u64;
            if !known.is_empty() {
                f(s, t.id.0, &known).map_err(Error::io("write the export"))?;
            }
        }
    }
    exported.damage = reader.damage();
    Ok(exported)
}

/// Writes a record as damo's `json_compressed`, the format of its `damon.data`.
///
/// # Errors
///
/// If reading or writing fails.
pub fn json_compressed(record: &Record, out: impl Write) -> Result<Exported, Error> {
    let mut parts = Vec::new();
    let exported = each(record, |s, target, _| {
        let part = Part::of(s, target);
        if !parts.contains(&part) {
            parts.push(part);
        }
        Ok(())
    })?;
    let update_us = record.header().attrs.update_us.max(1);
    let mut out = BufWriter::new(ZlibEncoder::new(out, Compression::default()));
    let failed = || Error::io("write the export");
    out.write_all(b"[").map_err(failed())?;
    for (nr, part) in parts.iter().enumerate() {
        if nr > 0 {
            out.write_all(b",").map_err(failed())?;
        }
        head(part, update_us, &mut out).map_err(failed())?;
        let mut is_first = true;
        each(record, |s, target, regions| {
            if Part::of(s, target) != *part {
                return Ok(());
            }
            if !std::mem::take(&mut is_first) {
                out.write_all(b",")?;
            }
            window(s, regions, &mut out)
        })?;
        out.write_all(b"],\"data_source\":\"unknown\"}").map_err(failed())?;
    }
    out.write_all(b"]\n").map_err(failed())?;
    let packed = out.into_inner().map_err(|err| failed()(err.into_error()))?;
    packed.finish().map_err(failed())?.flush().map_err(failed())?;
    Ok(exported)
}

/// Everything of damo's record before its windows. Numbers are texts, as damo writes them.
fn head(part: &Part, update_us: u64, out: &mut impl Write) -> io::Result<()> {
    let Part { target, sample_us, aggr_us } = part;
    write!(
        out,
        "{{\"kdamond_idx\":0,\"context_idx\":0,\"intervals\":{{\"sample_us\":\"{sample_us}\",\
         \"aggr_us\":\"{aggr_us}\",\"ops_update_us\":\"{update_us}\"}},\"scheme_idx\":null,\
         \"target_id\":{target},\"scheme_filters\":[],\"snapshots\":["
    )
}

fn window(s: &Snapshot, regions: &[RegionInfo], out: &mut impl Write) -> io::Result<()> {
    let (start, end) = (s.start.as_ns(), s.end.as_ns());
    write!(out, "{{\"start_time\":\"{start}\",\"end_time\":\"{end}\",\"regions\":[")?;
    for (nr, r) in regions.iter().enumerate() {
        let comma = if nr > 0 { "," } else { "" };
        let RegionInfo { range, nr_accesses, age, .. } = r;
        write!(
            out,
            "{comma}{{\"start\":\"{}\",\"end\":\"{}\",\"nr_accesses\":{{\"samples\":{nr_accesses},\
             \"percent\":null}},\"age\":{{\"usec\":null,\"aggr_intervals\":\"{age}\"}},\
             \"probe_hits\":[],\"sz_filter_passed\":\"0\"}}",
            range.start, range.end
        )?;
    }
    let total: u64 = regions.iter().map(|r| r.range.len()).sum();
    write!(out, "],\"total_bytes\":\"{total}\",\"damos_stats\":null,\"sample_interval_us\":null}}")
}

/// Writes a record as the text that `perf script` prints of the event `damon_aggregated`.
///
/// # Errors
///
/// If reading or writing fails.
pub fn perf_script(record: &Record, out: impl Write) -> Result<Exported, Error> {
    let mut out = BufWriter::new(out);
    // By target the windows so far, and when the last one began and ended.
    let mut seen: std::collections::BTreeMap<u32, (u64, u64, u64)> = Default::default();
    let exported = each(record, |s, target, regions| {
        let (start, end) = (s.start.as_ns(), s.end.as_ns());
        seen.entry(target).or_insert((0, start, end)).0 += 1;
        for RegionInfo { range, nr_accesses, age, .. } in regions {
            let nr = regions.len();
            write!(out, "{}", line_head(end, target, nr))?;
            writeln!(out, "{}-{}: {nr_accesses} {age}", range.start, range.end)?;
        }
        Ok(())
    })?;
    // Only ends are told, so of a single window nobody would know its begin. damo adds a window
    // with impossible numbers, and so do we.
    for (target, (windows, start, end)) in seen {
        if windows == 1 {
            let end = end.saturating_add(end.saturating_sub(start));
            writeln!(out, "{}0-0: -1 -1", line_head(end, target, 1))
                .map_err(Error::io("write the export"))?;
        }
    }
    out.flush().map_err(Error::io("write the export"))?;
    Ok(exported)
}

fn line_head(end_ns: u64, target: u32, nr_regions: usize) -> String {
    let (s, us) = (end_ns / 1_000_000_000, end_ns % 1_000_000_000 / 1000);
    format!(
        "kdamond.0 0 [000] {s}.{us:06}: damon:damon_aggregated: target_id={target} \
         nr_regions={nr_regions} "
    )
}
