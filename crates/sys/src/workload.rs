//! The parts of a workload that runs as a real process: memory at known places, and forks.

pub use crate::child::arena::{Arena, HugePages, Sweep, Touch, Treatment};
pub use crate::child::fork_tree::{Child, fork_alone};
