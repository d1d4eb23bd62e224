//! The stretches of a region in which accesses are counted.

use serde::{Deserialize, Serialize};

/// Equally spaced stretches of bytes of one region: cell `i` is
/// `[offset + i * pitch, offset + i * pitch + len)`, cut at `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cells {
    /// Where the first begins, in bytes from the region's start.
    pub offset: u64,
    /// Distance from one to the next.
    pub pitch: u64,
    /// Size of one.
    pub len: u64,
    /// Cells are cut at this byte.
    pub end: u64,
}

impl Cells {
    /// One cell.
    #[must_use]
    pub const fn one(offset: u64, end: u64) -> Self {
        Self { offset, pitch: end - offset, len: end - offset, end }
    }

    /// Neighbouring cells of `len` bytes.
    #[must_use]
    pub const fn blocks(offset: u64, end: u64, len: u64) -> Self {
        Self { offset, pitch: len, len, end }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.end.saturating_sub(self.offset).div_ceil(if self.pitch == 0 { 1 } else { self.pitch })
    }

    /// Bytes of the region that cell `i` covers, as (start, end).
    #[must_use]
    pub fn range(&self, i: u64) -> (u64, u64) {
        let start = self.offset.saturating_add(i.saturating_mul(self.pitch)).min(self.end);
        (start, start.saturating_add(self.len).min(self.end))
    }

    /// Number of pages of 4 KiB that hold a byte of any cell, if cells begin at page starts.
    #[must_use]
    pub fn pages(&self) -> u64 {
        let n = self.count();
        let last = n.saturating_sub(1);
        let (start, end) = self.range(last);
        last.saturating_mul(self.len.div_ceil(4096)).saturating_add((end - start).div_ceil(4096))
    }
}
