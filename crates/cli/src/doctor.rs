//! `isotherm doctor`: what this machine can do, tested.

use std::io::Write;
use std::process::ExitCode;

use isotherm_ops::doctor;

use crate::exit;

/// Arguments of `isotherm doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// Also test the kernel's DAMON. Starts a kdamond for about three seconds, in which no other
    /// program can configure one.
    #[arg(long)]
    kdamond: bool,
}

/// Runs the subcommand. Exit code 3 if no set works.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let report = doctor::run_to(doctor::Depth { kdamond: args.kdamond });
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{report}")?;
    }
    let usable = report.sets.iter().any(|set| set.usable);
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::from(exit::NOT_SUPPORTED) })
}
