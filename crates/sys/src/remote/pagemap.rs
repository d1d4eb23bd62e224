//! `PAGEMAP_SCAN`: the kernel's summary of page table entries, in runs (Linux 6.7).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use isotherm_core::AddrRange;

/// A run of pages with the same categories (`struct page_region`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Region {
    /// First address, in bytes.
    pub start: u64,
    /// First address behind it, in bytes.
    pub end: u64,
    /// What the pages have in common: [`PRESENT`], [`SWAPPED`] and so on.
    pub categories: u64,
}

/// Backed by a file (`PAGE_IS_FILE`, include/uapi/linux/fs.h).
pub const FILE: u64 = 1 << 2;
/// In memory (`PAGE_IS_PRESENT`).
pub const PRESENT: u64 = 1 << 3;
/// In swap (`PAGE_IS_SWAPPED`).
pub const SWAPPED: u64 = 1 << 4;
/// The page of zeros that all share (`PAGE_IS_PFNZERO`).
pub const ZERO: u64 = 1 << 5;
/// Mapped by a huge leaf (`PAGE_IS_HUGE`).
pub const HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg`.
#[derive(Debug, Default)]
#[repr(C)]
struct Arg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const ARG_SIZE: u64 = size_of::<Arg>() as u64;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = 3 << 30 | ARG_SIZE << 16 | (b'f' as u64) << 8 | 16;

/// Finds the present and swapped pages of `range` (whole pages) through an open `pagemap`. Fills
/// `found` from its beginning. Returns how many runs there are, and where the walk ended: behind
/// the range, or where `found` was full.
///
/// # Errors
///
/// What the kernel says.
pub fn scan(pagemap: &File, range: AddrRange, found: &mut [Region]) -> io::Result<(usize, u64)> {
    let mut arg = Arg {
        size: ARG_SIZE,
        start: range.start,
        end: range.end,
        vec: found.as_mut_ptr().expose_provenance() as u64,
        vec_len: found.len() as u64,
        category_anyof_mask: PRESENT | SWAPPED,
        return_mask: FILE | PRESENT | SWAPPED | ZERO | HUGE,
        ..Arg::default()
    };
    // SAFETY: the argument has the kernel's layout and its size in it; the array behind `vec` is
    // ours to write, lives across the call, and takes `vec_len` entries that are plain numbers.
    // By number, since C libraries differ in the type of a request.
    let nr =
        unsafe { libc::syscall(libc::SYS_ioctl, pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
    let nr = usize::try_from(nr).map_err(|_negative| io::Error::last_os_error())?;
    Ok((nr.min(found.len()), arg.walk_end))
}
