//! The events of a recorder.

use std::fmt;

use isotherm_ops::targets::Target;

/// Something that a user of the recorder may want to know. The text is for people; the record has
/// it as a note where it could still be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A process cannot be a target.
    Refused(String),
    /// The operations set cannot look at this process; it is left out of the record.
    NotWatched {
        /// The process.
        target: Target,
        /// Why the set cannot look at it, for the user.
        why: String,
    },
    /// This process was left out for a while, and is in the record from now on.
    Watched(Target),
    /// The operations set had a problem and dealt with it.
    Trouble(String),
    /// The operations set cannot go on.
    SetFailed(String),
    /// From now on the record does not say whose memory is hot, or it never did.
    NoOwners(String),
    /// A write failed, and its data is lost. Only the first failed write is an event;
    /// [`Summary`](super::Summary) counts all.
    Lost(isotherm_record::Error),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) | Self::Trouble(text) | Self::SetFailed(text) => f.write_str(text),
            Self::NotWatched { target, why } => {
                write!(f, "process {} ({}) is not watched: {why}", target.pid, target.name)
            }
            Self::Watched(Target { pid, name, .. }) => {
                write!(f, "process {pid} ({name}) is watched from now on")
            }
            Self::NoOwners(why) => {
                write!(f, "the record cannot tell whose memory is hot: {why}")
            }
            Self::Lost(err) => write!(f, "part of the record is lost: {err}"),
        }
    }
}
