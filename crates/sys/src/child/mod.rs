//! Processes and memory of our own: for the self-test and for workloads, and commands that are held
//! before their first instruction.

pub mod arena;
pub(crate) mod fork;
pub mod fork_tree;
pub mod held;
pub mod touch;
