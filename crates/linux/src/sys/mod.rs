//! The only unsafe code: system calls that no safe library wraps, and what must run between fork
//! and exec.
//!
//! Each file wraps one thing and gives a safe face to it; each block says why it is sound.
#![expect(unsafe_code, reason = "the crate's one place for it")]

pub(crate) mod arena;
pub(crate) mod bpf;
pub(crate) mod flush;
pub(crate) mod fork;
pub(crate) mod fork_tree;
pub(crate) mod held;
pub(crate) mod lru;
pub(crate) mod madvise;
pub(crate) mod map;
pub(crate) mod move_pages;
pub(crate) mod pagemap;
pub(crate) mod ptrace;
pub(crate) mod signal;
pub(crate) mod swap;
pub(crate) mod touch;
