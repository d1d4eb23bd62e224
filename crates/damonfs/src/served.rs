//! What a tree of files is to a file system.

use std::fmt::Debug;

use rustix::io::Errno;

use crate::tree::{Changed, Ino, Kind};
use crate::world::World;

/// The size that sysfs says every file has.
const SYSFS_SIZE: u64 = 4096;

/// A tree of files. Numbers of files and directories are never used twice.
pub trait Served: Debug + Send + Sync {
    /// The entry of a directory with this name.
    ///
    /// # Errors
    ///
    /// ENOENT if there is none, ENOTDIR if `dir` is a file.
    fn lookup(&self, dir: Ino, name: &str) -> Result<Ino, Errno>;

    /// What this number stands for.
    ///
    /// # Errors
    ///
    /// ENOENT if it was removed.
    fn kind(&self, ino: Ino) -> Result<Kind, Errno>;

    /// The entries of a directory, with `.` and `..`: number, name, and whether it is a directory.
    ///
    /// # Errors
    ///
    /// As [`Served::lookup`].
    fn entries(&self, dir: Ino) -> Result<Vec<(Ino, String, bool)>, Errno>;

    /// The text of a file.
    ///
    /// # Errors
    ///
    /// ENODEV if it was removed, EISDIR for a directory, and what the kernel says.
    fn read(&self, ino: Ino) -> Result<Vec<u8>, Errno>;

    /// Whether a read or write of this file can wait for what runs.
    fn may_wait(&self, ino: Ino) -> bool;

    /// Whether a write of this file can make or remove directories.
    fn changes_dirs(&self, ino: Ino) -> bool;

    /// What writes have changed since the last call.
    fn take_changed(&self) -> Changed;

    /// Writes a text to a file, as one transaction, and returns how many bytes were taken.
    ///
    /// # Errors
    ///
    /// What the kernel says; nothing has changed then.
    fn write(&self, ino: Ino, offset: u64, text: &[u8]) -> Result<usize, Errno>;

    /// The size that every file is said to have, in bytes.
    fn size(&self) -> u64;

    /// Whether an entry of this name stands for the same until [`Served::take_changed`] has it, or
    /// its directory is gone.
    fn is_stable(&self, name: &str) -> bool;
}

impl Served for World {
    fn lookup(&self, dir: Ino, name: &str) -> Result<Ino, Errno> {
        Self::lookup(self, dir, name)
    }

    fn kind(&self, ino: Ino) -> Result<Kind, Errno> {
        Self::kind(self, ino)
    }

    fn entries(&self, dir: Ino) -> Result<Vec<(Ino, String, bool)>, Errno> {
        Self::entries(self, dir)
    }

    fn read(&self, ino: Ino) -> Result<Vec<u8>, Errno> {
        Self::read(self, ino)
    }

    fn may_wait(&self, ino: Ino) -> bool {
        Self::may_wait(self, ino)
    }

    fn changes_dirs(&self, ino: Ino) -> bool {
        Self::changes_dirs(self, ino)
    }

    fn take_changed(&self) -> Changed {
        Self::take_changed(self)
    }

    /// To sysfs one write is one value, whatever its offset.
    fn write(&self, ino: Ino, _offset: u64, text: &[u8]) -> Result<usize, Errno> {
        Self::write(self, ino, text)
    }

    fn size(&self) -> u64 {
        SYSFS_SIZE
    }

    fn is_stable(&self, _name: &str) -> bool {
        true
    }
}
