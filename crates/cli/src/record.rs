//! `isotherm record`: watches processes and writes a record of their accesses to a file.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::agent::monitor::Monitor;
use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::agent::recorder::{Recorder, Step, Summary};
use isotherm::raw::core::units::{bytes, duration};
use isotherm::raw::core::{Snapshot, Time};
use isotherm::raw::ops::kdamond::Share;
use isotherm::raw::ops::targets::{Memory, Tracker};
use isotherm::raw::record::Written;
use isotherm::raw::sys::{clock, signals};

use crate::attrs::AttrsArgs;
use crate::exit::{self, usage};
use crate::files::{not_created, not_kept};
use crate::sets::{OpsArg, open_set_for};
use crate::terminal::warn;

/// Arguments of `isotherm record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The record to write. An existing record is kept as FILE.old.
    #[arg(short, long, value_name = "FILE", default_value = "isotherm.data")]
    output: PathBuf,
    #[command(flatten)]
    targets: TargetArgs,
    /// Stop after this time (seconds if no unit is given). A command started with `-- CMD` then
    /// gets SIGTERM.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Print only warnings and errors.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    attrs: AttrsArgs,
    /// Seed for the random choice of pages.
    #[arg(long)]
    seed: Option<u64>,
}

/// Options that say which memory is watched and by which operations set, which `record` and `wss`
/// share.
#[derive(Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// Watch this process and its children. May be given more than once.
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',')]
    pids: Vec<u32>,
    /// Watch physical memory: all of it, that of a node (node:1), or ranges of physical addresses
    /// (4G-6G,...).
    #[arg(
        long,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        conflicts_with_all = ["pids", "command", "no_children"]
    )]
    paddr: Option<String>,
    /// Do not watch the children of the given processes.
    #[arg(long)]
    no_children: bool,
    /// Which operations set looks at the memory.
    #[arg(long, value_enum, default_value_t = OpsArg::Auto)]
    ops: OpsArg,
    /// Start this command and watch it.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl TargetArgs {
    /// Attaches to the pids, and starts the command but holds it before its first instruction.
    pub(crate) fn tracker(&self) -> anyhow::Result<Tracker> {
        if let Some(memory) = self.memory()? {
            return Tracker::memory(memory).map_err(exit::of);
        }
        if self.pids.is_empty() && self.command.is_empty() {
            return Err(usage(
                "nothing to watch\n  hint:  give a process (-p PID), a command (-- CMD ARGS), or --paddr for \
                 physical memory",
            ));
        }
        let follow = !self.no_children;
        let mut tracker = Tracker::attach(&self.pids, follow).map_err(exit::of)?;
        if let Some((command, args)) = self.command.split_first() {
            tracker.spawn_into(command, args).map_err(exit::of)?;
            // Otherwise a daemon that forks twice right after its start would not be found. The
            // command is our only child.
            tracker.adopt_orphans()?;
        }
        Ok(tracker)
    }

    /// The physical memory to watch, as the user wrote it.
    pub(crate) fn paddr(&self) -> Option<&str> {
        self.paddr.as_deref()
    }

    fn memory(&self) -> anyhow::Result<Option<Memory>> {
        let memory = self.paddr().map(Memory::parse).transpose();
        memory.map_err(exit::of)
    }

    /// The targets, for a policy.
    pub(crate) fn specs(&self) -> anyhow::Result<Vec<TargetSpec>> {
        let mut specs: Vec<_> = self.pids.iter().copied().map(TargetSpec::Pid).collect();
        if !self.command.is_empty() {
            specs.push(TargetSpec::Command(words(&self.command)?));
        }
        specs.extend(self.memory()?.map(TargetSpec::Memory));
        Ok(specs)
    }

    /// Whether children are watched, too.
    pub(crate) const fn follow(&self) -> bool {
        !self.no_children
    }

    /// The operations set that `--ops` asks for.
    pub(crate) const fn ops(&self) -> OpsArg {
        self.ops
    }
}

/// The command's words as UTF-8, as a policy holds them.
pub(crate) fn words(command: &[OsString]) -> anyhow::Result<Vec<String>> {
    let word = |w: &OsString| w.to_str().map(str::to_owned);
    let words: Option<Vec<_>> = command.iter().map(word).collect();
    words.ok_or_else(|| usage("the command is not UTF-8\n  hint:  put it into a script"))
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut attrs = args.attrs.attrs()?;
    signals::install()?;
    let tracker = args.targets.tracker()?;
    let (set, why) = open_set_for(&args.targets, &mut attrs)?;
    let seed = args.seed.unwrap_or_else(|| clock::now().as_ns());
    let mut monitor = Monitor::new(tracker, set, attrs, seed)?;
    let created = Recorder::builder(&args.output).create(&mut monitor);
    let mut recorder = created.map_err(not_created(&args.output))?;
    for line in &why {
        recorder.note(line);
        say(args.quiet, line);
    }
    // If the command cannot be run, the old record stays where it is.
    monitor.tracker().start().map_err(exit::of)?;
    if let Err(err) = recorder.keep() {
        end_command(&mut monitor);
        return Err(not_kept(err));
    }
    let reason = watch(&mut recorder, &mut monitor, &args);
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
    if summary.failed_writes > 0 || reason == SET_FAILED {
        return Ok(ExitCode::from(exit::PARTIAL));
    }
    Ok(status)
}

/// Why a record ended, if its operations set failed.
const SET_FAILED: &str = "the operations set cannot go on";

/// Records until something ends the recording, and returns what did.
fn watch(recorder: &mut Recorder, monitor: &mut Monitor, args: &Args) -> &'static str {
    let mut progress = Progress::new(args.quiet);
    let started = Instant::now();
    let reason = loop {
        let step = recorder.step(monitor);
        recorder.take_events().iter().for_each(|event| warn(&event.to_string()));
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
    let Written { bytes: size, snapshots, regions, lost_snapshots } = summary.written;
    let (size, path) = (bytes(size), args.output.display());
    say(
        args.quiet,
        &format!("{reason}: {snapshots} snapshots, {regions} regions, {size} in {path}"),
    );
    if summary.failed_writes > 0 {
        warn(&format!(
            "{} writes failed; {lost_snapshots} of the {snapshots} snapshots are not in the record",
            summary.failed_writes
        ));
    } else if snapshots == 0 && reason != SET_FAILED {
        warn(
            "no window was finished; a record needs a target that lives for an aggregation interval",
        );
    }
}

/// Ends the command that was started for the record, if it still runs, and returns its status.
pub(crate) fn end_command(monitor: &mut Monitor) -> ExitCode {
    match isotherm::raw::agent::run::end_command(monitor) {
        // The command ended by our own SIGTERM, which is no failure of the command.
        Some(exit) if exit.shell_code() != 128 + 15 => {
            ExitCode::from(u8::try_from(exit.shell_code()).unwrap_or(exit::UNEXPECTED))
        }
        _ => ExitCode::SUCCESS,
    }
}

fn say(quiet: bool, text: &str) {
    if !quiet {
        writeln!(std::io::stderr(), "{text}").ok();
    }
}

/// The status line on the terminal: elapsed time, regions, working set, own cost.
struct Progress {
    shown: bool,
    tty: bool,
    start: Option<Time>,
    next: Time,
    cpu_ns: u64,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let tty = !quiet && std::io::stderr().is_terminal();
        Self { shown: false, tty, start: None, next: Time::default(), cpu_ns: 0 }
    }

    fn show(&mut self, snapshot: &Snapshot) {
        let start = *self.start.get_or_insert(snapshot.start);
        self.cpu_ns += snapshot.cost.cpu_ns;
        if !self.tty || snapshot.end < self.next {
            return;
        }
        self.next = snapshot.end.plus_us(500_000);
        self.shown = true;
        let elapsed = snapshot.end.since(start).max(1);
        #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
        let (seconds, cpu) = (elapsed as f64 / 1e9, self.cpu_ns as f64 * 100.0 / elapsed as f64);
        write!(
            std::io::stderr(),
            "\r\x1b[K{seconds:6.1} s  {} regions  working set {}  own cpu {cpu:.2} %",
            snapshot.nr_regions(),
            bytes(snapshot.working_set()),
        )
        .ok();
    }

    fn end(&self) {
        if self.shown {
            writeln!(std::io::stderr()).ok();
        }
    }
}
