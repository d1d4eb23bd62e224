//! Isotherm's only crate that talks to the kernel.
//!
//! It has the operations sets (one folder each), what they stand on (`/proc`, the clock, signals), the
//! tracker that says which processes are the targets, and the self-test that decides which set may
//! be believed on this machine. All unsafe code is below `sys`.
//!
//! Nothing here prints, and nothing here decides about regions: that is `isotherm-core`'s.

pub mod act;
pub mod apply;
pub mod clock;
pub mod damon;
pub mod doctor;
pub mod error;
pub mod frames;
mod glob;
pub mod guard;
pub mod idle;
pub mod idlemem;
pub mod kdamond;
pub mod metrics;
pub mod monitor;
pub mod paddr;
pub mod pagewalk;
pub mod proc;
pub mod set;
pub mod signals;
pub mod smaps;
pub mod support;
mod sys;
pub mod targets;
pub mod tier;
pub mod tracefs;
pub mod workload;
pub mod zram;

pub use monitor::{Happened, Monitor, MonitorError};
pub use set::OpsSet;
