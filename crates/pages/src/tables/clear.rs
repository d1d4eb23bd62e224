//! Clearing accessed bits: the expensive half.
//!
//! `process_madvise(MADV_COLD)` on exactly the young pages: it clears their bits, flushes the TLB, so
//! that the next access shows at once, and moves the pages to the inactive list. Old pages are left
//! out: they need nothing, and would be disturbed for nothing.
//!
//! * Where a 2 MiB leaf maps the page, the range is the whole aligned 2 MiB: a part of it would make
//!   the kernel split the huge page for good.
//! * The same holds for smaller pieces that the kernel keeps together, where there are any: see `folio`.
//! * Neighbouring pages become one range: the TLB is flushed once per range.
//! * A call takes 1024 ranges and less than 2 GiB. It stops at a range that fails (`EINVAL`: locked,
//!   hugetlb, device memory; `ENOMEM`: a hole); the rest is asked for again, behind it.
//! * It says nothing about pages that it skips (mapped twice, part of a large folio of a file, not on
//!   an LRU list yet): the caller looks again afterwards.

use std::io;
use std::path::Path;

use isotherm_core::AddrRange;
use isotherm_sys::clock::now;
use isotherm_sys::madvise::{MAX_BYTES, MAX_RANGES, whole_ranges};

use super::folio::{Largest, SETTINGS, range_to_clear};
use super::look::Query;
use super::space::Space;

/// Kept buffers, and one setting of the machine.
#[derive(Debug)]
pub struct Clearer {
    largest: Largest,
    ranges: Vec<AddrRange>,
    iovecs: Vec<libc::iovec>,
    /// Ranges that the kernel refused as a whole (`EINVAL`).
    refused: Vec<AddrRange>,
}

impl Clearer {
    /// Reads which sizes of folios this machine has: their pieces are cleared as a whole.
    #[must_use]
    pub fn of_machine() -> Self {
        let largest = Largest::of(Path::new(SETTINGS), now());
        Self { largest, ranges: Vec::new(), iovecs: Vec::new(), refused: Vec::new() }
    }

    /// Clears the leaves of these queries, all of one address space, sorted. Returns the number of
    /// ranges asked for.
    ///
    /// # Errors
    ///
    /// If nothing at all can be cleared: the process has ended, or we may not.
    pub fn clear(&mut self, space: &Space, young: &[Query]) -> io::Result<usize> {
        self.ranges.clear();
        self.refused.clear();
        let largest = self.largest.bytes(now());
        for range in young.iter().map(|query| range_to_clear(query, largest)) {
            match self.ranges.last_mut() {
                Some(last) if range.start <= last.end && last.len() + range.len() <= MAX_BYTES => {
                    last.end = last.end.max(range.end);
                }
                _ => self.ranges.push(range),
            }
        }
        let mut next = 0;
        while next < self.ranges.len() {
            let rest = &self.ranges[next..];
            let nr = call_len(rest);
            match space.cold(&rest[..nr], &mut self.iovecs) {
                Ok(done) => next += whole_ranges(&rest[..nr], done),
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR | libc::EAGAIN) => {}
                    // What is mapped around a hole was done all the same.
                    Some(libc::ENOMEM) => next += 1,
                    Some(libc::EINVAL) => {
                        self.refused.push(rest[0]);
                        next += 1;
                    }
                    _ => return Err(e),
                },
            }
        }
        Ok(self.ranges.len())
    }

    /// Whether the last [`Clearer::clear`] was refused this leaf (`EINVAL`).
    #[must_use]
    pub fn has_refused(&self, query: &Query) -> bool {
        self.refused.iter().any(|range| range.intersects(&query.leaf_range()))
    }
}

/// How many ranges one call takes; at least one.
fn call_len(ranges: &[AddrRange]) -> usize {
    let mut bytes = 0;
    let fits = |range: &&AddrRange| {
        bytes += range.len();
        bytes <= MAX_BYTES
    };
    ranges.iter().take(MAX_RANGES).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(sizes: &[u64]) -> Vec<AddrRange> {
        sizes.iter().map(|len| AddrRange::new(0x1000_0000, 0x1000_0000 + len)).collect()
    }

    #[test]
    fn a_call_stays_inside_the_kernels_limits() {
        let huge = 1 << 30;
        for (name, sizes, expected) in [
            ("few small", vec![4096; 3], 3),
            ("many small", vec![4096; 5000], MAX_RANGES),
            ("two large ones are one byte too much", vec![huge, huge], 1),
            ("one too large alone", vec![4 * huge], 1),
        ] {
            assert_eq!(call_len(&ranges(&sizes)), expected, "{name}");
        }
    }
}
