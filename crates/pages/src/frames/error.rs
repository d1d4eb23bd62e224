//! Why the files about page frames cannot be used, in words that say what to do.

use std::io;

use isotherm_host::error::{Class, Error, Kind};

/// Why page frames cannot be looked at.
pub type FramesError = Error<FramesKind>;

/// The kind of a [`FramesError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramesKind {
    /// This kernel does not have it.
    NotSupported,
    /// A privilege is missing, or the kernel is locked down.
    Permission,
    /// Another scanner is at work.
    Busy,
    /// Anything else that the kernel said.
    Io,
}

impl Kind for FramesKind {
    fn class(self) -> Class {
        match self {
            Self::NotSupported => Class::NotSupported,
            Self::Permission => Class::Permission,
            Self::Busy => Class::Busy,
            Self::Io => Class::Unexpected,
        }
    }
}

impl From<Class> for FramesKind {
    fn from(class: Class) -> Self {
        match class {
            Class::NotSupported => Self::NotSupported,
            Class::Permission => Self::Permission,
            Class::Busy => Self::Busy,
            _ => Self::Io,
        }
    }
}

/// The first line of every [`FramesError`].
pub const WHAT: &str = "page frames cannot be looked at";

/// A [`FramesError`]; the reason and the hint may be empty.
pub fn error(
    kind: FramesKind,
    tried: impl Into<String>,
    why: impl Into<String>,
    hint: impl Into<String>,
) -> FramesError {
    Error::new(kind, WHAT, tried, why, hint)
}

/// From what the kernel said at a file that root may read if it is there. `option` is what the
/// kernel has to be built with.
pub fn at_file(tried: &str, option: &str, said: io::Error) -> FramesError {
    let (kind, why, hint) = match said.kind() {
        io::ErrorKind::NotFound => (
            FramesKind::NotSupported,
            format!("the kernel was built without {option}"),
            "a kernel with it (grep it in /boot/config-$(uname -r))",
        ),
        io::ErrorKind::PermissionDenied => (
            FramesKind::Permission,
            "page frames are shown to root only (CAP_SYS_ADMIN and the right to open the file, \
             CAP_DAC_READ_SEARCH), and not on a locked-down kernel"
                .to_owned(),
            "run as root of the host, not in a container",
        ),
        _ => (FramesKind::Io, String::new(), ""),
    };
    error(kind, tried, why, hint).with(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_answer_becomes_a_reason() {
        for (errno, kind, part) in [
            (libc::ENOENT, FramesKind::NotSupported, "without CONFIG_X"),
            (libc::EACCES, FramesKind::Permission, "CAP_SYS_ADMIN"),
            (libc::EPERM, FramesKind::Permission, "locked-down"),
            (libc::EIO, FramesKind::Io, "Input/output"),
        ] {
            let error = at_file("open F", "CONFIG_X", io::Error::from_raw_os_error(errno));
            assert_eq!(error.kind(), kind);
            let text = error.to_string();
            assert!(text.contains("tried: open F") && text.contains(part), "{text}");
        }
    }
}
