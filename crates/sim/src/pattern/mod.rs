//! Makes single accesses from a pattern's description. It is pure and seeded, and has no memory or
//! clock.
//!
//! A [`Plan`] says what one pattern of one phase touches. Its bytes are divided into [`Cells`], the
//! units in which executed accesses are counted. All pages of a cell are accessed alike. A
//! [`Source`] draws accesses, in batches, and counts them by cell as it draws.
//!
//! Invariant: no access leaves the cells, and the cells lie inside the region's mapped part.

mod alias;
mod cells;
mod plan;
mod sets;
mod source;

pub use alias::Alias;
pub use cells::Cells;
pub use plan::{Choice, Plan, plans};
pub use source::{Batch, Source};

/// Granularity of a random access, in bytes: a cache line.
pub const LINE: u64 = 64;
