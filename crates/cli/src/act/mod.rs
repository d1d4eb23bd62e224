//! The commands that act on memory: `run`, `reclaim`, `thp`, `lru-sort`, `stat`, `schemes`,
//! `tune`.
//!
//! Each command makes a policy, from a file or from options. [`drive`] runs it to its end and
//! reports on it.

mod account;
mod args;
mod drive;
mod events;
mod over;
pub(crate) mod ready;
pub(crate) mod run;
pub(crate) mod schemes;
pub(crate) mod stat;
mod status;
pub(crate) mod stopped;
pub(crate) mod tune;
mod verdict;
