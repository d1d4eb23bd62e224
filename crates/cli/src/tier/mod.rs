//! `isotherm tier`: hot memory on fast nodes, cold memory on slow ones.

mod output;
mod report;
mod watch;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use isotherm::raw::agent::policy::{Policy, TargetSpec, print};
use isotherm::raw::agent::ready::knobs::{self, Rate};
use isotherm::raw::agent::tier::{Hierarchy, Knobs, Physical, Processes, lacks};
use isotherm::raw::core::units::{UnitError, duration, interval_us_with_unit, share_bp, size};
use isotherm::raw::damon::{Feature, Features, Root};
use isotherm::raw::host::Roots;
use isotherm::raw::host::nodes::{Facts, demotion_by_reclaim, levels};
use isotherm::raw::host::proc::Proc;
use isotherm::raw::ops::targets::Memory;

use crate::exit;
use crate::options::attrs::budget;
use crate::options::targets::TargetArgs;

/// Arguments of `isotherm tier`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: TargetArgs,
    /// A fast node; it belongs to the --slow at the same position.
    ///
    /// May be given more than once: --fast 0 --slow 1 --fast 1 --slow 2 is a chain of three tiers.
    /// Without it the nodes are found by the kernel's memory tiers, or else by which nodes have
    /// CPUs.
    #[arg(long, value_name = "NODE", help_heading = "Action", hide_short_help = true)]
    fast: Vec<u32>,
    /// The slow node below the --fast at the same position.
    #[arg(long, value_name = "NODE", help_heading = "Action", hide_short_help = true)]
    slow: Vec<u32>,
    /// Who applies the schemes.
    #[arg(
        long,
        value_enum,
        default_value_t = EngineArg::Auto,
        hide_short_help = true,
        help_heading = "Action"
    )]
    engine: EngineArg,
    /// Promote until this share of a fast node is used.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "99.7%",
        value_parser = share,
        help_heading = "Action",
        hide_short_help = true
    )]
    used: u64,
    /// Demote until this share of a fast node is free.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.5%",
        value_parser = share,
        help_heading = "Action",
        hide_short_help = true
    )]
    free: u64,
    /// Move at most this much per time.
    ///
    /// With each scheme.
    #[arg(
        long,
        value_name = "SIZE/TIME",
        default_value = "200M/s",
        value_parser = rate,
        help_heading = "Limits"
    )]
    quota: Rate,
    /// After a page was moved, do not move it again for this long.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        value_parser = interval_us_with_unit,
        help_heading = "Action",
        hide_short_help = true
    )]
    hold: u64,
    /// Demote pages only after they stayed untouched for this long.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = interval_us_with_unit,
        help_heading = "Action",
        hide_short_help = true
    )]
    confirm: u64,
    /// Without a target, watch every process with at least this much resident memory.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64M",
        value_parser = size,
        help_heading = "Target",
        hide_short_help = true
    )]
    min_rss: u64,
    /// The share of one CPU that monitoring by Isotherm may use. Moves come on top.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "2%",
        value_parser = budget,
        help_heading = "Monitoring",
        hide_short_help = true
    )]
    budget: u32,
    /// Stop after this time (as 30s or 5m).
    ///
    /// A command that was started then gets SIGTERM.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub(crate) duration: Option<Duration>,
    /// Decide and count, but move nothing.
    ///
    /// The account at the end says what would have been moved.
    #[arg(long, help_heading = "Action")]
    pub(crate) dry_run: bool,
    /// Print these options as a policy file for `isotherm run`, and exit.
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    print_policy: bool,
    /// Print each report as one JSON object per line.
    ///
    /// The last line is the account.
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub(crate) json: bool,
    /// Print a report this often (as 30s or 5m).
    ///
    /// Without it only at the end.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        help_heading = "Output",
        hide_short_help = true
    )]
    pub(crate) every: Option<Duration>,
    /// Print only warnings, errors and the account.
    #[arg(long, short, help_heading = "Output", hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Seed for the random choice of pages.
    #[arg(long, help_heading = "Monitoring", hide_short_help = true)]
    seed: Option<u64>,
}

const EXAMPLES: &str = "Examples:
  isotherm tier --dry-run --duration 1m    what would move between nodes
  isotherm tier 1234 --fast 0 --slow 1     a process, between two nodes";

/// `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EngineArg {
    /// The kernel, if its DAMON can (Linux 6.16) and no target is given. Otherwise Isotherm.
    Auto,
    /// The kernel's DAMON, over the physical memory of the whole machine.
    Kernel,
    /// Isotherm, over the page tables of processes.
    Isotherm,
}

fn share(text: &str) -> Result<u64, UnitError> {
    let bp = share_bp(text)?;
    if bp == 0 || bp >= 10_000 {
        return Err(UnitError::Form { expected: "more than 0% and less than 100%, as 99.7%" });
    }
    Ok(bp)
}

fn rate(text: &str) -> Result<Rate, UnitError> {
    let form = UnitError::Form { expected: "SIZE/TIME, as 200M/s" };
    knobs::size_rate(text)?.ok_or(form)
}

impl Args {
    fn knobs(&self) -> Knobs {
        let mut knobs = Knobs {
            used_bp: self.used,
            free_bp: self.free,
            rate: self.quota,
            hold_us: self.hold,
            confirm_us: self.confirm,
            dry_run: self.dry_run,
            ..Knobs::default()
        };
        knobs.attrs.budget_bp = self.budget;
        knobs
    }

    fn processes(&self) -> anyhow::Result<Processes> {
        let mut targets = self.targets.specs()?;
        if targets.is_empty() {
            targets.push(TargetSpec::Rss(self.min_rss));
        }
        Ok(Processes { targets, children: self.targets.follow() })
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let knobs = args.knobs();
    if knobs.used_bp + knobs.free_bp < 10_000 {
        return Err(exit::usage(format!(
            "--used and --free leave a gap\n  why:   with {} % used and {} % free neither promotion nor demotion would \
             do anything in between\n  hint:  together they must make at least 100 %, as the defaults 99.7 % and 0.5 % do",
            percent(knobs.used_bp),
            percent(knobs.free_bp),
        )));
    }
    let roots = Roots::default();
    let facts = Facts::read(&roots).map_err(|e| exit::with(exit::NOT_SUPPORTED, e.to_string()))?;
    let hierarchy = if args.fast.is_empty() && args.slow.is_empty() {
        Hierarchy::found(&facts)
    } else {
        Hierarchy::of_pairs(&facts, &args.fast, &args.slow)
    };
    let mut hierarchy = hierarchy.map_err(|e| exit::with(e.code, e.text))?;
    if demotion_by_reclaim(&roots) == Some(false) {
        hierarchy.why.push(
            "when a fast node runs full at once, the kernel's reclaim swaps rather than demotes: \
             /sys/kernel/mm/numa/demotion_enabled is off (1 makes it the backup)"
                .to_owned(),
        );
    }
    let processes = args.processes()?;
    let all = matches!(processes.targets[..], [TargetSpec::Rss(_)]);
    let by_kernel = match choose(&args, all)? {
        Ok(features) => Ok(knobs.policy_of_memory(&hierarchy, &physical(&facts, &features)?)),
        Err(why) => Err(why),
    };
    let own = || knobs.policy_of_processes(&hierarchy, &processes);
    if args.print_policy {
        return print_policy(&by_kernel.unwrap_or_else(|_| own()));
    }
    match by_kernel {
        Ok(policy) => watch::run(&args, &hierarchy, policy, Engine::Kernel),
        Err(why) => {
            let own = own();
            hierarchy.why.push(why);
            watch::run(&args, &hierarchy, own, Engine::Isotherm)
        }
    }
}

/// Who applies the schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Isotherm's engine, over processes.
    Isotherm,
    /// The kernel's DAMON, over physical memory.
    Kernel,
}

fn print_policy(policy: &Policy) -> anyhow::Result<ExitCode> {
    write!(std::io::stdout().lock(), "{}", print(policy))?;
    Ok(ExitCode::SUCCESS)
}

const TARGETS: &str = "targets are given, and it watches the physical memory of all processes";

fn obstructed(why: &str) -> anyhow::Error {
    exit::usage(format!(
        "--engine kernel\n  why:   {why}\n  hint:  leave that out, or use --engine isotherm"
    ))
}

/// The kernel's features if its engine is taken, or else why Isotherm's engine is. `all`: no target
/// is given.
fn choose(args: &Args, all: bool) -> anyhow::Result<Result<Features, String>> {
    let asked = args.engine == EngineArg::Kernel;
    let not = |why: &str| format!("the kernel's DAMON is not used: {why}");
    if args.engine == EngineArg::Isotherm {
        return Ok(Err(not("`--engine isotherm`")));
    }
    let obstacle = if args.dry_run {
        Some("a dry run may move nothing, and a scheme in the kernel acts as soon as it runs")
    } else if !all {
        Some(TARGETS)
    } else {
        None
    };
    if let Some(why) = obstacle {
        return if asked { Err(obstructed(why)) } else { Ok(Err(not(why))) };
    }
    let features = Features::detect(&Root::default());
    match lacks(&features) {
        None => Ok(Ok(features)),
        Some(why) if asked => {
            let hint = "`--engine isotherm` does not need the kernel's DAMON";
            let text = format!("cannot push the schemes down\n  why:   {why}\n  hint:  {hint}");
            Err(exit::with(exit::NOT_SUPPORTED, text))
        }
        Some(why) => Ok(Err(not(&why))),
    }
}

/// What the policy for the kernel's engine has to know about the machine.
fn physical(facts: &Facts, features: &Features) -> anyhow::Result<Physical> {
    let with_memory = facts.nodes.iter().filter(|n| n.has_memory).map(|n| n.node);
    let nodes: Vec<u32> = with_memory.collect();
    let refuse = |text: String| exit::with(exit::NOT_SUPPORTED, text);
    let levels = levels(&Roots::default(), &nodes).map_err(refuse)?;
    let mut all = Vec::new();
    for (node, level) in nodes.into_iter().zip(levels) {
        let ranges = Memory::Node(node).ranges(&Proc::default());
        all.push((node, level.total, ranges.map_err(|e| refuse(e.to_string()))?));
    }
    let prompt = features.has(Feature::GoalTuner).is_likely();
    Ok(Physical { nodes: all, prompt })
}

/// Basis points as percent.
#[expect(clippy::cast_precision_loss, reason = "at most a few times 10,000")]
pub(crate) fn percent(bp: u64) -> f64 {
    bp as f64 / 100.0
}
