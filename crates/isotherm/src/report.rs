//! Reports from a record: working set, heatmap, regions, mappings, ages.
//!
//! Each report is built from a [`Record`](crate::record::Record) and a [`Filter`], and gives text,
//! JSON or pictures. Records are read as a stream, so an hour needs no more memory than a minute.
//!
//! ```
//! use std::time::Duration;
//!
//! use isotherm::Monitor;
//! use isotherm::record::{Record, Recorder};
//! use isotherm::report::{Filter, wss};
//! use isotherm::sim::Workload;
//!
//! let workload = Workload::parse("heap, 8M\n\nbusy\n2000\nheap, 1, 64, 1, length=4M\n")?;
//! let mut monitor = Monitor::builder().sim(workload).build()?;
//! let mut recorder = Recorder::new(Vec::new(), &monitor)?;
//! while let Some(snapshot) = monitor.next_snapshot()? {
//!     recorder.push(&snapshot)?;
//! }
//! let (bytes, _) = recorder.finish("the example is over")?;
//!
//! let report = wss::Report::build(&Record::from_bytes(bytes)?, &Filter::default())?;
//! assert_eq!(report.points.len(), 20);
//! println!("{}", report.to_text(wss::Order::Size));
//! # Ok::<(), isotherm::Error>(())
//! ```

pub use isotherm_report::{
    Error, Filter, SCHEMA_VERSION, ages, diff, heatmap, html, mappings, memory, regions, score, wss,
};
