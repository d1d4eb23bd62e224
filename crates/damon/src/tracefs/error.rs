//! Why events cannot be traced.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::format::FormatError;

/// Why events of kernel DAMON cannot be traced.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// There is no tracefs, and it could not be mounted.
    NoTracefs {
        /// What the kernel said to the mount.
        err: io::Error,
    },
    /// The kernel has no such event.
    NoEvent {
        /// Its name.
        event: &'static str,
        /// The first kernel that has it.
        since: &'static str,
    },
    /// A file of tracefs cannot be used.
    Io {
        /// What was tried: `open`, `read`, `create`, or `write X to`.
        tried: String,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        err: io::Error,
    },
    /// A file describes events in a way that is not understood.
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        err: FormatError,
    },
    /// A page of the ring buffer is not what the kernel says it is.
    Page {
        /// The CPU.
        cpu: u32,
        /// What is wrong with it.
        why: String,
    },
}

impl TraceError {
    pub(super) fn io(tried: impl Into<String>, path: &Path, err: io::Error) -> Self {
        Self::Io { tried: tried.into(), path: path.to_owned(), err }
    }

    /// Whether the machine lacks something (a feature or a permission), rather than something having gone wrong.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            Self::NoTracefs { .. } | Self::NoEvent { .. } => true,
            Self::Io { err, .. } => isotherm_host::proc::is_denied(err),
            Self::Format { .. } | Self::Page { .. } => false,
        }
    }

    /// What was tried, why it failed, what to do.
    fn lines(&self) -> (String, String, &'static str) {
        match self {
            Self::NoTracefs { err } => (
                format!("mount tracefs: {err}"),
                if isotherm_host::proc::is_denied(err) {
                    "tracefs is not mounted, and mounting it needs CAP_SYS_ADMIN".to_owned()
                } else {
                    "tracefs is not mounted, and this kernel seems to have none".to_owned()
                },
                "as root: `mount -t tracefs tracefs /sys/kernel/tracing`; else a kernel with CONFIG_FTRACE",
            ),
            Self::NoEvent { event, since } => (
                format!("look for the event damon:{event}"),
                format!(
                    "this kernel has no such event; it came with Linux {since} and CONFIG_DAMON"
                ),
                "a newer kernel, or do without it",
            ),
            Self::Io { tried, path, err } => (
                format!("{tried} {}: {err}", path.display()),
                if isotherm_host::proc::is_denied(err) {
                    "tracefs is for root, and may be locked down".to_owned()
                } else {
                    String::new()
                },
                if isotherm_host::proc::is_denied(err) { "run as root" } else { "" },
            ),
            Self::Format { path, err } => (
                format!("understand {}", path.display()),
                err.to_string(),
                "report it with that file and `uname -r`",
            ),
            Self::Page { cpu, why } => (
                format!("take apart a page of CPU {cpu}'s trace buffer"),
                why.clone(),
                "report it with `uname -r`",
            ),
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tried, why, hint) = self.lines();
        write!(f, "kernel DAMON's events cannot be traced\n  tried: {tried}")?;
        for (name, text) in [("why:  ", why.as_str()), ("hint: ", hint)] {
            if !text.is_empty() {
                write!(f, "\n  {name} {text}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoTracefs { err } | Self::Io { err, .. } => Some(err),
            Self::Format { err, .. } => Some(err),
            Self::NoEvent { .. } | Self::Page { .. } => None,
        }
    }
}
