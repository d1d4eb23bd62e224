//! What the files of a kernel say about a machine: processes, memory, cgroups, nodes, swap.
//!
//! Every reader takes the root that it reads under ([`Roots`], [`proc::Proc`]), so that tests can
//! use a made-up machine.
//!
//! Rule: text files in, facts out. Absent: BPF, page tables, the kernel's DAMON, and any decision.
//! The only thing that this crate sets up is swap on [`zram`], for tests and evaluation jobs.

mod again;
pub mod clearing;
pub mod containers;
pub mod counter;
pub mod error;
pub mod glob;
mod machine;
pub mod metrics;
pub mod namespace;
pub mod nodes;
pub mod proc;
pub mod ram;
pub mod reclaim;
mod roots;
pub mod users;
mod version;
pub mod zram;

pub use machine::{Machine, user_end};
pub use roots::Roots;
pub use version::Version;
