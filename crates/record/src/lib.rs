//! The record: a file of snapshots that survives the death of its recorder.
//!
//! ```
//! use isotherm_core::{Snapshot, TargetId, Time};
//! use isotherm_record::{Event, Header, Mapping, Record, Target, Writer};
//!
//! # fn main() -> Result<(), isotherm_record::Error> {
//! let mut w = Writer::new(Vec::new(), &Header { host: "node-17".into(), ..Header::default() })?;
//! w.target(&Target { id: 0, pid: 4711, name: "postgres".into(), ..Target::default() })?;
//! w.mappings(Time(0), TargetId(0), &[Mapping::new(0x1000, 0x9000, "rw-p", "[heap]")])?;
//! w.push_snapshot(&Snapshot::default())?;
//! let (bytes, _) = w.finish(Time(1), "the example is over")?;
//!
//! let mut reader = Record::from_bytes(bytes)?.reader()?;
//! let mut snapshots = 0;
//! while let Some(event) = reader.next_event()? {
//!     if let Event::Snapshot(_) = event {
//!         snapshots += 1;
//!     }
//! }
//! assert_eq!((snapshots, reader.ended()), (1, true));
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: a frame is read whole or not at all. Frames do not depend on each other. Everything
//! but the error bars is stored exactly; error bars may grow by at most 1/255 of the maximum. Of a
//! unit whose pages changed several times within a second, the last state is stored.
//!
//! Absent on purpose: an index (a record is read front to back at tens of millions of regions a
//! second), rewriting in place, and any knowledge of processes or the kernel.
#![forbid(unsafe_code)]

mod cgroups;
pub mod damo;
mod encoding;
mod error;
mod event;
pub mod export;
mod format;
mod frame;
mod frames;
mod mapping;
pub mod once;
mod pages;
mod place;
mod reader;
mod source;
pub mod working_set;
mod writer;

pub use cgroups::{CgroupUse, Cgroups, PagedOut};
pub use error::Error;
pub use event::{AttrsInfo, End, Event, Exec, Exit, Header, Note, Target};
pub use format::{MAX_PAYLOAD, VERSION};
pub use frame::Damage;
pub use frames::{Frame, Frames, NodeRanges, Owner, Ram, Touch};
pub use isotherm_core::MappingKind;
pub use mapping::{Mapping, Object};
pub use pages::{ChangedUnit, PageWindow, Pages};
pub use place::Place;
pub use reader::Reader;
pub use source::{Input, Record, join};
pub use writer::{FLUSH_NS, Writer, Written};
