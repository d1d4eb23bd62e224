//! From this library's units to those of the layers below.

use std::time::Duration;

/// Whole microseconds; saturates.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Whole milliseconds, at least 1 unless the time is 0; saturates.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
