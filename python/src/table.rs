//! A table that any library takes that knows Arrow's `PyCapsule` interface.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::SchemaRef;
use arrow_schema::ffi::FFI_ArrowSchema;
use isotherm::raw::record::export;
use isotherm::raw::record::export::arrow::{Names, Stream, schema};
use isotherm::record::{Header, Record};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::error::of_record;

/// Where the rows come from.
#[derive(Debug)]
enum Source {
    /// Read from the record, anew for every stream.
    Record(Arc<Record>, export::Table),
    /// These rows.
    Batch(RecordBatch),
}

/// Rows of a record or of a snapshot, as an Arrow stream.
#[pyclass(frozen, module = "isotherm")]
#[derive(Debug)]
pub(crate) struct Table {
    name: &'static str,
    schema: SchemaRef,
    source: Source,
}

impl Table {
    pub(crate) fn of_record(record: &Arc<Record>, table: export::Table) -> Self {
        let empty = table.rows(&Header::default()).take();
        let schema = schema(&empty, Names::Dictionary);
        Self { name: table.name(), schema, source: Source::Record(record.clone(), table) }
    }

    pub(crate) fn of_batch(name: &'static str, batch: RecordBatch) -> Self {
        Self { name, schema: batch.schema(), source: Source::Batch(batch) }
    }

    fn stream(&self) -> PyResult<Box<dyn RecordBatchReader + Send>> {
        Ok(match &self.source {
            Source::Record(record, table) => {
                let reader = record.reader().map_err(of_record)?;
                Box::new(Stream::new(*table, reader).map_err(of_record)?)
            }
            Source::Batch(batch) => {
                let batches = [Ok(batch.clone())];
                Box::new(RecordBatchIterator::new(batches, self.schema.clone()))
            }
        })
    }
}

#[pymethods]
impl Table {
    /// The rows, from the first one. The columns' types are given, so a request for others is not
    /// followed; the interface allows that.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let stream = py.detach(|| self.stream())?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(stream), c"arrow_array_stream")
    }

    /// The names and types of the columns.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema)
            .map_err(|err| PyRuntimeError::new_err(err.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Which table it is.
    #[getter]
    const fn name(&self) -> &'static str {
        self.name
    }

    /// The names of the columns.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.schema.fields().iter().map(|field| field.name().as_str()))
    }

    fn __repr__(&self) -> String {
        let names: Vec<_> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        format!("<isotherm.Table {}: {}>", self.name, names.join(", "))
    }
}
