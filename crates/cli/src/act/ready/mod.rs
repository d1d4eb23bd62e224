//! The commands with a ready-made policy: `reclaim`, `thp` and `lru-sort`. Here are the options
//! that they share, and how their policies are run.

pub(crate) mod lru_sort;
pub(crate) mod reclaim;
pub(crate) mod thp;

use std::process::ExitCode;

use isotherm::raw::agent::policy::Policy;
use isotherm::raw::agent::ready::Limits;
use isotherm::raw::core::scheme::Watermarks;
use isotherm::raw::core::units::interval_us_with_unit;

use crate::act::args::{ConfirmArgs, LimitArgs, RunArgs, WhoseArgs};
use crate::act::drive::{Extra, print_or_drive};

/// Options of each ready-made command.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadyArgs {
    #[command(flatten)]
    pub(crate) whose: WhoseArgs,
    /// Look for matching regions this often.
    ///
    /// By default every aggregation interval.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = interval_us_with_unit,
        help_heading = "Action",
        hide_short_help = true
    )]
    apply_interval: Option<u64>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

impl ReadyArgs {
    /// The limits that were asked for. Who names processes wants these acted on, however much
    /// memory is free.
    pub(crate) fn limit(&self, limits: &mut Limits) {
        if self.whose.is_explicit() {
            limits.watermarks = Watermarks::default();
        }
        self.limits.apply(limits);
    }

    /// Runs `policy`, which was made from the command's options.
    pub(crate) fn drive(&self, mut policy: Policy) -> anyhow::Result<ExitCode> {
        if let Some(us) = self.apply_interval {
            for scheme in policy.contexts.iter_mut().flat_map(|c| &mut c.schemes) {
                scheme.scheme.apply_interval_us = us;
            }
        }
        print_or_drive(policy, &self.whose, &self.run, Extra::default())
    }
}
