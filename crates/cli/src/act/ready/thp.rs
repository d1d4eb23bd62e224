//! `isotherm thp`: huge pages where memory is hot.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm::raw::agent::ready::Thp;
use isotherm::raw::core::units::{interval_us_with_unit, size};

use super::ReadyArgs;
use crate::act::args::share;
use crate::exit::usage;

/// Arguments of `isotherm thp`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, next_help_heading = "Action")]
pub(crate) struct Args {
    /// Regions with at least this access frequency count as hot.
    ///
    /// With the method census, units of 2 MiB in other regions that are in use count as well, if
    /// enough of their pages are touched (`--min-touched`).
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "5%",
        value_parser = share,
        hide_short_help = true
    )]
    hot_min: u32,
    /// Smallest size of a region to act on.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "2M",
        value_parser = size,
        hide_short_help = true
    )]
    min_size: u64,
    /// Smallest share of a huge page's small pages that must have been touched.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "50%",
        value_parser = share,
        hide_short_help = true
    )]
    min_touched: u32,
    /// With --inject: memory that was idle for this long gets no new huge pages.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "7s",
        value_parser = interval_us_with_unit,
        hide_short_help = true
    )]
    cold_age: u64,
    /// Whether huge pages have to pay: `auto` tries them on a sample first.
    ///
    /// What is saved is seen by `--progress`, or else by how fast and in which order the target
    /// touches its pages. A sample that does not pay gets small pages again.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_short_help = true)]
    prove: Prove,
    /// A file whose last number counts the target's work, to prove by.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    progress: Option<PathBuf>,
    /// Stop targets for a moment to make them call madvise themselves.
    ///
    /// The actions hugepage and nohugepage need it.
    #[arg(long)]
    inject: bool,
    #[command(flatten)]
    ready: ReadyArgs,
}

/// Whether huge pages have to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Prove {
    /// As well as can be seen here.
    Auto,
    /// Collapse whatever matches.
    Off,
}

const EXAMPLES: &str = "Examples:
  isotherm thp 1234 --dry-run            where huge pages would be made
  isotherm thp --unit redis --inject     also takes huge pages from cold memory";

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.progress.is_some() && args.prove == Prove::Off {
        return Err(usage(
            "--progress with --prove off\n  why:   only a trial of huge pages asks how the target gets \
             on\n  hint:  leave out one of them",
        ));
    }
    let mut knobs = Thp {
        whose: args.ready.whose.whose()?,
        hot_min_bp: args.hot_min,
        min_size: args.min_size,
        min_touched_bp: args.min_touched,
        cold_min_age_us: args.cold_age,
        inject: args.inject,
        prove: args.prove == Prove::Auto,
        progress: args.progress,
        confirm: args.ready.confirm.confirm()?,
        dry_run: args.ready.run.dry_run,
        ..Thp::default()
    };
    args.ready.limits.apply(&mut knobs.limits);
    args.ready.drive(knobs.policy())
}
