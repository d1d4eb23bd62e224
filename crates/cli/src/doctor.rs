//! `isotherm doctor`: tests what this machine can do, and shows it.

use std::io::Write;
use std::process::ExitCode;

use isotherm::raw::ops::doctor;

use crate::exit;
use crate::terminal::ColorArg;

/// Arguments of `isotherm doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object.
    #[arg(long, conflicts_with = "long")]
    json: bool,
    /// Print all that was found, instead of one screen.
    #[arg(short = 'v', long, visible_alias = "verbose")]
    long: bool,
    /// Also test the kernel's DAMON.
    ///
    /// This starts a kdamond for about three seconds, during which no other program can configure
    /// DAMON.
    #[arg(long)]
    kdamond: bool,
    #[command(flatten)]
    color: ColorArg,
}

/// Runs the subcommand. The exit code is 3 if no operations set works.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let report = doctor::run_to(doctor::Depth { kdamond: args.kdamond });
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else if args.long {
        writeln!(out, "{report}")?;
    } else {
        let text = report.brief();
        writeln!(out, "{}", if args.color.is_on() { coloured(&text) } else { text })?;
    }
    let usable = report.sets.iter().any(|set| set.usable);
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::from(exit::NOT_SUPPORTED) })
}

/// The short report with what matters marked: what to do, and the answers.
fn coloured(text: &str) -> String {
    let line = |line: &str| {
        let mark =
            |word: &str, code: u8| line.replacen(word, &format!("\x1b[{code}m{word}\x1b[0m"), 1);
        match line.split_whitespace().nth(1) {
            _ if line.trim_start().starts_with("fix:") => mark("fix:", 1),
            Some("yes") => mark("yes", 32),
            Some("no") => mark("no", 31),
            _ => line.to_owned(),
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
