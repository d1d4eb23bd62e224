//! A command in a mount namespace in which our tree is where the kernel has its own.
//!
//! Nothing of it is visible outside: before anything is mounted, all mounts of the new namespace
//! are made private, so none spreads back. Inside, the kernel's own tree is covered, so that nobody
//! there can read or write it by its usual path. The namespace, and with it every mount, goes away
//! with its last process.
//!
//! All of this is done on one thread, since a thread can be in a mount namespace of its own. That
//! thread has to unmount the tree as well: elsewhere the same path is another directory.

mod desk;
mod place;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};

use isotherm_sys::namespace::own_mounts;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use self::desk::Desk;
use crate::debugfs::{self, Debugfs};
use crate::fuse::{self, Mounted};
use crate::live::Log;
use crate::perf::SOCKET;
use crate::trace::Trace;
use crate::tree::{DAMON, MODULES};
use crate::world::World;

/// Where the kernel has DAMON's tree.
const PLACE: &str = "/sys/kernel/mm/damon";
/// Where debugfs is mounted, if it is.
const DEBUGFS: &str = "/sys/kernel/debug";
/// Where the kernel had DAMON's files before the tree.
const OLD_PLACE: &str = "/sys/kernel/debug/damon";
/// Where the kernel has the modules' directories.
const MODULE: &str = "/sys/module";
/// The directory that it is in.
const MM: &str = "/sys/kernel/mm";

/// How often the command is looked at, and whether it is to be told to end.
const LOOK: Duration = Duration::from_millis(20);

/// Why a command could not be run.
#[derive(Debug)]
pub struct NotRun {
    /// What was tried.
    pub what: String,
    /// What the kernel said.
    pub why: io::Error,
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for NotRun {}

fn tried<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> NotRun {
    move |why| NotRun { what: what.into(), why: why.into() }
}

/// A command that is run in a mount namespace with our tree.
pub struct Space {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Says that the command has to end: it is sent SIGTERM then.
    pub must_end: fn() -> bool,
    /// The events of what runs.
    pub trace: Arc<Trace>,
    /// Whether the command also finds the files of debugfs.
    pub debugfs: bool,
    /// Takes what could not be done although the command runs.
    pub log: Log,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("command", &self.command).finish_non_exhaustive()
    }
}

impl Space {
    /// Runs the command, and returns how it ended. What it has started in the tree is stopped then.
    ///
    /// # Errors
    ///
    /// If the namespace cannot be made, the tree cannot be mounted, or the command cannot be
    /// started.
    pub fn run(self, world: &Arc<World>) -> Result<ExitStatus, NotRun> {
        let desk = Desk::new().map_err(tried("cannot make a directory"))?;
        let done = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("namespace".into());
            let thread = thread.spawn_scoped(scope, || self.run_here(&desk, Arc::clone(world)));
            let panicked = |_| {
                let why = io::Error::other("internal error");
                Err(NotRun { what: "cannot run the command".into(), why })
            };
            let thread = thread.map_err(tried("cannot start a thread"))?;
            thread.join().unwrap_or_else(panicked)
        });
        world.stop_all();
        done
    }

    fn run_here(&self, desk: &Desk, world: Arc<World>) -> Result<ExitStatus, NotRun> {
        own_mounts().map_err(tried("cannot make a mount namespace"))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        // If this fails, what is mounted could be seen outside, so nothing is.
        mount_change("/", private).map_err(tried("cannot make the mounts private"))?;
        let place = place::make(Path::new(MM), Path::new(PLACE));
        place.map_err(tried("cannot make a place for the tree"))?;
        let mounted = fuse::mount(Arc::clone(&world) as _, DAMON, Path::new(PLACE));
        let mounted = mounted.map_err(tried("cannot mount the tree"))?;
        let lack = desk.fill(&self.trace, &world);
        let lack = lack.map_err(tried("cannot make a `perf` for the command"))?;
        if let Some(lack) = lack {
            (self.log)(&lack);
        }
        let modules = desk.modules().map_err(tried("cannot make a directory"))?;
        let modules = fuse::mount(Arc::clone(&world) as _, MODULES, &modules)
            .map_err(tried("cannot mount the modules' parameters"))?;
        if let Err(why) = desk.show_modules() {
            (self.log)(&format!("the modules' parameters are not at {MODULE}: {why}"));
        }
        let old = if self.debugfs { Some(self.mount_old(&world)?) } else { None };
        let child = self.start(desk)?;
        let status = self.wait(child);
        // A process that the command has left behind can hold them, and so can the other places of
        // the modules. So nobody waits for their end, which comes with this process at the latest.
        drop(old);
        drop(modules);
        drop(mounted);
        status
    }

    /// Mounts the files of debugfs to where the kernel had them.
    fn mount_old(&self, world: &Arc<World>) -> Result<Mounted, NotRun> {
        let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
        let is_mounted = mounts.lines().any(|line| line.split(' ').nth(1) == Some(DEBUGFS));
        if !is_mounted {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            // Programs that look for debugfs in the list of mounts do not find it then; those that
            // use its usual path do.
            if let Err(why) = mount("debugfs", DEBUGFS, "debugfs", flags, None) {
                (self.log)(&format!("there is no debugfs around DAMON's files: {why}"));
            }
        }
        let place = place::make(Path::new(DEBUGFS), Path::new(OLD_PLACE));
        place.map_err(tried("cannot make a place for the files of debugfs"))?;
        let files = Debugfs::new(Arc::clone(world));
        fuse::mount(files, debugfs::ROOT, Path::new(OLD_PLACE))
            .map_err(tried("cannot mount the files of debugfs"))
    }

    fn start(&self, desk: &Desk) -> Result<Child, NotRun> {
        let Some((program, args)) = self.command.split_first() else {
            return Err(tried("no command")(io::Error::from(io::ErrorKind::InvalidInput)));
        };
        let mut command = Command::new(program);
        command.args(args).env("PATH", desk.search_path()).env(SOCKET, desk.socket());
        let what = format!("cannot start {}", program.display());
        command.spawn().map_err(tried(what))
    }

    fn wait(&self, mut child: Child) -> Result<ExitStatus, NotRun> {
        let mut told = false;
        loop {
            if let Some(status) = child.try_wait().map_err(tried("cannot wait for the command"))? {
                return Ok(status);
            }
            if !told && (self.must_end)() {
                told = true;
                let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
                if let Some(pid) = pid {
                    rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}
