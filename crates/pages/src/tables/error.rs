//! Errors of the page walk.

use std::io;

use isotherm_host::error::{ErrorKind, Failure, SetError};

/// What to grant so that every part of the page walk works without root.
pub const SETCAP: &str =
    "setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_sys_nice,cap_dac_read_search=ep";

pub(crate) fn error(
    kind: ErrorKind,
    tried: impl Into<String>,
    said: Option<io::Error>,
    why: impl Into<String>,
    hint: impl Into<String>,
) -> SetError {
    SetError::new("pagewalk", kind, Failure::new(tried, said, why, hint))
}
