//! The options of `isotherm tune`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use isotherm::raw::agent::gauge::{Counter, Source};
use isotherm::raw::agent::policy::{Policy, Range, TargetSpec, Tuning};
use isotherm::raw::agent::tune::Limits;
use isotherm::raw::core::units::{duration, share_bp};

use crate::exit::usage;

/// Arguments of `isotherm tune`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The policy to begin with (TOML); its table [tune] may have ranges.
    #[arg(value_name = "POLICY", hide_short_help = true)]
    pub(super) policy: PathBuf,
    /// Tune this number of a scheme, as cold.age=1s..60s.
    ///
    /// May be given more than once. SCHEME.KEY=LOW..HIGH. Keys: age, quota.size, quota.time,
    /// frequency (its upper bound), `min_touched`, confirm. Without any, here or in the policy: the
    /// age of every scheme that pages out, from 1 s to 60 s, and `min_touched` of those that make
    /// huge pages.
    #[arg(long = "range", value_name = "RANGE", value_parser = Range::parse)]
    range: Vec<Range>,
    /// Tune on this process and its children.
    #[arg(
        short,
        long = "pid",
        value_name = "PID,...",
        value_delimiter = ',',
        conflicts_with = "command",
        help_heading = "Target"
    )]
    pids: Vec<u32>,
    /// The last number in this file counts the work.
    ///
    /// Without any measure of progress slowdown is what CPU seconds show.
    #[arg(long, value_name = "FILE", group = "measure", help_heading = "Score")]
    progress: Option<PathBuf>,
    /// This line of shell prints a number that counts the program's work.
    #[arg(
        long,
        value_name = "CMD",
        group = "measure",
        help_heading = "Score",
        hide_short_help = true
    )]
    progress_cmd: Option<String>,
    /// This line of shell prints a latency, as the p99; smaller is better.
    #[arg(
        long,
        value_name = "CMD",
        group = "measure",
        help_heading = "Score",
        hide_short_help = true
    )]
    latency_cmd: Option<String>,
    /// Take the machine's stall on memory for the slowdown (PSI).
    #[arg(long, group = "measure", help_heading = "Score", hide_short_help = true)]
    psi: bool,
    /// How much slower it may become. [default: 2%]
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Score")]
    max_slowdown: Option<u32>,
    /// Percent of memory that 1 % of slowdown is worth. [default: 2]
    ///
    /// The score is the share of memory saved, less so many times the slowdown.
    #[arg(long, value_name = "N", help_heading = "Score", hide_short_help = true)]
    weight: Option<u32>,
    /// How many trials there may be.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 12,
        help_heading = "Trials",
        hide_short_help = true,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    trials: u16,
    /// How many candidates to begin with.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 6,
        help_heading = "Trials",
        hide_short_help = true,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    candidates: u16,
    /// How long an untouched phase is; a trial is measured for twice as long.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, help_heading = "Trials", hide_short_help = true)]
    pub(super) phase: Duration,
    /// Watch for so long first, to predict an age as `isotherm plan` does; 0s: do not.
    ///
    /// Needs 15 s at least. Ages up to a fifth of it can be predicted.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, help_heading = "Trials", hide_short_help = true)]
    pub(super) watch: Duration,
    /// Write the winning policy to this file.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Print the result as one JSON object.
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub(super) json: bool,
    /// Print only warnings, errors and the result.
    #[arg(long, short, help_heading = "Output", hide_short_help = true)]
    pub(super) quiet: bool,
    /// Seed for the random choice of pages.
    #[arg(long, help_heading = "Trials", hide_short_help = true)]
    pub(super) seed: Option<u64>,
    /// Start this command, tune on it, and end it.
    #[arg(help_heading = "Target", last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  isotherm tune p.toml -p 1234 --progress work.txt -o tuned.toml
  isotherm tune p.toml --range cold.age=1s..5m -- ./server";

/// A share of at most 100 %, in basis points.
fn share(text: &str) -> Result<u32, String> {
    let bp = share_bp(text).map_err(|err| err.to_string())?;
    u32::try_from(bp)
        .ok()
        .filter(|bp| (1..=10_000).contains(bp))
        .ok_or_else(|| "a share above 0% and up to 100%, as 2%".to_owned())
}

impl Args {
    /// How many candidates to begin with.
    pub(super) fn nr_candidates(&self) -> usize {
        self.candidates.into()
    }

    /// Puts the targets of the command line into the policy.
    pub(super) fn targets(&self, policy: &mut Policy) -> anyhow::Result<()> {
        if self.phase.is_zero() {
            return Err(usage("--phase is 0\n  why:   nothing can be measured in no time"));
        }
        if self.pids.is_empty() {
            return super::super::run::add_command(policy, &self.command);
        }
        let empty = policy.contexts.iter().filter(|c| c.targets.is_empty()).count();
        let only = policy.contexts.len() == 1;
        match policy.contexts.iter_mut().find(|c| c.targets.is_empty() || only) {
            Some(context) if empty <= 1 => {
                context.targets = self.pids.iter().map(|pid| TargetSpec::Pid(*pid)).collect();
                Ok(())
            }
            _ => Err(usage(format!(
                "it is not clear whose target -p is\n  why:   {empty} of {} contexts name no target\n  \
                 hint:  leave out `targets` in one context",
                policy.contexts.len()
            ))),
        }
    }

    /// What is tuned, and whether nobody said so.
    pub(super) fn ranges(&self, policy: &Policy) -> anyhow::Result<(Vec<Range>, bool)> {
        super::ranges_of(policy, &self.range)
    }

    /// What tells how the program gets on.
    pub(super) fn source(&self) -> Source {
        if let Some(path) = &self.progress {
            Source::Work(Counter::File(path.clone()))
        } else if let Some(command) = &self.progress_cmd {
            Source::Work(Counter::Command(command.clone()))
        } else if let Some(command) = &self.latency_cmd {
            Source::Latency(command.clone())
        } else if self.psi {
            Source::Pressure
        } else {
            Source::Cpu
        }
    }

    /// The limits: of the command line, of the policy, or the usual ones.
    pub(super) fn limits(&self, policy: &Policy) -> Limits {
        let tuning = Tuning {
            max_slowdown_bp: self.max_slowdown.or(policy.tuning.max_slowdown_bp),
            weight: self.weight.or(policy.tuning.weight),
            ..Tuning::default()
        };
        Limits {
            max_slowdown: tuning.max_slowdown(),
            weight: tuning.weight(),
            trials: self.trials.into(),
        }
    }
}
