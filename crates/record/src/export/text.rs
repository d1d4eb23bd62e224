//! The formats of text: comma-separated values after RFC 4180 with a line of column names, and JSON
//! lines, one object per row.

use std::io::{self, BufWriter, Read, Write};

use super::batch::{Batch, Column, Values};
use super::tables::{Batches, Table};
use crate::error::Error;
use crate::reader::Reader;

/// Writes a table of a record as CSV. Returns the number of rows.
///
/// # Errors
///
/// If reading or writing fails.
pub fn csv<R: Read>(table: Table, reader: &mut Reader<R>, out: impl Write) -> Result<u64, Error> {
    let mut is_first = true;
    write(table, reader, out, |batch, out| {
        if std::mem::take(&mut is_first) {
            let names: Vec<_> = batch.columns().iter().map(|c| c.name).collect();
            writeln!(out, "{}", names.join(","))?;
        }
        for row in 0..batch.rows() {
            for (nr, column) in batch.columns().iter().enumerate() {
                if nr > 0 {
                    out.write_all(b",")?;
                }
                if is_there(column, row) {
                    cell(&column.values, row, out)?;
                }
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    })
}

/// Writes a table of a record as one JSON object per line. Returns the number of rows.
///
/// # Errors
///
/// If reading or writing fails.
pub fn jsonl<R: Read>(table: Table, reader: &mut Reader<R>, out: impl Write) -> Result<u64, Error> {
    write(table, reader, out, |batch, out| {
        for row in 0..batch.rows() {
            for (nr, column) in batch.columns().iter().enumerate() {
                out.write_all(if nr == 0 { b"{" } else { b"," })?;
                write!(out, "\"{}\":", column.name)?;
                if is_there(column, row) {
                    json(&column.values, row, out)?;
                } else {
                    out.write_all(b"null")?;
                }
            }
            out.write_all(b"}\n")?;
        }
        Ok(())
    })
}

fn write<R: Read, W: Write>(
    table: Table,
    reader: &mut Reader<R>,
    out: W,
    mut f: impl FnMut(&Batch, &mut BufWriter<W>) -> io::Result<()>,
) -> Result<u64, Error> {
    let mut out = BufWriter::new(out);
    let mut rows = 0;
    let mut batches = Batches::new(table, reader.header());
    while let Some(batch) = batches.next(reader)? {
        f(&batch, &mut out).map_err(Error::io("write the export"))?;
        rows += batch.rows() as u64;
    }
    out.flush().map_err(Error::io("write the export"))?;
    Ok(rows)
}

fn is_there(column: &Column, row: usize) -> bool {
    column.there.as_ref().is_none_or(|there| there[row])
}

/// A value as it is in both formats, if that is so.
fn plain(values: &Values, row: usize, out: &mut impl Write) -> io::Result<bool> {
    match values {
        Values::U64(v) => write!(out, "{}", v[row])?,
        Values::U32(v) => write!(out, "{}", v[row])?,
        Values::I64(v) => write!(out, "{}", v[row])?,
        Values::I32(v) => write!(out, "{}", v[row])?,
        Values::Bool(v) => write!(out, "{}", v[row])?,
        Values::F32(_) | Values::F64(_) | Values::Time(_) | Values::Text(_) | Values::Pages(_) => {
            return Ok(false);
        }
    }
    Ok(true)
}

fn cell(values: &Values, row: usize, out: &mut impl Write) -> io::Result<()> {
    match values {
        Values::F32(v) => write!(out, "{}", v[row]),
        Values::F64(v) => write!(out, "{}", v[row]),
        Values::Time(v) => time(v[row], out),
        Values::Text(v) => quoted(v.get(row), out),
        Values::Pages(v) => digits(&v[row], out),
        values => plain(values, row, out).map(drop),
    }
}

fn json(values: &Values, row: usize, out: &mut impl Write) -> io::Result<()> {
    match values {
        Values::F32(v) => serde_json::to_writer(out, &v[row]).map_err(Into::into),
        Values::F64(v) => serde_json::to_writer(out, &v[row]).map_err(Into::into),
        Values::Text(v) => serde_json::to_writer(out, v.get(row)).map_err(Into::into),
        Values::Time(v) => {
            out.write_all(b"\"")?;
            time(v[row], out)?;
            out.write_all(b"\"")
        }
        Values::Pages(v) => {
            out.write_all(b"\"")?;
            digits(&v[row], out)?;
            out.write_all(b"\"")
        }
        values => plain(values, row, out).map(drop),
    }
}

fn quoted(s: &str, out: &mut impl Write) -> io::Result<()> {
    if s.contains(['"', ',', '\n', '\r']) {
        write!(out, "\"{}\"", s.replace('"', "\"\""))
    } else {
        out.write_all(s.as_bytes())
    }
}

fn digits(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Writes a time, in ns since 1970, after RFC 3339 in UTC: `2026-11-23T16:47:24.000000000Z`.
fn time(unix_ns: i64, out: &mut impl Write) -> io::Result<()> {
    const DAY: i64 = 86_400;
    let (s, ns) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000));
    let (day, s) = (s.div_euclid(DAY), s.rem_euclid(DAY));
    let (year, month, day) = date(day);
    let (h, min, s) = (s / 3600, s / 60 % 60, s % 60);
    write!(out, "{year:04}-{month:02}-{day:02}T{h:02}:{min:02}:{s:02}.{ns:09}Z")
}

/// The day of a time, in ns since 1970, by UTC: `2026-11-23`.
#[must_use]
pub fn utc_date(unix_ns: i64) -> String {
    let (year, month, day) = date(unix_ns.div_euclid(86_400_000_000_000));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since 1970-01-01. A year is counted from March here, so
/// that the day that not every year has comes last; 400 such years are one era.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    #[test]
    fn times() {
        for (unix_ns, want) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_782_400_000_000_001, "2000-02-29T00:00:00.000000001Z"),
            (1_709_251_199_000_000_000, "2024-02-29T23:59:59.000000000Z"),
            (4_107_542_400_500_000_000, "2100-03-01T00:00:00.500000000Z"),
        ] {
            let mut out = Vec::new();
            super::time(unix_ns, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), want);
            assert_eq!(super::utc_date(unix_ns), want[..10]);
        }
    }
}
