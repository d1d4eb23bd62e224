//! Mappings in which `MADV_COLD` does harm or is refused.
//!
//! * After `MADV_RANDOM` or `MADV_SEQUENTIAL` the kernel does not take an accessed bit for a reason
//!   to keep a page (`vma_has_recency()`, `mm_inline.h`, Linux 6.3). A page there that
//!   `MADV_COLD` has moved to the inactive list is reclaimed even if it is in use.
//! * Locked memory, hugetlb and devices are refused (`can_madv_lru_vma()`, `mm/madvise.c`).

use isotherm_core::AddrRange;

use super::PageTables;
use super::space::Space;

impl PageTables {
    /// Appends the mappings of the address space in `slot` in which `MADV_COLD` does harm or is
    /// refused, in address order. Returns whether they could be read, for which Linux 6.1 is
    /// needed. The cost is some 10 µs, and well under 1 µs per mapping of the process.
    pub fn barred_from_cold(&mut self, slot: u16, ranges: &mut Vec<AddrRange>) -> bool {
        let Some(pid) = self.space(slot).map(Space::pid) else { return false };
        let before = ranges.len();
        let read = self.kernel.mappings().is_some_and(|maps| maps.read(pid, ranges).is_ok());
        // The task is found by number, so the process must still be the same afterwards.
        let same = self.space(slot).is_some_and(|space| !space.has_exited());
        if !(read && same) {
            ranges.truncate(before);
        }
        read && same
    }
}
