//! What happens between two snapshots.

use std::fmt;
use std::time::Duration;

use isotherm_core::AddrRange;

use crate::Bytes;
use crate::snapshot::Target;

/// Something that happened while the monitor ran. Its text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A target is there.
    Added(Target),
    /// A target is gone.
    Gone(Target),
    /// The operations set cannot look at a target; it is left out.
    NotWatched {
        /// The target.
        target: Target,
        /// Why, and what to do.
        why: String,
    },
    /// A target was left out because another program watched it, and is watched from now on.
    Watched(Target),
    /// A target is watched, but no scheme may act on it.
    NotActedOn {
        /// The target.
        target: Target,
        /// Why, and what to do.
        why: String,
    },
    /// A scheme acted on memory, or would have in a dry run.
    #[non_exhaustive]
    Acted {
        /// The scheme's name.
        scheme: String,
        /// Whose memory.
        pid: u32,
        /// From the first to the last page; those in between may have been left out.
        range: AddrRange,
        /// What the kernel was asked for.
        asked: Bytes,
        /// That for which it did.
        done: Bytes,
        /// How long it took.
        time: Duration,
    },
    /// A trial has shown whether huge pages pay for a process, or that this cannot be told.
    #[non_exhaustive]
    Proved {
        /// The scheme's name.
        scheme: String,
        /// Whose memory.
        pid: u32,
        /// Whether they pay; none if that is not known.
        pays: Option<bool>,
        /// The numbers behind it, in words.
        text: String,
    },
    /// Nothing is done by any scheme until [`Event::Unblocked`]: what the operations set says
    /// cannot be true.
    Blocked(String),
    /// Schemes act again.
    Unblocked,
    /// Something did not work and was dealt with, or left out.
    Trouble(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(target) => write!(f, "{target} is watched"),
            Self::Watched(target) => write!(f, "{target} is watched from now on"),
            Self::Gone(target) => write!(f, "{target} is gone"),
            Self::NotWatched { target, why } => write!(f, "{target} is not watched: {why}"),
            Self::NotActedOn { target, why } => write!(f, "{target} is not acted on: {why}"),
            Self::Acted { scheme, pid, asked, done, .. } => {
                write!(f, "{scheme}: {done} of {asked} done in process {pid}")
            }
            Self::Proved { scheme, pid, text, .. } => write!(f, "{scheme}: process {pid}: {text}"),
            Self::Blocked(why) => write!(f, "no scheme acts any more: {why}"),
            Self::Unblocked => f.write_str("schemes act again"),
            Self::Trouble(text) => f.write_str(text),
        }
    }
}
