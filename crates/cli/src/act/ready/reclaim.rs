//! `isotherm reclaim`: pages out memory that was idle for long.

use std::process::ExitCode;

use isotherm::raw::agent::ready::Reclaim;
use isotherm::raw::core::units::interval_us_with_unit;

use super::ReadyArgs;

/// Arguments of `isotherm reclaim`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, next_help_heading = "Action")]
pub(crate) struct Args {
    /// Page out memory that was idle for this long.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = interval_us_with_unit)]
    age: u64,
    /// Leave anonymous memory alone. No swap is needed then.
    #[arg(long, hide_short_help = true)]
    skip_anon: bool,
    /// Memory that is touched so soon after it was paged out counts as refaulted.
    ///
    /// The default is 10s.
    #[arg(long, value_name = "TIME", value_parser = interval_us_with_unit, hide_short_help = true)]
    refault_window: Option<u64>,
    /// Tune the intervals so that 0.4 % of the samples see an access.
    #[arg(long, hide_short_help = true)]
    autotune: bool,
    #[command(flatten)]
    ready: ReadyArgs,
}

const EXAMPLES: &str = "Examples:
  isotherm reclaim 1234 --age 30s --dry-run       what could be paged out
  isotherm reclaim --unit redis --quota 50M/s     at most 50 MiB per second
  isotherm reclaim -a --age 10m --goal psi=1ms/s  all processes, for this much memory pressure";

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut knobs = Reclaim {
        whose: args.ready.whose.whose()?,
        min_age_us: args.age,
        confirm: args.ready.confirm.confirm()?,
        skip_anon: args.skip_anon,
        autotune: args.autotune,
        dry_run: args.ready.run.dry_run,
        ..Reclaim::default()
    };
    args.ready.limit(&mut knobs.limits);
    if let Some(us) = args.refault_window {
        knobs.refault_window_us = us;
    }
    args.ready.drive(knobs.policy())
}
