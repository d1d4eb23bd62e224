//! Why the view could not begin, or cannot go on.

use std::{fmt, io};

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
    /// One of the processes to watch is not there, or is a kernel thread or ourselves.
    NoSuchProcess(u32),
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
            Self::NoSuchProcess(pid) => write!(
                f,
                "process {pid} cannot be watched\n  why:   there is no such process, or it has no memory of its own\n  \
                 hint:  `isotherm top` without -p shows which there are"
            ),
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
            Self::NoSuchProcess(_) | Self::NoSnapshots | Self::Ended => None,
        }
    }
}

impl From<record::Error> for Error {
    fn from(err: record::Error) -> Self {
        Self::Record(err)
    }
}
