//! Which parts of an address space to watch: the mappings without their largest gaps.
//!
//! The kernel leaves out the two largest gaps, so three areas are left
//! (`__damon_va_three_regions()`). These gaps are nearly always those between heap, mmap area and
//! stack. The default here leaves out more gaps. A gap holds no page, and a region over it dilutes
//! every estimate and hides the edges of mappings. [`Areas::THREE`] is the kernel's rule.
//!
//! Some programs map small blocks at random addresses, as V8 does for Node.js: hundreds of gaps of
//! hundreds of GiB each. So gaps are left out beyond the usual number while the rest of them holds
//! more than what is mapped: the method `census` keeps state for every 2 MiB of an area.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::addr::{AddrRange, round_up};

/// What gaps may hold in any case.
const SMALL: u64 = 64 << 20;

/// How many areas to cut an address space into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Areas {
    /// Number of gaps to leave out, at most. Unless it is `exact`, more are left out while those
    /// that stay hold more bytes than what is mapped, and 64 MiB.
    pub max_gaps: usize,
    /// Gaps smaller than this many bytes stay inside an area.
    pub min_gap: u64,
    /// Whether finding fewer than `max_gaps` gaps is an error, as it is in the kernel.
    pub exact: bool,
}

impl Areas {
    /// The kernel's three areas.
    pub const THREE: Self = Self { max_gaps: 2, min_gap: 1, exact: true };

    /// The default for at most `max_nr_regions` regions. Gaps of at least 64 KiB are left out,
    /// largest first, while the areas are no more than an eighth of the regions.
    #[must_use]
    pub fn for_regions(max_nr_regions: u64) -> Self {
        let max_gaps = usize::try_from(max_nr_regions / 8).unwrap_or(usize::MAX).clamp(2, 128);
        Self { max_gaps, min_gap: 64 << 10, exact: false }
    }

    /// Writes the areas of the mappings `maps` (sorted) into `areas`, replacing what was there. The
    /// ends of the areas are rounded up to `min_region_sz`. Of two gaps of equal size the lower one
    /// counts as larger.
    ///
    /// Returns whether there is any area. There is none if nothing is mapped or, with `exact`, if
    /// there are too few gaps.
    pub fn find(self, maps: &[AddrRange], min_region_sz: u64, areas: &mut Vec<AddrRange>) -> bool {
        areas.clear();
        let (Some(first), Some(last)) = (maps.first(), maps.last()) else { return false };
        for pair in maps.windows(2) {
            let gap = AddrRange::new(pair[0].end, pair[1].start);
            if gap.len() < self.min_gap.max(1) {
                continue;
            }
            areas.push(gap);
        }
        areas.sort_unstable_by_key(|gap| (Reverse(gap.len()), gap.start));
        let sum = |ranges: &[AddrRange]| ranges.iter().map(AddrRange::len).sum::<u64>();
        let mut left_out = self.max_gaps.min(areas.len());
        if !self.exact {
            let (mut stays, most) = (sum(&areas[left_out..]), sum(maps).max(SMALL));
            while stays > most {
                stays -= areas[left_out].len();
                left_out += 1;
            }
        }
        areas.truncate(left_out);
        if self.exact && areas.len() < self.max_gaps {
            areas.clear();
            return false;
        }
        areas.sort_unstable();
        // Turn the gaps into what lies between them, in place.
        let mut start = first.start;
        for area in areas.iter_mut() {
            let gap = *area;
            *area = rounded(start, gap.start, min_region_sz);
            start = gap.end;
        }
        areas.push(rounded(start, last.end, min_region_sz));
        areas.retain(|area| !area.is_empty());
        !areas.is_empty()
    }
}

/// An area with both bounds rounded up, as in the kernel. Page-aligned mappings do not change.
const fn rounded(start: u64, end: u64, min_region_sz: u64) -> AddrRange {
    AddrRange::new(round_up(start, min_region_sz), round_up(end, min_region_sz))
}
