//! Snapshots of a monitor that runs, as values that own what they say.

use std::time::Duration;

use arrow_array::RecordBatch;
use isotherm::snapshot;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::table::Table;

/// A working set in bytes, with its 90 % interval.
#[pyclass(frozen, get_all, eq, module = "isotherm")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkingSet {
    size: u64,
    low: u64,
    high: u64,
    unresolved: u64,
    mapped: u64,
}

impl From<snapshot::WorkingSet> for WorkingSet {
    fn from(set: snapshot::WorkingSet) -> Self {
        Self {
            size: set.size.0,
            low: set.low.0,
            high: set.high.0,
            unresolved: set.unresolved.0,
            mapped: set.mapped.0,
        }
    }
}

#[pymethods]
impl WorkingSet {
    fn __repr__(&self) -> String {
        let Self { size, low, high, unresolved, mapped } = self;
        format!(
            "WorkingSet(size={size}, low={low}, high={high}, unresolved={unresolved}, \
             mapped={mapped})"
        )
    }
}

/// A target of a snapshot.
#[pyclass(frozen, get_all, module = "isotherm")]
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pid: u32,
    name: String,
    working_set: WorkingSet,
}

#[pymethods]
impl Target {
    fn __repr__(&self) -> String {
        format!("Target(pid={}, name={:?})", self.pid, self.name)
    }
}

/// One window.
#[pyclass(frozen, module = "isotherm")]
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    number: u64,
    start: Duration,
    end: Duration,
    working_set: WorkingSet,
    within: Vec<(Duration, WorkingSet)>,
    targets: Vec<Target>,
    regions: RecordBatch,
}

impl Snapshot {
    /// A copy of a snapshot, and the rows of its regions.
    pub(crate) fn new(s: &snapshot::Snapshot<'_>, regions: RecordBatch) -> Self {
        let target = |view: snapshot::TargetView<'_>| Target {
            pid: view.identity().map_or(0, |who| who.pid),
            name: view.identity().map_or_else(String::new, |who| who.name.clone()),
            working_set: view.working_set().into(),
        };
        Self {
            number: s.number(),
            start: s.start(),
            end: s.end(),
            working_set: s.working_set().into(),
            within: s.touched_within().into_iter().map(|(span, set)| (span, set.into())).collect(),
            targets: s.targets().map(target).collect(),
            regions,
        }
    }
}

#[pymethods]
impl Snapshot {
    #[getter]
    const fn number(&self) -> u64 {
        self.number
    }

    #[getter]
    const fn start(&self) -> f64 {
        self.start.as_secs_f64()
    }

    #[getter]
    const fn end(&self) -> f64 {
        self.end.as_secs_f64()
    }

    #[getter]
    const fn window(&self) -> f64 {
        self.end.saturating_sub(self.start).as_secs_f64()
    }

    #[getter]
    const fn working_set(&self) -> WorkingSet {
        self.working_set
    }

    /// By span in seconds.
    #[getter]
    fn touched_within<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (span, set) in &self.within {
            dict.set_item(span.as_secs_f64(), Py::new(py, *set)?)?;
        }
        Ok(dict)
    }

    #[getter]
    fn targets(&self) -> Vec<Target> {
        self.targets.clone()
    }

    #[getter]
    fn regions(&self) -> Table {
        Table::of_batch("regions", self.regions.clone())
    }

    fn __repr__(&self) -> String {
        format!(
            "<isotherm.Snapshot {} at {:.3} s: {} bytes of {} in use>",
            self.number,
            self.end.as_secs_f64(),
            self.working_set.size,
            self.working_set.mapped
        )
    }
}
