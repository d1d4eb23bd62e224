//! Page maps as Parquet.

use std::io::{Read, Write};
use std::sync::Arc;

use isotherm_core::{SPANS, UnitInfo};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::super::parquet::{column, failed, properties, push_text, write_column};
use super::super::rows::{self, Row};
use super::{NAMES, bytes, leaf_sz};
use crate::error::Error;
use crate::reader::Reader;

/// Rows per row group. This bounds the memory, which is about 1 KiB per row.
const GROUP: usize = 1 << 14;

/// Writes the page maps of a record as one Parquet file. Returns the number of rows.
///
/// # Errors
///
/// If reading or writing fails.
pub fn parquet<R: Read>(reader: &mut Reader<R>, out: impl Write + Send) -> Result<u64, Error> {
    let schema = Arc::new(parse_message_type(&schema()).map_err(failed)?);
    let properties = Arc::new(properties(&["t_ns", "start", "since_ns"]));
    let mut file = SerializedFileWriter::new(out, schema, properties).map_err(failed)?;
    let mut group = Group::default();
    let nr = rows::each_unit(reader, |row| {
        group.push(row);
        if group.t_ns.len() == GROUP { group.write(&mut file) } else { Ok(()) }
    })?;
    if !group.t_ns.is_empty() {
        group.write(&mut file)?;
    }
    file.close().map_err(failed)?;
    Ok(nr)
}

fn schema() -> String {
    let mut schema = "message isotherm_pages {
    required binary host (STRING);
    required int64 t_ns (INTEGER(64, false));
    required int32 pid (INTEGER(32, false));
    required binary target (STRING);
    required int64 start (INTEGER(64, false));
    required int64 since_ns (INTEGER(64, false));
    required int64 leaf_sz (INTEGER(64, false));
    required int32 nr_present (INTEGER(32, false));
    required int32 nr_unresolved (INTEGER(32, false));\n"
        .to_owned();
    for name in NAMES {
        schema += &format!("    optional int32 nr_touched_{name} (INTEGER(32, false));\n");
    }
    schema += "    required binary present;\n    required binary unresolved;\n";
    for name in NAMES {
        schema += &format!("    optional binary touched_{name};\n");
    }
    schema + "}"
}

/// A column of which some values are missing.
struct Optional<T> {
    values: Vec<T>,
    /// For each row 1 if it has a value and 0 if not.
    there: Vec<i16>,
}

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self { values: Vec::new(), there: Vec::new() }
    }
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.there.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn write<D: DataType<T = T>, W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), Error> {
        write_column::<D, W>(group, &self.values, Some(&self.there))?;
        (self.values, self.there) = (Vec::new(), Vec::new());
        Ok(())
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
    since_ns: Vec<i64>,
    leaf_sz: Vec<i64>,
    nr_present: Vec<i32>,
    nr_unresolved: Vec<i32>,
    nr_touched: [Optional<i32>; SPANS],
    present: Vec<ByteArray>,
    unresolved: Vec<ByteArray>,
    touched: [Optional<ByteArray>; SPANS],
}

impl Group {
    fn push(&mut self, row: &Row<'_, UnitInfo>) {
        let unit = row.item;
        let nr = |pages: isotherm_core::PageBits| i32::try_from(pages.count()).unwrap_or(i32::MAX);
        push_text(&mut self.host, row.host);
        self.t_ns.push(row.t_ns.cast_signed());
        self.pid.push(row.pid.cast_signed());
        push_text(&mut self.target, row.target);
        self.start.push(unit.start.cast_signed());
        self.since_ns.push(unit.since.0.cast_signed());
        self.leaf_sz.push(leaf_sz(unit.leaf_shift).cast_signed());
        self.nr_present.push(nr(unit.present));
        self.nr_unresolved.push(nr(unit.unresolved));
        self.present.push(bytes(unit.present).into());
        self.unresolved.push(bytes(unit.unresolved).into());
        for (span, plane) in unit.touched.into_iter().enumerate() {
            self.nr_touched[span].push(plane.map(nr));
            self.touched[span].push(plane.map(|plane| bytes(plane).into()));
        }
    }

    /// Writes the columns in the order of [`schema`] and empties them.
    fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<(), Error> {
        let mut g = file.next_row_group().map_err(failed)?;
        column::<ByteArrayType, _>(&mut g, &mut self.host)?;
        column::<Int64Type, _>(&mut g, &mut self.t_ns)?;
        column::<Int32Type, _>(&mut g, &mut self.pid)?;
        column::<ByteArrayType, _>(&mut g, &mut self.target)?;
        column::<Int64Type, _>(&mut g, &mut self.start)?;
        column::<Int64Type, _>(&mut g, &mut self.since_ns)?;
        column::<Int64Type, _>(&mut g, &mut self.leaf_sz)?;
        column::<Int32Type, _>(&mut g, &mut self.nr_present)?;
        column::<Int32Type, _>(&mut g, &mut self.nr_unresolved)?;
        for nr in &mut self.nr_touched {
            nr.write::<Int32Type, _>(&mut g)?;
        }
        column::<ByteArrayType, _>(&mut g, &mut self.present)?;
        column::<ByteArrayType, _>(&mut g, &mut self.unresolved)?;
        for touched in &mut self.touched {
            touched.write::<ByteArrayType, _>(&mut g)?;
        }
        g.close().map_err(failed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Header, Record, Target, Writer};
    use isotherm_core::{PageBits, Snapshot, TargetInfo, Time, UnitInfo};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn reads_back() {
        let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
        w.target(&Target { id: 0, pid: 77, name: "a".into(), ..Target::default() }).unwrap();
        let mut unit = UnitInfo { start: 1 << 21, present: PageBits::ALL, ..UnitInfo::default() };
        unit.touched[1] = Some(PageBits::page(9));
        let other = UnitInfo { start: 1 << 22, leaf_shift: 21, ..UnitInfo::default() };
        let targets = vec![TargetInfo { units: vec![unit, other], ..TargetInfo::default() }];
        w.push_snapshot(&Snapshot { end: Time(5), targets, ..Snapshot::default() }).unwrap();
        let record = Record::from_bytes(w.finish(Time(5), "over").unwrap().0).unwrap();
        let mut out = Vec::new();
        assert_eq!(super::parquet(&mut record.reader().unwrap(), &mut out).unwrap(), 2);
        let file = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
        let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let (a, b) = (&rows[0], &rows[1]);
        assert_eq!((a.get_ulong(1).unwrap(), a.get_uint(2).unwrap()), (5, 77));
        assert_eq!((a.get_ulong(4).unwrap(), b.get_ulong(4).unwrap()), (1 << 21, 1 << 22));
        assert_eq!((a.get_ulong(6).unwrap(), b.get_ulong(6).unwrap()), (1, 1 << 21));
        assert_eq!((a.get_uint(7).unwrap(), b.get_uint(7).unwrap()), (512, 0));
        assert!(a.get_uint(9).is_err() && b.get_uint(10).is_err(), "not measured is null");
        assert_eq!(a.get_uint(10).unwrap(), 1);
        let mut page_9 = vec![0; 64];
        page_9[1] = 2;
        assert_eq!(a.get_bytes(17).unwrap().data(), page_9);
        assert_eq!(a.get_bytes(14).unwrap().data(), [255; 64]);
    }
}
