//! Self-tuned memory tiering: hot memory on fast nodes, cold memory on slow ones (R§6.5 `mtier`, R§10.5).
//!
//! ```text
//! nodes of the machine -> Hierarchy: links of an upper and a lower node
//!   per link: promote (hot memory of the lower node up, until 99.7 % of the upper one is used)
//!             demote  (cold memory of the upper node down, until 0.5 % of it is free)
//! ```
//!
//! The two goals overlap by 0.2 %: demotion makes a little more room than promotion may take, so both go on, slowly,
//! and every page ends where its heat belongs. Two engines do it: the kernel's DAMON, which watches physical
//! memory (`kernel`), and our own (`Engine`, `Work`), which watches processes and looks at every page
//! before it moves.
//!
//! Absent: printing, signals; moving pages and reading page tables (`isotherm-act`, `isotherm-pages`).

mod engine;
mod heat;
mod hierarchy;
mod kernel;
mod knobs;
mod placed;
mod policy;
mod work;

pub use engine::{Engine, Hands, LinkStanding, Pressure};
pub use heat::{Heat, HeatTable};
pub use hierarchy::{Hierarchy, Link, NoHierarchy};
pub use kernel::{Pushed, lacks};
pub use knobs::Knobs;
pub use policy::MISSING;
pub use work::{TierEvent, TierSummary, Whom, Work};
