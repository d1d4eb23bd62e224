//! Advice on many ranges of another process: the one loop around `process_madvise(2)`.
//!
//! * A call takes 1024 ranges and less than 2 GiB; more is asked for in several calls.
//! * A call holds the target's mmap lock from its first range to its last. So one that makes memory
//!   old, which is done all the time, takes at most 16 MiB in 64 ranges. Where that is allowed, the
//!   calling thread has a real-time priority meanwhile: a caller that is preempted would keep the
//!   lock.
//! * A call ends at the first range that fails, with a short count or, if it is the first, its
//!   errno. That range is told as refused, and the next call begins behind it.
//! * `EINTR` and, for a while, `EAGAIN` ask again.
//!
//! What the kernel accepts it need not do; the caller looks afterwards.

use std::io;
use std::os::fd::BorrowedFd;

use isotherm_core::AddrRange;
use isotherm_sys::madvise::{MAX_BYTES, MAX_RANGES, Remote, process_madvise, whole_ranges};
use isotherm_sys::priority::raise;

/// The most that one call makes old, in bytes. A longer range is a call of its own, so callers cut
/// theirs.
pub const MOST_COLD: u64 = 16 << 20;
/// The most ranges that one call makes old. Each costs a flush of the TLB, 20 µs.
const MOST_COLD_RANGES: usize = 64;
/// A call that cannot finish now (`EAGAIN`) is repeated so often.
const AGAIN_TRIES: u32 = 8;

/// What became of one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The kernel accepted all of it.
    Accepted(AddrRange),
    /// The kernel refused it, with this errno: `EINVAL` for locked memory, hugetlb and device
    /// memory; `ENOMEM` for a range with a hole, whose mapped parts were done all the same.
    Refused(AddrRange, i32),
}

/// Gives advice on all of these ranges of the process behind `pidfd`, in their order, and tells
/// what became of each. `told` returns whether to go on. `iovecs` is a buffer that a caller may
/// keep.
///
/// # Errors
///
/// What ends it for all ranges: no permission (`EPERM`, `EACCES`), or the process has ended
/// (`ESRCH`).
pub fn advise(
    pidfd: BorrowedFd<'_>,
    ranges: &[AddrRange],
    advice: Remote,
    iovecs: &mut Vec<libc::iovec>,
    told: &mut dyn FnMut(Answer) -> bool,
) -> io::Result<()> {
    // Collapsing says EAGAIN of memory that cannot become a huge page now, which takes long to
    // find.
    let most_again = if advice == Remote::Collapse { 0 } else { AGAIN_TRIES };
    let (mut rest, mut again) = (ranges, 0);
    while let Some(&first) = rest.first() {
        let call = &rest[..call_len(rest, advice)];
        let asked = {
            // Without the right to it, it goes without.
            let _raised = (advice == Remote::Cold).then(raise);
            process_madvise(pidfd, call, advice, iovecs)
        };
        match asked {
            Ok(done) => {
                let whole = whole_ranges(call, done);
                if !call[..whole].iter().all(|range| told(Answer::Accepted(*range))) {
                    return Ok(());
                }
                rest = &rest[whole..];
                again = 0;
            }
            Err(e) => match e.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) if again < most_again => again += 1,
                Some(libc::EPERM | libc::EACCES | libc::ESRCH) => return Err(e),
                errno => {
                    if !told(Answer::Refused(first, errno.unwrap_or(libc::EIO))) {
                        return Ok(());
                    }
                    rest = &rest[1..];
                    again = 0;
                }
            },
        }
    }
    Ok(())
}

/// How many ranges one call takes; at least one.
fn call_len(ranges: &[AddrRange], advice: Remote) -> usize {
    let (most, most_ranges) = match advice {
        Remote::Cold => (MOST_COLD, MOST_COLD_RANGES),
        _ => (MAX_BYTES, MAX_RANGES),
    };
    let mut bytes = 0;
    let fits = |range: &&AddrRange| {
        bytes += range.len();
        bytes <= most
    };
    ranges.iter().take(most_ranges).take_while(fits).count().max(1)
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
            assert_eq!(call_len(&ranges(&sizes), Remote::PageOut), expected, "{name}");
        }
    }

    #[test]
    fn a_call_that_makes_memory_old_takes_16_mib() {
        for (name, sizes, expected) in [
            ("many small", vec![4096; 5000], MOST_COLD_RANGES),
            ("as much as it may", vec![2 << 20; 100], 8),
            ("one page more", vec![MOST_COLD, 4096], 1),
            ("one too large alone", vec![MOST_COLD + 4096], 1),
        ] {
            assert_eq!(call_len(&ranges(&sizes), Remote::Cold), expected, "{name}");
        }
    }
}
