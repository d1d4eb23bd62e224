//! Errors of the page walk.

use std::io;

use isotherm_host::error::{SetError, SetKind};

/// The set's name in its errors.
pub(super) const SET: &str = "pagewalk";

/// What to grant so that every part of the page walk works without root.
pub const SETCAP: &str =
    "setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_sys_nice,cap_dac_read_search=ep";

/// A failure of the whole set.
pub(crate) fn error(
    kind: SetKind,
    tried: impl Into<String>,
    said: Option<io::Error>,
    why: impl Into<String>,
    hint: impl Into<String>,
) -> SetError {
    let error = SetError::of_set(SET, kind, tried, why, hint);
    match said {
        Some(said) => error.with(said),
        None => error,
    }
}
