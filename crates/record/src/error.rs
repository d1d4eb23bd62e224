//! Errors of reading and writing records. The text says what was tried, why it failed, and what to
//! do.

use std::fmt;
use std::io;

use crate::format::{MAX_PAYLOAD, VERSION};

/// Why a record could not be read, written or exported.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused.
    Io {
        /// What was tried, for example `read isotherm.data`.
        tried: String,
        /// The error that it returned.
        source: io::Error,
    },
    /// The file has no bytes.
    Empty,
    /// The file is not a record.
    Foreign,
    /// The file ends before its first complete frame.
    Truncated,
    /// A later version wrote it.
    Newer {
        /// Version of the file.
        found: u32,
    },
    /// One snapshot or one list of mappings is larger than a frame may be.
    TooLarge {
        /// Its size in bytes.
        sz: usize,
    },
    /// The file looks like a record of damo, and cannot be read as one.
    Damo {
        /// What is wrong.
        why: String,
        /// What to do.
        hint: String,
    },
    /// The library of the exporter returned an error.
    Export(String),
}

impl Error {
    /// Makes a function for `map_err` that adds what was tried.
    pub fn io(tried: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let tried = tried.into();
        move |source| Self::Io { tried, source }
    }

    pub(crate) fn damo(why: &str, hint: &str) -> Self {
        Self::Damo { why: why.into(), hint: hint.into() }
    }

    /// Whether the content of the file cannot be understood, as opposed to a failure of reading or
    /// writing.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Empty | Self::Foreign | Self::Truncated | Self::Newer { .. } | Self::Damo { .. }
        )
    }

    /// Whether the disk (or a quota on it) is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if matches!(source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge))
    }

    /// Whether the reader of a pipe closed it, which is no failure of the writer.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { tried, source } => {
                writeln!(f, "i/o failed\n  tried: {tried}\n  why:   {source}")?;
                f.write_str(if self.is_full() {
                    "  hint:  free some space; what is in the record so far can be read"
                } else if source.kind() == io::ErrorKind::NotFound {
                    "  hint:  `isotherm record` makes one; its default name is isotherm.data"
                } else {
                    "  hint:  check the path, its permissions and the file system's health"
                })
            }
            Self::Empty => f.write_str(
                "the record is empty\n  why:   the file has no bytes; its recorder was killed before it wrote any\n  \
                 hint:  record again",
            ),
            Self::Foreign => f.write_str(
                "not a record of isotherm\n  why:   the file does not begin with the record's magic number\n  \
                 hint:  name a file that `isotherm record` or `damo record` wrote",
            ),
            Self::Truncated => f.write_str(
                "the record is cut off before its first frame\n  why:   the file ends inside its header\n  \
                 hint:  nothing can be saved; record again",
            ),
            Self::Newer { found } => write!(
                f,
                "the record is of format version {found}\n  why:   this isotherm reads versions up to {VERSION}\n  \
                 hint:  read it with the isotherm that wrote it, or a newer one"
            ),
            Self::TooLarge { sz } => write!(
                f,
                "{sz} bytes do not fit into one frame\n  why:   a frame holds at most {MAX_PAYLOAD} bytes\n  \
                 hint:  lower the maximum number of regions"
            ),
            Self::Damo { why, hint } => {
                write!(f, "not a record that can be read\n  why:   {why}\n  hint:  {hint}")
            }
            Self::Export(why) => write!(f, "export failed\n  why:   {why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
