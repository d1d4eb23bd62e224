//! Isotherm's core: contexts, targets, regions, and the two ways to sample them.
//!
//! Facts in, wishes out. The core knows no pid, path, errno, thread or clock and draws no unseeded
//! randomness: time, access results and address ranges are inputs ([`Context::poll`] says what it
//! wants next), so that the same lines run under a virtual clock in `isotherm-sim` and over a real
//! process in `isotherm-ops`. The crate is `no_std` and forbids unsafe code; CI builds it for a
//! target without an operating system.
//!
//! Names and rounding are DAMON's (Linux 7.2, `mm/damon/core.c`); where the default differs from
//! the kernel, [`Attrs::strict`](attrs::Attrs::strict) brings the kernel's behaviour back.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod addr;
pub mod areas;
pub mod attrs;
pub mod driver;
pub mod mapping;
pub mod math;
pub mod monitor;
pub mod ops;
pub mod region;
pub mod scheme;
pub mod snapshot;
pub mod target;
pub mod time;
pub mod units;

pub use addr::AddrRange;
pub use attrs::{Attrs, AttrsError, Method};
pub use driver::{Clock, Driver, Event};
pub use mapping::MappingKind;
pub use math::rng::Rng;
pub use math::{interval, rng};
pub use monitor::{Context, Wish};
pub use ops::{
    Applied, Check, Eligible, Measure, Observation, Observed, Operations, PageState, Request,
    TargetId,
};
pub use region::Region;
pub use scheme::Scheme;
pub use snapshot::{Cost, RegionInfo, Snapshot, TargetInfo};
pub use target::Target;
pub use time::Time;
