//! Records.

use std::path::PathBuf;
use std::sync::Arc;

use isotherm::raw::record::export;
use isotherm::report::{Filter, heatmap};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{exception, of_record};
use crate::table::Table;

/// Opens a record: one of Isotherm, or one of damo.
#[pyfunction]
#[pyo3(signature = (path="isotherm.data".into()))]
pub(crate) fn read(py: Python<'_>, path: PathBuf) -> PyResult<Record> {
    let record = py.detach(|| isotherm::record::Record::open(&path)).map_err(of_record)?;
    Ok(Record { record: Arc::new(record), path })
}

/// A record.
#[pyclass(frozen, module = "isotherm")]
#[derive(Debug)]
pub(crate) struct Record {
    record: Arc<isotherm::record::Record>,
    path: PathBuf,
}

#[pymethods]
impl Record {
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// One row per target and window.
    #[getter]
    fn snapshots(&self) -> Table {
        Table::of_record(&self.record, export::Table::Snapshots)
    }

    /// One row per region and window.
    #[getter]
    fn regions(&self) -> Table {
        Table::of_record(&self.record, export::Table::Regions)
    }

    /// One row per unit of 2 MiB that changed.
    #[getter]
    fn pages(&self) -> Table {
        Table::of_record(&self.record, export::Table::Pages)
    }

    /// One row per mapping, whenever they were read.
    #[getter]
    fn mappings(&self) -> Table {
        Table::of_record(&self.record, export::Table::Mappings)
    }

    /// One row per target that came or went, and per message.
    #[getter]
    fn events(&self) -> Table {
        Table::of_record(&self.record, export::Table::Events)
    }

    /// Facts about the whole record.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let h = self.record.header();
        let dict = PyDict::new(py);
        dict.set_item("isotherm", &h.isotherm)?;
        dict.set_item("host", &h.host)?;
        dict.set_item("kernel", &h.kernel)?;
        dict.set_item("arch", &h.arch)?;
        dict.set_item("page_size", h.page_size)?;
        dict.set_item("boot_id", &h.boot_id)?;
        dict.set_item("started_unix_ns", h.started_unix_ns)?;
        dict.set_item("started_ns", h.started_ns)?;
        dict.set_item("ops", &h.ops)?;
        dict.set_item("method", &h.attrs.method)?;
        dict.set_item("sample_us", h.attrs.sample_us)?;
        dict.set_item("aggr_us", h.attrs.aggr_us)?;
        dict.set_item("update_us", h.attrs.update_us)?;
        dict.set_item("command", &h.command)?;
        Ok(dict)
    }

    /// What could not be read, in words; empty if everything could. Reads the record to its end.
    fn damage(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| {
            let mut reader = self.record.reader()?;
            while reader.next_event()?.is_some() {}
            Ok(reader.damage().to_string())
        })
        .map_err(of_record)
    }

    /// The heatmap, as `isotherm report heatmap --json` prints it.
    #[pyo3(signature = (columns=240, rows=120, targets=Vec::new(), time=None, address=None))]
    fn heatmap_json(
        &self,
        py: Python<'_>,
        columns: usize,
        rows: usize,
        targets: Vec<String>,
        time: Option<&str>,
        address: Option<&str>,
    ) -> PyResult<String> {
        let build = || {
            let filter = Filter {
                time: time.map(Filter::parse_time).transpose()?,
                address: address.map(Filter::parse_address).transpose()?,
                targets,
            };
            let options = heatmap::Options {
                columns: columns.clamp(1, 10_000),
                rows: rows.clamp(1, 10_000),
                all_targets: true,
                ..heatmap::Options::for_picture()
            };
            Ok(heatmap::Heatmap::build(&self.record, &filter, &options)?.to_json())
        };
        py.detach(build).map_err(|err: isotherm::report::Error| exception(&err.into()))
    }

    fn __repr__(&self) -> String {
        let h = self.record.header();
        format!("<isotherm.Record {} of {:?} by {}>", self.path.display(), h.host, h.ops)
    }
}
