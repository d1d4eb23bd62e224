//! Converters into formats that other tools read: one row per region and snapshot. [`pages`] has
//! the table of page maps.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `host` | text | where it was recorded |
//! | `t_ns` | u64 | end of the window, `CLOCK_MONOTONIC` |
//! | `pid`, `target` | u32, text | whose memory it is; the name at that time |
//! | `start`, `end` | u64 | addresses in bytes, half-open |
//! | `nr_accesses` | u32 | samples of the window that saw an access |
//! | `max_nr_accesses` | u32 | samples in the window |
//! | `age` | u32 | windows for which the region has looked like this |
//! | `lo`, `hi` | f32 | 90 % interval of the mean rate, in `nr_accesses` |
//! | `resolved` | bool | false: the operations set could not look, so the numbers mean nothing |

mod csv;
mod jsonl;
pub mod pages;
#[cfg(feature = "parquet")]
mod parquet;
mod rows;

pub use csv::csv;
pub use jsonl::jsonl;
#[cfg(feature = "parquet")]
pub use parquet::parquet;
