//! JSON lines: one object per region and snapshot.

use std::io::{BufWriter, Read, Write};

use serde::Serialize;

use super::rows;
use crate::error::Error;
use crate::reader::Reader;

#[derive(Serialize)]
struct Line<'a> {
    host: &'a str,
    t_ns: u64,
    pid: u32,
    target: &'a str,
    start: u64,
    end: u64,
    nr_accesses: u32,
    max_nr_accesses: u32,
    age: u32,
    lo: f32,
    hi: f32,
    resolved: bool,
}

/// Writes a record as JSON lines.
///
/// # Errors
///
/// If reading or writing fails.
pub fn jsonl<R: Read>(reader: &mut Reader<R>, out: impl Write) -> Result<(), Error> {
    let mut out = BufWriter::new(out);
    let failed = || Error::io("write the export");
    rows::each_region(reader, |row| {
        let r = row.item.info;
        let line = Line {
            host: row.host,
            t_ns: row.t_ns,
            pid: row.pid,
            target: row.target,
            start: r.range.start,
            end: r.range.end,
            nr_accesses: r.nr_accesses,
            max_nr_accesses: row.item.max_nr_accesses,
            age: r.age,
            lo: r.lo,
            hi: r.hi,
            resolved: r.resolved,
        };
        serde_json::to_writer(&mut out, &line).map_err(|e| failed()(e.into()))?;
        out.write_all(b"\n").map_err(failed())
    })?;
    out.flush().map_err(failed())
}
