//! `process_madvise(2)`: advice about memory of another process, in batches of ranges.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use isotherm_core::AddrRange;

/// The most ranges that one call takes (`UIO_MAXIOV`).
pub const MAX_RANGES: usize = 1024;

/// The most bytes that one call takes (`MAX_RW_COUNT`, with 4 KiB pages); what is behind is left
/// out silently.
pub const MAX_BYTES: u64 = 0x7fff_f000;

/// Gives advice (`MADV_...`) on ranges of the process behind `pidfd`.
///
/// Returns the number of bytes done. When a range fails behind others that worked, that number is
/// short and the reason is lost; asking again from the failing range on brings it out.
/// Linux 5.10. Needs `CAP_SYS_NICE` and ptrace read access to the process.
///
/// # Errors
///
/// What the kernel says.
pub fn process_madvise(
    pidfd: BorrowedFd<'_>,
    ranges: &[AddrRange],
    advice: Remote,
    iovecs: &mut Vec<libc::iovec>,
) -> io::Result<u64> {
    iovecs.clear();
    iovecs.extend(ranges.iter().map(|r| libc::iovec {
        iov_base: std::ptr::without_provenance_mut(usize::try_from(r.start).unwrap_or(usize::MAX)),
        iov_len: usize::try_from(r.len()).unwrap_or(0),
    }));
    // SAFETY: the array lives across the call and its length is passed; the addresses in it are
    // those of another process, and the kinds of advice in `Remote` change no byte there.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            iovecs.as_ptr(),
            iovecs.len(),
            advice as i32,
            0_u32,
        )
    };
    u64::try_from(done).map_err(|_negative| io::Error::last_os_error())
}

/// The kinds of advice that the kernel takes for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Remote {
    /// Read ahead, swap in (`MADV_WILLNEED`).
    WillNeed = libc::MADV_WILLNEED,
    /// Accessed bits off, TLB flushed, to the inactive list (`MADV_COLD`).
    Cold = libc::MADV_COLD,
    /// Reclaim now (`MADV_PAGEOUT`).
    PageOut = libc::MADV_PAGEOUT,
    /// Make huge pages now (`MADV_COLLAPSE`, Linux 6.1).
    Collapse = 25,
}

/// Advises `MADV_COLD`; see [`process_madvise`].
///
/// # Errors
///
/// What the kernel says.
pub fn process_madvise_cold(
    pidfd: BorrowedFd<'_>,
    ranges: &[AddrRange],
    iovecs: &mut Vec<libc::iovec>,
) -> io::Result<u64> {
    process_madvise(pidfd, ranges, Remote::Cold, iovecs)
}

/// How many ranges were done, if so many bytes were. After a short count the next range is the one
/// that failed; asking for it first brings its error out.
pub fn whole_ranges(ranges: &[AddrRange], done: u64) -> usize {
    let mut end = 0;
    let whole = ranges
        .iter()
        .take_while(|range| {
            end += range.len();
            end <= done
        })
        .count();
    // A call that did nothing and gave no error would be asked again for ever.
    whole.max(usize::from(done == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_count_leads_to_the_range_that_failed() {
        let range = |len: u64| AddrRange::new(0x1000_0000, 0x1000_0000 + len);
        let three = [range(4096), range(8192), range(4096)];
        for (done, expected) in [(4096, 1), (4096 + 8192, 2), (16384, 3), (8191, 1), (0, 1)] {
            assert_eq!(whole_ranges(&three, done), expected, "{done} bytes done");
        }
    }
}
