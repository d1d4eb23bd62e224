//! `isotherm damonfs`: serves the files of the kernel's DAMON, so that programs for DAMON use
//! Isotherm unchanged.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use isotherm::raw::sys::signals;
use isotherm_damonfs::live::Live;
use isotherm_damonfs::space::{NotRun, Space};
use isotherm_damonfs::{ROOT, World, fuse};

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
    let world = Arc::new(World::new(Arc::new(Live::new(Arc::new(|text: &str| warn(text))))));
    match args.mountpoint {
        Some(mountpoint) => serve(&world, &mountpoint),
        None => {
            let must_end = || signals::stop_requested().is_some();
            let space = Space { command: args.command, must_end };
            space.run(&world).map(code_of).map_err(not_run)
        }
    }
}

fn serve(world: &Arc<World>, mountpoint: &std::path::Path) -> anyhow::Result<ExitCode> {
    let mounted = fuse::mount(Arc::clone(world), ROOT, mountpoint)
        .map_err(|why| not_run(NotRun { what: "cannot mount the tree", why }))?;
    while mounted.is_served() && signals::stop_requested().is_none() {
        std::thread::sleep(LOOK);
    }
    world.stop_all();
    mounted.unmount()?;
    Ok(ExitCode::SUCCESS)
}

/// The command's own status, as a shell shows it.
fn code_of(status: ExitStatus) -> ExitCode {
    let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
    let code = status.code().unwrap_or_else(by_signal);
    ExitCode::from(u8::try_from(code).unwrap_or(exit::UNEXPECTED))
}

fn not_run(not_run: NotRun) -> anyhow::Error {
    let code = match not_run.why.kind() {
        std::io::ErrorKind::PermissionDenied => exit::PERMISSION,
        std::io::ErrorKind::NotFound => exit::USAGE,
        _ => exit::UNEXPECTED,
    };
    exit::with(code, not_run.to_string())
}
