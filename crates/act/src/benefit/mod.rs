//! Whether huge pages pay for a program: decided by what is measured on it, not by its numbers of
//! accesses.
//!
//! A huge page saves walks of the page table. It costs the copy of 2 MiB once, and memory where not
//! all of its pages were in use. What it saves depends on how a program goes over its memory:
//! random accesses over much memory walk all the time; a sweep that does much work per page walks
//! rarely, however hot its pages look over a second.
//!
//! ```text
//! looks   -> gain by pages: walks per CPU second x what a walk costs here      (density, walk)
//! counter -> gain by work: with huge pages on a sample, and without, in turn   (trial)
//! both    -> pays | does not pay | undecided, with the probability that rests on it  (stats)
//! ```
//!
//! Invariants: a trial is a value. It knows no process and no clock, and draws its sample by a
//! seed, so the same facts give the same decision. A gain below [`LEAST_GAIN`] never pays, nor one
//! that would not earn the work of collapsing within the time that the program may still run.
//!
//! Absent: hardware counters. Nothing here collapses or splits; `apply` does.

mod density;
pub mod stats;
mod trial;
mod walk;

pub(crate) use density::Cost;
pub(crate) use trial::{Facts, Step, Trial, Verdict};
pub(crate) use walk::walk_price_soon;
pub use walk::{WalkPrice, walk_price};

/// A gain below this share of the target's CPU time is not worth its huge pages.
pub const LEAST_GAIN: f64 = 0.01;
/// How sure a decision has to be.
pub const SURE: f64 = 0.9;
