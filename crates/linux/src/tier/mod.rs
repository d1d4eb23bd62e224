//! What memory tiering has to know of the machine: which nodes there are and how they are tiered, how full they
//! are and below what they must not fall, and on which node a page frame is.
//!
//! Absent: deciding (`isotherm-agent`'s `tier`), and moving ([`crate::apply`]).

mod level;
mod nodes;
mod places;

pub use level::{Gauge, Level, levels};
pub use nodes::{Facts, NodeFacts, demotion_by_reclaim};
pub use places::Places;
