//! Why the files about page frames cannot be used, in words that say what to do.

use std::{fmt, io};

use isotherm_host::error::Failure;

/// The kind of a [`FramesError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This kernel does not have it.
    NotSupported,
    /// A privilege is missing, or the kernel is locked down.
    Permission,
    /// Another scanner is at work.
    Busy,
    /// Anything else that the kernel said.
    Io,
}

/// What was tried, what the kernel said, why, and what to do.
#[derive(Debug)]
pub struct FramesError {
    kind: ErrorKind,
    failure: Failure,
}

impl FramesError {
    /// `tried` is what was done when the kernel `said` no; the reason and the hint may be empty.
    pub fn new(
        kind: ErrorKind,
        tried: impl Into<String>,
        said: Option<io::Error>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { kind, failure: Failure::new(tried, said, why, hint) }
    }

    /// From what the kernel said at a file that root may read if it is there.
    pub fn at_file(tried: &str, option: &str, err: io::Error) -> Self {
        let (kind, why, hint) = match err.kind() {
            io::ErrorKind::NotFound => (
                ErrorKind::NotSupported,
                format!("the kernel was built without {option}"),
                "a kernel with it (grep it in /boot/config-$(uname -r))",
            ),
            io::ErrorKind::PermissionDenied => (
                ErrorKind::Permission,
                "page frames are shown to root only (CAP_SYS_ADMIN and the right to open the file, \
                 CAP_DAC_READ_SEARCH), and not on a locked-down kernel"
                    .to_owned(),
                "run as root of the host, not in a container",
            ),
            _ => (ErrorKind::Io, String::new(), ""),
        };
        Self::new(kind, tried, Some(err), why, hint)
    }

    /// What the kernel said, once more.
    pub(crate) fn said_again(&self) -> Option<io::Error> {
        self.failure.said_again()
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
}

impl fmt::Display for FramesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page frames cannot be looked at{}", self.failure)
    }
}

impl std::error::Error for FramesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failure.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_answer_becomes_a_reason() {
        for (errno, kind, part) in [
            (libc::ENOENT, ErrorKind::NotSupported, "without CONFIG_X"),
            (libc::EACCES, ErrorKind::Permission, "CAP_SYS_ADMIN"),
            (libc::EPERM, ErrorKind::Permission, "locked-down"),
            (libc::EIO, ErrorKind::Io, "Input/output"),
        ] {
            let error =
                FramesError::at_file("open F", "CONFIG_X", io::Error::from_raw_os_error(errno));
            assert_eq!(error.kind(), kind);
            let text = error.to_string();
            assert!(text.contains("tried: open F") && text.contains(part), "{text}");
        }
    }
}
