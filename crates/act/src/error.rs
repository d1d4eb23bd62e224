//! Why nothing can be done to a process, in words that say what to do.

use std::{fmt, io};

use isotherm_host::error::Failure;
use isotherm_host::nodes::{NodesError, NodesErrorKind};
use isotherm_host::proc::{is_denied, is_gone};

/// The kind of an [`ActError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The process has ended, or its program was replaced.
    Gone,
    /// It is this very process.
    Myself,
    /// The number is that of a thread.
    IsThread,
    /// A thread of the kernel has no memory of its own.
    KernelThread,
    /// A privilege is missing.
    Permission {
        /// Which.
        needs: &'static str,
    },
    /// This kernel, machine or process cannot do it.
    NotSupported,
    /// It cannot be done now, but may be later.
    Busy,
    /// Doing it could kill the process.
    Unsafe,
    /// There is no such NUMA node, or it has no memory.
    NoSuchNode,
    /// Anything else that the kernel said.
    Io,
}

/// Why something cannot be done to a process or a cgroup.
#[derive(Debug)]
pub struct ActError {
    kind: ErrorKind,
    /// `process 7`, or a cgroup's path.
    subject: Box<str>,
    failure: Failure,
}

impl ActError {
    pub(super) fn new(
        kind: ErrorKind,
        subject: impl Into<String>,
        tried: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let failure = Failure::new(tried, None, why, hint);
        Self { kind, subject: subject.into().into(), failure }
    }

    pub(super) fn of(
        pid: u32,
        kind: ErrorKind,
        tried: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::new(kind, format!("process {pid}"), tried, why, hint)
    }

    /// From what a system call said about process `pid`; `needs` is what it asks for.
    pub(super) fn said(pid: u32, tried: &str, needs: &'static str, err: io::Error) -> Self {
        let (kind, why, hint) = if is_gone(&err) {
            (ErrorKind::Gone, "it has ended".to_owned(), "")
        } else if is_denied(&err) {
            let why = format!("it is not ours to act on; that needs {needs}");
            (ErrorKind::Permission { needs }, why, "run as root, or grant these capabilities")
        } else if err.raw_os_error() == Some(libc::ENOSYS) {
            (ErrorKind::NotSupported, "this kernel has no such call".to_owned(), "a newer kernel")
        } else {
            (ErrorKind::Io, String::new(), "")
        };
        Self::of(pid, kind, tried, why, hint).with(err)
    }

    pub(super) fn gone(pid: u32, tried: &str) -> Self {
        Self::of(pid, ErrorKind::Gone, tried, "it has ended, or runs another program now", "")
    }

    pub(super) fn with(mut self, said: io::Error) -> Self {
        self.failure.said = Some(said);
        self
    }

    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The likely reason.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.failure.why
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.failure.hint
    }
}

impl From<NodesError> for ActError {
    fn from(err: NodesError) -> Self {
        let kind = match err.kind() {
            NodesErrorKind::NoSuchNode => ErrorKind::NoSuchNode,
            _ => ErrorKind::NotSupported,
        };
        Self::new(kind, "memory nodes", err.tried(), err.why(), err.hint())
    }
}

impl fmt::Display for ActError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot act on {}{}", self.subject, self.failure)
    }
}

impl std::error::Error for ActError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failure.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_tried_why_and_what_to_do() {
        let said = |errno| {
            let err = io::Error::from_raw_os_error(errno);
            ActError::said(7, "process_madvise", "CAP_SYS_NICE", err)
        };
        let expected = expect_test::expect![[r"
            cannot act on process 7
              tried: process_madvise: Operation not permitted (os error 1)
              why:   it is not ours to act on; that needs CAP_SYS_NICE
              hint:  run as root, or grant these capabilities"]];
        expected.assert_eq(&said(libc::EPERM).to_string());
        for (errno, kind) in [
            (libc::EPERM, ErrorKind::Permission { needs: "CAP_SYS_NICE" }),
            (libc::EACCES, ErrorKind::Permission { needs: "CAP_SYS_NICE" }),
            (libc::ESRCH, ErrorKind::Gone),
            (libc::ENOENT, ErrorKind::Gone),
            (libc::ENOSYS, ErrorKind::NotSupported),
            (libc::ENOMEM, ErrorKind::Io),
        ] {
            assert_eq!(said(errno).kind(), kind, "{errno}");
        }
    }
}
