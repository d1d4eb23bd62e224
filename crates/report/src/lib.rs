//! Reports on a record, as text, JSON, SVG, PNG or a page for a browser.
//!
//! Every report reads the record as a stream, so that an hour of it needs no more memory than a
//! minute. A [`Filter`] says which part of the record a report is about. Nothing in this crate
//! prints or knows a terminal. The caller says what the terminal can do with a
//! [`Style`](heatmap::Style). A report is returned as a `String` or written to an `impl Write`.
//!
//! A region is *hot* or *cold* by its rate, `nr_accesses / max_nr_accesses`, and by how many of its
//! pages were touched within a window where that is known. Bytes are *unresolved* if the operations
//! set could not look at them. They are never counted as cold.
#![forbid(unsafe_code)]

pub mod ages;
pub mod cgroups;
pub mod diff;
pub mod error;
pub mod filter;
pub mod heatmap;
pub mod html;
pub mod mappings;
pub mod memory;
mod numbers;
pub mod page_maps;
pub mod pages;
pub mod plan;
pub mod price;
mod rate;
pub mod regions;
pub mod replay;
pub mod scan;
pub mod score;
mod shown;
pub mod summary;
pub mod wss;

pub use error::Error;
pub use filter::Filter;
pub use scan::{Scan, TargetState};

/// Version of the JSON reports. It is increased when a key changes its meaning or is removed. The
/// lines of `regions` carry no version.
pub const SCHEMA_VERSION: u32 = 1;
