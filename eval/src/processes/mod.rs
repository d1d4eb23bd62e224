//! The processes that jobs start: workloads, recorders and schemes of Isotherm.

pub(crate) mod child;
pub(crate) mod group;
pub(crate) mod recording;
pub(crate) mod tool;
pub(crate) mod workload;
