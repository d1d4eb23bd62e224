//! Differential test: what the kernel's DAMON made of its regions, window after window, explained
//! by our core.
//!
//! A trace of `damon_aggregated` shows the regions of each window, after merging and ageing. What
//! lies between two windows is not seen: where regions were cut, how many samples each piece got,
//! the largest count. `explain` searches for values of these with which the core's own functions
//! make the next window out of the one before, to the last rounding; if there are none, core and
//! kernel differ.
//!
//! `committed` runs over traces of real kernels (`replay/traces/README.md`), `damaged` shows that
//! the search refuses what cannot be, `model` that it accepts what our own loop does, and `live`
//! runs on fresh traces in the lab's VMs.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]
#![expect(clippy::print_stderr, reason = "says why a test skips, and what it explained")]

#[path = "replay/committed.rs"]
mod committed;
#[path = "replay/damaged.rs"]
mod damaged;
#[path = "replay/explain.rs"]
mod explain;
#[path = "tracefs/kdamond.rs"]
mod kdamond;
#[path = "replay/live.rs"]
mod live;
#[path = "replay/model.rs"]
mod model;
#[path = "replay/search.rs"]
mod search;
#[path = "replay/trace_file.rs"]
mod trace_file;
