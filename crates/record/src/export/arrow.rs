//! Arrow: record batches in memory, and the two formats of files that hold them.
//!
//! [`Stream`] is what other libraries take, through the C stream interface of crate `arrow-array`
//! or directly. Its columns are the vectors of a [`Batch`], so nothing is copied. Names are
//! dictionaries there. In files they are written out, since not every reader knows dictionaries
//! that change from batch to batch; LZ4 makes up for it.

use std::io::{BufWriter, Read, Write};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array,
    Int32Array, Int64Array, PrimitiveArray, RecordBatch, RecordBatchReader, StringArray,
    TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use super::batch::{Batch, Column, PAGE_BYTES, Texts, Values};
use super::constants::Constants;
use super::parts::Parts;
use super::tables::{Batches, Table};
use crate::error::Error;
use crate::reader::Reader;

/// How columns of names are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Each name once, and an index per row.
    Dictionary,
    /// The name in each row.
    Plain,
}

/// The two formats of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// With a footer, so that readers can begin anywhere (`.arrow`).
    File,
    /// Without one, so that readers need not wait for the end (`.arrows`).
    Stream,
}

/// Makes Arrow's record batch of a batch.
///
/// # Errors
///
/// [`Error::Export`] if Arrow refuses it.
pub fn record_batch(batch: Batch, names: Names) -> Result<RecordBatch, Error> {
    with_constants(batch, names, &Constants::default())
}

/// The same, with memory for constant columns that other batches use, too.
fn with_constants(batch: Batch, names: Names, constants: &Constants) -> Result<RecordBatch, Error> {
    let schema = schema(&batch, names);
    let columns = batch.into_columns().into_iter().map(|column| array(column, names, constants));
    let columns = columns.collect::<Result<_, _>>().map_err(failed)?;
    RecordBatch::try_new(schema, columns).map_err(failed)
}

/// The schema of a batch.
#[must_use]
pub fn schema(batch: &Batch, names: Names) -> SchemaRef {
    let field = |Column { name, values, there }: &Column| {
        Field::new(*name, data_type(values, names), there.is_some())
    };
    Arc::new(Schema::new(batch.columns().iter().map(field).collect::<Vec<_>>()))
}

fn data_type(values: &Values, names: Names) -> DataType {
    match values {
        Values::U64(_) => DataType::UInt64,
        Values::U32(_) => DataType::UInt32,
        Values::I64(_) => DataType::Int64,
        Values::I32(_) => DataType::Int32,
        Values::F32(_) => DataType::Float32,
        Values::F64(_) => DataType::Float64,
        Values::Bool(_) => DataType::Boolean,
        Values::Time(_) => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Values::Text(_) if names == Names::Plain => DataType::Utf8,
        Values::Text(_) => DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()),
        Values::Pages(_) => DataType::FixedSizeBinary(PAGE_SIZE),
    }
}

/// [`PAGE_BYTES`] as Arrow has it.
const PAGE_SIZE: i32 = 64;
const _: () = assert!(PAGE_BYTES == 64, "both are one size");

/// Which rows have a value; `None` if all have one.
fn nulls(there: Option<Vec<bool>>) -> Option<NullBuffer> {
    there.filter(|there| there.contains(&false)).map(NullBuffer::from)
}

fn array(column: Column, names: Names, constants: &Constants) -> Result<ArrayRef, ArrowError> {
    let nulls = nulls(column.there);
    Ok(match column.values {
        Values::U64(v) => Arc::new(UInt64Array::try_new(constants.share(v), nulls)?),
        Values::U32(v) => Arc::new(UInt32Array::try_new(constants.share(v), nulls)?),
        Values::I64(v) => Arc::new(Int64Array::try_new(constants.share(v), nulls)?),
        Values::I32(v) => Arc::new(Int32Array::try_new(constants.share(v), nulls)?),
        Values::F32(v) => Arc::new(Float32Array::try_new(constants.share(v), nulls)?),
        Values::F64(v) => Arc::new(Float64Array::try_new(constants.share(v), nulls)?),
        Values::Bool(v) => Arc::new(BooleanArray::new(v.into(), nulls)),
        Values::Time(v) => {
            Arc::new(TimestampNanosecondArray::try_new(v.into(), nulls)?.with_timezone("UTC"))
        }
        Values::Text(v) => text(v, nulls, names, constants)?,
        Values::Pages(v) => {
            let bytes = Buffer::from_vec(v.into_flattened());
            Arc::new(FixedSizeBinaryArray::try_new(PAGE_SIZE, bytes, nulls)?)
        }
    })
}

fn text(
    texts: Texts,
    nulls: Option<NullBuffer>,
    names: Names,
    constants: &Constants,
) -> Result<ArrayRef, ArrowError> {
    if names == Names::Plain {
        let is_there = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let rows = (0..texts.keys.len()).map(|row| is_there(row).then(|| texts.get(row)));
        return Ok(Arc::new(StringArray::from_iter(rows)));
    }
    let keys = PrimitiveArray::<Int32Type>::try_new(constants.share(texts.keys), nulls)?;
    let values: StringArray = texts.names.iter().map(|name| Some(name.as_str())).collect();
    Ok(Arc::new(DictionaryArray::try_new(keys, Arc::new(values))?))
}

/// The record batches of a table of a record, read as they are asked for. Those of regions are made
/// by several threads, see the module `parts`.
#[derive(Debug)]
pub struct Stream<R> {
    schema: SchemaRef,
    source: Source<R>,
}

#[derive(Debug)]
enum Source<R> {
    InOrder(Batches, Reader<R>),
    Parts(Parts<R>),
}

impl<R: Read> Stream<R> {
    /// Reads `table` from where `reader` is, which should be the beginning.
    ///
    /// # Errors
    ///
    /// None so far; reading fails later.
    pub fn new(table: Table, reader: Reader<R>) -> Result<Self, Error> {
        let schema = schema(&table.rows(reader.header()).take(), Names::Dictionary);
        let source = if table == Table::Regions && !reader.is_inside() {
            let finish = |batch, constants: &_| with_constants(batch, Names::Dictionary, constants);
            Source::Parts(Parts::new(table, reader, finish))
        } else {
            Source::InOrder(Batches::new(table, reader.header()), reader)
        };
        Ok(Self { schema, source })
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        match &mut self.source {
            Source::InOrder(batches, reader) => {
                let batch = batches.next(reader)?;
                batch.map(|batch| record_batch(batch, Names::Dictionary)).transpose()
            }
            Source::Parts(parts) => parts.next(),
        }
    }
}

impl<R: Read> Iterator for Stream<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().map_err(|err| ArrowError::ExternalError(err.into())).transpose()
    }
}

impl<R: Read> RecordBatchReader for Stream<R> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Writes a table of a record as a file of Arrow. Returns the number of rows.
///
/// # Errors
///
/// If reading or writing fails.
pub fn arrow<R: Read>(
    table: Table,
    reader: &mut Reader<R>,
    out: impl Write,
    layout: Layout,
) -> Result<u64, Error> {
    let mut batches = Batches::new(table, reader.header());
    let mut next = batches.next(reader)?;
    let schema = next.as_ref().map_or_else(|| Schema::empty().into(), |b| schema(b, Names::Plain));
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .map_err(failed)?;
    let out = BufWriter::new(out);
    let mut rows = 0;
    let mut each = |write: &mut dyn FnMut(&RecordBatch) -> Result<(), ArrowError>| {
        while let Some(batch) = next.take() {
            let batch = record_batch(batch, Names::Plain)?;
            rows += batch.num_rows() as u64;
            write(&batch).map_err(failed)?;
            next = batches.next(reader)?;
        }
        Ok::<_, Error>(())
    };
    let mut out = match layout {
        Layout::File => {
            let mut file =
                FileWriter::try_new_with_options(out, &schema, options).map_err(failed)?;
            each(&mut |batch| file.write(batch))?;
            file.into_inner().map_err(failed)?
        }
        Layout::Stream => {
            let mut file =
                StreamWriter::try_new_with_options(out, &schema, options).map_err(failed)?;
            each(&mut |batch| file.write(batch))?;
            file.into_inner().map_err(failed)?
        }
    };
    out.flush().map_err(Error::io("write the export"))?;
    Ok(rows)
}

fn failed(e: ArrowError) -> Error {
    match e {
        ArrowError::IoError(_, e) => Error::io("write the export")(e),
        e => Error::Export(e.to_string()),
    }
}
