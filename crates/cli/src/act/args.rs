//! Options that several of the commands share.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use isotherm::raw::agent::policy::{ContextPolicy, Engine, Policy, defaults, print};
use isotherm::raw::agent::ready::knobs::{self, GoalKnob, Rate};
use isotherm::raw::agent::ready::{Confirm, Limits, Whose};
use isotherm::raw::core::Method;
use isotherm::raw::core::scheme::{Watermarks, Weights};
use isotherm::raw::core::units::{UnitError, duration, interval_us_with_unit, share_bp};

use crate::exit::usage;
use crate::options::attrs::AttrsArgs;
use crate::options::metrics::MetricsArgs;
use crate::options::targets::TargetArgs;

/// Options that say how a policy is run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArgs {
    /// Stop after this time (as 30s or 5m).
    ///
    /// A command that was started then gets SIGTERM, and its status is the exit code (143 if that
    /// ended it). If it still runs 2 s later, it is left alone, and that is said (exit code 6).
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits", hide_short_help = true)]
    pub(crate) duration: Option<Duration>,
    /// Decide and count, but change nothing.
    ///
    /// The account at the end says what would have been done.
    #[arg(long, help_heading = "Action")]
    pub(crate) dry_run: bool,
    /// Print the account as one JSON object, on the last line.
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub(crate) json: bool,
    /// Write every event to this file, one JSON object per line.
    ///
    /// `-` means standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub(crate) events: Option<PathBuf>,
    /// At the end, take back the huge-page advice that was set in the targets.
    #[arg(long, help_heading = "Action", hide_short_help = true)]
    pub(crate) undo_on_exit: bool,
    /// Print only warnings, errors and the account.
    #[arg(long, short, help_heading = "Output", hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Seed for the random choice of pages.
    #[arg(long, help_heading = "Monitoring", hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
}

/// `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineArg {
    /// The kernel, if it can apply every scheme and none asks for evidence. Otherwise Isotherm.
    Auto,
    /// The kernel. An error if it cannot apply a scheme.
    Kernel,
    /// Isotherm, based on the kernel's snapshots.
    Isotherm,
}

impl EngineArg {
    const fn engine(self) -> Engine {
        match self {
            Self::Auto => Engine::Auto,
            Self::Kernel => Engine::Kernel,
            Self::Isotherm => Engine::Isotherm,
        }
    }
}

/// Options that say whose memory is watched, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct WhoseArgs {
    #[command(flatten)]
    targets: TargetArgs,
    /// With --ops kdamond: who applies the schemes.
    ///
    /// `auto` takes the kernel if it can do all that the schemes ask for, otherwise Isotherm.
    #[arg(
        long,
        value_enum,
        default_value_t = EngineArg::Auto,
        help_heading = "Monitoring",
        hide_short_help = true
    )]
    engine: EngineArg,
    #[command(flatten)]
    attrs: AttrsArgs,
    /// Print these options as a policy file for `isotherm run`, and exit.
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    print_policy: bool,
}

impl WhoseArgs {
    /// The targets and attributes.
    pub(crate) fn whose(&self) -> anyhow::Result<Whose> {
        if !self.print_policy {
            self.targets.require()?;
        }
        let mut targets = self.targets.specs()?;
        let (ops, mut attrs) = (self.targets.ops().wanted(), self.attrs.attrs(Method::Census)?);
        if self.attrs.is_auto() {
            let context = ContextPolicy { targets, ops, attrs, ..ContextPolicy::default() };
            attrs.method = defaults::method(&context);
            targets = context.targets;
        }
        let (children, engine) = (self.targets.follow(), self.engine.engine());
        Ok(Whose { targets, children, ops, engine, attrs })
    }

    /// Whether the targets are processes that were named by pid or started, and no others.
    pub(crate) fn is_explicit(&self) -> bool {
        self.targets.names_processes_only()
    }

    /// Fails if one of the pids cannot be a target. On a command line that is a mistake, so nothing
    /// is begun.
    pub(crate) fn refuse_missing(&self) -> anyhow::Result<()> {
        self.targets.attach().map(drop)
    }

    /// Prints the policy if `--print-policy` was given.
    pub(crate) fn only_print(&self, policy: &Policy) -> anyhow::Result<Option<ExitCode>> {
        if self.print_policy {
            std::io::stdout().lock().write_all(print(policy).as_bytes())?;
            return Ok(Some(ExitCode::SUCCESS));
        }
        Ok(None)
    }
}

/// A rate, or `none` for no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaybeRate(Option<Rate>);

fn size_rate(text: &str) -> Result<MaybeRate, UnitError> {
    knobs::size_rate(text).map(MaybeRate)
}

fn time_rate(text: &str) -> Result<MaybeRate, UnitError> {
    knobs::time_rate(text).map(MaybeRate)
}

/// Options that limit a scheme.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Act on at most this much memory per time, as 200M/s.
    ///
    /// Or 1G/10s, or none for no limit.
    #[arg(long, value_name = "SIZE/TIME", value_parser = size_rate)]
    quota: Option<MaybeRate>,
    /// Spend at most this much time on actions per time: 10ms/s, or none.
    #[arg(long, value_name = "TIME/TIME", value_parser = time_rate, hide_short_help = true)]
    quota_time: Option<MaybeRate>,
    /// Tune the quota to reach this goal, as psi=0.5ms/s or free=5%.
    ///
    /// Others are refaults=1%, user=CURRENT/TARGET and more; docs/POLICY.md lists them. May be
    /// given more than once.
    #[arg(
        long = "goal",
        value_name = "NAME=VALUE",
        value_parser = knobs::goal,
        hide_short_help = true
    )]
    goals: Vec<GoalKnob>,
    /// Act only while the share of free memory is within HIGH,MID,LOW, or none.
    ///
    /// As 50%,40%,20%; none acts always. `reclaim` and `lru-sort` have none if processes are given
    /// by their pids or as a command.
    #[arg(
        long,
        value_name = "MARKS",
        value_parser = knobs::watermarks,
        hide_short_help = true
    )]
    watermarks: Option<Watermarks>,
    /// When the quota does not suffice for all matching regions, do not prefer any of them.
    #[arg(long, hide_short_help = true)]
    no_priority: bool,
    /// Do not shrink the quota when too much memory is touched again.
    #[arg(long, hide_short_help = true)]
    no_brake: bool,
}

impl LimitArgs {
    /// Replaces in the scheme the limits that were given.
    pub(crate) fn apply(&self, limits: &mut Limits) {
        if let Some(MaybeRate(size)) = self.quota {
            limits.size = size;
        }
        if let Some(MaybeRate(time)) = self.quota_time {
            limits.time = time;
        }
        limits.goals.extend(self.goals.iter().cloned());
        if let Some(marks) = self.watermarks {
            limits.watermarks = marks;
        }
        if self.no_priority {
            limits.weights = Weights::default();
        }
        if self.no_brake {
            limits.brake = None;
        }
    }
}

/// Options that say how much evidence is needed before memory is acted on.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Evidence")]
pub(crate) struct ConfirmArgs {
    /// Look at single pages before they are acted on.
    ///
    /// `off` acts on the regions' numbers alone, as DAMON does.
    #[arg(long, value_enum, default_value_t = EvidenceArg::On, hide_short_help = true)]
    evidence: EvidenceArg,
    /// Act on pages only after they stayed untouched for this long.
    ///
    /// By default the age, but at least 1 s and at most 60 s.
    #[arg(long, value_name = "TIME", value_parser = interval_us_with_unit, hide_short_help = true)]
    confirm: Option<u64>,
}

/// `--evidence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EvidenceArg {
    /// Pages are looked at before they are acted on.
    On,
    /// Pages are not looked at: the regions' numbers decide.
    Off,
}

impl ConfirmArgs {
    /// The choice, as a policy has it.
    pub(crate) fn confirm(&self) -> anyhow::Result<Confirm> {
        match (self.evidence, self.confirm) {
            (EvidenceArg::Off, Some(_)) => Err(usage(
                "--confirm with --evidence off\n  why:   there is nothing to confirm without evidence\n  \
                 hint:  leave one of them out",
            )),
            (EvidenceArg::Off, None) => Ok(Confirm::Off),
            (EvidenceArg::On, Some(us)) => Ok(Confirm::For(us)),
            (EvidenceArg::On, None) => Ok(Confirm::ByAge),
        }
    }
}

/// A share in basis points, at most 100 %.
pub(crate) fn share(text: &str) -> Result<u32, UnitError> {
    let bp = share_bp(text)?;
    u32::try_from(bp).ok().filter(|bp| *bp <= 10_000).ok_or(UnitError::TooLarge)
}
