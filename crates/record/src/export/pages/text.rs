//! Page maps as comma-separated values and as JSON lines.

use std::fmt::Write as _;
use std::io::{BufWriter, Read, Write};

use isotherm_core::{PageBits, UnitInfo};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::super::csv::quoted;
use super::super::rows::{self, Row};
use super::{NAMES, bytes, leaf_sz};
use crate::error::Error;
use crate::reader::Reader;

/// Writes the page maps of a record as CSV with a line of column names. Returns the number of rows.
///
/// # Errors
///
/// If reading or writing fails.
pub fn csv<R: Read>(reader: &mut Reader<R>, out: impl Write) -> Result<u64, Error> {
    let mut out = BufWriter::new(out);
    let failed = || Error::io("write the export");
    let names: Vec<_> =
        columns(&Row { host: "", t_ns: 0, pid: 0, target: "", item: &UnitInfo::default() })
            .into_iter()
            .map(|(name, _)| name)
            .collect();
    writeln!(out, "{}", names.join(",")).map_err(failed())?;
    let nr = rows::each_unit(reader, |row| {
        let cells: Vec<_> = columns(row).into_iter().map(|(_, value)| cell(&value)).collect();
        writeln!(out, "{}", cells.join(",")).map_err(failed())
    })?;
    out.flush().map_err(failed())?;
    Ok(nr)
}

/// Writes the page maps of a record as one JSON object per line. Returns the number of rows.
///
/// # Errors
///
/// If reading or writing fails.
pub fn jsonl<R: Read>(reader: &mut Reader<R>, out: impl Write) -> Result<u64, Error> {
    let mut out = BufWriter::new(out);
    let failed = || Error::io("write the export");
    let nr = rows::each_unit(reader, |row| {
        let line = Line(columns(row));
        serde_json::to_writer(&mut out, &line).map_err(|e| failed()(e.into()))?;
        out.write_all(b"\n").map_err(failed())
    })?;
    out.flush().map_err(failed())?;
    Ok(nr)
}

/// One row as an object, with its keys in the order of the columns.
struct Line(Vec<(String, Value)>);

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// The names and values of a row, in order.
fn columns(row: &Row<'_, UnitInfo>) -> Vec<(String, Value)> {
    let unit = row.item;
    let mut all: Vec<(String, Value)> = [
        ("host", Value::from(row.host)),
        ("t_ns", row.t_ns.into()),
        ("pid", row.pid.into()),
        ("target", row.target.into()),
        ("start", unit.start.into()),
        ("since_ns", unit.since.0.into()),
        ("leaf_sz", leaf_sz(unit.leaf_shift).into()),
        ("nr_present", unit.present.count().into()),
        ("nr_unresolved", unit.unresolved.count().into()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let touched = || NAMES.iter().zip(unit.touched);
    all.extend(
        touched()
            .map(|(name, plane)| (format!("nr_touched_{name}"), plane.map(PageBits::count).into())),
    );
    all.push(("present".into(), digits(unit.present).into()));
    all.push(("unresolved".into(), digits(unit.unresolved).into()));
    all.extend(
        touched().map(|(name, plane)| (format!("touched_{name}"), plane.map(digits).into())),
    );
    all
}

fn digits(pages: PageBits) -> String {
    bytes(pages).iter().fold(String::new(), |mut text, byte| {
        // A String takes everything.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text).into_owned(),
        value => value.to_string(),
    }
}
