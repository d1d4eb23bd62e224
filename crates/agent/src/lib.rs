//! Isotherm's agent: what a user wants done to which memory.
//!
//! [`policy`] says it: contexts, each with targets, monitoring attributes and schemes. It comes
//! from a file ([`policy::parse`]), from the knobs of a ready-made one ([`ready`]), or from DAMON's
//! historic formats ([`damos`]); [`run`] does what it says.
//!
//! [`recorder`] writes what a monitor sees into a file.
//!
//! Nothing here prints. All but [`run`], [`tier`] and [`recorder`] are values and plain functions.

pub mod damos;
pub mod monitor;
pub mod policy;
pub mod push;
pub mod ready;
pub mod recorder;
pub mod run;
pub mod session;
pub mod text;
pub mod tier;
