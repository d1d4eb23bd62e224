//! What contexts tell while they run.

mod sender;

use isotherm_act::apply::ActEvent;
use isotherm_core::Time;
use isotherm_ops::targets::{ChildExit, Target};

use super::account::{Account, Standing};
use super::heat::HeatTable;

pub(super) use sender::{Envelope, EventSender};

/// Something that happened in a context.
#[derive(Debug)]
pub struct Message {
    /// Which context.
    pub context: String,
    /// When.
    pub at: Time,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The context is ready to begin.
    Ready(Ready),
    /// A process is watched from now on.
    Added(Target),
    /// A process is not watched any more: it has ended, or was taken out.
    Gone {
        /// Its pid.
        pid: u32,
        /// Its command name.
        name: String,
    },
    /// A process is not watched, or not acted on, and why.
    LeftOut {
        /// Its pid; 0 if the text names it.
        pid: u32,
        /// Why, for people.
        text: String,
    },
    /// A scheme did something, could not do it, or nothing is done any more.
    Act(ActEvent),
    /// So many events about single actions were dropped, since nobody read them. Their numbers are
    /// in the accounts.
    Lost {
        /// How many.
        events: u64,
    },
    /// The operations set is believed again, and actions go on.
    Unblocked,
    /// How everything stands; about once per second.
    Summary(Box<Summary>),
    /// What was set in the targets was taken back.
    Undone {
        /// Bytes for which that worked.
        bytes: u64,
        /// Times that it failed.
        failures: usize,
    },
    /// A new policy is in force.
    Committed,
    /// The context is over; nothing follows.
    Ended(Ended),
}

/// What a context runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The operations set.
    pub ops: &'static str,
    /// Which sets were not taken, and what follows from that; for people.
    pub why: Vec<String>,
}

/// How a context stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Number of targets.
    pub nr_targets: usize,
    /// Number of regions.
    pub nr_regions: usize,
    /// The working set of the last window, in bytes.
    pub working_set: u64,
    /// The sample interval, in µs.
    pub sample_us: u64,
    /// The aggregation interval, in µs.
    pub aggr_us: u64,
    /// For how long each percent of the memory is idle, in ms; see
    /// [`crate::ready::idle_percentiles`].
    pub idle_ms: Vec<i64>,
    /// An estimate of the memory bandwidth, in bytes per second.
    pub bandwidth: u64,
    /// Each scheme, in order.
    pub schemes: Vec<Standing>,
    /// Why nothing is done, if so.
    pub blocked: Option<String>,
    /// How hot memory is on each node, of a context with schemes that move memory between nodes.
    pub heat: Option<HeatTable>,
}

/// Why a context ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Somebody asked for it.
    Stopped,
    /// No target is left, and none can come.
    TargetsGone,
    /// Something that makes going on impossible.
    Failed {
        /// The exit code that a program should end with.
        code: u8,
        /// What and why, for people.
        text: String,
    },
}

/// The end of a context.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Why.
    pub reason: Reason,
    /// What each scheme did, in order; those that a commit took away come first.
    pub accounts: Vec<Account>,
    /// How the command ended, if there was one.
    pub child: Option<ChildExit>,
}
