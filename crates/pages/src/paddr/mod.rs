//! Physical memory: where it is, what its frames are used for, and whose they are.
//!
//! Addresses here are physical, in bytes. The memory in question is *System RAM*, as `/proc/iomem`
//! lists it. A page that lies only partly in a resource is left out. Nodes come from
//! `/proc/zoneinfo`, which every kernel has, with or without NUMA.
//!
//! The kernel does not say who maps a frame. [`rmap`] finds that out from the page tables of all
//! processes, for a sample of frames ([`sample`]). Each frame of the sample stands for an equal
//! part of RAM, so shares of the sample are shares of RAM, with the error of a sample.
//!
//! Absent on purpose: whether a frame was touched (the operations sets' part), and acting on it.

mod cgroups;
mod kind;
pub mod rmap;
mod sample;
mod uses;

pub use cgroups::CgroupNames;
pub use kind::FrameKind;
pub use sample::sample;
pub use uses::{FrameUse, Uses};
