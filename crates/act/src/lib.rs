//! What is done to other processes' memory: the layer below the schemes.
//!
//! [`Process`] holds one target. Each of its methods does one thing to ranges of that process's
//! memory and reports what the kernel accepted. A method works in batches, and the caller can stop
//! it between two batches. This crate makes no policy: the caller decides which pages are acted on,
//! when, and how much.
//!
//! | action | how |
//! |---|---|
//! | [`Process::advise`] | `process_madvise(2)`: page out, cold, will need, collapse |
//! | [`Process::migrate`] | `move_pages(2)`: to another node |
//! | [`Cgroup::reclaim`] | `memory.reclaim` of a cgroup |
//! | [`Injector::madvise`] | `madvise(2)` that the process is made to call: huge page advice |
//! | [`Process::page_runs`] | `PAGEMAP_SCAN`: what became of pages, as ranges |
//! | [`Process::page_entries`] | `pagemap`: what became of pages, one by one |
//! | [`Process::split_huge`] | `process_madvise(2)` on one page of each: huge pages are split
//! | [`Process::bring_back`] | reads of `/proc/PID/mem`: what is in swap is resident again |
//!
//! [`refault_price`] tells what a page costs that comes back, on memory of our own.

mod advise;
pub mod apply;
pub mod benefit;
mod cgroup;
mod error;
mod inject;
mod migrate;
mod outcome;
mod pages;
mod price;
mod process;
mod restore;
mod split;
mod weights;

pub use advise::Advice;
pub use cgroup::{Cgroup, Reclaimed, Toll};
pub use error::{ActError, ActKind};
pub use inject::{HugePageAdvice, InjectOptions, Injected, Injector};
pub(crate) use migrate::BATCH as MIGRATE_BATCH;
pub use migrate::Migrated;
pub use outcome::{MAX_REFUSED, Outcome, Refused};
pub use pages::{PageCount, PageEntry, PageKind};
pub use price::{RefaultPrice, refault_price};
pub use process::Process;
pub use restore::Restored;
pub use weights::{WeightedNodes, interleave_index};
