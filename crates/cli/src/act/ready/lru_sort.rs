//! `isotherm lru-sort`: makes cold memory the first that the kernel reclaims.

use std::process::ExitCode;

use isotherm::raw::agent::ready::LruSort;
use isotherm::raw::core::units::interval_us_with_unit;

use super::ReadyArgs;
use crate::act::args::share;

/// Arguments of `isotherm lru-sort`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, next_help_heading = "Action")]
pub(crate) struct Args {
    /// Memory idle for this long counts as cold.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = interval_us_with_unit)]
    age: u64,
    /// Bring swapped pages of hot regions back before they are accessed.
    #[arg(long, hide_short_help = true)]
    hot: bool,
    /// Regions with at least this access frequency count as hot.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "50%",
        value_parser = share,
        hide_short_help = true
    )]
    hot_min: u32,
    /// Tune the quota so that this share of memory is on the active lists.
    #[arg(long, value_name = "SHARE", value_parser = share, hide_short_help = true)]
    active_mem: Option<u32>,
    /// Leave pages alone that were accessed since the last look at them.
    #[arg(long, hide_short_help = true)]
    skip_young: bool,
    /// Tune the intervals so that 0.4 % of the samples see an access.
    #[arg(long, hide_short_help = true)]
    autotune: bool,
    #[command(flatten)]
    ready: ReadyArgs,
}

const EXAMPLES: &str = "Examples:
  isotherm lru-sort 1234 --age 1m        what was idle for a minute goes first
  isotherm lru-sort --cgroup '/app/*'    of all processes in cgroups";

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut knobs = LruSort {
        whose: args.ready.whose.whose()?,
        cold_min_age_us: args.age,
        hot: args.hot,
        hot_min_bp: args.hot_min,
        active_mem_bp: args.active_mem,
        skip_young: args.skip_young,
        autotune: args.autotune,
        confirm: args.ready.confirm.confirm()?,
        dry_run: args.ready.run.dry_run,
        ..LruSort::default()
    };
    args.ready.limit(&mut knobs.limits);
    args.ready.drive(knobs.policy())
}
