//! `isotherm record`: watches processes and writes a record of their accesses to a file.

mod attached;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::agent::monitor::Monitor;
use isotherm::raw::agent::recorder::{Event, Recorder, Step, Summary};
use isotherm::raw::agent::run::take_in_targets;
use isotherm::raw::core::units::{bytes, counted, duration};
use isotherm::raw::core::{Cost, Method, Snapshot, Time};
use isotherm::raw::ops::kdamond::Share;
use isotherm::raw::record::Written;
use isotherm::raw::sys::{clock, signals};

use crate::ctl::SocketArg;
use crate::exit;
use crate::files::{not_created, not_kept};
use crate::options::attrs::AttrsArgs;
use crate::options::sets::open_set_for;
use crate::options::targets::{TargetArgs, not_started};
use crate::record::attached::{Agents, Watched};
use crate::terminal::warn;

/// Arguments of `isotherm record`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    attrs: AttrsArgs,
    /// Stop after this time (as 30s or 5m).
    ///
    /// A command that was started then gets SIGTERM, and its status is the exit code (143 if that
    /// ended it). If it still runs 2 s later, it is left alone, and that is said (exit code 6).
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    duration: Option<Duration>,
    /// The record to write.
    ///
    /// `-` is standard output. An existing record is kept as FILE.old. With `-`, a command that is
    /// started writes its own output to standard error.
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "isotherm.data",
        help_heading = "Output"
    )]
    output: PathBuf,
    /// Print only warnings and errors.
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
    /// Seed for the random choice of pages.
    #[arg(long, help_heading = "Monitoring", hide_short_help = true)]
    seed: Option<u64>,
    #[command(flatten)]
    socket: SocketArg,
}

const EXAMPLES: &str = "Examples:
  isotherm record sleep 10                 a command, while it runs
  isotherm record 1234 --duration 1m       a process and its children
  isotherm record --unit redis -o r.data   a systemd unit, until Ctrl-C
  isotherm report                          what the record says, on one page";

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut attrs = args.attrs.attrs(Method::Census)?;
    signals::install()?;
    let agents = Watched::find(&args)?;
    let stdout = if args.output.as_os_str() == "-" { Some(take_stdout()?) } else { None };
    let (held, whose) = match agents {
        Agents::All(agents) => return agents.record(&args, stdout),
        Agents::Some { held, whose } => (held, whose),
        Agents::None => (BTreeSet::new(), String::new()),
    };
    let tracker = args.targets.tracker_beside(&held)?;
    let (set, why) = open_set_for(&args.targets, &mut attrs, args.attrs.is_auto())?;
    let seed = args.seed.unwrap_or_else(|| clock::now().as_ns());
    let mut monitor = Monitor::new(tracker, set, attrs, seed)?;
    monitor.follow(&args.targets.specs()?);
    take_in_targets(&mut monitor, &why).map_err(exit::refused)?;
    let builder = Recorder::builder(&args.output);
    let created = match stdout {
        Some(file) => builder.write_to(file, &mut monitor),
        None => builder.create(&mut monitor),
    };
    let mut recorder = created.map_err(not_created(&args.output))?;
    for line in &why {
        recorder.note(line);
        say(args.quiet, line);
    }
    if !held.is_empty() {
        let line = format!(
            "left out of this record: {}, as a record has one monitor's windows, and these numbers \
             are {whose}\n  hint:  `isotherm report --since 1h` has what the agent recorded",
            counted(held.len() as u64, "target"),
        );
        recorder.note(&line);
        warn(&line);
    }
    // If the command cannot be run, the old record stays where it is.
    monitor.tracker().start().map_err(|err| not_started(err, &args.targets))?;
    if let Some(text) = args.targets.waits(monitor.tracker()) {
        say(args.quiet, text);
    }
    if let Err(err) = recorder.keep() {
        end_command(&mut monitor);
        return Err(not_kept(err));
    }
    let reason = watch(&mut recorder, &mut monitor, &args, &held);
    let others = monitor.of_others();
    let summary = recorder.finish(&mut monitor, reason);
    let status = end_command(&mut monitor);
    let summary = match summary {
        Ok(summary) => summary,
        Err(err) => {
            warn(&format!("the record has no end: {err}"));
            return Ok(ExitCode::from(exit::PARTIAL));
        }
    };
    tell(&summary, reason, &args);
    if summary.written.snapshots == 0 && others > 0 {
        return Err(all_of_others(others));
    }
    let hole = summary.late.is_some_and(|late| late.is_much()) || !held.is_empty();
    if summary.failed_writes > 0 || reason == SET_FAILED || hole {
        return Ok(ExitCode::from(exit::PARTIAL));
    }
    Ok(status)
}

/// Takes standard output for the record alone. Whatever is written to it from now on, also by a
/// command that is started, goes to standard error.
fn take_stdout() -> anyhow::Result<File> {
    let stdout = std::io::stdout();
    if stdout.is_terminal() {
        return Err(exit::usage(
            "a record is binary, and standard output is a terminal\n  hint:  -o FILE, or pipe it: \
             isotherm record -o - ... | isotherm report wss -",
        ));
    }
    let file = File::from(stdout.as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(file)
}

/// Why a record ended, if its operations set failed.
const SET_FAILED: &str = "the operations set cannot go on";

/// Records until something ends the recording, and returns what did.
fn watch(
    recorder: &mut Recorder,
    monitor: &mut Monitor,
    args: &Args,
    held: &BTreeSet<u32>,
) -> &'static str {
    // That the agent watches these was said already.
    let is_new = |event: &Event| match event {
        Event::NotWatched { target, .. } => !held.contains(&target.pid),
        _ => true,
    };
    let mut progress = Progress::new(args.quiet);
    let started = Instant::now();
    let reason = loop {
        let step = recorder.step(monitor);
        let events = recorder.take_events();
        events.iter().filter(|e| is_new(e)).for_each(|event| warn(&event.to_string()));
        match step {
            Step::Window => progress.show(monitor.snapshot()),
            Step::Quiet => {}
            Step::Over => break "every target has exited",
            Step::Failed => break SET_FAILED,
        }
        if signals::stop_requested().is_some() {
            break "interrupted";
        }
        if args.duration.is_some_and(|d| started.elapsed() >= d) {
            break "the duration is over";
        }
    };
    progress.end();
    reason
}

/// Prints what a finished record holds, and what is missing from it.
fn tell(summary: &Summary, reason: &str, args: &Args) {
    summary.events.iter().for_each(|event| warn(&event.to_string()));
    if let Some((Share { seen, lost }, source)) = summary.kernel_windows {
        let all = seen + lost;
        say(args.quiet, &format!("{seen} of the kernel's {all} windows were seen, by {source}"));
    }
    if let Some(late) = &summary.late {
        warn(&late.to_string());
    }
    if let Some(others) = &summary.others {
        say(args.quiet, &others.to_string());
    }
    tell_written(summary.written, summary.failed_writes, reason, args);
}

/// Prints how much a finished record holds.
fn tell_written(written: Written, failed_writes: u64, reason: &str, args: &Args) {
    let Written { bytes: size, snapshots, regions, lost_snapshots } = written;
    let is_stdout = args.output.as_os_str() == "-";
    let path = if is_stdout { "standard output".into() } else { args.output.to_string_lossy() };
    let size = bytes(size);
    say(
        args.quiet,
        &format!(
            "{reason}: {}, {}, {size} in {path}",
            counted(snapshots, "snapshot"),
            counted(regions, "region")
        ),
    );
    if failed_writes > 0 {
        warn(&format!(
            "{failed_writes} writes failed; {lost_snapshots} of the {snapshots} snapshots are not in \
             the record"
        ));
    } else if snapshots == 0 && reason != SET_FAILED {
        warn(
            "no window was finished: no process matched, or none lived for an aggregation interval",
        );
    }
}

/// The error for a command that had nothing to look at, as other programs watch all processes that
/// match: so many.
pub(crate) fn all_of_others(nr: usize) -> anyhow::Error {
    exit::with(
        exit::UNEXPECTED,
        format!(
            "nothing was seen: all processes that match ({nr}) are watched already, by other programs\n  \
             why:   two would make the same pages old, and each would miss what the other has seen\n  \
             hint:  `isotherm ctl list` tells what an agent watches; who is in its group gets its \
             numbers"
        ),
    )
}

/// Ends the command that was started for the record, if it still runs, and returns its status.
pub(crate) fn end_command(monitor: &mut Monitor) -> ExitCode {
    let ended = isotherm::raw::agent::run::end_command(monitor);
    ended.map_or(ExitCode::SUCCESS, exit::of_child)
}

fn say(quiet: bool, text: &str) {
    if !quiet {
        writeln!(std::io::stderr(), "{text}").ok();
    }
}

/// What Isotherm took of one CPU, and, if the method tells, what the targets paid. `elapsed`: the
/// time in which they did, in ns.
fn shares(cost: &Cost, elapsed: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let share = |ns: u64| ns as f64 * 100.0 / elapsed.max(1) as f64;
    let own = format!("own cpu {:.2} %", share(cost.cpu_ns));
    match cost.target_ns {
        Some(ns) => format!("{own}, targets {:.2} %", share(ns)),
        None => own,
    }
}

/// The status line on the terminal: elapsed time, regions, working set, what watching
/// costs.
struct Progress {
    shown: bool,
    tty: bool,
    start: Option<Time>,
    next: Time,
    cost: Cost,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let tty = !quiet && std::io::stderr().is_terminal();
        Self { shown: false, tty, start: None, next: Time::default(), cost: Cost::default() }
    }

    fn show(&mut self, snapshot: &Snapshot) {
        let start = *self.start.get_or_insert(snapshot.start);
        self.cost.add(&snapshot.cost);
        if !self.tty || snapshot.end < self.next {
            return;
        }
        self.next = snapshot.end.plus_us(500_000);
        self.shown = true;
        let elapsed = snapshot.end.since(start).max(1);
        #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
        let seconds = elapsed as f64 / 1e9;
        write!(
            std::io::stderr(),
            "\r\x1b[K{seconds:6.1} s  {}  working set {}  {}",
            counted(snapshot.nr_regions() as u64, "region"),
            bytes(snapshot.in_use()),
            shares(&self.cost, elapsed),
        )
        .ok();
    }

    fn end(&self) {
        if self.shown {
            writeln!(std::io::stderr()).ok();
        }
    }
}
