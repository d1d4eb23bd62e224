//! What the errors of the page walk name.

/// The set's name in its errors.
pub(super) const SET: &str = "pagewalk";

/// What to grant so that every part of the page walk works without root.
pub const SETCAP: &str =
    "setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_sys_nice,cap_dac_read_search=ep";
