//! Calls on another process's memory.

pub mod madvise;
pub mod move_pages;
pub mod pagemap;
pub mod ptrace;
