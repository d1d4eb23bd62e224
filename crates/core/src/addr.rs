//! Address ranges: half-open, in bytes, without access data.

/// The smallest page of every supported machine, in bytes.
pub const PAGE_SIZE: u64 = 4096;

/// Rounds `x` down to a multiple of the power of two `m`.
#[must_use]
pub const fn round_down(x: u64, m: u64) -> u64 {
    x & !(m.wrapping_sub(1))
}

/// Rounds `x` up to a multiple of the power of two `m`. Wraps around at the top, as in the kernel.
#[must_use]
pub const fn round_up(x: u64, m: u64) -> u64 {
    x.wrapping_add(m.wrapping_sub(1)) & !(m.wrapping_sub(1))
}

/// A half-open range of addresses, `[start, end)`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrRange {
    /// First address inside.
    pub start: u64,
    /// First address behind the range.
    pub end: u64,
}

impl AddrRange {
    /// A range from `start` to before `end`.
    #[must_use]
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// Size in bytes; 0 for a range that is upside down.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether no address is inside.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Whether `addr` is inside.
    #[must_use]
    pub const fn contains(&self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }

    /// Whether the two ranges share an address.
    #[must_use]
    pub const fn intersects(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Bytes that both ranges hold.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> u64 {
        self.end.min(other.end).saturating_sub(self.start.max(other.start))
    }
}
