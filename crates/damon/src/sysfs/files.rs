//! The only access to DAMON's files, so that tests can put a made-up kernel behind it.
//!
//! Reads and writes are retried while the kernel says EBUSY. Nearly every file takes one global
//! lock without waiting for it (`mutex_trylock(&damon_sysfs_lock)` in `mm/damon/sysfs.c`), and a
//! walk of another program holds that lock for a whole apply interval.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Files of a kernel: the running one's, or a made-up one's.
pub trait Files: Debug + Send + Sync {
    /// Reads all of a file into `buf`, which is emptied first.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    fn read(&self, path: &Path, buf: &mut Vec<u8>) -> io::Result<()>;

    /// Writes a value in one call.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()>;

    /// Whether there is such a file or directory.
    fn exists(&self, path: &Path) -> bool;

    /// Names of the directories in a directory that are numbers, in order.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    fn numbers(&self, path: &Path) -> io::Result<Vec<u32>>;

    /// Names of everything in a directory, in no order.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(path)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }
}

/// The running kernel's files, or plain files.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

impl Files for SystemFiles {
    fn read(&self, path: &Path, buf: &mut Vec<u8>) -> io::Result<()> {
        buf.clear();
        File::open(path)?.read_to_end(buf)?;
        Ok(())
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        // A write of no bytes would not reach the kernel.
        let value = if value.is_empty() { b"\n" } else { value };
        let wrote = file.write(value)?;
        if wrote == value.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn numbers(&self, path: &Path) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(path)? {
            if let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Does `f` again while the kernel says EBUSY, until `patience` is over.
pub(crate) fn patiently<T>(
    patience: Duration,
    mut f: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match f() {
            Err(err) if err.raw_os_error() == Some(libc::EBUSY) && start.elapsed() < patience => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}
