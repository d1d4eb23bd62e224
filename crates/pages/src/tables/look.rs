//! Questions about pages, sorted so that one run of the walk answers them cheaply.

use std::io;

use isotherm_core::AddrRange;

use super::entry::Entry;
use super::program::code::MAX_KEYS;
use super::program::kernel::Kernel;

/// Bits of a page number: 57-bit addresses, 4 KiB pages.
const PAGE_BITS: u32 = 45;

/// Address space and page number in one word, in the order in which a walk is cheap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageKey(u64);

impl PageKey {
    /// The page at `addr` of the address space in `slot`.
    #[must_use]
    pub const fn new(slot: u16, addr: u64) -> Self {
        Self((slot as u64) << PAGE_BITS | (addr >> 12 & ((1 << PAGE_BITS) - 1)))
    }

    /// The address space.
    #[must_use]
    pub const fn slot(self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "`new` has put 16 bits there")]
        return (self.0 >> PAGE_BITS) as u16;
    }

    /// The page's first address.
    #[must_use]
    pub const fn addr(self) -> u64 {
        (self.0 & ((1 << PAGE_BITS) - 1)) << 12
    }
}

/// One question: which page, whose answer it is, and what was found.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// Which page.
    pub page: PageKey,
    /// Position in the caller's batch.
    pub nr: u32,
    /// What was found.
    pub entry: Entry,
}

impl Query {
    /// The memory that the page's leaf maps.
    #[must_use]
    pub fn leaf_range(&self) -> AddrRange {
        let size = 1_u64 << self.entry.leaf_shift();
        let start = self.page.addr() & !(size - 1);
        AddrRange::new(start, start + size)
    }

    /// The leaf's first page.
    #[must_use]
    pub fn leaf(&self) -> PageKey {
        PageKey::new(self.page.slot(), self.leaf_range().start)
    }
}

/// Answers all queries; sorts them by page.
pub(super) fn look(kernel: &mut Kernel, queries: &mut [Query]) -> io::Result<()> {
    if !queries.is_sorted_by_key(|q| q.page) {
        queries.sort_unstable_by_key(|q| q.page);
    }
    for chunk in queries.chunks_mut(MAX_KEYS) {
        let keys = chunk.iter().map(|q| Kernel::key(q.page.slot(), q.page.addr()));
        let entries = kernel.walk(keys)?;
        for (query, entry) in chunk.iter_mut().zip(entries) {
            query.entry = Entry(*entry);
        }
    }
    Ok(())
}
