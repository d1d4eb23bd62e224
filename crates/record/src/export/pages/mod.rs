//! The table of page maps: one row per unit of 2 MiB and change. A unit that changed several times
//! within about a second has one row for all of these changes.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `host` | text | where it was recorded |
//! | `t_ns` | u64 | end of the window in which the unit changed, `CLOCK_MONOTONIC` |
//! | `pid`, `target` | u32, text | whose memory it is; the name at that time |
//! | `start` | u64 | address of its first page |
//! | `since_ns` | u64 | when its pages were last made old |
//! | `leaf_sz` | u64 | bytes of a leaf of its page table: 4 KiB, 2 MiB or 1 GiB |
//! | `nr_present`, `nr_unresolved` | u32 | pages that are mapped; those of which nothing is known |
//! | `nr_touched_...` | u32 or null | pages that were touched within the span; null: not measured |
//! | `present`, `unresolved`, `touched_...` | 64 bytes | the same as one bit per page |
//!
//! The spans are `sample` and `window` (the record's sample interval and aggregation window), `1s`,
//! `10s` and `1min`. The first page has the lowest bit of the first byte. CSV and JSON write the
//! bytes as hexadecimal digits, and CSV leaves null empty.

#[cfg(feature = "parquet")]
mod parquet;
mod text;

#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use text::{csv, jsonl};

use isotherm_core::{PageBits, SPANS};

/// The names of the spans in columns.
const NAMES: [&str; SPANS] = ["sample", "window", "1s", "10s", "1min"];

/// The bytes of a column of pages.
fn bytes(pages: PageBits) -> Vec<u8> {
    pages.0.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes of a leaf; 0 for a logarithm that cannot be one.
fn leaf_sz(shift: u8) -> u64 {
    1_u64.checked_shl(shift.into()).unwrap_or(0)
}
