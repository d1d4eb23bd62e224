//! Why events cannot be traced.

use std::io;
use std::path::Path;

use isotherm_host::error::{Class, Error, Kind};
use isotherm_host::proc::is_denied;

use super::event::EventKind;
use super::format::FormatError;

/// Why events of kernel DAMON cannot be traced.
pub type TraceError = Error<TraceKind>;

/// The kind of a [`TraceError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceKind {
    /// There is no tracefs, and it could not be mounted.
    NoTracefs,
    /// The kernel has no such event.
    NoEvent,
    /// We may not use a file of tracefs.
    Permission,
    /// A file of tracefs cannot be used.
    Io,
    /// A file describes events in a way that is not understood.
    Format,
    /// A page of the ring buffer is not what the kernel says it is.
    Page,
}

impl Kind for TraceKind {
    fn class(self) -> Class {
        match self {
            Self::NoTracefs | Self::NoEvent => Class::NotSupported,
            Self::Permission => Class::Permission,
            Self::Io | Self::Format | Self::Page => Class::Unexpected,
        }
    }
}

fn error(
    kind: TraceKind,
    tried: impl Into<String>,
    why: impl Into<String>,
    hint: &str,
) -> TraceError {
    Error::new(kind, "kernel DAMON's events cannot be traced", tried, why, hint)
}

/// What the kernel said to the mount of tracefs.
pub(super) fn no_tracefs(said: io::Error) -> TraceError {
    let why = if is_denied(&said) {
        "tracefs is not mounted, and mounting it needs CAP_SYS_ADMIN"
    } else {
        "tracefs is not mounted, and this kernel seems to have none"
    };
    let hint =
        "as root: `mount -t tracefs tracefs /sys/kernel/tracing`; else a kernel with CONFIG_FTRACE";
    error(TraceKind::NoTracefs, "mount tracefs", why, hint).with(said)
}

/// The kernel has no event of this kind.
pub(super) fn no_event(kind: EventKind) -> TraceError {
    let tried = format!("look for the event damon:{}", kind.name());
    let since = kind.since();
    let why = format!("this kernel has no such event; it came with Linux {since} and CONFIG_DAMON");
    error(TraceKind::NoEvent, tried, why, "a newer kernel, or do without it")
}

/// What the kernel said; `tried` is `open`, `read`, `create`, or `write X to`.
pub(super) fn io(tried: &str, path: &Path, said: io::Error) -> TraceError {
    let (kind, why, hint) = if is_denied(&said) {
        (TraceKind::Permission, "tracefs is for root, and may be locked down", "run as root")
    } else {
        (TraceKind::Io, "", "")
    };
    error(kind, format!("{tried} {}", path.display()), why, hint).with(said)
}

/// The file at `path` describes events in a way that is not understood.
pub(super) fn format(path: &Path, wrong: &FormatError) -> TraceError {
    let tried = format!("understand {}", path.display());
    error(TraceKind::Format, tried, wrong.to_string(), "report it with that file and `uname -r`")
}

/// A page of a CPU's buffer is not what the kernel says it is.
pub(super) fn page(cpu: u32, why: String) -> TraceError {
    let tried = format!("take apart a page of CPU {cpu}'s trace buffer");
    error(TraceKind::Page, tried, why, "report it with `uname -r`")
}
