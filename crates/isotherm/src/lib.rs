//! Isotherm: which memory of a process is hot, which is cold, and schemes that act on it. Data
//! access monitoring as the kernel's DAMON does it, from user space.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use isotherm::{Monitor, Scheme};
//!
//! fn main() -> Result<(), isotherm::Error> {
//!     let pid = 4711;
//!     let builder = Monitor::builder().pid(pid).children(true).sample(Duration::from_millis(5));
//!     let mut monitor = builder.build()?;
//!     monitor.add_scheme(Scheme::pageout().idle_for(Duration::from_secs(3)).dry_run())?;
//!     while let Some(snapshot) = monitor.next_snapshot()? {
//!         println!("{}", snapshot.working_set());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The same lines run over a [simulated workload](sim), which needs no process and no privilege;
//! the examples of this documentation do, and tests of programs that use this library can.
//!
//! | to | see |
//! |---|---|
//! | say what to watch, and how | [`Monitor::builder`], [`monitor::Builder`] |
//! | read what was seen | [`snapshot`] |
//! | act on memory | [`scheme`] |
//! | keep what was seen | [`record`], [`report`] |
//! | know what works on a machine | [`doctor`] |
//! | test without a process | [`sim`] |
//! | look at memory that Isotherm does not know | [`operations`] |
//! | reach the layers below, without promises | [`raw`] |
//!
//! # What is promised
//!
//! Versions follow semver for all but [`raw`] and what is re-exported from there. Times are
//! [`Duration`](std::time::Duration)s, sizes [`Bytes`], shares `f64` from 0 to 1. Numbers come with
//! 90 % intervals where they are estimates, and "nobody could look" is told apart from "never
//! accessed". A scheme that takes memory away has finite limits unless told otherwise, and counts
//! as done only what a look afterwards showed. Nothing is printed.
#![forbid(unsafe_code)]

mod bytes;
pub mod doctor;
mod error;
mod event;
pub mod monitor;
pub mod operations;
pub mod raw;
pub mod record;
pub mod report;
pub mod scheme;
pub mod sim;
pub mod snapshot;
mod units;

pub use bytes::Bytes;
pub use error::{Error, ErrorKind};
pub use event::Event;
pub use monitor::Monitor;
pub use scheme::Scheme;
pub use snapshot::Snapshot;
