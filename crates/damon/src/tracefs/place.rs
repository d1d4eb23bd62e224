//! Where tracefs is, or a mount of it that only we see.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::error::{self, TraceError};

/// Where tracefs is mounted on a usual machine.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A tracefs.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    /// A mount of our own is in no mount table. It exists as long as this descriptor is open.
    _mount: Option<OwnedFd>,
}

impl Place {
    /// Finds tracefs where it is mounted. Otherwise mounts it to a file descriptor, which nobody
    /// else sees and which leaves nothing behind.
    ///
    /// # Errors
    ///
    /// If it is not mounted and cannot be.
    pub fn find() -> Result<Self, TraceError> {
        for root in USUAL {
            if Path::new(root).join("instances").is_dir() {
                return Ok(Self::at(root));
            }
        }
        Self::mount().map_err(error::no_tracefs)
    }

    /// The one at `root`, or what a test put there.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), _mount: None }
    }

    fn mount() -> io::Result<Self> {
        let fs = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&fs)?;
        let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { root, _mount: Some(mount) })
    }

    /// Its directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it was mounted for us alone.
    #[must_use]
    pub const fn is_private(&self) -> bool {
        self._mount.is_some()
    }

    /// The directory of the trace instances.
    #[must_use]
    pub fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }

    /// The directory of an event of system `damon`.
    #[must_use]
    pub fn event(&self, name: &str) -> PathBuf {
        self.root.join("events/damon").join(name)
    }
}
