//! The tree over an engine that runs nothing: every file, mode, value and errno, and the commands.
#![expect(clippy::unwrap_used, reason = "a test")]

mod commands;
mod debugfs;
mod fake;
mod fuzz;
mod fuzz_debugfs;
mod fuzz_nr;
mod layout;
mod modules;
mod values;
