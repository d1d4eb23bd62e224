//! Tracing kernel DAMON: lines and pages as real kernels wrote them, and a real kernel in a VM.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]
#![expect(clippy::print_stderr, reason = "says why a test skips, and what it measured")]

#[path = "tracefs/kdamond.rs"]
mod kdamond;
#[path = "tracefs/lines.rs"]
mod lines;
#[path = "tracefs/live.rs"]
mod live;
#[path = "tracefs/windows.rs"]
mod windows;
