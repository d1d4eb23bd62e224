//! What the thread of a policy is asked to do, and what it answers.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender};

use isotherm_agent::run::Seen;
use isotherm_control::error::Refusal;

use crate::budget::Limit;
use crate::state::Wanted;

/// An order. All but `Quit` have an answer.
#[derive(Debug)]
pub(crate) enum Order {
    /// Run, pause or stop, with all contexts, or only this one.
    Become(Wanted, Option<String>),
    /// Put this text in force, or only say whether that could be.
    Commit { text: String, check: bool },
    /// Keep to these limits, by context.
    Limit(BTreeMap<String, Limit>),
    /// Be as thrifty with memory as the agent is now.
    Thrift,
    /// Wait and be tried again later, since memory is short.
    Shed,
    /// Send what the contexts have seen.
    Look,
    /// Stop, and end the thread.
    Quit,
}

/// An order, and where its answer goes.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) order: Order,
    pub(super) answer: Sender<Result<Answer, Refusal>>,
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    Committed {
        contexts: usize,
        schemes: usize,
    },
    /// The contexts send it here, each within a turn of its loop.
    Looking(Receiver<Seen>),
}
