//! The operations sets: what can look at memory, which targets there are, and whether a set can be
//! believed on this machine.
//!
//! Rule: a set looks and makes pages old; nothing in this crate moves or drops a target's memory.
//! Absent: deciding about regions (the core's), acting (`isotherm-act`), printing.

pub mod doctor;
pub mod guard;
pub mod idle;
pub mod kdamond;
pub mod pagewalk;
pub mod set;
pub mod smaps;
pub mod support;
pub mod targets;
