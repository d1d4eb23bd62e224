//! `isotherm damonfs`: serves the files of the kernel's DAMON, so that programs for DAMON use
//! Isotherm unchanged.

mod stand_in;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use isotherm::raw::sys::signals;
use isotherm_damonfs::debugfs::{self, Debugfs};
use isotherm_damonfs::live::{Live, Log};
use isotherm_damonfs::space::{NotRun, Space};
use isotherm_damonfs::trace::Trace;
use isotherm_damonfs::{DAMON, Served, World, fuse};

use crate::exit;
use crate::terminal::warn;

pub(crate) use stand_in::as_another;

/// How often is looked for a signal, and whether somebody has unmounted the tree.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `isotherm damonfs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve the tree at this directory, until it is unmounted or this command is stopped.
    #[arg(value_name = "MOUNTPOINT", required_unless_present = "command")]
    mountpoint: Option<PathBuf>,
    /// Serve DAMON's files of before 2022, as attrs and schemes.
    ///
    /// At the directory instead of the tree, or for a command, besides it, at
    /// /sys/kernel/debug/damon.
    #[arg(long)]
    debugfs: bool,
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
        Some(mountpoint) => serve(&world, args.debugfs, &mountpoint),
        None => {
            let must_end = || signals::stop_requested().is_some();
            let space =
                Space { command: args.command, must_end, trace, debugfs: args.debugfs, log };
            space.run(&world).map(code_of).map_err(not_run)
        }
    }
}

fn serve(world: &Arc<World>, old: bool, mountpoint: &Path) -> anyhow::Result<ExitCode> {
    let (files, root): (Arc<dyn Served>, _) = if old {
        (Debugfs::new(Arc::clone(world)), debugfs::ROOT)
    } else {
        (Arc::clone(world) as _, DAMON)
    };
    let mounted = fuse::mount(files, root, mountpoint).map_err(|why| {
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
