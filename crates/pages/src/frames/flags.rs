//! The bits of `/proc/kpageflags`, include/uapi/linux/kernel-page-flags.h.

use std::fmt;

/// Flags of a frame. Bits from 32 on are for kernel developers, and may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u64);

/// The names by bit, as in the kernel's header without `KPF_`. Bits without a name are not for
/// users.
pub const NAMES: [&str; 27] = [
    "LOCKED",
    "ERROR",
    "REFERENCED",
    "UPTODATE",
    "DIRTY",
    "LRU",
    "ACTIVE",
    "SLAB",
    "WRITEBACK",
    "RECLAIM",
    "BUDDY",
    "MMAP",
    "ANON",
    "SWAPCACHE",
    "SWAPBACKED",
    "COMPOUND_HEAD",
    "COMPOUND_TAIL",
    "HUGE",
    "UNEVICTABLE",
    "HWPOISON",
    "NOPAGE",
    "KSM",
    "THP",
    "OFFLINE",
    "ZERO_PAGE",
    "IDLE",
    "PGTABLE",
];

impl Flags {
    /// On one of the lists of the page reclaim: memory of users.
    pub const LRU: Self = Self(1 << 5);
    /// On an active list.
    pub const ACTIVE: Self = Self(1 << 6);
    /// Free.
    pub const BUDDY: Self = Self(1 << 10);
    /// Mapped by a process.
    pub const MMAP: Self = Self(1 << 11);
    /// Anonymous memory.
    pub const ANON: Self = Self(1 << 12);
    /// The first frame of a folio of several.
    pub const HEAD: Self = Self(1 << 15);
    /// Another frame of such a folio.
    pub const TAIL: Self = Self(1 << 16);
    /// Of hugetlbfs.
    pub const HUGE: Self = Self(1 << 17);
    /// Cannot be reclaimed: locked in memory, ramfs.
    pub const UNEVICTABLE: Self = Self(1 << 18);
    /// There is no such frame, or its memory is offline.
    pub const NOPAGE: Self = Self(1 << 20);
    /// One for many equal pages.
    pub const KSM: Self = Self(1 << 21);
    /// Part of a folio of several frames. Since 6.10 it may be of any size, not only of 2 MiB.
    pub const THP: Self = Self(1 << 22);
    /// The kernel's own page of zeros, small or huge: no memory of who maps it.
    pub const ZERO_PAGE: Self = Self(1 << 24);
    /// Marked idle, and no access seen since. It may be stale: only the bitmap is a true check.
    pub const IDLE: Self = Self(1 << 25);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether this is the first frame of its folio, or a folio of one.
    #[must_use]
    pub const fn is_first(self) -> bool {
        !self.has(Self::TAIL)
    }
}

impl fmt::Display for Flags {
    /// The names of the bits that are set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        for (nr, (_, name)) in set.enumerate() {
            write!(f, "{}{name}", if nr > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_names_of_the_kernels_header() {
        for (flags, names) in [
            (Flags(0), ""),
            (Flags::IDLE, "IDLE"),
            (Flags::LRU, "LRU"),
            (Flags::HEAD, "COMPOUND_HEAD"),
            (Flags::TAIL, "COMPOUND_TAIL"),
            (Flags::UNEVICTABLE, "UNEVICTABLE"),
            (Flags::THP, "THP"),
            (Flags::NOPAGE, "NOPAGE"),
            (Flags::BUDDY, "BUDDY"),
            (Flags::HUGE, "HUGE"),
            (Flags(1 << 11 | 1 << 12 | 1 << 40), "MMAP,ANON"),
            (Flags(1 << 26), "PGTABLE"),
        ] {
            assert_eq!(flags.to_string(), names);
        }
    }
}
