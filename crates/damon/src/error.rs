//! Why the kernel's DAMON cannot be driven, in words that say what to do.

use std::io;
use std::path::Path;

use isotherm_host::error::{self, Class, Error};

/// Why the kernel's DAMON could not do something.
pub type DamonError = Error<DamonKind>;

/// The kind of a [`DamonError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamonKind {
    /// The kernel was built without it.
    NotBuilt,
    /// A privilege is missing.
    Permission,
    /// A file is missing that a newer kernel has.
    OlderKernel,
    /// The kernel refused a value, or all of the values together.
    Refused,
    /// Something else holds the kernel's lock, for longer than we wait.
    Busy,
    /// A kernel module that runs alone is in the way.
    ModuleInTheWay,
    /// The kdamond runs already.
    Running,
    /// The kdamond is somebody else's, or somebody else's would have to go.
    NotOurs,
    /// The kdamond does not run, or ended by itself.
    NotRunning,
    /// No scheme is at work, so there is nothing to walk.
    NothingToWalk,
    /// What was asked for has no counterpart in the kernel.
    NotInTheKernel,
    /// A file's text does not read as it should.
    Unreadable,
    /// Anything else that the kernel said.
    Io,
}

impl error::Kind for DamonKind {
    fn class(self) -> Class {
        match self {
            Self::NotBuilt | Self::OlderKernel | Self::NotInTheKernel => Class::NotSupported,
            Self::Permission | Self::NotOurs | Self::ModuleInTheWay => Class::Permission,
            Self::Refused => Class::Usage,
            Self::Busy => Class::Busy,
            Self::Running
            | Self::NotRunning
            | Self::NothingToWalk
            | Self::Unreadable
            | Self::Io => Class::Unexpected,
        }
    }
}

/// An error without an answer of the kernel; the reason and the hint may be empty.
pub fn cannot(
    kind: DamonKind,
    tried: impl Into<String>,
    why: impl Into<String>,
    hint: impl Into<String>,
) -> DamonError {
    Error::cannot(kind, "kernel DAMON", tried, why, hint)
}

/// What reading `path` failed with.
pub(super) fn reading(path: &Path, said: io::Error) -> DamonError {
    io(format!("read {}", path.display()), said)
}

/// What the kernel said to `tried`, where nothing more is known about it.
pub(super) fn io(tried: String, said: io::Error) -> DamonError {
    let (kind, why, hint) = match said.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            (DamonKind::Permission, "these files are root's", "run as root")
        }
        Some(libc::EBUSY) => (
            DamonKind::Busy,
            "another program uses DAMON's files, or waits for one of its commands",
            "try again, or see who else drives DAMON: isotherm doctor",
        ),
        Some(libc::EROFS) => (
            DamonKind::Permission,
            "sysfs is mounted read-only here, as in a container",
            "run on the host",
        ),
        _ if said.kind() == io::ErrorKind::InvalidData => (DamonKind::Unreadable, "", ""),
        _ => (DamonKind::Io, "", ""),
    };
    cannot(kind, tried, why, hint).with(said)
}
