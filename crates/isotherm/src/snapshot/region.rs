//! Regions: neighbouring pages that are believed to be accessed alike.

use std::fmt;
use std::time::Duration;

use isotherm_core::{AddrRange, RegionInfo, TouchedShare};

use super::Scale;
use crate::Bytes;

/// How often a region was accessed.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Access {
    /// Share of the window's sample intervals in which a page of it was touched, 0 to 1: an
    /// estimate.
    pub share: f64,
    /// Lower end of the 90 % interval of the mean over its pages.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [share, low, high] = [self.share, self.low, self.high].map(|x| x * 100.0);
        write!(f, "{share:.0} % ({low:.0} to {high:.0})")
    }
}

/// One region of a target in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    info: RegionInfo,
    max: f64,
    age: Duration,
}

impl Region {
    pub(super) fn new(info: RegionInfo, scale: Scale<'_>) -> Self {
        let age = Duration::from_nanos(scale.lengths.of_last(info.age));
        Self { info, max: f64::from(scale.max.max(1)), age }
    }

    /// Where it is, in bytes of the target's address space.
    #[must_use]
    pub const fn range(&self) -> AddrRange {
        self.info.range
    }

    /// Its size.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes(self.info.range.len())
    }

    /// How often it was accessed; none if nobody could look (locked or shared pages, for some
    /// sets). That is not the same as "never".
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        let RegionInfo { nr_accesses, lo, hi, resolved, .. } = self.info;
        resolved.then(|| Access {
            share: f64::from(nr_accesses) / self.max,
            low: f64::from(lo) / self.max,
            high: f64::from(hi) / self.max,
        })
    }

    /// For how long it has looked like this: the real length of so many windows, up to the end of
    /// this one. Windows that came late count as long as they took, and so does the time in which
    /// the machine was suspended. [`Region::raw`] has the number of windows.
    #[must_use]
    pub const fn age(&self) -> Duration {
        self.age
    }

    /// How many of its pages were touched within a window and within a second. Only the method
    /// `census` sees that.
    #[must_use]
    pub const fn touched(&self) -> Option<TouchedShare> {
        self.info.touched
    }

    /// The same as the core has it.
    #[must_use]
    pub const fn raw(&self) -> &RegionInfo {
        &self.info
    }
}
