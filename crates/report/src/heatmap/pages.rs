//! Rates of single pages, for rows that are finer than a unit of 2 MiB.
//!
//! A page that was touched within a sample counts as touched in every sample, and one that was
//! touched within a window, but not within a sample, as touched in one sample of the window. So a
//! row's rate is the mean of its pages, as that of a region is.

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits};

use crate::page_maps::PageMap;
use crate::shown::float;

/// What page maps know of some memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Known {
    /// Bytes of which they tell.
    pub(super) bytes: u64,
    /// Sum of these bytes times their rates, 0 to 1.
    pub(super) touched: f64,
}

/// What a page map knows of `range`. `max`: sample intervals in a window.
pub(super) fn known(map: &PageMap, range: AddrRange, max: u32) -> Known {
    let mut sum = Known::default();
    if range.is_empty() {
        return sum;
    }
    for (start, unit) in map.units.range(round_down(range.start, UNIT)..range.end) {
        let [Some(sample), window, ..] = unit.touched else { continue };
        let pages = PageBits::of(*start, range).minus(unit.unresolved);
        let seldom = window.unwrap_or_default().minus(sample).and(pages);
        sum.bytes += pages.count() * PAGE_SIZE;
        sum.touched += float(sample.and(pages).count() * PAGE_SIZE);
        sum.touched += float(seldom.count() * PAGE_SIZE) / f64::from(max.max(1));
    }
    sum
}
