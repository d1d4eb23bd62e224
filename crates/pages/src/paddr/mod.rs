//! Physical memory: where it is, what its frames are used for, and whose they are.
//!
//! Addresses here are physical, in bytes. What is watched is *System RAM*, as `/proc/iomem` lists
//! it; a page that the range of a resource cuts through is nobody's and left out. Nodes come from
//! `/proc/zoneinfo`, which every kernel has, NUMA or not.
//!
//! The kernel does not say who maps a frame; [`rmap`] finds out from the page tables of all
//! processes. That is done for a sample of frames ([`sample`]): each stands for an equal part of
//! RAM, so shares of the sample are shares of RAM, with the error of a sample.
//!
//! Absent on purpose: whether a frame was touched (the operations sets'), and acting.

mod cgroups;
mod kind;
pub mod rmap;
mod sample;
mod uses;

pub use cgroups::CgroupNames;
pub use kind::FrameKind;
pub use sample::sample;
pub use uses::{FrameUse, Uses};
