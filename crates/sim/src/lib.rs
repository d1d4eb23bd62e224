//! Workload configs, the accesses they mean, and the truth about what was accessed.
//!
//! Everything in this crate is pure: it has no clock, maps no memory of its own, and draws no
//! unseeded randomness. The same config is run by a real process (`isotherm workload`) and by a
//! simulated one.

pub mod config;
pub mod pattern;
pub mod truth;
pub mod world;
