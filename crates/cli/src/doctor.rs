//! `isotherm doctor`: tests what this machine can do, and shows it.

use std::io::Write;
use std::process::ExitCode;

use isotherm::raw::ops::doctor;

use crate::exit;

/// Arguments of `isotherm doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Also test the kernel's DAMON. This starts a kdamond for about three seconds, during which no
    /// other program can configure DAMON.
    #[arg(long)]
    kdamond: bool,
}

/// Runs the subcommand. The exit code is 3 if no operations set works.
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
