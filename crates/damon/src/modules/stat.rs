//! What `DAMON_STAT` measured: for how long the machine's memory is idle, and how much of it is
//! accessed.

use super::Module;
use crate::error::DamonError;
use crate::sysfs::root::{Root, unreadable};

/// What `DAMON_STAT` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatReport {
    /// Whether it runs. If it does not, the numbers are from its last run, or zero.
    pub enabled: bool,
    /// Idle time by percentile of memory, 0 to 100, in ms. The first is that of the hottest memory.
    /// A negative number is memory that is being accessed, and for how long (6.18; older kernels
    /// count such memory as idle for 0 ms).
    pub idle_ms: Vec<i64>,
    /// Estimated memory bandwidth, in bytes per second. The counts are partial, so it is too low
    /// (R§9.2).
    pub bandwidth: u64,
    /// The aggregation interval that it tuned itself to, in µs (6.18).
    pub aggr_us: Option<u64>,
}

impl StatReport {
    /// Reads the statistics.
    ///
    /// # Errors
    ///
    /// If the kernel has no `DAMON_STAT`, or a file does not read as it should.
    pub fn read(root: &Root) -> Result<Self, DamonError> {
        let module = Module::Stat;
        let values = module.values(root)?;
        let dir = module.dir(root);
        let path = dir.join("memory_idle_ms_percentiles");
        let text = root.read(&path)?;
        let numbers: Result<Vec<i64>, _> = text.split(',').map(|n| n.trim().parse()).collect();
        let idle_ms = numbers.map_err(|_err| unreadable(&path, &text))?;
        let aggr_us = values.iter().any(|value| value.name == "aggr_interval_us");
        Ok(Self {
            enabled: module.is_enabled(root),
            idle_ms,
            bandwidth: root.number(&dir.join("estimated_memory_bandwidth"))?,
            aggr_us: if aggr_us { Some(root.number(&dir.join("aggr_interval_us"))?) } else { None },
        })
    }

    /// The idle time below which `percent` of the memory lies, in ms.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<i64> {
        self.idle_ms.get(percent).copied()
    }

    /// The share of memory that has been idle for at least `ms`, in percent.
    #[must_use]
    pub fn idle_for(&self, ms: i64) -> usize {
        self.idle_ms.iter().skip(1).filter(|&&idle| idle >= ms).count()
    }
}
