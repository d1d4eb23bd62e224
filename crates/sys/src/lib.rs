//! System calls that no safe library wraps, what must run between fork and exec, and the clock.
//!
//! Each file wraps one thing in a safe interface. Each unsafe block says why it is sound.
//!
//! Rule: all unsafe code of the product is in this crate. Absent: policy, paths, and the files of
//! `/proc` and `/sys`, which are in `isotherm-host`.
#![expect(unsafe_code, reason = "the product's one place for it")]

pub mod bpf;
mod child;
pub mod clock;
mod machine;
pub mod map;
pub mod peer;
mod remote;
mod signal;
pub mod signals;
pub mod workload;

pub use machine::{flush, heap, lru, namespace, priority, swap};

pub use remote::{madvise, move_pages, pagemap, ptrace};

pub use child::{arena, fork_tree, held, touch};
