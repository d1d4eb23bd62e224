//! Physical memory: where it is, and to which node it belongs.
//!
//! Addresses here are physical, in bytes. What is watched is *System RAM*, as `/proc/iomem` lists it; a page
//! that the range of a resource cuts through is nobody's and left out. Nodes come from `/proc/zoneinfo`, which
//! every kernel has, NUMA or not.
//!
//! Absent on purpose: looking at pages and acting on them, which is for the operations sets.

mod ram;

pub use ram::{NodeRam, Ram, RamError};
