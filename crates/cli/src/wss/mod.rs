//! `isotherm wss`: prints the working set of running processes live: how much was touched over each
//! interval, one line per target and a total.
//!
//! Methods that see single pages tell how much was touched within several spans as well. The others
//! tell the size of the regions with at least one access, which is DAMON's working set. Memory that
//! several targets share counts once in the total; the sum over them is told beside it.

mod attached;
mod groups;
mod line;
mod shared;
mod text;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::agent::monitor::{Happened, Monitor};
use isotherm::raw::agent::run::take_in_targets;
use isotherm::raw::core::Method;
use isotherm::raw::core::units::{duration, show_interval};
use isotherm::raw::ops::targets::TargetEvent;
use isotherm::raw::sys::{clock, signals};

use crate::ctl::SocketArg;
use crate::exit;
use crate::options::attrs::AttrsArgs;
use crate::options::sets::open_set_for;
use crate::options::targets::{TargetArgs, not_started};
use crate::record::{all_of_others, end_command};
use crate::terminal::{warn, width};
use crate::wss::attached::Attached;
use crate::wss::groups::{ByArg, Grouped};
use crate::wss::line::{Lines, Now};
use crate::wss::text::Table;

/// Arguments of `isotherm wss`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    attrs: AttrsArgs,
    /// Print the working set over this time.
    ///
    /// Over 1s, 10s and 1min it is measured as it is, by methods that see single pages. Over other
    /// times it is bounded by the spans around them, and the interval is wider.
    #[arg(
        short,
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = duration,
        help_heading = "Output"
    )]
    interval: Duration,
    /// Print a line per process, cgroup, systemd unit, pod or container.
    ///
    /// Memory that the processes of a group share is counted once. Of a group the memory by
    /// temperature is told as well: hot was touched within a second, warm within a minute, cold was
    /// not.
    #[arg(long, value_enum, default_value_t = ByArg::Process, help_heading = "Output", hide_short_help = true)]
    by: ByArg,
    /// Print one JSON object per line.
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    socket: SocketArg,
    /// Stop after this time (as 30s or 5m).
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    duration: Option<Duration>,
}

const EXAMPLES: &str = "Examples:
  isotherm wss 1234                        of a process and its children
  isotherm wss -i 10s --name 'postgres*'   over 10 s, by name
  isotherm wss --unit redis --duration 1m  of a systemd unit, for a minute
  isotherm wss --cgroup 'system.slice/*' --by cgroup   a line per cgroup, shared memory once
  isotherm wss sleep 10                    of a command, while it runs";

impl Args {
    /// Refuses an interval that is shorter than a window.
    fn require_a_window(&self, window_us: u64) -> anyhow::Result<()> {
        let us = u64::try_from(self.interval.as_micros()).unwrap_or(u64::MAX);
        if us >= window_us {
            return Ok(());
        }
        let window = show_interval(window_us);
        Err(exit::usage(format!(
            "--interval {} is shorter than a window\n  why:   nothing is known of less than one \
             aggregation interval, which is {window}\n  hint:  -i {window}, or a shorter --aggr",
            show_interval(us),
        )))
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut attrs = args.attrs.attrs(Method::Census)?;
    args.require_a_window(attrs.aggr_us)?;
    signals::install()?;
    let mut agents = None;
    if let Some((attached, whose, is_part)) = Attached::find(&args)? {
        writeln!(std::io::stderr(), "{whose}")?;
        if !is_part {
            if attached.watch(&args)? == 0 {
                warn("no line was printed, since no interval was over");
            }
            return Ok(ExitCode::SUCCESS);
        }
        agents = Some(attached);
    }
    let held = agents.as_mut().map(Attached::held).transpose()?.unwrap_or_default();
    let tracker = args.targets.tracker_beside(&held)?;
    let (set, why) = open_set_for(&args.targets, &mut attrs, args.attrs.is_auto())?;
    // A second line means that the set is not the best one; it says why.
    for line in why.iter().filter(|_| why.len() > 1) {
        writeln!(std::io::stderr(), "{line}")?;
    }
    let mut monitor = Monitor::new(tracker, set, attrs, clock::now().as_ns())?;
    monitor.follow(&args.targets.specs()?);
    let least = Duration::from_micros(attrs.aggr_us);
    if least > args.interval {
        let window = show_interval(attrs.aggr_us);
        writeln!(std::io::stderr(), "the interval is {window}, as long as a window here")?;
    }
    let interval = args.interval.max(least);
    // The lines of `why` were printed above.
    take_in_targets(&mut monitor, &[]).map_err(exit::refused)?;
    monitor.tracker().start().map_err(|err| not_started(err, &args.targets))?;
    if let Some(text) = args.targets.waits(monitor.tracker()) {
        writeln!(std::io::stderr(), "{text}")?;
    }
    let shown = watch(&args, &mut monitor, interval, agents, &held)?;
    if let Some(others) = monitor.others() {
        writeln!(std::io::stderr(), "{others}")?;
    }
    let late = monitor.late();
    if let Some(late) = late {
        warn(&late.to_string());
    }
    let others = monitor.of_others();
    let status = end_command(&mut monitor);
    if shown == 0 && others > 0 {
        return Err(all_of_others(others));
    }
    if shown == 0 {
        warn("no line was printed, since no interval was over");
    }
    Ok(if late.is_some_and(|late| late.is_much()) { ExitCode::from(exit::PARTIAL) } else { status })
}

/// Prints lines until something ends that, and returns for how many intervals.
/// `agents`: an agent that watches `held`, whose lines are printed with the others.
fn watch(
    args: &Args,
    monitor: &mut Monitor,
    interval: Duration,
    mut agents: Option<Attached>,
    held: &BTreeSet<u32>,
) -> anyhow::Result<u64> {
    let started = Instant::now();
    let mut next = started + interval;
    let mut out = std::io::stdout().lock();
    let room = if out.is_terminal() { width() } else { usize::MAX };
    let mut table = Table::new(room);
    let interval_us = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
    let mut lines = Lines::new(interval_us);
    let mut grouped = args.by.groups().map(|by| Grouped::new(by, interval_us));
    let mut shown = 0;
    loop {
        match monitor.next() {
            Happened::Snapshot => {
                match &mut grouped {
                    Some(grouped) => grouped.learn(monitor.snapshot()),
                    None => lines.learn(monitor.snapshot()),
                }
                if Instant::now() >= next {
                    next += interval;
                    shown += 1;
                    let (since, json) = (started.elapsed(), args.json);
                    match &mut grouped {
                        Some(grouped) => grouped.write(&mut out, monitor, since, json)?,
                        None => {
                            let mut now = lines.take(monitor);
                            match agents.as_mut().map(|a| a.now(interval_us)).transpose() {
                                Ok(told) => {
                                    now = told.flatten().into_iter().fold(now, Now::beside);
                                }
                                Err(err) => {
                                    warn(&format!("the agent's processes are left out now: {err}"));
                                    agents = None;
                                }
                            }
                            if json {
                                let s = monitor.snapshot();
                                writeln!(out, "{}", now.json(s.end.as_ns(), s.nr_regions()))
                                    .and_then(|()| out.flush())?;
                            } else {
                                table.write(&mut out, &now, since)?;
                            }
                        }
                    }
                }
            }
            Happened::NotWatched(target, _) if held.contains(&target.pid) => {}
            Happened::NotWatched(target, err) if !err.is_gone() => {
                warn(&format!("process {} ({}) is not watched: {err}", target.pid, target.name));
            }
            Happened::Watched(target) => {
                warn(&format!("process {} ({}) is watched from now on", target.pid, target.name));
            }
            Happened::Target(TargetEvent::Refused(err)) => warn(&err.to_string()),
            Happened::Trouble(text) => warn(&text),
            Happened::Failed(text) => {
                end_command(monitor);
                return Err(anyhow::anyhow!(text));
            }
            Happened::Stopped => break,
            _ => {}
        }
        let over = args.duration.is_some_and(|d| started.elapsed() >= d);
        if over || signals::stop_requested().is_some() {
            break;
        }
    }
    Ok(shown)
}
