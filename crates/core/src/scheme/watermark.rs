//! Watermarks: whether a scheme is at work (R§4.8).

/// What the watermarks are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WatermarkMetric {
    /// Nothing: the scheme is always at work.
    #[default]
    None,
    /// Free memory of the machine, in permil of all.
    FreeMemRate,
}

/// Watermarks (`struct damos_watermarks`, Linux 7.2). With `high >= mid >= low`, a scheme starts to
/// work below `mid` and stops above `high` or below `low`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Watermarks {
    /// What is measured.
    pub metric: WatermarkMetric,
    /// Time between measurements while no scheme is at work, in µs.
    pub interval_us: u64,
    /// Above this the scheme stops, because there is enough free memory.
    pub high: u64,
    /// Below this the scheme starts.
    pub mid: u64,
    /// Below this the scheme stops, because the kernel's own reclaim has to act at once.
    pub low: u64,
}

impl Watermarks {
    /// Whether the scheme is at work at this value of the metric, if it was `active` before
    /// (`damos_wmark_wait_us()`).
    #[must_use]
    pub const fn is_active(&self, active: bool, value: u64) -> bool {
        if value > self.high || value < self.low {
            return false;
        }
        active || value < self.mid
    }
}
