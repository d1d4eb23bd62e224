//! Runs a policy: a monitor with schemes per context, each on a thread of its own.
//!
//! ```text
//! Policy -> Runner -> thread "reclaim"  -> Monitor + Actor --.
//!                  -> thread "thp"      -> Monitor + Actor --+-> Message (one queue for all)
//!            commit, stop ->
//! ```
//!
//! Invariants. No context begins before every context is ready, so a policy starts as a whole or
//! not at all. A context can end because it was asked to, because it has no targets left, by a
//! failure or by a panic. The order is always the same: actions stop, advice is taken back if that
//! was asked for, the command is ended, targets are released, and then the context sends its last
//! account.
//!
//! Not here: printing, signals and files. They belong to the program that uses the runner.

mod account;
mod commit;
mod context;
mod ending;
mod guard_watch;
mod heat;
mod machine;
mod message;
mod place;
mod record;
mod runner;
mod set;
mod start;
mod tuning;

pub use account::{Account, GoalStanding, Standing};
pub use ending::end_command;
pub(crate) use guard_watch::{Actions, GuardWatch};
pub use heat::{Heat, HeatTable};
pub use machine::{Problem, check};
pub use message::{Effort, Ended, Event, Message, PagesLook, Ready, Reason, Seen, Summary, Tuned};
pub use runner::{Options, Refused, Runner};
pub use set::{open_physical_set, open_set};
pub use start::take_in_targets;
pub use tuning::Values;
