//! NUMA nodes: which there are, how they are tiered, how full they are, and below what they must
//! not fall.
//!
//! Absent: on which node a page frame is (`isotherm-pages`), and moving pages (`isotherm-act`).

mod facts;
mod level;
mod list;

pub use facts::{Facts, NodeFacts, demotion_by_reclaim};
pub use level::{Gauge, Level, levels};
pub use list::{Nodes, NodesError, NodesKind};
