//! Options that several of the commands share.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use isotherm_agent::policy::{Engine, Policy, TargetSpec, print};
use isotherm_agent::ready::knobs::{self, GoalKnob, Rate};
use isotherm_agent::ready::{Confirm, Limits, Whose};
use isotherm_core::scheme::{Watermarks, Weights};
use isotherm_core::units::{UnitError, duration, interval_us_with_unit, share_bp};

use crate::attrs::AttrsArgs;
use crate::exit::usage;
use crate::record::TargetArgs;

/// How a policy is run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArgs {
    /// Stop after this time (without a unit seconds). A command that was started here gets a
    /// SIGTERM then.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Decide and count, but do nothing; at the end, say what it would have done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The last line of standard output is the account as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write what happens to this file, a JSON object per line; `-`: standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// At the end, take back what was set in the targets (advice about huge pages).
    #[arg(long)]
    pub(crate) undo_on_exit: bool,
    /// Say nothing but warnings, errors and the account.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Seed of the random choices of pages.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineArg {
    /// The kernel if it can do all of it and no evidence is asked for, else Isotherm.
    Auto,
    /// The kernel, or an error.
    Kernel,
    /// Isotherm, over the kernel's snapshots.
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

/// Whose memory, and how it is looked at.
#[derive(Debug, clap::Args)]
pub(crate) struct WhoseArgs {
    /// Take every process whose command name matches: `*` and `?` as in a shell; also those that
    /// come later.
    #[arg(long = "name", value_name = "GLOB")]
    names: Vec<String>,
    /// Take every process of this cgroup (v2), also those that come later: a path from the root of
    /// the hierarchy.
    #[arg(long = "cgroup", value_name = "PATH")]
    cgroups: Vec<String>,
    #[command(flatten)]
    targets: TargetArgs,
    /// Who applies the schemes over the kernel's DAMON (--ops kdamond): the kernel, Isotherm, or
    /// whoever can do what is asked for.
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    engine: EngineArg,
    #[command(flatten)]
    attrs: AttrsArgs,
    /// Print the policy that these options mean, as a file for `isotherm run`, and do nothing.
    #[arg(long)]
    print_policy: bool,
}

impl WhoseArgs {
    /// The targets and attributes.
    pub(crate) fn whose(&self) -> anyhow::Result<Whose> {
        let mut targets = self.targets.specs()?;
        targets.extend(self.names.iter().cloned().map(TargetSpec::Name));
        targets.extend(self.cgroups.iter().cloned().map(TargetSpec::Cgroup));
        if self.targets.paddr().is_some() && targets.len() > 1 {
            return Err(usage(
                "--paddr with --name or --cgroup\n  why:   a context watches physical memory or processes, not both\n  \
                 hint:  leave one out; filters choose pages of a cgroup",
            ));
        }
        if targets.is_empty() && !self.print_policy {
            return Err(usage(
                "nothing to watch\n  hint:  give a process (-p PID), a name (--name GLOB), a cgroup (--cgroup \
                 PATH), a command (-- CMD ARGS), or --paddr for physical memory",
            ));
        }
        Ok(Whose {
            targets,
            children: self.targets.follow(),
            ops: self.targets.ops().wanted(),
            engine: self.engine.engine(),
            attrs: self.attrs.attrs()?,
        })
    }

    /// Prints the policy, if that is all that was asked for.
    pub(crate) fn only_print(&self, policy: &Policy) -> anyhow::Result<Option<ExitCode>> {
        if self.print_policy {
            std::io::stdout().lock().write_all(print(policy).as_bytes())?;
            return Ok(Some(ExitCode::SUCCESS));
        }
        Ok(None)
    }
}

/// A rate, or that there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaybeRate(Option<Rate>);

fn size_rate(text: &str) -> Result<MaybeRate, UnitError> {
    knobs::size_rate(text).map(MaybeRate)
}

fn time_rate(text: &str) -> Result<MaybeRate, UnitError> {
    knobs::time_rate(text).map(MaybeRate)
}

/// What limits a scheme.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LimitArgs {
    /// At most so many bytes per time: 200M/s, 1G/10s, none.
    #[arg(long, value_name = "SIZE/TIME", value_parser = size_rate)]
    quota: Option<MaybeRate>,
    /// At most so much time per time: 10ms/s, none.
    #[arg(long, value_name = "TIME/TIME", value_parser = time_rate)]
    quota_time: Option<MaybeRate>,
    /// Tune the quota for this: psi=0.5ms/s, free=5%, refaults=1%, user=CURRENT/TARGET, ...; may be
    /// given more than once.
    #[arg(long = "goal", value_name = "NAME=VALUE", value_parser = knobs::goal)]
    goals: Vec<GoalKnob>,
    /// Work only while this much memory is free: HIGH,MID,LOW in percent (50%,40%,20%), or none for
    /// always.
    #[arg(long, value_name = "MARKS", value_parser = knobs::watermarks)]
    watermarks: Option<Watermarks>,
    /// Treat all regions that match alike, when the quota is not enough for all.
    #[arg(long)]
    no_priority: bool,
    /// Do not slow down by itself when too much is touched again.
    #[arg(long)]
    no_brake: bool,
}

impl LimitArgs {
    /// Replaces what was given.
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

/// How sure to be before memory is acted on.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConfirmArgs {
    /// `off`: act on the regions' numbers alone, as DAMON does.
    #[arg(long, value_enum, default_value_t = EvidenceArg::On)]
    evidence: EvidenceArg,
    /// Watch the pages for so long before they are acted on (default: as long as the age, 1 s to 60
    /// s).
    #[arg(long, value_name = "TIME", value_parser = interval_us_with_unit)]
    confirm: Option<u64>,
}

/// `--evidence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EvidenceArg {
    /// Pages are looked at before they are acted on.
    On,
    /// They are not.
    Off,
}

impl ConfirmArgs {
    /// The choice.
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

/// A share in basis points, at most all.
pub(crate) fn share(text: &str) -> Result<u32, UnitError> {
    let bp = share_bp(text)?;
    u32::try_from(bp).ok().filter(|bp| *bp <= 10_000).ok_or(UnitError::TooLarge)
}
