//! Tunes a policy by trials on the program that runs: which values are tried next, what the trials
//! have shown, and how sure that is.
//!
//! ```text
//! ranges -> Space -> candidates -> Search: ask() -> trial -> tell() -> ... -> Verdict
//! ```
//!
//! A *trial* puts a candidate in force between two untouched phases, and says which share of memory
//! it saved and by which share it slowed the program down. The *score* is `saved - weight *
//! slowdown`. The search halves the candidates: every one gets a trial, then the better half gets
//! twice as many, and so on, so most trials go to those that could win.
//!
//! [`Online`] does the same in small steps, for as long as a policy runs.
//!
//! Invariants. Everything here is a value and a plain function: the same answers give the same
//! search. A winner is named only if the trials show that it is better than doing nothing, and than
//! the policy that tuning began with.
//!
//! Not here: the trials themselves. Who has a program to try runs them.

mod brake;
#[cfg(test)]
mod noise;
mod online;
mod search;
mod space;

pub use brake::Brake;
pub use isotherm_act::benefit::stats::{Estimate, Spread, t_cdf};
pub use online::{Ask, News, Online, Outcome, Rules, Seen, Step, Told as OnlineTold};
pub use search::{Candidate, Fate, Limits, Origin, Search, Told, Trial, Verdict, Why};
pub use space::Space;
