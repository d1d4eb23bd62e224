//! Kernel DAMON's tracepoints (event system `damon`), read from tracefs without perf or trace-cmd.
//!
//! A [`Trace`] is a trace instance of our own (`instances/isotherm-...`): its buffer, switches and
//! filters are nobody else's, and nobody else's are ours. It goes when dropped; what a killed owner
//! left is removed by the next one. Where tracefs is not mounted it is mounted to a file descriptor
//! only, which no other process sees.
//!
//! # Binary, not text
//!
//! `trace_pipe` has the kernel format every event, under options that a stranger may set for all
//! instances made later (`hex`, `raw`, `fields`, no context at all). So the events are read as they
//! lie in the ring buffers, per CPU (`per_cpu/cpuN/trace_pipe_raw`), and taken apart by what the
//! running kernel says of them: `events/header_page` and each event's `format`. A field that moved,
//! grew or came later is found; one that is missing is an error that names it.
//!
//! # What is lost is told
//!
//! The ring buffer overwrites its oldest events. The page behind a hole says how many there were:
//! [`Item::Lost`] stands where they stood. [`Windows`] groups events to whole aggregation windows
//! per kdamond, checks each against the number of regions that its own lines tell, and gives a
//! window with a hole as [`Torn`], never as a smaller window.
//!
//! Time stamps are nanoseconds of `CLOCK_MONOTONIC`, as [`isotherm_sys::clock`]'s.
//!
//! Absent: switching DAMON on (`damon`), and any opinion about regions.

mod error;
mod event;
mod format;
mod instance;
mod page;
mod place;
mod stats;
mod text;
mod trace;
mod windows;

pub use error::TraceError;
pub use event::{AggregatedRegion, AppliedRegion, Event, EventKind, Record, SchemeStats};
// Public for the fuzz targets only.
#[doc(hidden)]
pub use event::Layout;
pub use format::{Format, FormatError, PageHeader};
pub use instance::{Leftovers, remove_leftovers};
pub use page::{Broken, Page, Payload};
pub use place::Place;
pub use stats::BufferStats;
pub use text::{Line, parse_line};
pub use trace::{Item, Loss, Options, Trace};
pub use windows::{TargetWindow, Torn, Window, Windows};
