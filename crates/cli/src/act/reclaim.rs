//! `isotherm reclaim`: what was idle for long goes to swap.

use std::process::ExitCode;

use isotherm_agent::ready::Reclaim;
use isotherm_agent::units::interval_us_with_unit;

use super::args::{ConfirmArgs, LimitArgs, RunArgs, WhoseArgs, set_apply_interval};
use super::drive::{Extra, print_or_drive};

/// Arguments of `isotherm reclaim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Page out what was idle for so long.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = interval_us_with_unit)]
    age: u64,
    /// Leave anonymous memory alone; then no swap is needed.
    #[arg(long)]
    skip_anon: bool,
    /// Memory that is touched within so long counts as refaulted (default 10s).
    #[arg(long, value_name = "TIME", value_parser = interval_us_with_unit)]
    refault_window: Option<u64>,
    /// Tune the intervals for 0.4 % of positive samples.
    #[arg(long)]
    autotune: bool,
    /// Look for regions to act on this often (default: each aggregation interval).
    #[arg(long, value_name = "TIME", value_parser = interval_us_with_unit)]
    apply_interval: Option<u64>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    whose: WhoseArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut knobs = Reclaim {
        whose: args.whose.whose()?,
        min_age_us: args.age,
        confirm: args.confirm.confirm()?,
        skip_anon: args.skip_anon,
        autotune: args.autotune,
        dry_run: args.run.dry_run,
        ..Reclaim::default()
    };
    args.limits.apply(&mut knobs.limits);
    if let Some(us) = args.refault_window {
        knobs.refault_window_us = us;
    }
    let mut policy = knobs.policy();
    set_apply_interval(&mut policy, args.apply_interval);
    print_or_drive(policy, &args.whose, &args.run, Extra::default())
}
