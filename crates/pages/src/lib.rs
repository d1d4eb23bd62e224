//! Reads page tables and page frames of a machine: who touched which page.
//!
//! | module | reads |
//! |---|---|
//! | [`tables`] | page tables of other processes, by eBPF; makes single pages old |
//! | [`frames`] | `/proc/kpageflags`, `kpagecgroup`: what a frame is used for |
//! | [`idle`] | the bitmap of idle page tracking |
//! | [`paddr`] | who maps a frame, for a sample of frames |
//! | [`places`] | on which node a frame is |
//! | [`advice`] | nothing: it gives advice on ranges of a process, in batches |
//! | [`clear_refs`] | nothing: it clears the accessed bits of a whole process |
//!
//! Rule: this crate knows pages and frames only. Absent: contexts, targets that come and go, and
//! the decision which page to look at.

pub mod advice;
pub mod clear_refs;
pub mod frames;
pub mod idle;
pub mod paddr;
pub mod places;
pub mod tables;
