//! A command in a mount namespace in which our tree is where the kernel has its own.
//!
//! Nothing of it is visible outside: before anything is mounted, all mounts of the new namespace
//! are made private, so none spreads back. Inside, the kernel's own tree is covered, so that nobody
//! there can read or write it by its usual path. The namespace, and with it every mount, goes away
//! with its last process.
//!
//! All of this is done on one thread, since a thread can be in a mount namespace of its own. That
//! thread has to unmount the tree as well: elsewhere the same path is another directory.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use isotherm_sys::namespace::own_mounts;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};

use crate::fuse;
use crate::tree::ROOT;
use crate::world::World;

/// Where the kernel has DAMON's tree.
const DAMON: &str = "/sys/kernel/mm/damon";
/// The directory that it is in.
const MM: &str = "/sys/kernel/mm";

/// How often the command is looked at, and whether it is to be told to end.
const LOOK: Duration = Duration::from_millis(20);

/// Why a command could not be run.
#[derive(Debug)]
pub struct NotRun {
    /// What was tried.
    pub what: &'static str,
    /// What the kernel said.
    pub why: io::Error,
}

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for NotRun {}

fn tried<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> NotRun {
    move |why| NotRun { what, why: why.into() }
}

/// A command that is run in a mount namespace with our tree.
#[derive(Debug, Clone)]
pub struct Space {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Says that the command has to end: it is sent SIGTERM then.
    pub must_end: fn() -> bool,
}

impl Space {
    /// Runs the command, and returns how it ended. What it has started in the tree is stopped then.
    ///
    /// # Errors
    ///
    /// If the namespace cannot be made, the tree cannot be mounted, or the command cannot be
    /// started.
    pub fn run(self, world: &Arc<World>) -> Result<ExitStatus, NotRun> {
        let thread = std::thread::Builder::new().name("namespace".into());
        let for_thread = Arc::clone(world);
        let thread = thread.spawn(move || self.run_here(for_thread));
        let thread = thread.map_err(tried("cannot start a thread"))?;
        let done = thread.join().unwrap_or_else(|_panic| {
            Err(NotRun { what: "cannot run the command", why: io::Error::other("internal error") })
        });
        world.stop_all();
        done
    }

    fn run_here(self, world: Arc<World>) -> Result<ExitStatus, NotRun> {
        own_mounts().map_err(tried("cannot make a mount namespace"))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        // If this fails, what is mounted could be seen outside, so nothing is.
        mount_change("/", private).map_err(tried("cannot make the mounts private"))?;
        if !Path::new(DAMON).is_dir() {
            make_place(Path::new(MM), Path::new(DAMON))?;
        }
        let mounted = fuse::mount(world, ROOT, Path::new(DAMON));
        let mounted = mounted.map_err(tried("cannot mount the tree"))?;
        let child = self.start()?;
        let status = self.wait(child);
        // A process that the command has left behind can hold it. It then goes away with the
        // namespace.
        mounted.unmount().ok();
        status
    }

    fn start(&self) -> Result<Child, NotRun> {
        let Some((program, args)) = self.command.split_first() else {
            return Err(tried("no command")(io::Error::from(io::ErrorKind::InvalidInput)));
        };
        let mut command = Command::new(program);
        command.args(args).arg0(program);
        command.spawn().map_err(tried("cannot start the command"))
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

/// Makes the directory `wanted` in a directory of a file system that takes no new ones. A tmpfs
/// covers `parent`, and what was in there is bound back.
fn make_place(parent: &Path, wanted: &Path) -> Result<(), NotRun> {
    let what = "cannot make a place for the tree";
    let entries = fs::read_dir(parent).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(tried(what))?;
    // Through this, the covered directory can still be reached.
    let before = rustix::fs::open(
        parent,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    let before = before.map_err(tried(what))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("isotherm", parent, "tmpfs", flags, Some(c"mode=0755")).map_err(tried(what))?;
    for entry in entries {
        let name = entry.file_name();
        let covered = fd_path(&before).join(&name);
        let place = parent.join(&name);
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::create_dir(&place).map_err(tried(what))?;
        } else {
            fs::write(&place, "").map_err(tried(what))?;
        }
        mount_bind_recursive(&covered, &place).map_err(tried(what))?;
    }
    fs::create_dir_all(wanted).map_err(tried(what))
}

/// The path of an open directory, also of one that is covered.
fn fd_path(fd: &rustix::fd::OwnedFd) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd()).into()
}
