//! `isotherm top`: a live view of which processes use which memory, in a terminal; and the same
//! view over a record, with time travel.
//!
//! ```text
//! feed ----> World ----> App (keys, order, what is open) ----> screen (ratatui's buffer)
//! live | replay | told   model: rows, groups, tree, sums         '-- batch (plain text)
//! ```
//!
//! * A *feed* makes a [`World`] about once a second: a row per process, and more about the one that
//!   is open. The live feed runs one monitor with one budget over all processes, on a
//!   thread of its own; see `feed::live`. The replay makes the same rows from a record, and
//!   `feed::told` from the windows of an agent that watches already.
//! * The *model* is pure: it knows no process, no clock and no terminal.
//! * A *screen* is a function of the application's state. It writes into a buffer, so tests compare
//!   what a terminal would show.
//!
//! Invariants. What is not known is drawn as `?` or `-`, never as cold or zero. Each row says how
//! old its numbers are. Absent on purpose: acting on memory, and writing anywhere but into what
//! [`run`] is given.
#![forbid(unsafe_code)]

mod app;
mod batch;
mod error;
mod feed;
mod look;
mod model;
mod screen;
mod terminal;

pub use app::Start;
pub use batch::batch;
pub use error::Error;
pub use feed::joined::Joined;
pub use feed::live::{Live, Settings};
pub use feed::processes::Wanted;
pub use feed::replay::Replay;
pub use feed::told::{Source, Told};
pub use feed::{Feed, Travel};
pub use look::Look;
pub use model::World;
pub use model::table::{Grouping, SortKey};
pub use terminal::run;
