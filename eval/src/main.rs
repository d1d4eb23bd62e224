//! `isotherm-eval`: measures Isotherm on this machine, and keeps what it measured.
//!
//! A *job* has four parts ([`job::Job`]): `sysreqs` says what the machine should have, `run` makes
//! raw files by driving the `isotherm` binary as a user would, `study` turns raw files into a
//! result, and `format` turns a result into a table. Each part needs only what the one before left
//! in the result directory ([`dir::ResultDir`]), so a better `study` can be run on old raw files.
//!
//! The machine may be busy with other things: results are medians with intervals, and the load at
//! the start and the end is kept beside them. No job asserts a time.

mod cli;
mod dir;
mod job;
mod jobs;
mod measure;
mod processes;
mod programs;
mod readings;
mod requirement;
mod stats;
mod system;
mod table;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done if even the error cannot be shown.
            writeln!(std::io::stderr(), "error: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}
