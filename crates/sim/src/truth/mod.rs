//! The truth: what a workload really accessed, where, and when.
//!
//! A truth file consists of JSON lines. The first is a [`Line::Header`] with what holds for the
//! whole run: regions, phases, patterns and their cells. The other lines tell what each process of
//! the fork tree did, in the order in which it happened: its mappings, its edges (a phase begins, a
//! hot part moves) and, per time slot, the number of executed accesses per cell. Slots and cells
//! without accesses are left out. All times are `CLOCK_MONOTONIC` in ns. Slot `k` is
//! `[start_ns + k * slot_ns, start_ns + (k + 1) * slot_ns)`. Every line is written by one call, so
//! that several processes can append to one file. A file that ends in the middle of a line loses
//! only that line.
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
