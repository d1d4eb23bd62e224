//! The working set with its error bar.

use std::fmt;

use isotherm_core::{RegionInfo, Touched, TouchedBytes};
use isotherm_report::wss;

use crate::Bytes;

/// A working set, and how sure it is: what was touched within a span, page by page, or the size of
/// all regions that were accessed at all, as DAMON counts it (how the interval comes about is told
/// in `isotherm_report::wss::estimate`).
///
/// ```
/// use isotherm::Bytes;
/// use isotherm::snapshot::WorkingSet;
///
/// let mut set = WorkingSet::default();
/// set.size = Bytes::mib(40);
/// (set.low, set.high) = (Bytes::mib(38), Bytes::mib(45));
/// assert_eq!(set.to_string(), "40.0 MiB (38.0 MiB to 45.0 MiB)");
/// set.unresolved = Bytes::mib(1);
/// assert_eq!(set.to_string(), "40.0 MiB (38.0 MiB to 45.0 MiB), 1.00 MiB not seen");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkingSet {
    /// Size of the touched pages, or of the regions with at least one access.
    pub size: Bytes,
    /// Lower end of the 90 % interval.
    pub low: Bytes,
    /// Upper end of the 90 % interval.
    pub high: Bytes,
    /// Size of what could not be looked at; in none of the above.
    pub unresolved: Bytes,
    /// Size of all regions.
    pub mapped: Bytes,
}

impl WorkingSet {
    pub(super) fn of<'a>(regions: impl IntoIterator<Item = &'a RegionInfo>, max: u32) -> Self {
        let wss::WorkingSet { bytes, lo, hi, unresolved, mapped } = wss::estimate(regions, max);
        Self {
            size: Bytes(bytes),
            low: Bytes(lo),
            high: Bytes(hi),
            unresolved: Bytes(unresolved),
            mapped: Bytes(mapped),
        }
    }

    /// What was touched within a second, or within a window until that was measured.
    pub(super) fn lately(touched: Option<Touched>) -> Option<Self> {
        let touched = touched?;
        let span = touched.spans[2].or(touched.spans[1])?;
        Some(Self::within(span, touched.watched))
    }

    pub(super) const fn within(touched: TouchedBytes, watched: u64) -> Self {
        let TouchedBytes { bytes, lo, hi, measured } = touched;
        Self {
            size: Bytes(bytes),
            low: Bytes(lo),
            high: Bytes(hi),
            unresolved: Bytes(watched.saturating_sub(measured)),
            mapped: Bytes(watched),
        }
    }
}

impl fmt::Display for WorkingSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} to {})", self.size, self.low, self.high)?;
        if self.unresolved > Bytes(0) {
            write!(f, ", {} not seen", self.unresolved)?;
        }
        Ok(())
    }
}
