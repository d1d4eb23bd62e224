//! Parquet, which Arrow, DuckDB, pandas and other tools read directly.
//!
//! This module uses the low-level writer, without the arrow crates: LZ4 (raw), delta encoding for
//! times and addresses, dictionaries for names. Unsigned 64-bit integers are stored as such.

use std::io::{Read, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::rows::{self, Region, Row};
use crate::error::Error;
use crate::reader::Reader;

/// Rows per row group. This bounds the memory, which is about 60 bytes per row.
const GROUP: usize = 1 << 19;

const SCHEMA: &str = "message isotherm {
    required binary host (STRING);
    required int64 t_ns (INTEGER(64, false));
    required int32 pid (INTEGER(32, false));
    required binary target (STRING);
    required int64 start (INTEGER(64, false));
    required int64 end (INTEGER(64, false));
    required int32 nr_accesses (INTEGER(32, false));
    required int32 max_nr_accesses (INTEGER(32, false));
    required int32 age (INTEGER(32, false));
    required float lo;
    required float hi;
    required boolean resolved;
}";

/// Writes a record as one Parquet file.
///
/// # Errors
///
/// If reading or writing fails.
pub fn parquet<R: Read>(reader: &mut Reader<R>, out: impl Write + Send) -> Result<(), Error> {
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
    let mut file =
        SerializedFileWriter::new(out, schema, Arc::new(properties(&["t_ns", "start", "end"])))
            .map_err(failed)?;
    let mut group = Group::default();
    rows::each_region(reader, |row| {
        group.push(row);
        if group.t_ns.len() == GROUP { group.write(&mut file) } else { Ok(()) }
    })?;
    if !group.t_ns.is_empty() {
        group.write(&mut file)?;
    }
    file.close().map_err(failed)?;
    Ok(())
}

/// The properties of a file; the `delta` columns rise slowly.
pub(super) fn properties(delta: &[&str]) -> WriterProperties {
    let mut p = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_created_by(concat!("isotherm ", env!("CARGO_PKG_VERSION")).into());
    for name in delta {
        let column = ColumnPath::from(*name);
        p = p
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    p.build()
}

pub(super) fn failed(e: ParquetError) -> Error {
    match e {
        ParquetError::External(e) => match e.downcast::<std::io::Error>() {
            Ok(e) => Error::io("write the export")(*e),
            Err(e) => Error::Export(e.to_string()),
        },
        e => Error::Export(e.to_string()),
    }
}

/// The columns of one row group.
#[derive(Default)]
struct Group {
    host: Vec<ByteArray>,
    t_ns: Vec<i64>,
    pid: Vec<i32>,
    target: Vec<ByteArray>,
    start: Vec<i64>,
    end: Vec<i64>,
    nr_accesses: Vec<i32>,
    max_nr_accesses: Vec<i32>,
    age: Vec<i32>,
    lo: Vec<f32>,
    hi: Vec<f32>,
    resolved: Vec<bool>,
}

impl Group {
    fn push(&mut self, row: &Row<'_, Region<'_>>) {
        let r = row.item.info;
        push_text(&mut self.host, row.host);
        self.t_ns.push(row.t_ns.cast_signed());
        self.pid.push(row.pid.cast_signed());
        push_text(&mut self.target, row.target);
        self.start.push(r.range.start.cast_signed());
        self.end.push(r.range.end.cast_signed());
        self.nr_accesses.push(r.nr_accesses.cast_signed());
        self.max_nr_accesses.push(row.item.max_nr_accesses.cast_signed());
        self.age.push(r.age.cast_signed());
        self.lo.push(r.lo);
        self.hi.push(r.hi);
        self.resolved.push(r.resolved);
    }

    /// Writes the columns in the order of [`SCHEMA`] and empties them.
    fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<(), Error> {
        let mut g = file.next_row_group().map_err(failed)?;
        column::<ByteArrayType, _>(&mut g, &mut self.host)?;
        column::<Int64Type, _>(&mut g, &mut self.t_ns)?;
        column::<Int32Type, _>(&mut g, &mut self.pid)?;
        column::<ByteArrayType, _>(&mut g, &mut self.target)?;
        column::<Int64Type, _>(&mut g, &mut self.start)?;
        column::<Int64Type, _>(&mut g, &mut self.end)?;
        column::<Int32Type, _>(&mut g, &mut self.nr_accesses)?;
        column::<Int32Type, _>(&mut g, &mut self.max_nr_accesses)?;
        column::<Int32Type, _>(&mut g, &mut self.age)?;
        column::<FloatType, _>(&mut g, &mut self.lo)?;
        column::<FloatType, _>(&mut g, &mut self.hi)?;
        column::<BoolType, _>(&mut g, &mut self.resolved)?;
        g.close().map_err(failed)?;
        Ok(())
    }
}

/// Makes a column of names. Equal names in a row share their bytes.
pub(super) fn push_text(column: &mut Vec<ByteArray>, s: &str) {
    match column.last() {
        Some(last) if last.data() == s.as_bytes() => column.push(last.clone()),
        _ => column.push(ByteArray::from(s)),
    }
}

/// Writes the next column and empties it.
pub(super) fn column<T: parquet::data_type::DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
) -> Result<(), Error> {
    write_column::<T, W>(group, values, None)?;
    values.clear();
    Ok(())
}

/// Writes the next column. `there`: for each row 1 if it has a value and 0 if not.
pub(super) fn write_column<T: parquet::data_type::DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<(), Error> {
    let Some(mut c) = group.next_column().map_err(failed)? else {
        return Err(Error::Export("the schema has fewer columns than the data".into()));
    };
    c.typed::<T>().write_batch(values, there, None).map_err(failed)?;
    c.close().map_err(failed)
}

#[cfg(test)]
mod tests {
    use crate::{Header, Record, Target, Writer};
    use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn reads_back() {
        let header = Header { host: "node-17".into(), ..Header::default() };
        let mut w = Writer::new(Vec::new(), &header).unwrap();
        w.target(&Target { id: 3, pid: 77, name: "a,b".into(), ..Target::default() }).unwrap();
        let region = |start, nr_accesses| RegionInfo {
            range: AddrRange::new(start, u64::MAX - 4095),
            nr_accesses,
            age: u32::MAX,
            lo: 0.0,
            hi: 20.0,
            resolved: nr_accesses > 0,
            ..RegionInfo::default()
        };
        w.push_snapshot(&Snapshot {
            end: Time(u64::MAX - 1),
            max_nr_accesses: 20,
            targets: vec![TargetInfo {
                id: TargetId(3),
                regions: vec![region(0, 0), region(1, 9)],
                ..TargetInfo::default()
            }],
            ..Snapshot::default()
        })
        .unwrap();
        let record = Record::from_bytes(w.finish(Time(0), "over").unwrap().0).unwrap();
        let mut out = Vec::new();
        super::parquet(&mut record.reader().unwrap(), &mut out).unwrap();
        let file = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
        let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        let r = &rows[1];
        assert_eq!(
            (r.get_string(0).unwrap().as_str(), r.get_string(3).unwrap().as_str()),
            ("node-17", "a,b")
        );
        assert_eq!((r.get_ulong(1).unwrap(), r.get_uint(2).unwrap()), (u64::MAX - 1, 77));
        assert_eq!((r.get_ulong(4).unwrap(), r.get_ulong(5).unwrap()), (1, u64::MAX - 4095));
        assert_eq!(
            (r.get_uint(6).unwrap(), r.get_uint(7).unwrap(), r.get_uint(8).unwrap()),
            (9, 20, u32::MAX)
        );
        assert_eq!((r.get_float(10).unwrap(), r.get_bool(11).unwrap()), (20.0, true));
    }
}
