//! What a page frame holds, by its flags.

use crate::frames::Flags;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Anonymous memory of processes.
    Anon,
    /// A file's page that some process maps.
    File,
    /// A file's page that only system calls read and write.
    UnmappedFile,
    /// Shared memory and tmpfs.
    Shared,
    /// hugetlbfs.
    Hugetlb,
    /// Objects of the kernel (slab).
    Slab,
    /// Page tables.
    PageTable,
    /// Other memory of the kernel and of drivers, and the zero page.
    Kernel,
    /// Free.
    Free,
    /// Offline, broken, or not there.
    None,
}

/// Bits of `kpageflags` that only matter here (include/uapi/linux/kernel-page-flags.h).
const SLAB: Flags = Flags(1 << 7);
const SWAPBACKED: Flags = Flags(1 << 14);
const HWPOISON: Flags = Flags(1 << 19);
const OFFLINE: Flags = Flags(1 << 23);
const ZERO_PAGE: Flags = Flags(1 << 24);
const PGTABLE: Flags = Flags(1 << 26);

impl FrameKind {
    /// All, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Anon,
        Self::File,
        Self::UnmappedFile,
        Self::Shared,
        Self::Hugetlb,
        Self::Slab,
        Self::PageTable,
        Self::Kernel,
        Self::Free,
        Self::None,
    ];

    /// Its name in records and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anon => "anon",
            Self::File => "file",
            Self::UnmappedFile => "file, unmapped",
            Self::Shared => "shared",
            Self::Hugetlb => "hugetlb",
            Self::Slab => "slab",
            Self::PageTable => "page tables",
            Self::Kernel => "kernel",
            Self::Free => "free",
            Self::None => "none",
        }
    }

    /// Tells the kind from the flags of the folio's first frame.
    #[must_use]
    pub const fn of(flags: Flags) -> Self {
        if flags.has(Flags::NOPAGE) || flags.has(OFFLINE) || flags.has(HWPOISON) {
            return Self::None;
        }
        if flags.has(Flags::BUDDY) {
            return Self::Free;
        }
        if flags.has(ZERO_PAGE) {
            return Self::Kernel;
        }
        if flags.has(Flags::HUGE) {
            return Self::Hugetlb;
        }
        if flags.has(SLAB) {
            return Self::Slab;
        }
        if flags.has(PGTABLE) {
            return Self::PageTable;
        }
        if flags.has(Flags::ANON) {
            return Self::Anon;
        }
        // A page on its way between lists is mapped all the same.
        if !flags.has(Flags::LRU) && !flags.has(Flags::MMAP) && !flags.has(Flags::UNEVICTABLE) {
            return Self::Kernel;
        }
        if flags.has(SWAPBACKED) {
            return Self::Shared;
        }
        if flags.has(Flags::MMAP) { Self::File } else { Self::UnmappedFile }
    }

    /// Whether processes map such frames, so that somebody owns them.
    #[must_use]
    pub const fn is_mapped(self) -> bool {
        matches!(self, Self::Anon | Self::File | Self::Shared | Self::Hugetlb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_flags() {
        let lru = Flags::LRU.0;
        let mmap = Flags::MMAP.0;
        for (flags, kind) in [
            (0, FrameKind::Kernel),
            (Flags::BUDDY.0, FrameKind::Free),
            (Flags::NOPAGE.0, FrameKind::None),
            (OFFLINE.0, FrameKind::None),
            (lru | mmap | Flags::ANON.0 | SWAPBACKED.0, FrameKind::Anon),
            // In the swap cache, and mapped by nobody.
            (lru | Flags::ANON.0 | SWAPBACKED.0, FrameKind::Anon),
            (lru | mmap, FrameKind::File),
            (lru, FrameKind::UnmappedFile),
            (mmap, FrameKind::File),
            (lru | SWAPBACKED.0, FrameKind::Shared),
            (SLAB.0, FrameKind::Slab),
            (PGTABLE.0 | mmap, FrameKind::PageTable),
            (Flags::HUGE.0 | mmap, FrameKind::Hugetlb),
            (ZERO_PAGE.0, FrameKind::Kernel),
        ] {
            assert_eq!(FrameKind::of(Flags(flags)), kind, "{}", Flags(flags));
        }
    }
}
