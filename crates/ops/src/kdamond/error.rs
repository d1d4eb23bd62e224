//! Why the kernel's DAMON cannot be used as an operations set.

use std::io;

use isotherm_damon::DamonError;
use isotherm_damon::model::Operations;
use isotherm_host::error::{SetError, SetKind};

/// The set's name in its errors.
const SET: &str = "kdamond";

/// The kernel's DAMON says no; the words are its own.
pub(super) fn of_damon(err: DamonError) -> SetError {
    err.by_class()
}

/// There is no thread to be had.
pub(super) fn no_thread(said: io::Error) -> SetError {
    SetError::of_set(SET, SetKind::Io, "start a thread", "", "").with(said)
}

/// The process has ended.
pub(super) fn gone(pid: u32) -> SetError {
    let error = SetError::of_set(SET, SetKind::Gone, "find its memory", "it has ended", "");
    error.of_process(SET, pid)
}

/// One context is for targets of one kind: `is` is there, `new` was to be added.
pub(super) fn mixed(is: Operations, new: Operations) -> SetError {
    let why = format!(
        "one kdamond monitors one kind of address space, and {} targets are there",
        is.name()
    );
    let what = "operations set `kdamond` cannot watch targets of two kinds";
    let tried = format!("add a target of {}", new.name());
    SetError::new(SetKind::NotSupported, what, tried, why, "watch them in contexts of their own")
}
