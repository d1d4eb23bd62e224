//! `isotherm lru-sort`: cold memory becomes the first to be reclaimed.

use std::process::ExitCode;

use isotherm_agent::ready::LruSort;
use isotherm_core::units::interval_us_with_unit;

use super::args::share;
use super::ready::ReadyArgs;

/// Arguments of `isotherm lru-sort`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What was idle for so long counts as cold.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = interval_us_with_unit)]
    age: u64,
    /// Bring swapped pages of hot regions back before they are missed.
    #[arg(long)]
    hot: bool,
    /// From which access frequency on a region counts as hot.
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    hot_min: u32,
    /// Tune the quota for this share of active memory.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    active_mem: Option<u32>,
    /// Leave pages alone that were accessed since they were last looked at.
    #[arg(long)]
    skip_young: bool,
    /// Tune the intervals for 0.4 % of positive samples.
    #[arg(long)]
    autotune: bool,
    #[command(flatten)]
    ready: ReadyArgs,
}

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
    args.ready.limits.apply(&mut knobs.limits);
    args.ready.drive(knobs.policy())
}
