//! One user of idle marks per machine.
//!
//! Idle marks belong to the machine, not to the program that set them. If two programs mark the
//! same frames, a page that was touched between the two marks looks idle to the first. So a program
//! that marks holds an advisory lock on a file, which contains the holder's pid. The lock does not
//! stop programs that do not know it, nor the kernel's DAMON.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use isotherm_host::error::{SetError, SetKind};
use isotherm_host::proc::Proc;
use rustix::fs::{FlockOperation, Mode, OFlags};

use super::SET;

/// The lock file. Only root can use the directory. The file is there while the lock is held; one
/// that a killed holder left is taken over.
pub const LOCK: &str = "/run/isotherm-idle.lock";

/// The right to mark frames; dropping it lets it go.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Drop for Lock {
    /// The file goes while the lock is still held, so nobody else's file is removed.
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            // A file that stays is taken over by the next holder.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

impl Lock {
    /// Takes the lock at `path`, usually [`LOCK`], if it is free.
    ///
    /// # Errors
    ///
    /// [`SetKind::Busy`] with the holder's pid, or what the kernel said.
    pub fn take(path: &Path) -> Result<Self, SetError> {
        let failed = |e: rustix::io::Errno| {
            let kind = match e {
                rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => SetKind::Permission,
                _ => SetKind::Io,
            };
            let tried = format!("lock {}", path.display());
            let why =
                "who makes the memory of the whole machine old holds this lock, and only root may";
            SetError::of_set(SET, kind, tried, why, "run as root").with(e.into())
        };
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = loop {
            let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            let mut file = File::from(file);
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The holder before us may have removed the file after we had opened it.
                Ok(()) if is_at(&file, path) => break file,
                Ok(()) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(busy(path, &mut file)),
                Err(e) => return Err(failed(e)),
            }
        };
        // For people to read; the lock holds without it.
        let told = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        drop(told);
        Ok(Self { path: path.to_owned(), file })
    }
}

/// Whether the open file is the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let facts = (file.metadata(), std::fs::symlink_metadata(path));
    matches!(facts, (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

fn busy(path: &Path, file: &mut File) -> SetError {
    let mut pid = String::new();
    file.read_to_string(&mut pid).ok();
    // The number can be that of a holder who was killed: the next one has just taken the lock, and
    // has not written its own yet.
    let runs = |pid: &u32| Proc::default().path_of(*pid, "stat").exists();
    let who = match pid.parse().ok().filter(runs) {
        Some(pid) => format!("process {pid}"),
        None => "a process".to_owned(),
    };
    SetError::of_set(
        SET,
        SetKind::Busy,
        format!("lock {}", path.display()),
        format!(
            "{who} makes memory of the whole machine old, to see what is touched (`isotherm idle`, or \
             operations set `idle`); with two at a time, touched memory would look idle"
        ),
        "wait until it has ended",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_who_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::take(&path).unwrap();
        let err = Lock::take(&path).unwrap_err();
        assert_eq!(err.kind(), SetKind::Busy);
        assert!(err.why().starts_with(&format!("process {} ", std::process::id())), "{err}");
        drop(first);
        assert!(!path.exists(), "nothing stays behind");
        std::fs::write(&path, "what\nis this").unwrap();
        let second = Lock::take(&path).unwrap();
        std::fs::write(&path, "what\nis this").unwrap();
        assert!(Lock::take(&path).unwrap_err().why().starts_with("a process "));
        // A holder that was killed has left its pid, and the next one has not written its own yet.
        std::fs::write(&path, "999999999").unwrap();
        assert!(Lock::take(&path).unwrap_err().why().starts_with("a process "));
        drop(second);
        // A file that its holder removes while another waits for it is not taken for the lock.
        let held = Lock::take(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let other = Lock::take(&path).unwrap();
        assert!(is_at(&other.file, &path) && !is_at(&held.file, &path));
        let err = Lock::take(&dir.path().join("no/such/directory")).unwrap_err();
        assert_eq!(err.kind(), SetKind::Io);
    }
}
