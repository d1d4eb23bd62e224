//! One user of idle marks per machine.
//!
//! Idle marks belong to the machine, not to the program that set them. If two programs mark the
//! same frames, a page that was touched between the two marks looks idle to the first. So a program
//! that marks holds an advisory lock on a file, which contains the holder's pid. The lock does not
//! stop programs that do not know it, nor the kernel's DAMON.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use isotherm_host::error::{SetError, SetKind};
use rustix::fs::{FlockOperation, Mode, OFlags};

use super::SET;

/// The lock file. Only root can use the directory, and it is empty after a boot.
pub const LOCK: &str = "/run/isotherm-idle.lock";

/// The right to mark frames; dropping it lets it go.
#[derive(Debug)]
pub struct Lock {
    _file: File,
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
            SetError::of_set(SET, kind, tried, "", "run as root").with(e.into())
        };
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let mut file = File::from(file);
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(busy(path, &mut file)),
                Err(e) => return Err(failed(e)),
            }
        }
        // For people to read; the lock holds without it.
        let told = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        drop(told);
        Ok(Self { _file: file })
    }
}

fn busy(path: &Path, file: &mut File) -> SetError {
    let mut pid = String::new();
    let known = file.read_to_string(&mut pid).is_ok() && pid.bytes().all(|b| b.is_ascii_digit());
    let who = if known && !pid.is_empty() { format!("process {pid}") } else { "a process".into() };
    SetError::of_set(
        SET,
        SetKind::Busy,
        format!("lock {}", path.display()),
        format!(
            "{who} uses idle page tracking; its marks are the whole machine's, and with two users \
             touched pages would look idle"
        ),
        "wait until it has ended, or use another operations set",
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
        std::fs::write(&path, "what\nis this").unwrap();
        let second = Lock::take(&path).unwrap();
        std::fs::write(&path, "what\nis this").unwrap();
        assert!(Lock::take(&path).unwrap_err().why().starts_with("a process "));
        drop(second);
        let err = Lock::take(&dir.path().join("no/such/directory")).unwrap_err();
        assert_eq!(err.kind(), SetKind::Io);
    }
}
