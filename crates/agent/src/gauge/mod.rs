//! How programs get on, and what memory they use, seen from outside.
//!
//! ```text
//! Source: a counter, a latency, PSI, CPU seconds --.
//! /proc: resident memory, swap, CPU time ----------+-> Gauge -> Phase
//! ```
//!
//! `isotherm tune` compares phases of trials with untouched ones, and online tuning those of a step
//! with those before and after it. So only ratios and differences matter, and no unit of a counter
//! has to be known.
//!
//! Invariants. A command that is asked for a number is ended after [`PATIENCE`], so a command that
//! hangs stops nobody for longer.
//!
//! Not here: which phases there are, and what follows from them. That is [`crate::tune`].

mod counter;
mod meter;

pub use counter::{Counter, PATIENCE, Unread, printed};
pub use meter::{Gauge, Phase, Source, memory};
