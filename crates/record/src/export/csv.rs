//! Comma-separated values, after RFC 4180, with a line of column names.

use std::io::{BufWriter, Read, Write};

use super::rows;
use crate::error::Error;
use crate::reader::Reader;

/// Writes a record as CSV.
///
/// # Errors
///
/// If reading or writing fails.
pub fn csv<R: Read>(reader: &mut Reader<R>, out: impl Write) -> Result<(), Error> {
    let mut out = BufWriter::new(out);
    let failed = || Error::io("write the export");
    writeln!(out, "host,t_ns,pid,target,start,end,nr_accesses,max_nr_accesses,age,lo,hi,resolved")
        .map_err(failed())?;
    rows::each_region(reader, |row| {
        let r = row.item.info;
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(row.host),
            row.t_ns,
            row.pid,
            quoted(row.target),
            r.range.start,
            r.range.end,
            r.nr_accesses,
            row.item.max_nr_accesses,
            r.age,
            r.lo,
            r.hi,
            r.resolved
        )
        .map_err(failed())
    })?;
    out.flush().map_err(failed())
}

pub(super) fn quoted(s: &str) -> std::borrow::Cow<'_, str> {
    if s.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", s.replace('"', "\"\"")).into()
    } else {
        s.into()
    }
}
