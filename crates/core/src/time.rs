//! Instants on the monotonic clock, as plain numbers.

use core::ops::{Add, Sub};

/// An instant: nanoseconds since the clock's own zero.
///
/// On a real machine this is the zero of `CLOCK_MONOTONIC`, so that a record, a workload's log and
/// the kernel's time stamps can be compared. In a simulation it is the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Adds microseconds, saturating.
    #[must_use]
    pub const fn plus_us(self, us: u64) -> Self {
        Self(self.0.saturating_add(us.saturating_mul(1000)))
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Time {
    type Output = Self;
    /// Adds nanoseconds, saturating.
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Sub for Time {
    type Output = u64;
    fn sub(self, rhs: Self) -> u64 {
        self.since(rhs)
    }
}

/// Whether sample interval `a` is before `b`, both counted since the start. Both may wrap around.
#[must_use]
pub const fn before(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}
