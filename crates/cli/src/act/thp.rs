//! `isotherm thp`: huge pages where memory is hot.

use std::process::ExitCode;

use isotherm_agent::ready::Thp;
use isotherm_agent::units::{interval_us_with_unit, size};

use super::args::{ConfirmArgs, LimitArgs, RunArgs, WhoseArgs, set_apply_interval, share};
use super::drive::{Extra, print_or_drive};

/// Arguments of `isotherm thp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// From which access frequency on a region counts as hot.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    hot_min: u32,
    /// The least size of a region.
    #[arg(long, value_name = "SIZE", default_value = "2M", value_parser = size)]
    min_size: u64,
    /// The least share of a huge page's small pages that must have been touched.
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    min_touched: u32,
    /// With --inject: what was idle for so long gets no new huge pages.
    #[arg(long, value_name = "TIME", default_value = "7s", value_parser = interval_us_with_unit)]
    cold_age: u64,
    /// Let targets be stopped for a moment to make them call madvise themselves: the only way to
    /// hugepage and nohugepage.
    #[arg(long)]
    inject: bool,
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
    let mut knobs = Thp {
        whose: args.whose.whose()?,
        hot_min_bp: args.hot_min,
        min_size: args.min_size,
        min_touched_bp: args.min_touched,
        cold_min_age_us: args.cold_age,
        inject: args.inject,
        confirm: args.confirm.confirm()?,
        dry_run: args.run.dry_run,
        ..Thp::default()
    };
    args.limits.apply(&mut knobs.limits);
    let mut policy = knobs.policy();
    set_apply_interval(&mut policy, args.apply_interval);
    print_or_drive(policy, &args.whose, &args.run, Extra::default())
}
