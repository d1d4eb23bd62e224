//! Calls that are about the machine.

pub mod flush;
pub mod heap;
pub mod lru;
pub mod namespace;
pub mod priority;
pub mod swap;
