//! Parquet, which Arrow, DuckDB, pandas and other tools read directly.
//!
//! This module uses the low-level writer: LZ4 (raw), delta encoding for times and addresses,
//! dictionaries for names. Unsigned 64-bit integers are stored as such. One batch is a row group.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::batch::{Batch, Column, Texts, Values};
use super::tables::{Batches, Table};
use crate::error::Error;
use crate::reader::Reader;

/// Columns that rise slowly.
const DELTA: [&str; 5] = ["t_ns", "time", "start", "end", "since_ns"];

/// Writes a table of a record as one Parquet file. Returns the number of rows.
///
/// # Errors
///
/// If reading or writing fails.
pub fn parquet<R: Read>(
    table: Table,
    reader: &mut Reader<R>,
    out: impl Write + Send,
) -> Result<u64, Error> {
    let mut batches = Batches::new(table, reader.header());
    let mut next = batches.next(reader)?.unwrap_or_default();
    let mut file = begin(&next, &[], out)?;
    let mut rows = 0;
    loop {
        rows += next.rows() as u64;
        write_group(&mut file, &next)?;
        match batches.next(reader)? {
            Some(batch) => next = batch,
            None => break,
        }
    }
    file.close().map_err(failed)?;
    Ok(rows)
}

/// Writes one batch as a Parquet file of its own, with these keys and values in its metadata.
/// Returns what it was written to.
///
/// # Errors
///
/// If writing fails.
pub fn parquet_of<W: Write + Send>(
    batch: &Batch,
    metadata: &[(&str, &str)],
    out: W,
) -> Result<W, Error> {
    let mut file = begin(batch, metadata, out)?;
    write_group(&mut file, batch)?;
    file.into_inner().map_err(failed)
}

/// Begins a file of batches like this one.
fn begin<W: Write + Send>(
    batch: &Batch,
    metadata: &[(&str, &str)],
    out: W,
) -> Result<SerializedFileWriter<W>, Error> {
    let schema = parse_message_type(&schema(batch)).map_err(failed)?;
    let properties = Arc::new(properties(metadata));
    SerializedFileWriter::new(out, Arc::new(schema), properties).map_err(failed)
}

/// Writes a batch as a row group, if it has rows.
fn write_group<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    batch: &Batch,
) -> Result<(), Error> {
    if batch.rows() == 0 {
        return Ok(());
    }
    let mut group = file.next_row_group().map_err(failed)?;
    for column in batch.columns() {
        write_column(&mut group, column)?;
    }
    group.close().map_err(failed)?;
    Ok(())
}

/// The schema of a table with columns like these.
fn schema(batch: &Batch) -> String {
    let mut text = "message isotherm {\n".to_owned();
    for Column { name, values, there } in batch.columns() {
        let repetition = if there.is_some() { "optional" } else { "required" };
        let (physical, logical) = match values {
            Values::U64(_) => ("int64", " (INTEGER(64, false))"),
            Values::U32(_) => ("int32", " (INTEGER(32, false))"),
            Values::I64(_) => ("int64", " (INTEGER(64, true))"),
            Values::I32(_) => ("int32", " (INTEGER(32, true))"),
            Values::F32(_) => ("float", ""),
            Values::F64(_) => ("double", ""),
            Values::Bool(_) => ("boolean", ""),
            Values::Time(_) => ("int64", " (TIMESTAMP(NANOS, true))"),
            Values::Text(_) => ("binary", " (STRING)"),
            Values::Pages(_) => ("binary", ""),
        };
        // A String takes everything.
        writeln!(text, "    {repetition} {physical} {name}{logical};").unwrap_or_default();
    }
    text + "}"
}

fn properties(metadata: &[(&str, &str)]) -> WriterProperties {
    let pairs =
        metadata.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let pairs: Vec<KeyValue> = pairs.collect();
    let mut p = WriterProperties::builder()
        .set_key_value_metadata((!pairs.is_empty()).then_some(pairs))
        .set_compression(Compression::LZ4_RAW)
        .set_created_by(concat!("isotherm ", env!("CARGO_PKG_VERSION")).into());
    for name in DELTA {
        let column = ColumnPath::from(name);
        p = p
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    p.build()
}

fn failed(e: ParquetError) -> Error {
    match e {
        ParquetError::External(e) => match e.downcast::<std::io::Error>() {
            Ok(e) => Error::io("write the export")(*e),
            Err(e) => Error::Export(e.to_string()),
        },
        e => Error::Export(e.to_string()),
    }
}

/// Writes the next column of a row group.
fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
) -> Result<(), Error> {
    let there = column.there.as_deref();
    let long = |v: &[u64]| v.iter().map(|x| x.cast_signed()).collect();
    match &column.values {
        Values::U64(v) => put::<Int64Type, W>(group, long(v), there),
        Values::U32(v) => {
            put::<Int32Type, W>(group, v.iter().map(|x| x.cast_signed()).collect(), there)
        }
        Values::I64(v) => put::<Int64Type, W>(group, v.clone(), there),
        Values::I32(v) => put::<Int32Type, W>(group, v.clone(), there),
        Values::F32(v) => put::<FloatType, W>(group, v.clone(), there),
        Values::F64(v) => put::<DoubleType, W>(group, v.clone(), there),
        Values::Bool(v) => put::<BoolType, W>(group, v.clone(), there),
        Values::Time(v) => put::<Int64Type, W>(group, v.clone(), there),
        Values::Text(v) => put::<ByteArrayType, W>(group, names(v), there),
        Values::Pages(v) => {
            let bytes = v.iter().map(|pages| ByteArray::from(pages.to_vec())).collect();
            put::<ByteArrayType, W>(group, bytes, there)
        }
    }
}

/// The names of the rows. Equal names share their bytes.
fn names(texts: &Texts) -> Vec<ByteArray> {
    let names: Vec<_> = texts.names.iter().map(|name| ByteArray::from(name.as_str())).collect();
    let of = |key: &i32| usize::try_from(*key).ok().and_then(|key| names.get(key)).cloned();
    texts.keys.iter().map(|key| of(key).unwrap_or_default()).collect()
}

/// Writes the next column. `there` tells for each of `values` whether it is one.
fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    mut values: Vec<T::T>,
    there: Option<&[bool]>,
) -> Result<(), Error> {
    let Some(mut c) = group.next_column().map_err(failed)? else {
        return Err(Error::Export("the schema has fewer columns than the data".into()));
    };
    let levels = there.map(|there| {
        let mut rows = there.iter();
        values.retain(|_| rows.next() == Some(&true));
        there.iter().map(|is| i16::from(*is)).collect::<Vec<_>>()
    });
    c.typed::<T>().write_batch(&values, levels.as_deref(), None).map_err(failed)?;
    c.close().map_err(failed)
}
