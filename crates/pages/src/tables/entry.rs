//! What a page-table entry says.

/// A page-table entry of x86-64 as the BPF programs return it: bits 0 to 51 are the hardware's, the
/// top byte holds the level at which the walk ended (1 = 4 KiB, 2 = 2 MiB, 3 = 1 GiB, above = a
/// hole of that size, 7 = could not be read).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry(pub u64);

/// Bits of an entry.
pub(super) mod bit {
    pub(super) const PRESENT: u64 = 1;
    /// Of a last-level entry: a page is mapped.
    pub(in super::super) const MAPPED: u64 = PRESENT | PROT_NONE;
    pub(in super::super) const ACCESSED: u64 = 1 << 5;
    pub(super) const DIRTY: u64 = 1 << 6;
    /// At levels 2 and 3: maps memory itself. Stays set while the kernel splits a huge page and has
    /// taken `PRESENT` away for a moment.
    pub(super) const LEAF: u64 = 1 << 7;
    /// Of a last-level entry: the kernel's own mark (`_PAGE_SPECIAL`) of what is no memory of the
    /// process: the page of zeros, and frames of devices. No call takes their accessed bits away.
    pub(in super::super) const SPECIAL: u64 = 1 << 9;
    /// Set instead of `PRESENT` in a page that may not be touched now (`PROT_NONE`, NUMA hinting);
    /// never set in a swap entry.
    pub(super) const PROT_NONE: u64 = 1 << 8;
}

impl Entry {
    /// The level at which the walk ended.
    #[must_use]
    pub const fn level(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Whether nothing can be said, because reading failed.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        !matches!(self.level(), 1..=5)
    }

    /// Whether a page is mapped here.
    #[must_use]
    pub const fn is_present(self) -> bool {
        match self.level() {
            1 => self.0 & (bit::PRESENT | bit::PROT_NONE) != 0,
            2 | 3 => self.0 & bit::LEAF != 0,
            _ => false,
        }
    }

    /// Whether it is mapped and was accessed since its accessed bit was last cleared.
    #[must_use]
    pub const fn is_young(self) -> bool {
        self.is_present() && self.0 & bit::ACCESSED != 0
    }

    /// Whether it is mapped and was written since its dirty bit was last cleared.
    #[must_use]
    pub const fn is_dirty(self) -> bool {
        self.is_present() && self.0 & bit::DIRTY != 0
    }

    /// log2 of the size in bytes of what the entry covers, mapped or not: 12, 21, 30, 39, 48.
    #[must_use]
    pub const fn shift(self) -> u8 {
        match self.level() {
            2 => 21,
            3 => 30,
            4 => 39,
            5 => 48,
            _ => 12,
        }
    }

    /// log2 of the size in bytes of the leaf that maps the page; 12 where none is mapped.
    #[must_use]
    pub const fn leaf_shift(self) -> u8 {
        if self.is_present() { self.shift() } else { 12 }
    }

    /// The physical address of what the entry maps, in bytes; 0 where nothing is mapped.
    #[must_use]
    pub const fn frame(self) -> u64 {
        let size = 1_u64 << self.leaf_shift();
        if self.is_present() { self.0 & ((1 << 52) - 1) & !(size - 1) } else { 0 }
    }

    /// Whether the entry names a last-level table (only in the marks of a dense read).
    pub(crate) const fn is_table(self) -> bool {
        self.level() == 2 && self.0 & bit::LEAF == 0 && self.0 & bit::PRESENT != 0
    }
}
