//! Errors of acting on a process or a cgroup. The text says what the user can do about it.

use std::io;

use isotherm_host::error::{Class, Error, Kind};
use isotherm_host::nodes::{NodesError, NodesKind};
use isotherm_host::proc::{is_denied, is_gone};

/// Why something cannot be done to a process or a cgroup.
pub type ActError = Error<ActKind>;

/// The kind of an [`ActError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActKind {
    /// The process has ended, or its program was replaced.
    Gone,
    /// The target is the calling process itself.
    Myself,
    /// The number is the id of a thread, not of a process.
    IsThread,
    /// A thread of the kernel has no memory of its own.
    KernelThread,
    /// A privilege is missing.
    Permission {
        /// The capability or right, such as `CAP_SYS_NICE`.
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

impl Kind for ActKind {
    fn class(self) -> Class {
        match self {
            Self::Gone => Class::Gone,
            Self::Myself | Self::IsThread | Self::KernelThread | Self::NoSuchNode => Class::Usage,
            Self::Permission { .. } => Class::Permission,
            Self::NotSupported | Self::Unsafe => Class::NotSupported,
            Self::Busy => Class::Busy,
            Self::Io => Class::Unexpected,
        }
    }
}

/// An error about `subject`: `process 7`, or a cgroup's path.
pub(super) fn about(
    subject: &str,
    kind: ActKind,
    tried: impl Into<String>,
    why: impl Into<String>,
    hint: impl Into<String>,
) -> ActError {
    Error::new(kind, format!("cannot act on {subject}"), tried, why, hint)
}

/// An error about process `pid`.
pub(super) fn of(
    pid: u32,
    kind: ActKind,
    tried: impl Into<String>,
    why: impl Into<String>,
    hint: impl Into<String>,
) -> ActError {
    about(&format!("process {pid}"), kind, tried, why, hint)
}

/// The error for a failed system call on process `pid`. `needs` names the privilege that the call
/// requires.
pub(super) fn said(pid: u32, tried: &str, needs: &'static str, err: io::Error) -> ActError {
    let (kind, why, hint) = if is_gone(&err) {
        (ActKind::Gone, "it has ended".to_owned(), "")
    } else if is_denied(&err) {
        let why = format!("it is not ours to act on; that needs {needs}");
        (ActKind::Permission { needs }, why, "run as root, or grant these capabilities")
    } else if err.raw_os_error() == Some(libc::ENOSYS) {
        (ActKind::NotSupported, "this kernel has no such call".to_owned(), "a newer kernel")
    } else {
        (ActKind::Io, String::new(), "")
    };
    of(pid, kind, tried, why, hint).with(err)
}

/// The process has ended, or its program was replaced.
pub(super) fn gone(pid: u32, tried: &str) -> ActError {
    of(pid, ActKind::Gone, tried, "it has ended, or runs another program now", "")
}

/// Pages cannot be moved to a node.
pub(super) fn of_nodes(err: NodesError) -> ActError {
    err.about("cannot act on memory nodes").map_kind(|kind| match kind {
        NodesKind::NoSuchNode => ActKind::NoSuchNode,
        _ => ActKind::NotSupported,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_tried_why_and_what_to_do() {
        let said = |errno| {
            let err = io::Error::from_raw_os_error(errno);
            said(7, "process_madvise", "CAP_SYS_NICE", err)
        };
        let expected = expect_test::expect![[r"
            cannot act on process 7
              tried: process_madvise: Operation not permitted (os error 1)
              why:   it is not ours to act on; that needs CAP_SYS_NICE
              hint:  run as root, or grant these capabilities"]];
        expected.assert_eq(&said(libc::EPERM).to_string());
        for (errno, kind) in [
            (libc::EPERM, ActKind::Permission { needs: "CAP_SYS_NICE" }),
            (libc::EACCES, ActKind::Permission { needs: "CAP_SYS_NICE" }),
            (libc::ESRCH, ActKind::Gone),
            (libc::ENOENT, ActKind::Gone),
            (libc::ENOSYS, ActKind::NotSupported),
            (libc::ENOMEM, ActKind::Io),
        ] {
            assert_eq!(said(errno).kind(), kind, "{errno}");
        }
    }
}
