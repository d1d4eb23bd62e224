//! `isotherm`: which memory of a process is hot, which is cold.
//!
//! The only crate that prints. Each subcommand is a module with its `Args` and a `run`; results go to
//! standard output, everything about the run itself to standard error.

mod exit;
mod workload;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows which memory of a process is hot and which is cold.
#[derive(Debug, Parser)]
#[command(name = "isotherm", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a process with a known access pattern, and write down what it really accessed.
    Workload(workload::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Workload(args) => workload::run(args),
    };
    done.unwrap_or_else(|error| {
        // Nothing can be done if even the error cannot be shown.
        writeln!(std::io::stderr(), "error: {error:#}").ok();
        exit::code_of(&error)
    })
}
