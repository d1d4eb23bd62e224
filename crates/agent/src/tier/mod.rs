//! Self-tuned memory tiering: hot memory on fast nodes, cold memory on slow ones (R§6.5 `mtier`,
//! R§10.5).
//!
//! ```text
//! nodes of the machine -> Hierarchy: links of an upper and a lower node
//!   per link: promote (hot memory of the lower node up, until 99.7 % of the upper one is used)
//!             demote  (cold memory of the upper node down, until 0.5 % of it is free)
//!   -> Policy, which the runner runs as any other
//! ```
//!
//! The two goals overlap by 0.2 %: demotion makes a little more room than promotion may take. So
//! both go on slowly, until hot pages are on the upper node and cold ones below. The policy is
//! either over processes, for Isotherm's engine, which looks at every page before it moves it, or
//! over physical memory, for the kernel's DAMON.
//!
//! Not here: a loop (the runner has it), printing, signals, moving pages (`isotherm-act`) and
//! reading page tables (`isotherm-pages`).

mod hierarchy;
mod knobs;
mod policy;
mod schemes;
mod standing;
#[cfg(test)]
mod tests;

pub use hierarchy::{Hierarchy, Link, NoHierarchy};
pub use knobs::Knobs;
pub use policy::{Physical, Processes, lacks};
pub use standing::{LinkStanding, links};
