//! Processes and memory of our own: for the self-test, for workloads, and commands that are held in
//! front of their first instruction.

pub mod arena;
pub(crate) mod fork;
pub mod fork_tree;
pub mod held;
pub mod touch;
