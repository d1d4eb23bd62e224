//! What a command finds besides the tree: a `perf` for DAMON's events, a list of these events, and
//! a `drgn` for contexts from inside.
//!
//! They are in a directory on a tmpfs that only the command sees. Outside, the directory is empty,
//! and is removed at the end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
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
    /// Locked as long as we live; the kernel lets go of it however we end.
    _lock: Option<File>,
}

/// What the names of all such directories begin with; the pid follows.
const NAME: &str = "isotherm-damonfs.";

impl Desk {
    /// Makes the directory. It is the same outside of the namespace, and empty there.
    pub(super) fn new() -> io::Result<Self> {
        Self::below(&[PathBuf::from("/run"), std::env::temp_dir()])
    }

    /// Makes it in the first of these places where that can be done, and removes those that killed
    /// ones have left there.
    fn below(places: &[PathBuf]) -> io::Result<Self> {
        let name = format!("{NAME}{}", std::process::id());
        let mut failed = None;
        for place in places {
            sweep(place);
            let dir = place.join(&name);
            match fs::create_dir(&dir) {
                Ok(()) => {
                    let lock = locked(&dir);
                    return Ok(Self { dir, _lock: lock });
                }
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

/// The directory, locked; none if somebody else holds the lock, or it cannot be had.
fn locked(dir: &Path) -> Option<File> {
    let file = File::open(dir).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}

/// Removes the directories of those that were killed. The lock tells that they are dead also where
/// their pids are of another namespace. A directory that is not empty stays.
fn sweep(place: &Path) {
    let own = std::process::id();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        let is_dead = pid == own || !Path::new("/proc").join(pid.to_string()).exists();
        if is_dead && locked(&entry.path()).is_some() {
            fs::remove_dir(entry.path()).ok();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_ones_left_is_swept_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let dir = place.path().join(name);
            fs::create_dir(&dir).unwrap();
            dir
        };
        // No pid is as large as that.
        let dead = make("isotherm-damonfs.99999991");
        let of_our_pid = make(&format!("{NAME}{}", std::process::id()));
        let full = make("isotherm-damonfs.99999992");
        fs::write(full.join("file"), "").unwrap();
        let elsewhere = make("isotherm-damonfs.99999993");
        let held = locked(&elsewhere).unwrap();
        let lives = make("isotherm-damonfs.1");
        let other = make("isotherm-other.99999994");
        let desk = Desk::below(&[place.path().to_owned()]).unwrap();
        assert!(!dead.exists());
        assert!(of_our_pid == desk.dir && full.exists() && lives.exists() && other.exists());
        assert!(elsewhere.exists(), "its owner lives, in another pid namespace");
        // A second one does not take away what the first has.
        assert!(locked(&desk.dir).is_none());
        drop(held);
        sweep(place.path());
        assert!(!elsewhere.exists() && desk.dir.exists());
        let dir = desk.dir.clone();
        drop(desk);
        assert!(!dir.exists());
    }
}
