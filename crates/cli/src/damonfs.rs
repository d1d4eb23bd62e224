//! `isotherm damonfs`: serves the files of the kernel's DAMON, so that programs for DAMON use
//! Isotherm unchanged.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use isotherm::raw::sys::signals;
use isotherm_damonfs::live::{Live, Log};
use isotherm_damonfs::perf::{self, Asked};
use isotherm_damonfs::space::{NotRun, Space};
use isotherm_damonfs::trace::Trace;
use isotherm_damonfs::{DAMON, World, fuse};

use crate::exit;
use crate::terminal::warn;

/// How often is looked for a signal, and whether somebody has unmounted the tree.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `isotherm damonfs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve the tree at this directory, until it is unmounted or this command is stopped.
    #[arg(value_name = "MOUNTPOINT", required_unless_present = "command")]
    mountpoint: Option<PathBuf>,
    /// Run a command that sees the tree at /sys/kernel/mm/damon.
    ///
    /// Nobody else sees it. What the command has started in the tree ends with it.
    #[arg(last = true, value_name = "CMD", conflicts_with = "mountpoint")]
    command: Vec<OsString>,
}

/// Runs `isotherm damonfs`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    signals::install()?;
    let log: Log = Arc::new(|text: &str| warn(text));
    let trace = Arc::new(Trace::default());
    let engine = Live::new(Arc::clone(&log), Arc::clone(&trace));
    let world = World::new(Arc::new(engine));
    match args.mountpoint {
        Some(mountpoint) => serve(&world, &mountpoint),
        None => {
            let must_end = || signals::stop_requested().is_some();
            let space = Space { command: args.command, must_end, trace, log };
            space.run(&world).map(code_of).map_err(not_run)
        }
    }
}

fn serve(world: &Arc<World>, mountpoint: &Path) -> anyhow::Result<ExitCode> {
    let mounted = fuse::mount(Arc::clone(world), DAMON, mountpoint).map_err(|why| {
        not_run(NotRun { what: format!("cannot mount the tree at {}", mountpoint.display()), why })
    })?;
    while mounted.is_served() && signals::stop_requested().is_none() {
        std::thread::sleep(LOOK);
    }
    world.stop_all();
    // Who has unmounted it has ended it in the right way.
    if mounted.is_served() {
        mounted.unmount()?;
    } else {
        mounted.wait()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The command's own status, as a shell shows it.
fn code_of(status: ExitStatus) -> ExitCode {
    let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
    let code = status.code().unwrap_or_else(by_signal);
    ExitCode::from(u8::try_from(code).unwrap_or(exit::UNEXPECTED))
}

/// An error that says what to do about it.
fn not_run(not_run: NotRun) -> anyhow::Error {
    let (code, hint) = match not_run.why.kind() {
        std::io::ErrorKind::PermissionDenied => (
            exit::PERMISSION,
            "run it as root: it mounts a file system and reads other processes' memory",
        ),
        std::io::ErrorKind::NotFound => (exit::USAGE, "check the path for a typing mistake"),
        _ => (exit::UNEXPECTED, "`isotherm doctor` shows what this machine supports"),
    };
    exit::with(code, format!("{}\n  why:   {}\n  hint:  {hint}", not_run.what, not_run.why))
}

/// Runs the stand-in of `perf`, if this program was started by that name in a namespace of
/// `isotherm damonfs`.
pub(crate) fn as_perf() -> Option<anyhow::Result<ExitCode>> {
    let mut words = std::env::args_os();
    let name = PathBuf::from(words.next()?);
    let socket = PathBuf::from(std::env::var_os(perf::SOCKET)?);
    if name.file_name()? != "perf" {
        return None;
    }
    let args: Vec<OsString> = words.collect();
    Some(
        match perf::asked(&args) {
            Asked::Record { output, events } => record(&socket, &output, &events),
            Asked::Script { input } => match perf::script(&input) {
                Ok(Some(text)) => std::io::stdout().write_all(&text).map_err(Into::into),
                Ok(None) => return Some(real_perf(&socket, &args)),
                Err(why) => Err(exit::usage(format!("cannot read {}: {why}", input.display()))),
            },
            Asked::Version => {
                writeln!(std::io::stdout(), "perf version {}", env!("CARGO_PKG_VERSION"))
                    .map_err(Into::into)
            }
            Asked::Other => return Some(real_perf(&socket, &args)),
        }
        .map(|()| ExitCode::SUCCESS),
    )
}

fn record(socket: &Path, output: &Path, events: &[String]) -> anyhow::Result<()> {
    signals::install()?;
    let must_end = || signals::stop_requested().is_some();
    perf::record(socket, output, events, must_end).map_err(|why| {
        let file = output.display();
        exit::with(exit::UNEXPECTED, format!("cannot record events into {file}: {why}"))
    })
}

/// Runs the real `perf` instead of this program.
fn real_perf(socket: &Path, args: &[OsString]) -> anyhow::Result<ExitCode> {
    let own = socket.with_file_name("bin");
    let real = std::env::var_os("PATH").and_then(|path| perf::real(&path, &own));
    let Some(real) = real else {
        let text = "this `perf` is a part of `isotherm damonfs`, and knows events of DAMON only\n  hint:  \
                    install perf for everything else";
        return Err(exit::with(exit::NOT_SUPPORTED, text));
    };
    let why = std::process::Command::new(&real).args(args).exec();
    Err(exit::with(exit::UNEXPECTED, format!("cannot run {}: {why}", real.display())))
}
