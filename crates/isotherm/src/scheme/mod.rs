//! Schemes: what to do with memory that looks like this.
//!
//! A [`Scheme`] is an action, a pattern of the regions that it is for, and limits. What is not said
//! is finite and safe: an action that takes memory away waits for evidence that single pages stay
//! untouched, is limited to 128 MiB and 10 ms of work per second, and slows down when too much of
//! what it took is touched again soon. Nothing is counted as done that a look afterwards does not
//! show.
//!
//! ```
//! use std::time::Duration;
//!
//! use isotherm::sim::Workload;
//! use isotherm::{Bytes, Monitor, Scheme};
//!
//! // 64 MiB, of which a quarter stays in use.
//! let text = "heap, 64M\n\nbusy\n8000\nheap, 1, 64, 1, length=16M, rate=100000\n";
//! let workload = Workload::parse(text)?;
//! let mut monitor = Monitor::builder().sim(workload).build()?;
//! monitor.add_scheme(Scheme::pageout().idle_for(Duration::from_secs(2)).dry_run())?;
//! while monitor.next_snapshot()?.is_some() {}
//!
//! let account = &monitor.schemes()[0];
//! assert_eq!(account.name, "pageout");
//! assert!(Bytes::mib(40) < account.done && account.done <= Bytes::mib(49), "{account}");
//! assert_eq!(account.refaulted, Bytes(0));
//! # Ok::<(), isotherm::Error>(())
//! ```

mod account;
mod builder;
mod complete;
mod filter;
mod goal;
mod pattern;
mod quota;
mod watermarks;

pub use account::Account;
pub use builder::Scheme;
pub use filter::Filter;
pub use goal::Goal;
pub use isotherm_core::scheme::Action;
pub use quota::Quota;
pub use watermarks::Watermarks;

/// A share from 0 to 1 in basis points, rounded to the nearest; what is outside is moved to the
/// border.
pub(crate) fn basis_points(share: f64) -> u32 {
    scaled(share, 10_000)
}

/// A share from 0 to 1 of `whole`, rounded to the nearest.
fn scaled(share: f64, whole: u32) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the whole; not a number becomes 0"
    )]
    let part = (share.clamp(0.0, 1.0) * f64::from(whole)).round() as u32;
    part
}
