//! The messages that contexts send while they run.

mod json;
mod sender;
mod tuned;

use isotherm_act::apply::ActEvent;
use isotherm_core::{Attrs, Cost, Late, SPANS, Snapshot, Time};
use isotherm_ops::targets::{ChildExit, Target};

use super::account::{Account, Standing};
use super::heat::HeatTable;
use super::runner::Refused;
use crate::groups::{Group, PagesSeen};
use crate::monitor::Durations;

pub(super) use sender::{Envelope, EventSender};
pub use tuned::Tuned;

/// Something that happened in a context.
#[derive(Debug)]
pub struct Message {
    /// The name of the context.
    pub context: String,
    /// When it happened.
    pub at: Time,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The context is ready to begin.
    Ready(Ready),
    /// A process is watched from now on.
    Added(Target),
    /// A process is not watched any more, because it ended or is no target any more.
    Gone {
        /// Its pid.
        pid: u32,
        /// Its command name.
        name: String,
    },
    /// A process is not watched, or not acted on.
    LeftOut {
        /// Its pid; 0 if only the text says what it is about.
        pid: u32,
        /// Why, for people.
        text: String,
    },
    /// A scheme acted, could not act, or all actions are blocked.
    Act(ActEvent),
    /// Events about single actions were dropped because they were not read in time. The accounts
    /// contain their bytes.
    Lost {
        /// How many.
        events: u64,
    },
    /// The operations set passed its self-test again, and actions go on.
    Unblocked,
    /// The present state of the context; about once per second.
    Summary(Box<Summary>),
    /// Advice that was set in the targets was taken back, as far as the kernel can do that.
    Undone {
        /// Bytes that have the advice again that they had before.
        restored_bytes: u64,
        /// Bytes that had no advice and now have the opposite of what was set, which is the same as
        /// none under the machine's setting. The kernel cannot remove advice.
        replaced_bytes: u64,
        /// Bytes that keep the advice, which has no effect under the machine's setting.
        left_bytes: u64,
        /// How many times it failed.
        failures: usize,
    },
    /// The context's record could not be written. What it held is lost; the context goes on.
    Unrecorded {
        /// Why, for people.
        text: String,
    },
    /// A new policy is in force.
    Committed,
    /// Online tuning has something to tell.
    Tuned(Box<Tuned>),
    /// The context ended. It sends nothing more.
    Ended(Ended),
}

/// What a context runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The operations set.
    pub ops: &'static str,
    /// Which operations sets were not taken and why, and what that means; for people.
    pub why: Vec<String>,
    /// Why none of its targets can be watched, if there are targets and that is so.
    pub nobody: Option<Refused>,
}

/// The present state of a context.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Number of targets.
    pub nr_targets: usize,
    /// Number of those that the operations set has no place for now; they are watched in turn.
    pub nr_waiting: usize,
    /// For how long the first of them was not watched, in ns.
    pub longest_wait_ns: u64,
    /// Number of those that are not watched because a privilege is missing.
    pub nr_denied: usize,
    /// Why that is so of the last one that was found, for people.
    pub denied: Option<String>,
    /// Number of regions.
    pub nr_regions: usize,
    /// The working set over a second, in bytes; see [`isotherm_core::Snapshot::in_use`].
    pub working_set: u64,
    /// The sample interval, in µs.
    pub sample_us: u64,
    /// The aggregation interval, in µs.
    pub aggr_us: u64,
    /// For how long each percent of the memory is idle, in ms; see
    /// [`crate::ready::idle_percentiles`].
    pub idle_ms: Vec<i64>,
    /// Bytes by idle time in ms, in order of time; see [`crate::ready::idle_bytes`]. With a scheme
    /// that pages out, memory that several targets share is counted once.
    pub idle: Vec<(u64, u64)>,
    /// The same as a sum over the targets, if they share memory and `idle` counts it once.
    pub idle_summed: Option<Vec<(u64, u64)>>,
    /// What each cgroup uses, by path; empty unless
    /// [`Options::by_cgroup`](super::Options::by_cgroup).
    pub groups: Vec<Group>,
    /// The spans of the groups, in µs.
    pub spans_us: [u64; SPANS],
    /// What the monitor has done so far.
    pub effort: Effort,
    /// An estimate of the memory bandwidth, in bytes per second.
    pub bandwidth: u64,
    /// Each scheme, in order.
    pub schemes: Vec<Standing>,
    /// Why actions are blocked; none if they are not.
    pub blocked: Option<String>,
    /// How hot the memory of each node is, if the context has schemes that move memory between
    /// nodes.
    pub heat: Option<HeatTable>,
    /// CPU time that the context's thread has used, in ns.
    pub cpu_ns: u64,
}

/// What a context has seen by now.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The name of the context.
    pub context: String,
    /// The operations set.
    pub ops: &'static str,
    /// The last finished window.
    pub snapshot: Snapshot,
    /// The targets, among them those that the set cannot look at.
    pub targets: Vec<Target>,
    /// The attributes that are in force.
    pub attrs: Attrs,
}

/// What a context knows of pages by now.
#[derive(Debug, Clone)]
pub struct PagesLook {
    /// The name of the context.
    pub context: String,
    /// What it knows.
    pub pages: PagesSeen,
    /// The targets, if units were wanted.
    pub targets: Vec<Target>,
    /// CPU time that it took to tell, in ns.
    pub cost_ns: u64,
}

/// What the monitor of a context has done since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Its windows, and those that came late.
    pub late: Late,
    /// Looks at pages.
    pub checks: u64,
    /// Accessed bits cleared.
    pub clears: u64,
    /// CPU time that the targets paid, in ns; none if the method does not tell.
    pub target_ns: Option<u64>,
    /// The end of the last window; none if there was none yet.
    pub last_end: Option<Time>,
    /// The share of one CPU that monitoring may take, in basis points.
    pub budget_bp: u32,
    /// How long samples took.
    pub durations: Durations,
}

impl Effort {
    /// Takes in a window.
    pub(super) fn note(&mut self, s: &Snapshot) {
        self.late.note(s);
        let mut sum = Cost {
            checks: self.checks,
            clears: self.clears,
            target_ns: self.target_ns,
            ..Cost::default()
        };
        sum.add(&s.cost);
        (self.checks, self.clears, self.target_ns) = (sum.checks, sum.clears, sum.target_ns);
        self.last_end = Some(s.end);
    }
}

/// Why a context ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The runner asked for it.
    Stopped,
    /// No target is left, and none can come.
    TargetsGone,
    /// A failure after which the context cannot go on.
    Failed {
        /// The exit code that a program should end with.
        code: u8,
        /// What and why, for people.
        text: String,
    },
}

impl Ended {
    /// The end of a context that can tell nothing of what it did.
    pub(super) const fn without_account(reason: Reason) -> Self {
        Self { reason, accounts: Vec::new(), child: None, late: None, missing: None }
    }
}

/// The end of a context.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Why it ended.
    pub reason: Reason,
    /// What each scheme did, in order. Schemes that a commit removed come first.
    pub accounts: Vec<Account>,
    /// How the command ended, if there was one.
    pub child: Option<ChildExit>,
    /// How many windows came late, if that is worth telling.
    pub late: Option<Late>,
    /// The first process that the policy names by its pid and that was never watched, and why.
    pub missing: Option<Refused>,
}
