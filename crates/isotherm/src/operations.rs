//! Operations sets of one's own: what looks at memory that Isotherm does not know.
//!
//! A set answers two questions about single pages, in batches: [`Operations::prepare`] makes pages
//! *old* and says how it found them, [`Operations::check`] says which were *touched* since. It
//! keeps no policy: which pages, when and how often is the monitor's business.
//! [`Operations::update`] says which addresses there are, and [`Operations::apply`] does what
//! schemes want; a set without it cannot act.
//!
//! "Pages" are whatever has an address and can be touched: blocks of a cache, objects of a heap,
//! pages of a guest. The smallest is 4096 bytes of the address space that the set makes up.
//!
//! ```
//! use isotherm::Monitor;
//! use isotherm::operations::{
//!     AddrRange, Check, Operations, PageState, SystemClock, TargetId, UpdateError,
//! };
//!
//! /// 4 MiB of which the first half is always in use.
//! struct HalfHot;
//!
//! impl Operations for HalfHot {
//!     fn prepare(&mut self, batch: &mut [Check]) {
//!         for check in batch {
//!             let hot = check.addr < 2 << 20;
//!             check.state = if hot { PageState::Cleared } else { PageState::Old };
//!         }
//!     }
//!
//!     fn check(&mut self, batch: &mut [Check]) {
//!         for check in batch {
//!             let hot = check.addr < 2 << 20;
//!             check.state = if hot { PageState::Young } else { PageState::Old };
//!         }
//!     }
//!
//!     fn update(&mut self, _: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
//!         maps.push(AddrRange::new(0, 4 << 20));
//!         Ok(())
//!     }
//!
//!     fn target_valid(&mut self, _: TargetId) -> bool {
//!         true
//!     }
//! }
//!
//! let mut monitor =
//!     Monitor::builder().operations(HalfHot).target(TargetId(0), "cache").seed(1).build()?;
//! for _ in 0..5 {
//!     let snapshot = monitor.next_snapshot()?.expect("the target does not end");
//!     assert_eq!(snapshot.targets().count(), 1);
//! }
//! # Ok::<(), isotherm::Error>(())
//! ```

pub use isotherm_core::ops::UpdateError;
pub use isotherm_core::{
    AddrRange, Applied, Check, ClearRate, Clock, Measure, Observation, Observed, Operations,
    PageState, Request, TargetId, Time,
};
use isotherm_sys::clock::{self, Wake};

/// The machine's monotonic clock (`CLOCK_MONOTONIC`): what a monitor over an own set runs by unless
/// it is given another one. A signal cuts its sleep short.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&mut self) -> Time {
        clock::now()
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        clock::sleep_until(deadline) == Wake::Signal
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        Some(clock::thread_cpu_ns())
    }
}
