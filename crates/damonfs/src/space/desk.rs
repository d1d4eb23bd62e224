//! What a command finds besides the tree: a `perf` for DAMON's events, a list of these events, and
//! a `drgn` for contexts from inside.
//!
//! They are in a directory on a tmpfs that only the command sees. Outside, the directory is empty,
//! and is removed at the end.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::mount::{MountFlags, mount, mount_bind};

use super::place;
use crate::drgn;
use crate::trace::{EVENTS, Trace};
use crate::world::World;

/// Where tracefs is mounted, if it is.
const TRACEFS: &str = "/sys/kernel/tracing";

/// The directory of a command.
#[derive(Debug)]
pub(super) struct Desk {
    dir: PathBuf,
}

impl Desk {
    /// Makes the directory. It is the same outside of the namespace, and empty there.
    pub(super) fn new() -> io::Result<Self> {
        let name = format!("isotherm-damonfs.{}", std::process::id());
        let places = [PathBuf::from("/run"), std::env::temp_dir()];
        let mut failed = None;
        for place in places {
            let dir = place.join(&name);
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(Self { dir }),
                Err(err) => failed = Some(err),
            }
        }
        Err(failed.unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound)))
    }

    /// Fills it, in the calling thread's namespace. Returns what could not be done, for people.
    pub(super) fn fill(
        &self,
        trace: &Arc<Trace>,
        world: &Arc<World>,
    ) -> io::Result<Option<String>> {
        place::tmpfs(&self.dir)?;
        fs::create_dir(self.bin())?;
        let program = std::env::current_exe()?;
        symlink(&program, self.bin().join("perf"))?;
        symlink(&program, self.bin().join("drgn"))?;
        trace.serve(&self.socket())?;
        drgn::serve(world, &self.dir.join(drgn::SOCKET))?;
        let events = self.dir.join("available_events");
        fs::write(&events, EVENTS.map(|event| format!("{event}\n")).concat())?;
        Ok(list_events(&events).err().map(|err| format!("tracefs lists no events of DAMON: {err}")))
    }

    /// Makes the directory at which the modules' directories are to be mounted.
    pub(super) fn modules(&self) -> io::Result<PathBuf> {
        let dir = self.dir.join("module");
        fs::create_dir(&dir)?;
        Ok(dir)
    }

    /// Puts the modules' directories to where the kernel has its own.
    pub(super) fn show_modules(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.dir.join("module"))? {
            let entry = entry?;
            let wanted = Path::new(super::MODULE).join(entry.file_name());
            place::make(Path::new(super::MODULE), &wanted)?;
            mount_bind(entry.path(), &wanted)?;
        }
        Ok(())
    }

    /// The directory of programs.
    fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// The socket on which events are told.
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("trace.sock")
    }

    /// The search path with our programs in front.
    pub(super) fn search_path(&self) -> OsString {
        let before = std::env::var_os("PATH").unwrap_or_default();
        let all = [self.bin()].into_iter().chain(std::env::split_paths(&before));
        // Only a path with a colon in it cannot be joined, and none of ours has one.
        std::env::join_paths(all).unwrap_or(before)
    }
}

impl Drop for Desk {
    /// Has to happen outside of the namespace, where the directory is empty.
    fn drop(&mut self) {
        fs::remove_dir(&self.dir).ok();
    }
}

/// Has the list of events in tracefs say what we tell, as programs look there.
fn list_events(events: &Path) -> io::Result<()> {
    let tracefs = Path::new(TRACEFS);
    if !tracefs.join("available_events").exists() {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("tracefs", tracefs, "tracefs", flags, None)?;
    }
    Ok(mount_bind(events, tracefs.join("available_events"))?)
}
