//! Runs a policy: a monitor with schemes per context, each on a thread of its own.
//!
//! ```text
//! Policy -> Runner -> thread "reclaim"  -> Monitor + Actor --.
//!                  -> thread "thp"      -> Monitor + Actor --+-> Message: what happened, in one queue
//!            commit, stop ->
//! ```
//!
//! Invariants: no context begins before every context is ready, so a policy starts as a whole or
//! not at all. However a context ends (asked to, without targets, by a failure, by a panic), the
//! order is the same: actions stop, what was set is undone if that was asked for, the command is
//! ended, targets are let go, and then the last account is told.
//!
//! Absent: printing, signals, files. Whoever owns the process has those.

mod account;
mod commit;
mod context;
mod ending;
mod guard_watch;
mod heat;
mod machine;
mod message;
mod place;
mod rules;
mod runner;
mod set;

pub use account::{Account, Standing};
pub use ending::end_command;
pub(crate) use guard_watch::{Actions, GuardWatch};
pub use heat::{Heat, HeatTable};
pub use machine::{Problem, check};
pub use message::{Ended, Event, Message, Ready, Reason, Summary};
pub(crate) use rules::Rules;
pub use runner::{Options, Refused, Runner};
pub use set::{open_physical_set, open_set};
