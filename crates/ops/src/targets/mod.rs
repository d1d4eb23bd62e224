//! Which processes are the targets, over time.
//!
//! A [`Tracker`] starts from pids or from a command, follows children, and reports changes at every
//! [`Tracker::poll`]. A target is one **address space**, not a pid. Its identity is (pid, start
//! time, number of execs), and its [`TargetId`](isotherm_core::TargetId) is never used again. So a
//! reused pid is a new target, and so is a program that another one became by exec.
//!
//! Changes are found by polling, without any capability:
//!
//! * **exit**: by a pidfd per target, held from the start. A pidfd stands for the process and not
//!   for the number, so a reused pid is never taken for it.
//! * **exec**: the open `/proc/PID/mem` of an address space that is gone reads as empty, and the
//!   addresses in `/proc/PID/stat` are drawn anew.
//! * **fork**: a process whose parent is a target is a target. Pids are listed only when the last
//!   given pid in `/proc/loadavg` has changed, and then only new pids are looked at. All processes
//!   are looked at every 2 s if the number has changed since, and every 20 s in any case. All
//!   trackers of a program share these listings.
//!
//! Only one program at a time may make a process's pages old: see [`Claim`].
//!
//! Physical memory can be a target too ([`Memory`], [`Tracker::memory`]). It has no process, and
//! does not end unless its node is taken out of the machine.
//!
//! Not seen: a grandchild whose parent came and went between two polls. For our own command
//! [`Tracker::adopt_orphans`] finds these as well.

pub mod cgroup;
mod claim;
mod entry;
mod error;
pub mod find;
mod listing;
mod memory;
pub mod roster;
mod scan;
mod tracker;

pub use claim::Claim;
pub use entry::{Target, TargetEvent};
pub use error::{TargetError, TargetKind};
pub use memory::{Memory, MemoryError, MemoryKind};
pub use tracker::{ChildExit, Tracker};
