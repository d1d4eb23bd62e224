//! Isotherm's core: contexts, targets, regions and schemes, and the methods that sample accesses.
//!
//! The core has no I/O. It knows no pid, path, errno, thread or clock, and every random number
//! follows from a seed. Time, access results and address ranges are inputs, and [`Context::poll`]
//! says which input comes next. So the same code runs under a virtual clock in `isotherm-sim` and
//! over a real process in `isotherm-ops`. The crate is `no_std` and forbids unsafe code; CI builds
//! it for a target without an operating system.
//!
//! Names and rounding are DAMON's (Linux 7.2, `mm/damon/core.c`). Where the default differs from
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
pub mod unit;
pub mod units;
pub(crate) mod watches;

pub use addr::AddrRange;
pub use attrs::{Attrs, AttrsError, Method};
pub use driver::{Clock, Driver, Event, Spent};
pub use mapping::MappingKind;
pub use math::rng::Rng;
pub use math::{interval, rng};
pub use monitor::{Context, Wish};
pub use ops::{Check, ClearRate, Observation, Observed, Operations, PageState, Reclaimed};
pub use region::Region;
pub use scheme::{Applied, Eligible, Measure, Request, Scheme};
pub use snapshot::{
    Cost, Late, Lengths, RegionInfo, SPANS, Snapshot, Suspends, TargetInfo, Temperature, Touched,
    TouchedBytes, TouchedShare, UnitInfo,
};
pub use target::{Given, Target, TargetId};
pub use time::Time;
pub use unit::{AllMemory, PageBits, UnitCheck};
