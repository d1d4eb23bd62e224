//! Quotas: how much a scheme may do.

use std::time::Duration;

use super::Goal;
use crate::Bytes;
use crate::units::millis;

/// How much a scheme may do per interval: bytes, time, or as much as its goals need.
///
/// What makes the limit full is taken first by age and access (the coldest for `pageout`, `cold`
/// and `migrate_cold`, the hottest for `migrate_hot`). A quota without any limit lets the scheme do
/// all at once.
///
/// ```
/// use std::time::Duration;
///
/// use isotherm::scheme::{Goal, Quota};
/// use isotherm::{Bytes, Scheme};
///
/// // At most 64 MiB and 20 ms of work per second, and only as much as makes tasks wait for
/// // memory for about 5 ms per second.
/// let quota = Quota::per(Duration::from_secs(1))
///     .bytes(Bytes::mib(64))
///     .time(Duration::from_millis(20))
///     .goal(Goal::memory_pressure(Duration::from_millis(5)));
/// let scheme = Scheme::pageout().idle_for(Duration::from_secs(30)).quota(quota);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quota {
    pub(super) interval: Duration,
    pub(super) bytes: Bytes,
    pub(super) time: Duration,
    pub(super) goals: Vec<Goal>,
}

impl Quota {
    /// A quota whose window is so long, without a limit yet. Milliseconds count; fractions are
    /// rounded up.
    #[must_use]
    pub fn per(interval: Duration) -> Self {
        Self { interval, ..Self::default() }
    }

    /// No limit at all.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// At most so many bytes per window; 0: any number.
    #[must_use]
    pub const fn bytes(mut self, bytes: Bytes) -> Self {
        self.bytes = bytes;
        self
    }

    /// At most so much time of acting per window; zero: any. Milliseconds count; fractions are
    /// rounded up.
    #[must_use]
    pub const fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Also tunes the limit for a goal; of several the one that is reached best counts.
    #[must_use]
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goals.push(goal);
        self
    }

    /// As the core has it, without what the action decides.
    pub(super) fn to_core(&self, cgroups: &mut Vec<String>) -> isotherm_core::scheme::Quota {
        isotherm_core::scheme::Quota {
            reset_interval_ms: millis(self.interval),
            ms: millis(self.time),
            sz: self.bytes.0,
            goals: self.goals.iter().map(|goal| goal.to_core(cgroups)).collect(),
            ..isotherm_core::scheme::Quota::default()
        }
    }
}
