//! Idle memory by cgroup: who has how much memory that was not touched for how long.
//!
//! ```text
//! idle::Bitmap ------.                                   Groups (inode -> path), memory.stat
//! frames: flags ------+-> piece (128 MiB) -> scanner -> scan (when) -> table -> Report
//! frames: cgroup ----'       ^  known: 4 bytes per idle folio
//!                           pace (how much of it: the budget)
//! ```
//!
//! By [`Scan`], the kernel's idle page tracking: mark all frames, look one interval later which are
//! idle still, mark the rest again. A round over all memory is spread over the interval; each
//! piece's mark and its next look are one interval apart. That is the method of idlememstat, but
//! right on kernels of today: folios are decided at their first frame; what is idle is charged to
//! the very cgroup and summed up the hierarchy; what stays idle is not asked about again, which is
//! most of the cost; and where the cost is still too high, a random sample of words is looked at
//! and the error shown.
//!
//! By [`Walk`], page tables, where the kernel has no bitmap: mapped memory only.
//!
//! Idle means: not touched through page tables, and not by system calls as far as the kernel tells
//! (with the multi-gen LRU switched on, reading a file by `read(2)` does not show). Kernel memory,
//! hugetlb pages and pages that are just on no list cannot be tracked and are never idle.
//!
//! Absent on purpose: how it is shown (the command's), and doing anything to what is idle.

mod kinds;
mod report;
mod scanning;
mod table;
mod usage;
mod walk;

pub use kinds::{Bytes, CLASSES, Kind, class};
pub use report::{Method, Report, Unknown};
pub use scanning::scan::{Options, Scan, default_cpu};
pub use table::{Name, Row, matches};
pub use usage::{Lru, Usage};
pub use walk::Walk;
