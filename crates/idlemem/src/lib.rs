//! Idle memory by cgroup: how much of a cgroup's memory was not touched, and for how long.
//!
//! ```text
//! idle::Bitmap ------.                                   Groups (inode -> path), memory.stat
//! frames: flags ------+-> piece (128 MiB) -> scanner -> scan (when) -> table -> Report
//! frames: cgroup ----'       ^  known: 4 bytes per idle folio
//!                           pace (how much of it: the budget)
//! ```
//!
//! [`Scan`] uses the kernel's idle page tracking. It marks all frames, finds one interval later
//! which of them are still idle, and marks the rest again. A round over all memory is spread over
//! the interval, and each piece's mark and next look are one interval apart. This is the method of
//! idlememstat, made right for today's kernels:
//!
//! * Folios are decided at their first frame.
//! * Idle memory is charged to the very cgroup, and summed up the hierarchy.
//! * What stays idle is not asked about again, which saves most of the cost.
//! * If the cost is still too high, a random sample of words is looked at, and the error is shown.
//!
//! [`Walk`] uses page tables, where the kernel has no bitmap. It sees mapped memory only.
//!
//! Idle means: not touched through page tables, nor by system calls as far as the kernel shows
//! these. With the multi-gen LRU switched on, reading a file by `read(2)` does not show. Kernel
//! memory, hugetlb pages and pages that are on no list at the moment cannot be tracked, and are
//! never idle.
//!
//! Absent on purpose: how the report is shown (the command's part), and acting on idle memory.

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
