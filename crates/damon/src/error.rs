//! Why the kernel's DAMON cannot be driven, in words that say what to do.

use std::path::Path;
use std::{fmt, io};

use isotherm_host::error::Failure;

/// The sort of a [`DamonError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
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

/// Why the kernel's DAMON could not do something: what was tried, what the kernel said, why, and what to do.
#[derive(Debug)]
pub struct DamonError {
    kind: Kind,
    failure: Failure,
}

impl DamonError {
    /// An error without an answer of the kernel; the reason and the hint may be empty.
    pub fn new(
        kind: Kind,
        tried: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { kind, failure: Failure::new(tried, None, why, hint) }
    }

    /// With what the kernel said.
    pub(super) fn with(mut self, said: io::Error) -> Self {
        self.failure.said = Some(said);
        self
    }

    pub(super) fn of_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same, with one more sentence of why.
    pub(super) fn because(mut self, more: &str) -> Self {
        let why = &mut self.failure.why;
        *why = if why.is_empty() { more.into() } else { format!("{why}; {more}").into() };
        self
    }

    /// What reading `path` failed with.
    pub(super) fn reading(path: &Path, said: io::Error) -> Self {
        Self::io(format!("read {}", path.display()), said)
    }

    /// What the kernel said to `tried`, where nothing more is known about it.
    pub(super) fn io(tried: String, said: io::Error) -> Self {
        let (kind, why, hint) = match said.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => {
                (Kind::Permission, "these files are root's", "run as root")
            }
            Some(libc::EBUSY) => (
                Kind::Busy,
                "another program uses DAMON's files, or waits for one of its commands",
                "try again, or see who else drives DAMON: isotherm doctor",
            ),
            Some(libc::EROFS) => (
                Kind::Permission,
                "sysfs is mounted read-only here, as in a container",
                "run on the host",
            ),
            _ if said.kind() == io::ErrorKind::InvalidData => (Kind::Unreadable, "", ""),
            _ => (Kind::Io, "", ""),
        };
        Self::new(kind, tried, why, hint).with(said)
    }

    /// The sort of error.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What was tried.
    #[must_use]
    pub fn tried(&self) -> &str {
        &self.failure.tried
    }

    /// What the kernel said, if it said anything.
    #[must_use]
    pub const fn said(&self) -> Option<&io::Error> {
        self.failure.said.as_ref()
    }

    /// The kernel's error number, if it gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.failure.said.as_ref().and_then(io::Error::raw_os_error)
    }

    /// Why it failed; may be empty.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.failure.why
    }

    /// What to do about it; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.failure.hint
    }
}

impl fmt::Display for DamonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel DAMON: cannot {}", self.failure.tried)?;
        if let Some(said) = &self.failure.said {
            write!(f, ": {said}")?;
        }
        self.failure.write_reasons(f)
    }
}

impl std::error::Error for DamonError {}
