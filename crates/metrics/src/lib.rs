//! Isotherm's metrics for Prometheus and all that reads OpenMetrics.
//!
//! ```text
//! messages of a runner -> Gather -> Reading -> families -> text -> http | textfile
//! ```
//!
//! A [`Reading`] is a plain value: what was known at one moment. [`families`] makes metrics of it,
//! and [`text`] writes them. Neither does any I/O. [`Gather`] makes readings of what a runner
//! tells. [`http`] serves them on a loopback port or a socket, and [`textfile`] writes them for the
//! textfile collector of `node_exporter`. An [`Exporter`] is all of that together.
//!
//! Invariants. Units are seconds, bytes and ratios. Labels are bounded: contexts, schemes and
//! actions are those of the policy, and of cgroups at most [`MOST_CGROUPS`] are told one by one. No
//! label is a pid or an address. Every name is in [`families::families`], by which dashboards and
//! alerts are checked.

mod exporter;
pub mod families;
mod gather;
pub mod http;
mod reading;
pub mod text;
pub mod textfile;

pub use exporter::{Exporter, Outlets};
pub use gather::Gather;
pub use reading::{
    Build, CgroupReading, ContextReading, FleetReading, GoalReading, MOST_CGROUPS, OwnReading,
    Reading, SchemeReading, SpanReading, TierReading,
};
