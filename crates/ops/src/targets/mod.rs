//! Which processes are the targets, over time.
//!
//! A [`Tracker`] starts from pids or from a command, follows children, and tells what changed at
//! every [`Tracker::poll`]. A target is one **address space**, not a pid: its identity is (pid,
//! start time, how many execs), and the [`TargetId`](isotherm_core::TargetId) that stands for it is
//! never used again. So a pid that is given out anew, or a program that replaces another by exec,
//! is a new target.
//!
//! How changes are seen, by polling and without any capability:
//!
//! * **exit**: a pidfd per target, held from the start. A pidfd stands for the process and not for
//!   the number, so a reused pid cannot be taken for it;
//! * **exec**: the open `/proc/PID/mem` of an address space that is gone reads as empty, and the
//!   addresses in `/proc/PID/stat` are drawn anew;
//! * **fork**: a process whose parent is a target is a target. All pids are listed only when the
//!   last given pid in `/proc/loadavg` has moved, and then only new pids are looked at; everything
//!   is every 2 s if the number has moved since, and every 20 s whatever it says.
//!
//! Physical memory is a target, too ([`Memory`], [`Tracker::memory`]): one that has no process and
//! does not end, unless its node is taken out of the machine.
//!
//! What this cannot see: a grandchild whose parent came and went between two polls. For a command
//! of ours it can: see [`Tracker::adopt_orphans`].

mod entry;
mod error;
pub mod find;
mod memory;
mod scan;
mod tracker;

pub use entry::{Target, TargetEvent};
pub use error::TargetError;
pub use memory::{Memory, MemoryError};
pub use tracker::{ChildExit, Tracker};
