//! How targets are named, what `wss` says of them, and the help.
//!
//! Every test runs the program itself, with any privileges. The processes that it starts are its
//! own, and so are the cgroups, which it removes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a test that skips something says why")]

mod help;
mod metrics;
mod named;
mod online;
mod places;
mod plan;
mod reclaim;
mod tune;

#[path = "../faults/program.rs"]
#[expect(dead_code, reason = "shared with the tests in faults")]
mod program;
