//! Kernel DAMON's tracepoints (event system `damon`), read from tracefs without perf or trace-cmd.
//!
//! A [`Trace`] is a trace instance of our own (`instances/isotherm-...`). Its buffer, switches and
//! filters are separate from those of all other tracers. Dropping it removes the instance; what a
//! killed owner left is removed by the next one. If tracefs is not mounted, it is mounted to a file
//! descriptor only, which no other process sees.
//!
//! # Binary, not text
//!
//! With `trace_pipe` the kernel formats every event, under options that any other program may set
//! for all later instances (`hex`, `raw`, `fields`, no context at all). So this module reads the
//! events in binary from the ring buffers of each CPU (`per_cpu/cpuN/trace_pipe_raw`). It decodes
//! them by the running kernel's own description: `events/header_page` and each event's `format`. A
//! field that moved or grew is found. A missing field is an error that names it.
//!
//! # Lost events are reported
//!
//! The ring buffer overwrites its oldest events. The page behind a hole says how many were lost,
//! and [`Item::Lost`] stands in their place. [`Windows`] groups events to whole aggregation windows
//! per kdamond, and checks each window against the number of regions in its own lines. A window
//! with a hole is given as [`Torn`], never as a smaller window.
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

pub use error::{TraceError, TraceKind};
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
