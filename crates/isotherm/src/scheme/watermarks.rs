//! Watermarks: when a scheme works at all.

use std::time::Duration;

use isotherm_core::scheme::{self, WatermarkMetric};

use super::scaled;
use crate::units::micros;

/// When a scheme works at all, by the free memory of the machine (`MemFree` of `MemTotal`): it
/// starts below `mid` and stops above `high`, where there is enough, or below `low`, where there is
/// so little that the kernel has to act at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watermarks {
    high: f64,
    mid: f64,
    low: f64,
    interval: Duration,
}

impl Watermarks {
    /// Shares of the memory, 0 to 1, with `high >= mid >= low`. While no scheme works, free memory
    /// is looked at every 5 s and nothing is sampled.
    #[must_use]
    pub const fn free_memory(high: f64, mid: f64, low: f64) -> Self {
        Self { high, mid, low, interval: Duration::from_secs(5) }
    }

    /// Looks so often while no scheme works.
    #[must_use]
    pub const fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Whether they are in order.
    pub(super) fn is_valid(self) -> bool {
        self.high >= self.mid && self.mid >= self.low && !self.interval.is_zero()
    }

    pub(super) fn to_core(self) -> scheme::Watermarks {
        let permil = |share: f64| u64::from(scaled(share, 1000));
        scheme::Watermarks {
            metric: WatermarkMetric::FreeMemRate,
            interval_us: micros(self.interval),
            high: permil(self.high),
            mid: permil(self.mid),
            low: permil(self.low),
        }
    }
}
