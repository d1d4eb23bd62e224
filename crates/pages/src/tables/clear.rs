//! Clears accessed bits, which is the expensive half of monitoring.
//!
//! `process_madvise(MADV_COLD)` is called on exactly the young pages. It clears their bits, flushes
//! the TLB, so that the next access shows at once, and moves the pages to the inactive list. Old
//! pages are left out: their bits are clear already, and the call would move them for nothing.
//!
//! * Where a 2 MiB leaf maps the page, the range is the whole aligned 2 MiB: a part of it would
//!   make the kernel split the huge page for good.
//! * The same holds for smaller pieces that the kernel keeps together, where there are any: see
//!   `folio`.
//! * Neighbouring pages become one range: the TLB is flushed once per range.
//! * The call does not report pages that it skips (mapped twice, part of a large folio of a file,
//!   not on an LRU list yet). So the caller looks again afterwards.

use std::io;
use std::path::Path;

use isotherm_core::AddrRange;
use isotherm_sys::clock::now;
use isotherm_sys::madvise::Remote;

use super::folio::{Largest, SETTINGS, range_to_clear};
use super::look::Query;
use super::space::Space;
use crate::advice::{Answer, MOST_COLD, advise};

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
            append(&mut self.ranges, range);
        }
        self.advise(space)
    }

    /// Clears all leaves of these ranges, sorted, of one address space, each of at most
    /// [`MOST_COLD`] bytes. [`Clearer::refuses`] says which ranges were refused.
    ///
    /// # Errors
    ///
    /// As [`Clearer::clear`].
    pub fn clear_ranges(&mut self, space: &Space, ranges: &[AddrRange]) -> io::Result<()> {
        self.ranges.clear();
        self.refused.clear();
        self.ranges.extend_from_slice(ranges);
        self.advise(space).map(|_| ())
    }

    fn advise(&mut self, space: &Space) -> io::Result<usize> {
        let (refused, mut failed) = (&mut self.refused, None);
        let mut told = |answer| {
            match answer {
                Answer::Refused(range, libc::EINVAL) => refused.push(range),
                // What is mapped around a hole was done all the same.
                Answer::Accepted(_) | Answer::Refused(_, libc::ENOMEM | libc::EAGAIN) => {}
                Answer::Refused(_, errno) => failed = Some(io::Error::from_raw_os_error(errno)),
            }
            failed.is_none()
        };
        advise(space.pidfd(), &self.ranges, Remote::Cold, &mut self.iovecs, &mut told)?;
        if let Some(e) = failed {
            return Err(e);
        }
        Ok(self.ranges.len())
    }

    /// Whether the last clearing was refused a part of this range (`EINVAL`).
    #[must_use]
    pub fn refuses(&self, range: &AddrRange) -> bool {
        self.refused.iter().any(|refused| refused.intersects(range))
    }

    /// Whether the last [`Clearer::clear`] was refused this leaf (`EINVAL`).
    #[must_use]
    pub fn has_refused(&self, query: &Query) -> bool {
        self.refuses(&query.leaf_range())
    }
}

/// Adds a range, to the last one if they are neighbours and both fit into one call.
fn append(ranges: &mut Vec<AddrRange>, range: AddrRange) {
    match ranges.last_mut() {
        Some(last) if range.start <= last.end && last.len() + range.len() <= MOST_COLD => {
            last.end = last.end.max(range.end);
        }
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_range_as_long_as_one_call_takes_it() {
        const HUGE: u64 = 2 << 20;
        let (mut ranges, base) = (Vec::new(), 1 << 30);
        for nr in (0..20).chain(30..31) {
            append(&mut ranges, AddrRange::new(base + nr * HUGE, base + (nr + 1) * HUGE));
        }
        let sizes: Vec<u64> = ranges.iter().map(|range| range.len() / HUGE).collect();
        assert_eq!(sizes, [8, 8, 4, 1]);
        assert_eq!(ranges[1].start, ranges[0].end);
    }
}
