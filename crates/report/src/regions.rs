//! `report regions`: every region of every snapshot, as text or as one JSON object per line.

use std::io::{BufWriter, Write};

use isotherm_core::units;
use isotherm_record::Record;
use serde::Serialize;

use crate::error::Error;
use crate::filter::Filter;
use crate::scan::Scan;

/// One line of the JSON output: a snapshot of one target.
#[derive(Debug, Serialize)]
struct Line<'a> {
    t_ns: u64,
    target: &'a str,
    pid: u32,
    regions: Vec<Region>,
}

/// Addresses in bytes; `lo`, `hi` is the 90 % interval of the mean rate, in `nr_accesses`.
#[derive(Debug, Serialize)]
struct Region {
    start: u64,
    end: u64,
    nr_accesses: u32,
    max_nr_accesses: u32,
    age: u32,
    lo: f32,
    hi: f32,
    resolved: bool,
}

/// Writes one JSON object per line for each snapshot and target. `t_ns` is the end of the window.
///
/// # Errors
///
/// If reading or writing fails, or nothing is in.
pub fn json(record: &Record, filter: &Filter, out: impl Write) -> Result<(), Error> {
    let mut out = BufWriter::new(out);
    let mut regions = Vec::new();
    Scan::run(record, filter, |scan, s| {
        for (state, t) in scan.wanted(s) {
            regions.extend(filter.regions(&t.regions).map(|r| Region {
                start: r.range.start,
                end: r.range.end,
                nr_accesses: r.nr_accesses,
                max_nr_accesses: s.max_nr_accesses,
                age: r.age,
                lo: r.lo,
                hi: r.hi,
                resolved: r.resolved,
            }));
            let line = Line {
                t_ns: s.end.0,
                target: &state.target.name,
                pid: state.target.pid,
                regions: std::mem::take(&mut regions),
            };
            serde_json::to_writer(&mut out, &line).map_err(|e| Error::write(e.into()))?;
            out.write_all(b"\n").map_err(Error::write)?;
            regions = line.regions;
            regions.clear();
        }
        Ok(())
    })?;
    out.flush().map_err(Error::write)
}

/// Writes every region of every snapshot as text.
///
/// # Errors
///
/// If reading or writing fails, or nothing is in.
pub fn text(record: &Record, filter: &Filter, out: impl Write) -> Result<(), Error> {
    let mut out = BufWriter::new(out);
    let scan = Scan::run(record, filter, |scan, s| {
        for (state, t) in scan.wanted(s) {
            let regions: Vec<_> = filter.regions(&t.regions).collect();
            writeln!(
                out,
                "{:.3} s  {} (pid {})  {}, window {}",
                seconds(scan.since_start(s.end.0)),
                state.target.name,
                state.target.pid,
                units::counted(regions.len() as u64, "region"),
                units::span(ns(s.end.since(s.start)))
            )
            .map_err(Error::write)?;
            for r in &regions {
                let state = if r.resolved {
                    format!("{:>3}/{} ({:.1}..{:.1})", r.nr_accesses, s.max_nr_accesses, r.lo, r.hi)
                } else {
                    "unresolved".into()
                };
                writeln!(
                    out,
                    "  {:#014x}-{:#014x} {:>12}  {state:<20} age {}",
                    r.range.start,
                    r.range.end,
                    units::mib(ns(r.range.len())),
                    r.age
                )
                .map_err(Error::write)?;
            }
        }
        Ok(())
    })?;
    let caveats = scan.caveats();
    if !caveats.is_empty() {
        writeln!(out, "note: {caveats}").map_err(Error::write)?;
    }
    out.flush().map_err(Error::write)
}

fn seconds(t: u64) -> f64 {
    ns(t) / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn ns(t: u64) -> f64 {
    t as f64
}
