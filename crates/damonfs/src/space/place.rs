//! Places for mounts, where there is no directory for them.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive};

/// Makes the directory `wanted` in a directory of a file system that takes no new ones. A tmpfs
/// covers `parent`, and what was in there is bound back.
///
/// # Errors
///
/// What the kernel says.
pub(super) fn make(parent: &Path, wanted: &Path) -> io::Result<()> {
    if wanted.is_dir() {
        return Ok(());
    }
    if is_covered(parent)? {
        return fs::create_dir_all(wanted);
    }
    let entries = fs::read_dir(parent)?.collect::<io::Result<Vec<_>>>()?;
    // Through this, the covered directory can still be reached.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let before = open(parent, flags, Mode::empty())?;
    tmpfs(parent)?;
    for entry in entries {
        let name = entry.file_name();
        let covered = fd_path(&before).join(&name);
        let place = parent.join(&name);
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&covered)?, &place)?;
        } else if kind.is_dir() {
            fs::create_dir(&place)?;
            mount_bind_recursive(&covered, &place)?;
        } else {
            fs::write(&place, "")?;
            mount_bind(&covered, &place)?;
        }
    }
    fs::create_dir_all(wanted)
}

/// Whether a directory is ours already: then it is on a tmpfs, and not on sysfs.
fn is_covered(dir: &Path) -> io::Result<bool> {
    const TMPFS_MAGIC: i128 = 0x0102_1994;
    let kind = rustix::fs::statfs(dir)?.f_type;
    Ok(i128::from(kind) == TMPFS_MAGIC)
}

/// Covers a directory with an empty tmpfs.
///
/// # Errors
///
/// What the kernel says.
pub(super) fn tmpfs(at: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("isotherm-damonfs", at, "tmpfs", flags, Some(c"mode=0755"))?)
}

/// The path of an open directory, also of one that is covered.
fn fd_path(fd: &OwnedFd) -> PathBuf {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd()).into()
}
