//! What a user sees when something is wrong: the message, the exit code, and what is left behind.
//!
//! Every test runs the program itself, with any privileges. `record` uses the best set that the
//! machine allows, so a test may rely only on what all sets do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a test that skips something says why")]

mod acting;
mod idle;
mod policy;
mod program;
mod record;
mod report;
mod rights;
mod shared;
mod streams;
mod usage;
mod verdict;
