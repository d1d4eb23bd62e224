//! The truth: what a workload really accessed, where, and when.
//!
//! A truth file is a text of JSON lines: first a [`Line::Header`] with what never changes (regions,
//! phases, patterns and their cells), then, per process of the fork tree and in the order in which
//! they happened, mappings, edges (a phase begins, a hot part moves) and, per time slot, the number
//! of executed accesses per cell. Slots without accesses and cells with none are left out. All
//! times are `CLOCK_MONOTONIC` in ns; slot `k` is `[start_ns + k * slot_ns, start_ns + (k + 1) *
//! slot_ns)`. Every line is written at once, so processes can append to one file, and a file that
//! ends in the middle of a line loses just that line.
//!
//! [`rate`] turns counts into what a monitor should have seen: for each page, the probability that
//! it is touched within one sample interval.

mod line;
pub mod rate;
mod read;
mod tiles;

pub use line::{Header, Kind, Line, PatternInfo, PhaseInfo, RegionInfo, VERSION};
pub use read::{Extent, MapEvent, ProcessTruth, ReadError, Truth};
pub use tiles::Tile;
