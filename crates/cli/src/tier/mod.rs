//! `isotherm tier`: hot memory on fast nodes, cold memory on slow ones.

mod own;
mod pushed;
mod report;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use isotherm_agent::policy::{TargetSpec, print};
use isotherm_agent::ready::knobs::{self, Rate};
use isotherm_agent::tier::{Hierarchy, Knobs, MISSING, Pushed, Whom, lacks};
use isotherm_core::units::{UnitError, duration, interval_us_with_unit, share_bp, size};
use isotherm_damon::{Features, Root};
use isotherm_host::Roots;
use isotherm_host::nodes::{Facts, demotion_by_reclaim};

use crate::exit;
use crate::record::TargetArgs;

/// Arguments of `isotherm tier`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A fast node; goes with the --slow at the same place. May be repeated: --fast 0 --slow 1 --fast 1 --slow 2 is
    /// a chain of three. Without any the nodes are found: by the kernel's memory tiers, else by which have CPUs.
    #[arg(long, value_name = "NODE")]
    fast: Vec<u32>,
    /// The slow node below it.
    #[arg(long, value_name = "NODE")]
    slow: Vec<u32>,
    /// Who does it.
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    engine: EngineArg,
    /// Promote until so much of a fast node is used.
    #[arg(long, value_name = "SHARE", default_value = "99.7%", value_parser = share)]
    used: u64,
    /// Demote until so much of a fast node is free.
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = share)]
    free: u64,
    /// Each scheme moves at most so much.
    #[arg(long, value_name = "SIZE/TIME", default_value = "200M/s", value_parser = rate)]
    quota: Rate,
    /// Leave a page where it is for so long after it was moved.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval_us_with_unit)]
    hold: u64,
    /// Watch memory for so long before it is demoted.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval_us_with_unit)]
    confirm: u64,
    /// Without any target: every process with at least so much resident memory.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size)]
    min_rss: u64,
    /// Take every process whose command name matches: `*` and `?` as in a shell; also those that come later.
    #[arg(long = "name", value_name = "GLOB")]
    names: Vec<String>,
    /// Take every process of this cgroup (v2), also those that come later: a path from the root of the hierarchy.
    #[arg(long = "cgroup", value_name = "PATH")]
    cgroups: Vec<String>,
    /// Most accessed bits to clear per second.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    clears: u32,
    /// Stop after this time (without a unit seconds). A command that was started here gets a SIGTERM then.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Decide and count, but move nothing; at the end, say what would have been moved.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the policy for `isotherm run` that comes nearest to these options, and do nothing.
    #[arg(long)]
    print_policy: bool,
    /// Print JSON: an object per table, and the account as the last line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print how hot memory is, node by node, this often; without it only at the end.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) every: Option<Duration>,
    /// Say nothing but warnings, errors and the account.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Seed of the random choices of pages.
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    targets: TargetArgs,
}

/// `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EngineArg {
    /// The kernel's DAMON if it can (Linux 6.16) and no target is given; else our own.
    Auto,
    /// The kernel's DAMON, over physical memory: all of the machine.
    Kernel,
    /// Our own, over page tables of processes.
    Isotherm,
}

fn share(text: &str) -> Result<u64, UnitError> {
    let bp = share_bp(text)?;
    if bp == 0 || bp >= 10_000 {
        return Err(UnitError::Form { expected: "more than nothing and less than all, as 99.7%" });
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
        knobs.attrs.clears_per_sec = self.clears;
        knobs
    }

    fn whom(&self) -> anyhow::Result<Whom> {
        let mut targets = self.targets.specs()?;
        targets.extend(self.names.iter().cloned().map(TargetSpec::Name));
        targets.extend(self.cgroups.iter().cloned().map(TargetSpec::Cgroup));
        let min_rss = targets.is_empty().then_some(self.min_rss);
        Ok(Whom { targets, children: self.targets.follow(), min_rss })
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
    let whom = args.whom()?;
    if args.print_policy {
        return print_policy(&args, &hierarchy, &knobs, &whom);
    }
    match push(&args, &hierarchy, &knobs, whom.min_rss.is_some())? {
        Ok((pushed, notes)) => pushed::run(&args, pushed, &notes),
        Err(why) => {
            hierarchy.why.push(why);
            own::run(&args, &hierarchy, &knobs, whom, args.seed)
        }
    }
}

/// `--print-policy`: of the kernel's engine if that is asked for, or is what would be taken.
fn print_policy(
    args: &Args,
    hierarchy: &Hierarchy,
    knobs: &Knobs,
    whom: &Whom,
) -> anyhow::Result<ExitCode> {
    let all = whom.min_rss.is_some();
    let by_kernel = match args.engine {
        EngineArg::Isotherm => false,
        EngineArg::Kernel if !all => return Err(obstructed(TARGETS)),
        EngineArg::Kernel => true,
        EngineArg::Auto => all && lacks(&Features::detect(&Root::default())).is_none(),
    };
    let policy = if by_kernel {
        knobs.policy_of_memory(hierarchy)
    } else {
        knobs.policy_of_processes(hierarchy, whom)
    };
    let mut out = std::io::stdout().lock();
    write!(out, "# {MISSING}.\n{}", print(&policy))?;
    Ok(ExitCode::SUCCESS)
}

const TARGETS: &str =
    "it watches physical memory, which belongs to all processes, and targets are given";

fn obstructed(why: &str) -> anyhow::Error {
    exit::usage(format!(
        "--engine kernel\n  why:   {why}\n  hint:  leave out what does not go with it, or use --engine isotherm"
    ))
}

/// Starts the kernel's engine, or says why ours is taken.
fn push(
    args: &Args,
    hierarchy: &Hierarchy,
    knobs: &Knobs,
    all: bool,
) -> anyhow::Result<Result<(Pushed, Vec<String>), String>> {
    let asked = args.engine == EngineArg::Kernel;
    let not = |why: &str| format!("the kernel's DAMON is not used: {why}");
    if args.engine == EngineArg::Isotherm {
        return Ok(Err(not("`--engine isotherm`")));
    }
    let obstacle = if args.dry_run {
        Some(
            "in a dry run nothing may be moved, and a scheme in the kernel acts as soon as it runs",
        )
    } else if !all {
        Some(TARGETS)
    } else {
        None
    };
    if let Some(why) = obstacle {
        if asked {
            return Err(obstructed(why));
        }
        return Ok(Err(not(why)));
    }
    match Pushed::start(hierarchy, knobs) {
        Ok(started) => {
            for line in &hierarchy.why {
                if !args.quiet {
                    writeln!(std::io::stderr(), "isotherm: {line}").ok();
                }
            }
            Ok(Ok(started))
        }
        Err(refused) if asked => Err(exit::with(refused.code, refused.text)),
        Err(refused) => Ok(Err(not(&refused.text))),
    }
}

/// Basis points as percent.
#[expect(clippy::cast_precision_loss, reason = "at most a few times 10,000")]
pub(crate) fn percent(bp: u64) -> f64 {
    bp as f64 / 100.0
}
