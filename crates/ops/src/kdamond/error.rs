//! Why the kernel's DAMON cannot be used as an operations set.

use std::{fmt, io};

use isotherm_damon::model::Operations;
use isotherm_damon::tracefs::TraceError;
use isotherm_damon::{DamonError, Kind};

/// Why the set cannot be had, or cannot do something.
#[derive(Debug)]
#[non_exhaustive]
pub enum KdamondError {
    /// The kernel's DAMON says no.
    Damon(DamonError),
    /// Its events cannot be traced.
    Trace(TraceError),
    /// There is no thread to be had.
    Thread(io::Error),
    /// The process has ended.
    Gone {
        /// Its pid.
        pid: u32,
    },
    /// One context is for targets of one kind.
    Mixed {
        /// What is there.
        is: Operations,
        /// What was to be added.
        new: Operations,
    },
}

impl KdamondError {
    /// Whether a privilege is missing.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Damon(err) if err.kind() == Kind::Permission)
    }

    /// Whether the process has ended.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// Why, and what to do about it; the latter may be empty.
    #[must_use]
    pub fn why_and_hint(&self) -> (String, String) {
        match self {
            Self::Damon(err) if !err.why().is_empty() => {
                let said = err.said().map_or_else(String::new, |said| format!(": {said}"));
                (format!("{} (cannot {}{said})", err.why(), err.tried()), err.hint().to_owned())
            }
            other => (other.to_string(), String::new()),
        }
    }
}

impl fmt::Display for KdamondError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damon(err) => err.fmt(f),
            Self::Trace(err) => err.fmt(f),
            Self::Thread(err) => write!(f, "cannot start a thread: {err}"),
            Self::Gone { pid } => write!(f, "process {pid} has ended"),
            Self::Mixed { is, new } => write!(
                f,
                "one kdamond monitors one kind of address space: {} targets are there, and {} was to be added",
                is.name(),
                new.name()
            ),
        }
    }
}

impl std::error::Error for KdamondError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Damon(err) => Some(err),
            Self::Trace(err) => Some(err),
            Self::Thread(err) => Some(err),
            Self::Gone { .. } | Self::Mixed { .. } => None,
        }
    }
}

impl From<DamonError> for KdamondError {
    fn from(err: DamonError) -> Self {
        Self::Damon(err)
    }
}

impl From<TraceError> for KdamondError {
    fn from(err: TraceError) -> Self {
        Self::Trace(err)
    }
}
