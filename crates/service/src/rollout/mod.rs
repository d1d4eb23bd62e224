//! How policies come to many hosts without doing harm to all of them at once.
//!
//! ```text
//! pins, signatures --> trust:  a policy that nobody vouched for never runs
//! share            --> canary: only a part of the hosts acts, always the same part
//! limits           --> watch:  pressure, refaults or errors above a limit end all action
//! stop files       --> switch: action ends within a second wherever the file is there
//! ```
//!
//! A policy that is *held* watches on: its schemes decide and count, and change nothing. What it
//! had done is undone as by a stop. Absent: any server; the files may be on storage that hosts
//! share.

mod limits;
mod share;
mod switch;
mod trips;
mod trust;

use std::path::PathBuf;

pub(crate) use limits::{Watch, no_pressure};
pub(crate) use share::is_in_share;
pub(crate) use switch::Switch;
pub(crate) use trips::Trips;
pub(crate) use trust::Trust;
pub use trust::sha256;

/// How policies come to this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// A file with the SHA-256 of each policy that may run, as `sha256sum` writes it.
    pub pins: Option<PathBuf>,
    /// A file with a public key of minisign. Policies that it has signed may run.
    pub key: Option<PathBuf>,
    /// As long as this file exists, no policy acts; as long as one of this name, a dot and the
    /// name of a policy exists, that policy does not.
    pub stop_file: PathBuf,
    /// What this host is called when it is chosen for a share.
    pub host: String,
}

/// Why a policy only watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) by: HeldBy,
    /// For people.
    pub(crate) text: String,
}

/// What keeps a policy from acting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldBy {
    /// A stop file.
    StopFile,
    /// A limit that was passed.
    Limit,
    /// Its share, which this host is not in.
    Share,
}

impl HeldBy {
    /// As the interface and metrics have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::StopFile => "stop-file",
            Self::Limit => "limit",
            Self::Share => "share",
        }
    }
}
