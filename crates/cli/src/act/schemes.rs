//! `isotherm schemes`: schemes in one of DAMON's historic text formats.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm::raw::agent::damos::{parse_damos, with_settings};

use super::args::{ConfirmArgs, RunArgs, WhoseArgs};
use super::drive::{Extra, print_or_drive};
use crate::exit::usage;
use crate::files;

/// Arguments of `isotherm schemes`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file of schemes, one per line.
    ///
    /// A line is `min_size max_size min_freq max_freq min_age max_age action`. No bound is `null`
    /// (format of 2020) or `min` and `max` (later).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Stop targets for a moment to make them call madvise themselves.
    ///
    /// The actions hugepage and nohugepage need it.
    #[arg(long, help_heading = "Action", hide_short_help = true)]
    inject: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    whose: WhoseArgs,
}

const EXAMPLES: &str = "Examples:
  isotherm schemes FILE -p 1234 --dry-run    what the schemes would do to a process
  isotherm schemes FILE --print-policy       the same schemes as a policy";

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text =
        files::text(&args.file, "a scheme is a line such as `4K max 0% 0% 10s max pageout`")?;
    let whose = args.whose.whose()?;
    let name = args.file.display().to_string();
    let schemes = parse_damos(&text, &name, &whose.attrs)
        .map_err(|e| usage(format!("the schemes are not valid\n{e}")))?;
    let schemes = with_settings(schemes, &whose.attrs, args.confirm.confirm()?, args.inject);
    let policy = whose.policy("schemes", schemes);
    print_or_drive(policy, &args.whose, &args.run, Extra::default())
}
