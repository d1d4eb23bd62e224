//! A trace instance of our own, and what dead owners left.
//!
//! The name is `isotherm-PID-START-N`: the owner's pid and start time, and a number. The start time
//! tells the owner from a later process with the same pid. The owner keeps files of the instance
//! open. So the kernel refuses to remove it (EBUSY) while the owner lives, even if a process in
//! another pid namespace takes the owner for dead.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use isotherm_host::proc::Proc;

use super::error::{self, TraceError};
use super::place::Place;

const PREFIX: &str = "isotherm-";

/// Numbers the instances of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A directory below `instances`, removed when dropped.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
}

impl Instance {
    /// Makes an instance.
    ///
    /// # Errors
    ///
    /// What the kernel says: no permission, no memory.
    pub(super) fn create(place: &Place) -> Result<Self, TraceError> {
        let pid = std::process::id();
        let mut text = Vec::new();
        let start = Proc::default().stat(pid, &mut text).map(|stat| stat.starttime);
        let start = start.map_err(|e| error::io("read", Path::new("/proc/self/stat"), e))?;
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = place.instances().join(format!("{PREFIX}{pid}-{start}-{n}"));
        std::fs::create_dir(&path).map_err(|e| error::io("create", &path, e))?;
        Ok(Self { path })
    }

    /// Its directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes to one of its files.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn write(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path.join(file);
        std::fs::write(&path, value).map_err(|e| error::io(&format!("write {value} to"), &path, e))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // If the instance cannot be removed now (somebody has a file open), the next owner removes
        // it.
        std::fs::remove_dir(&self.path).ok();
    }
}

/// What was found of dead owners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Instances that were removed.
    pub removed: Vec<String>,
    /// Instances that could not be, with what the kernel said.
    pub kept: Vec<(String, String)>,
}

/// Removes the instances whose owners are dead.
///
/// # Errors
///
/// If the instances cannot be listed.
pub fn remove_leftovers(place: &Place, proc: &Proc) -> Result<Leftovers, TraceError> {
    let dir = place.instances();
    let list = || -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&dir)?.map(|entry| Ok(entry?.file_name()));
        names.map(|n| n.map(|n| n.to_string_lossy().into_owned())).collect()
    };
    let mut left = Leftovers::default();
    for name in list().map_err(|e| error::io("list", &dir, e))? {
        let Some((pid, start)) = owner(&name) else { continue };
        let mut text = Vec::new();
        let lives = match proc.stat(pid, &mut text) {
            Ok(stat) => stat.starttime == start,
            // Not to be seen is not dead.
            Err(e) => !isotherm_host::proc::is_gone(&e),
        };
        if lives {
            continue;
        }
        match std::fs::remove_dir(dir.join(&name)) {
            Ok(()) => left.removed.push(name),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => left.kept.push((name, e.to_string())),
        }
    }
    Ok(left)
}

/// The pid and start time in an instance's name. `None` if the instance is not ours.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let (pid, start, n) = (parts.next()?, parts.next()?, parts.next()?);
    n.parse::<u64>().ok()?;
    parts.next().is_none().then_some(())?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dead_lose_their_instances() {
        let dir = tempfile::tempdir().unwrap();
        let instances = dir.path().join("instances");
        let proc = Proc::default();
        let mut text = Vec::new();
        let start = proc.stat(std::process::id(), &mut text).unwrap().starttime;
        let own = format!("isotherm-{}-{start}-7", std::process::id());
        let reused = format!("isotherm-{}-{}-0", std::process::id(), start + 1);
        let dead = format!("isotherm-{}-5-0", i32::MAX);
        let others = ["somebody", "isotherm-x-1-0", "isotherm-1-1", "isotherm-1-1-1-1"];
        let all = others.into_iter().chain([own.as_str(), reused.as_str(), dead.as_str()]);
        for name in all {
            std::fs::create_dir_all(instances.join(name)).unwrap();
        }
        let mut left = remove_leftovers(&Place::at(dir.path()), &proc).unwrap();
        left.removed.sort();
        let mut expected = [reused, dead];
        expected.sort();
        assert_eq!(left.removed, expected);
        assert_eq!(left.kept, []);
        assert!(instances.join(own).is_dir() && others.iter().all(|n| instances.join(n).is_dir()));
    }
}
