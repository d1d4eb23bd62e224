//! What an actor did, for logs.

use isotherm_core::scheme::Action;
use isotherm_core::{AddrRange, Time};

/// Something that a scheme did, or could not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActEvent {
    /// Memory was acted on; in a dry run: would have been.
    Acted {
        /// When it was over.
        at: Time,
        /// Name of the scheme, as it was then. An event is often read after a commit that gave its
        /// index to another scheme.
        scheme: String,
        /// Whose memory.
        pid: u32,
        /// What was done.
        action: Action,
        /// From the first to the last page; those in between may have been left out.
        range: AddrRange,
        /// Bytes that the kernel was asked for.
        asked: u64,
        /// Bytes for which the action was done.
        done: u64,
        /// Whether nothing was done, since it was a dry run.
        dry_run: bool,
        /// Time that it took, in ns.
        ns: u64,
    },
    /// A scheme cannot do what it should. Reported once per process and reason.
    Trouble {
        /// When it was noticed.
        at: Time,
        /// Name of the scheme, as it was then.
        scheme: String,
        /// The process whose memory it is; 0 if the reason lies with the machine.
        pid: u32,
        /// What and why, for people.
        text: String,
    },
    /// A trial of huge pages is over.
    Proved {
        /// When.
        at: Time,
        /// Name of the scheme, as it was then.
        scheme: String,
        /// Whose memory.
        pid: u32,
        /// Whether huge pages pay; none if that could not be decided.
        pays: Option<bool>,
        /// The verdict with its numbers, and what was done, for people.
        text: String,
    },
    /// Some events were dropped, because they were not taken for too long.
    Lost {
        /// When the others were taken.
        at: Time,
        /// How many.
        events: u64,
    },
    /// The actor does nothing any more, until [`Actor::unblock`](crate::apply::Actor::unblock).
    Blocked {
        /// When it was noticed.
        at: Time,
        /// What and why, for people.
        text: String,
    },
}
