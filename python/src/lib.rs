//! The native half of the Python package `isotherm`: records and monitors, as Arrow streams.
//!
//! Everything that Python code sees is described in `python/isotherm/_isotherm.pyi`. Python's lock
//! is not held while something is read or waited for. Errors become exceptions with the texts that
//! the program prints.
//!
//! Absent on purpose: any table or report of our own. The rows are those of `isotherm export`, and
//! the heatmap is that of `isotherm report heatmap`.

mod error;
mod monitor;
mod record;
mod snapshot;
mod table;

use pyo3::prelude::*;

/// The native module of package `isotherm`.
#[pymodule]
mod _isotherm {
    #[pymodule_export]
    use super::monitor::Monitor;
    #[pymodule_export]
    use super::record::{Record, read};
    #[pymodule_export]
    use super::snapshot::{Snapshot, Target, WorkingSet};
    #[pymodule_export]
    use super::table::Table;

    #[pymodule_export]
    const __VERSION__: &str = env!("CARGO_PKG_VERSION");
}
