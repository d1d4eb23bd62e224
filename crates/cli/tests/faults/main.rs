//! What a user sees when something is wrong: the message, the exit code, and what is left behind.
//!
//! Everything goes through the program itself. Whatever the privileges are: `record` uses the best
//! set that the machine allows, so a test may only rely on what all sets do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a test that skips something says why")]

mod acting;
mod files;
mod idle;
mod policy;
mod program;
mod record;
mod report;
mod usage;
