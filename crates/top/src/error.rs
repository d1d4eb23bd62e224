//! Why the view could not begin, or cannot go on.

use std::{fmt, io};

use isotherm::raw::ops::targets::TargetError;
use isotherm::raw::record;

/// Why the view could not begin, or cannot go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The terminal cannot be read or written.
    Terminal(io::Error),
    /// The record cannot be read.
    Record(record::Error),
    /// The record holds no snapshot.
    NoSnapshots,
    /// The processes of this machine cannot be listed.
    Processes(io::Error),
    /// One of the processes that were named by their pids cannot be a target.
    Target(TargetError),
    /// None of the processes that were named by their pids can be watched.
    NotWatched {
        /// The exit code of a program that ends for it.
        code: u8,
        /// The message.
        text: String,
    },
    /// Who told what is seen does so no more, and why.
    NotTold(String),
    /// The thread that watches has ended, which is a defect.
    Ended,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal(err) => write!(
                f,
                "the terminal cannot be used: {err}\n  hint:  `isotherm top --batch` prints plain text"
            ),
            Self::Record(err) => err.fmt(f),
            Self::Processes(err) => write!(f, "/proc cannot be listed: {err}"),
            Self::Target(err) => err.fmt(f),
            Self::NotWatched { text, .. } | Self::NotTold(text) => f.write_str(text),
            Self::NoSnapshots => {
                f.write_str("the record holds no snapshot, so there is nothing to show")
            }
            Self::Ended => f.write_str("the thread that watches has ended unexpectedly"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Terminal(err) | Self::Processes(err) => Some(err),
            Self::Record(err) => Some(err),
            Self::Target(err) => Some(err),
            Self::NotWatched { .. } | Self::NotTold(_) | Self::NoSnapshots | Self::Ended => None,
        }
    }
}

impl From<record::Error> for Error {
    fn from(err: record::Error) -> Self {
        Self::Record(err)
    }
}
