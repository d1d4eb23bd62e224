//! Converters into formats that other tools read: [`Table`]s of a record, as CSV, JSON lines,
//! Parquet and Arrow. [`damo`] has the formats of the kernel's own tool.
//!
//! Every table begins with
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `host` | text | where it was recorded |
//! | `t_ns` | u64 | when: `CLOCK_MONOTONIC`, in ns. Of a window it is the end |
//! | `time` | time | the same by the wall clock; null if the record does not tie the clocks |
//! | `pid`, `target` | u32, text | whose memory it is; the name at that time |
//!
//! The monotonic clock stands still while a machine sleeps, and so does `time`.
//!
//! `snapshots`, a row per target and window; all sizes are bytes:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `seq` | u64 | counts windows; a gap means that windows were lost |
//! | `window_ns` | u64 | how long the window really took |
//! | `missing_ns` | u64 | of it, the time in which nobody looked as often as asked for |
//! | `sample_us`, `aggr_us` | u64 | the intervals that were asked for |
//! | `nr_regions` | u64 | regions of the target |
//! | `mapped`, `unresolved` | u64 | size of all regions; of those nobody could look at |
//! | `wss`, `wss_lo`, `wss_hi` | u64 | working set by regions; its 90 % interval |
//! | `watched` | u64 or null | what the spans are of; only the method census has spans |
//! | `touched_SPAN`, `_lo`, `_hi` | u64 or null | touched within the span; its 90 % interval |
//! | `touched_SPAN_measured` | u64 or null | for how much of `watched` that was measured |
//! | `checks`, `clears`, `cpu_ns` | u64 | cost of the window, all targets together |
//! | `target_ns` | u64 or null | CPU time that the targets paid, together; only census tells |
//!
//! `regions`, a row per region and window:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `window_ns` | u64 | how long the window really took |
//! | `start`, `end` | u64 | addresses in bytes, half-open |
//! | `mapping`, `kind` | text or null | the mapping that holds most of the region, if known |
//! | `nr_accesses` | u32 | samples of the window that saw an access |
//! | `max_nr_accesses` | u32 | samples in the window |
//! | `age` | u32 | windows for which the region has looked like this |
//! | `lo`, `hi` | f32 | 90 % interval of the mean rate, in `nr_accesses` |
//! | `resolved` | bool | false: nobody could look, so the numbers mean nothing |
//! | `touched_window`, `touched_1s` | f32 or null | share of its pages touched within the span |
//!
//! Those two are null where nobody knows them: with methods that see no single pages, before the
//! span was measured, where a region is not `resolved`, and in records of versions before they were
//! kept. A record keeps them within 0.3 % of the region, and shares below 0.5 % within an eighth.
//!
//! `pages`, a row per unit of 2 MiB, at the end of each window in which something changed in it:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `start` | u64 | where the unit starts |
//! | `mapping` | text or null | the mapping that holds most of it |
//! | `since_ns` | u64 | when its pages were last made old; all spans begin then |
//! | `leaf_sz` | u64 | size of its page-table leaves in bytes |
//! | `nr_present` | u32 | how many of its 512 pages are mapped |
//! | `nr_unresolved` | u32 | how many are mapped and cannot be made old |
//! | `nr_touched_SPAN` | u32 or null | how many were touched within the span, if measured |
//! | `present`, `unresolved`, `touched_SPAN` | 64 bytes | the same as one bit per page |
//! | `found` | 64 bytes or null | pages found touched since its last row, by any look |
//! | `found_after_ns` | u64 or null | a look at this time had found none of them |
//! | `young` | 64 bytes or null | pages touched between `since_ns` and the last look |
//!
//! The first page has the lowest bit of the first byte.
//!
//! For how long a page has been idle follows from the rows of its unit. If a span shows it and the
//! span before does not, it is touched again after about that time. Otherwise take the last row in
//! which a span, `found` or `young` has it: it has been idle since the unit was made old after that
//! (`since_ns`). `found` of a row with a new `since_ns` is of the time before, unless
//! `found_after_ns` is not. `isotherm report pages --units --json` has idle times by cells of 64
//! KiB.
//!
//! `mappings`, a row per mapping whenever they were read: `start`, `end`, `perms` (as in
//! `/proc/PID/maps`), `kind`, `mapping`, and `device`, `inode`, `offset` (bytes), which are null if
//! it maps nothing that others could map as well.
//!
//! `events`, a row each: `event` is `target` (came in; `ppid`; `text` is the physical memory if it
//! is no process), `exec`, `exit` (`status`), `note` or `end` (`text`).
//!
//! The spans are `sample` and `window` (the record's sample interval and aggregation window), `1s`,
//! `10s` and `1min`. In CSV and JSON, bytes are hexadecimal digits and times are written after RFC
//! 3339; CSV leaves null empty.

#[cfg(feature = "arrow")]
pub mod arrow;
mod batch;
#[cfg(feature = "arrow")]
mod constants;
pub mod damo;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "arrow")]
mod parts;
mod tables;
mod text;

pub use batch::{Batch, Column, PAGE_BYTES, Texts, Values};
#[cfg(feature = "parquet")]
pub use parquet::{parquet, parquet_of};
pub use tables::{Batches, Rows, Table};
pub use text::{csv, jsonl, utc_date};
