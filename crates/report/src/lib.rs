//! Reports: a record in, text, JSON, SVG or PNG out.
//!
//! Every report reads the record as a stream, so that an hour of it needs no more memory than a
//! minute. A [`Filter`] says which part it is about. Nothing here prints or knows a terminal: what
//! a terminal can do comes in as a [`Style`](heatmap::Style), what goes out is a `String` or goes
//! into an `impl Write`.
//!
//! Words: a region is *hot* or *cold* by its rate, `nr_accesses / max_nr_accesses`; *unresolved*
//! bytes are those that the operations set could not look at, and they are never counted as cold.
#![forbid(unsafe_code)]

pub mod ages;
pub mod error;
pub mod filter;
pub mod heatmap;
pub mod mappings;
pub mod memory;
mod numbers;
pub mod regions;
pub mod scan;
pub mod score;
pub mod wss;

pub use error::Error;
pub use filter::Filter;
pub use scan::{Scan, TargetState};

/// Shape of the JSON reports (but for `regions`, whose lines carry no version): counts up when a
/// key changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;
