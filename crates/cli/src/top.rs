//! `isotherm top`: which processes use which memory, live in the terminal, or over a record.

use std::env::var_os;
use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::core::units::duration;
use isotherm::raw::core::{Snapshot, TargetId};
use isotherm::raw::sys::signals;
use isotherm_top::{
    Error, Feed, Grouping, Joined, Live, Look, Replay, Settings, SortKey, Source, Start, Told,
    Travel, Wanted,
};

use crate::attach::{Attached, Found, snapshot};
use crate::ctl::SocketArg;
use crate::exit::{self, usage};
use crate::files;
use crate::history::{HistoryArgs, ago};
use crate::options::attrs::budget;
use crate::options::sets::{OpsArg, OpsOption};
use crate::options::targets::ProcessArgs;
use crate::terminal::ColorArg;

/// Arguments of `isotherm top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    processes: ProcessArgs,
    /// Show this record instead of what happens now.
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with_all = ["pids", "names", "cgroups", "units", "pods", "containers", "users", "targets", "all", "command", "ops", "budget"],
        help_heading = "Target"
    )]
    input: Option<PathBuf>,
    /// Show what the agent has recorded since then, as 1h or "10 min ago".
    #[arg(
        short = 't',
        long,
        value_name = "TIME",
        value_parser = ago,
        conflicts_with_all = ["input", "pids", "names", "cgroups", "units", "all", "command", "ops", "budget"],
        help_heading = "History",
        hide_short_help = true
    )]
    since: Option<Duration>,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    socket: SocketArg,
    /// The share of one CPU that this may use.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "1%",
        value_parser = budget,
        help_heading = "Limits"
    )]
    budget: u32,
    #[command(flatten)]
    ops: OpsOption,
    /// Print plain text instead of drawing on the terminal.
    #[arg(short, long, help_heading = "Output")]
    batch: bool,
    /// With --batch: print this many tables, then end.
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        requires = "batch",
        help_heading = "Output",
        hide_short_help = true
    )]
    count: Option<u32>,
    /// With --batch: the time between two tables.
    #[arg(
        short = 'd', long, value_name = "TIME", default_value = "3s", value_parser = duration, help_heading = "Output", hide_short_help = true)]
    interval: Duration,
    /// With --batch and a record: print what was known this long after its beginning.
    ///
    /// The end if it is not given.
    #[arg(
        long,
        value_name = "TIME",
        requires = "input",
        value_parser = duration,
        help_heading = "Output",
        hide_short_help = true
    )]
    at: Option<Duration>,
    /// Sort by pid, name, rss, 1s, 10s, 1m, cold, unresolved or age.
    #[arg(
        short,
        long,
        value_name = "KEY",
        default_value = "10s",
        value_parser = sort_key,
        help_heading = "Output",
        hide_short_help = true
    )]
    sort: SortKey,
    /// Show only what has this in its name, cgroup or pid.
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Output",
        hide_short_help = true
    )]
    filter: String,
    /// Show a row per process, or per group of them.
    #[arg(
        long,
        value_enum,
        default_value_t = ByArg::Process,
        help_heading = "Output",
        hide_short_help = true
    )]
    by: ByArg,
    #[command(flatten)]
    color: ColorArg,
}

const EXAMPLES: &str = "Examples:
  isotherm top                          the whole machine; ? shows the keys
  isotherm top --by unit                a row per systemd unit
  isotherm top 1234                     a process and its children
  isotherm top --name 'postgres*'       processes by name
  isotherm top --batch -n 3 --by unit   three tables as text, a row per systemd unit
  isotherm top -i isotherm.data         a record: arrows and t travel in time";

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ByArg {
    Process,
    Cgroup,
    Unit,
    Pod,
    Container,
    User,
}

fn sort_key(text: &str) -> Result<SortKey, String> {
    let keys = "pid, name, rss, 1s, 10s, 1m, cold, unresolved, age";
    SortKey::of_name(text).ok_or_else(|| format!("the keys are {keys}"))
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    signals::install()?;
    if !args.batch && !stdout().is_terminal() {
        return Err(usage(
            "top draws on a terminal, and standard output is none\n  hint:  `isotherm top --batch` prints plain text",
        ));
    }
    let start = Start {
        sort: args.sort,
        grouping: match args.by {
            ByArg::Process => Grouping::Processes,
            ByArg::Cgroup => Grouping::Cgroups,
            ByArg::Unit => Grouping::Units,
            ByArg::Pod => Grouping::Pods,
            ByArg::Container => Grouping::Containers,
            ByArg::User => Grouping::Users,
        },
        filter: args.filter.clone(),
        look: look(args.color),
    };
    let mut feed = feed(&args)?;
    if args.batch {
        batch(&args, &mut *feed, &start)?;
    } else {
        isotherm_top::run(&mut *feed, start, stdout()).map_err(told)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn feed(args: &Args) -> anyhow::Result<Box<dyn Feed>> {
    if let Some(since) = args.since {
        let replay = Replay::open(args.history.open(since)?).map_err(told)?;
        return Ok(Box::new(replay));
    }
    if let Some(path) = &args.input {
        let replay = Replay::open(files::open(path)?).map_err(told)?;
        return Ok(Box::new(replay));
    }
    if let Some(command) = args.processes.command().first() {
        let command = command.to_string_lossy();
        return Err(usage(format!(
            "top starts no command\n  why:   its output would be drawn over the view\n  hint:  start `{command}` in another \
             terminal, or --name {command} if it runs; `isotherm record {command}` starts and records it"
        )));
    }
    let wanted = Wanted { specs: args.processes.specs()?, children: args.processes.follow() };
    let agents = of_agent(args, &wanted)?;
    let settings = Settings { wanted, budget_bp: args.budget, set: args.ops.ops.wanted() };
    match agents {
        Some(OfAgents { rows, is_part: false, .. }) => Ok(Box::new(rows)),
        Some(OfAgents { rows, whose, .. }) => {
            let own = Live::start(settings).map_err(told)?;
            Ok(Box::new(Joined::new(own, rows, whose)))
        }
        None => Ok(Box::new(Live::start(settings).map_err(told)?)),
    }
}

/// The rows of an agent that watches some or all of the processes already.
struct OfAgents {
    rows: Told,
    whose: String,
    /// Whether others are left to watch.
    is_part: bool,
}

/// Asks an agent, if one runs. Who asks for an operations set does not get it from an agent: that
/// is refused if nothing is left to watch.
fn of_agent(args: &Args, wanted: &Wanted) -> anyhow::Result<Option<OfAgents>> {
    let everybody = [TargetSpec::Name("*".to_owned())];
    let specs = if wanted.specs.is_empty() { &everybody[..] } else { &wanted.specs[..] };
    let found = Attached::find(&args.socket.path(), specs, wanted.children)?;
    let Some(Found { mut agent, snapshots, is_part }) = found else { return Ok(None) };
    if args.ops.ops != OpsArg::Auto {
        let why = "it has an operations set of its own";
        let hint = "without --ops its numbers are shown";
        return if is_part { Ok(None) } else { Err(agent.refused(&snapshots, why, hint)) };
    }
    let whose = agent.whose(&snapshots);
    if args.batch {
        let which = if is_part { "some of these numbers" } else { "these numbers" };
        writeln!(std::io::stderr(), "{which} are {whose}")?;
    }
    let rows = Told::new(Box::new(OfAgent(agent)), wanted.clone(), whose.clone()).map_err(told)?;
    Ok(Some(OfAgents { rows, whose, is_part }))
}

/// An agent as the source of a view.
#[derive(Debug)]
struct OfAgent(Attached);

impl Source for OfAgent {
    fn ask(&mut self) -> Result<Vec<Snapshot>, String> {
        let all = self.0.ask().map_err(|err| err.refusal().to_string())?;
        let mut known = std::collections::BTreeSet::new();
        let family = self.0.family();
        let mut of = |target: &isotherm_control::types::Target| {
            let pid = u32::try_from(target.pid).ok().filter(|pid| family.has(*pid))?;
            // What two contexts watch is shown once.
            known.insert(pid).then_some(TargetId(pid))
        };
        Ok(all.iter().map(|s| snapshot::of_agent(s, &mut of)).collect())
    }
}

/// The view's error, with its exit code.
fn told(error: Error) -> anyhow::Error {
    match error {
        Error::Target(error) => exit::of(error),
        Error::NotWatched { code, .. } => exit::with(code, error.to_string()),
        Error::NoSnapshots => usage(error.to_string()),
        error => error.into(),
    }
}

/// Colours as the user wants them; other signs than ASCII if the locale has them.
fn look(color: ColorArg) -> Look {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.iter().filter_map(var_os).find(|value| !value.is_empty());
    let locale = locale.map(|value| value.to_string_lossy().to_lowercase()).unwrap_or_default();
    Look { color: color.is_on(), unicode: locale.contains("utf-8") || locale.contains("utf8") }
}

/// Prints tables as text. A table comes after each interval, so that there is something to tell.
fn batch(args: &Args, feed: &mut dyn Feed, start: &Start) -> anyhow::Result<()> {
    let count = args.count.unwrap_or(u32::MAX);
    let is_record = args.input.is_some() || args.since.is_some();
    if is_record {
        feed.travel(Travel::Pause);
        // What was then is the beginning of the history since then.
        let at = if args.since.is_some() { Duration::ZERO } else { Duration::MAX };
        feed.travel(Travel::To(args.at.unwrap_or(at)));
    }
    for nr in 0..count {
        if nr > 0 && is_record {
            if args.at.is_none() && args.since.is_none() {
                break;
            }
            let s = i64::try_from(args.interval.as_secs().max(1)).unwrap_or(i64::MAX);
            feed.travel(Travel::By { s });
        }
        let due = Instant::now() + if is_record { Duration::ZERO } else { args.interval };
        let mut world = None;
        loop {
            let wait =
                due.saturating_duration_since(Instant::now()).min(Duration::from_millis(300));
            if let Some(newer) = feed.next(wait).map_err(told)? {
                world = Some(newer);
            }
            if signals::stop_requested().is_some() {
                return Ok(());
            }
            if world.is_some() && Instant::now() >= due {
                break;
            }
        }
        let mut out = stdout().lock();
        if let Some(world) = world {
            isotherm_top::batch(world, start, &mut out)?;
        }
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}
