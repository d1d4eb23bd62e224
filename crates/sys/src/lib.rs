//! System calls that no safe library wraps, what must run between fork and exec, and the clock.
//!
//! Each file wraps one thing and gives a safe face to it; each block says why it is sound.
//!
//! Rule: all unsafe code of the product is in this crate. Absent: policy, paths, and any file of
//! `/proc` or `/sys`; those are `isotherm-host`'s.
#![expect(unsafe_code, reason = "the product's one place for it")]

pub mod arena;
pub mod bpf;
pub mod clock;
pub mod flush;
mod fork;
pub mod fork_tree;
pub mod held;
pub mod lru;
pub mod madvise;
pub mod map;
pub mod move_pages;
pub mod pagemap;
pub mod ptrace;
mod signal;
pub mod signals;
pub mod swap;
pub mod touch;
pub mod workload;
