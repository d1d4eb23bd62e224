//! Errors as exceptions of `isotherm._errors`.

use std::error::Error as _;
use std::io;

use isotherm::ErrorKind;
use pyo3::prelude::*;

/// The exception for `error`.
pub(crate) fn exception(error: &isotherm::Error) -> PyErr {
    let kind = match error.kind() {
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::NotSupported => "NotSupportedError",
        ErrorKind::Permission => "AccessError",
        ErrorKind::Gone => "GoneError",
        ErrorKind::NotWatched => "NotWatchedError",
        ErrorKind::BadRecord => "BadRecordError",
        ErrorKind::Io => "FileError",
        _ => "Error",
    };
    let mut cause = error.source();
    let mut errno = None;
    while let (None, Some(err)) = (errno, cause) {
        errno = err.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        cause = err.source();
    }
    let parts = (error.to_string(), error.what(), error.tried(), error.why(), error.hint(), errno);
    Python::attach(|py| {
        let made = PyModule::import(py, "isotherm._errors").and_then(|module| {
            let is_missing = kind == "FileError" && errno == Some(NOT_FOUND);
            module.getattr(if is_missing { "MissingError" } else { kind })?.call1(parts)
        });
        made.map_or_else(|err| err, PyErr::from_value)
    })
}

/// `ENOENT`.
const NOT_FOUND: i32 = 2;

/// The exception for an error of the records' crate.
pub(crate) fn of_record(error: isotherm::record::Error) -> PyErr {
    exception(&error.into())
}
