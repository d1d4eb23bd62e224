//! What it costs when a page comes back from swap, measured on memory of our own.
//!
//! Some memory is filled with bytes that compress to about a half, as programs' memory does, and
//! paged out. Then its pages are read one after another, in no order, so that nothing is read
//! ahead, and each read is timed. Invariant: nobody else's memory is touched. Absent: the price of
//! pages of files, which depends on the file system.

use std::hint::black_box;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use isotherm_core::AddrRange;
use isotherm_core::addr::{PAGE_SIZE, round_down, round_up};
use isotherm_host::proc::Proc;
use isotherm_pages::advice::advise;
use isotherm_sys::madvise::Remote;
use rustix::process::{PidfdFlags, getpid, pidfd_open};

/// How many pages are tried: 16 MiB.
const PAGES: usize = 4096;
/// Of so many pages at least the price has to be known, or it is not told.
const LEAST: usize = 256;
/// A read that took less did not wait for a page, in ns.
const NO_WAIT_NS: u64 = 700;

/// The price of a page, in µs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefaultPrice {
    /// Of the cheapest tenth of the pages, at most.
    pub p10: f64,
    /// The mean: what many pages cost together.
    pub mean: f64,
    /// Of all but the dearest tenth, at most.
    pub p90: f64,
    /// From how many pages this is.
    pub pages: usize,
}

/// Measures what a page costs that comes back from this machine's swap. Takes some hundred ms, and
/// 16 MiB of memory and swap meanwhile. `None` if hardly anything was paged out: there is no swap,
/// or it is full.
///
/// # Errors
///
/// What the kernel says to paging out our own memory.
pub fn refault_price() -> io::Result<Option<RefaultPrice>> {
    let mut memory = filled();
    let all = pages_of(&memory);
    let before = swapped()?;
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty())?;
    advise(pidfd.as_fd(), &[all], Remote::PageOut, &mut Vec::new(), &mut |_| true)?;
    if swapped()?.saturating_sub(before) < LEAST as u64 * PAGE_SIZE {
        return Ok(None);
    }
    let mut times = read_in_no_order(&memory);
    memory.clear();
    times.retain(|ns| *ns >= NO_WAIT_NS);
    if times.len() < LEAST {
        return Ok(None);
    }
    times.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "times of µs")]
    let us = |ns: u64| ns as f64 / 1000.0;
    let at = |tenths: usize| us(times[(times.len() - 1) * tenths / 10]);
    #[expect(clippy::cast_precision_loss, reason = "some thousand")]
    let mean = us(times.iter().sum()) / times.len() as f64;
    Ok(Some(RefaultPrice { p10: at(1), mean, p90: at(9).max(mean), pages: times.len() }))
}

/// Memory of which each page is half noise and half the same byte.
fn filled() -> Vec<u8> {
    let page = usize::try_from(PAGE_SIZE).unwrap_or(4096);
    let mut memory = vec![7; (PAGES + 2) * page];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for words in memory.chunks_exact_mut(page) {
        for word in words[..page / 2].chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
    memory
}

/// The whole pages of it.
fn pages_of(memory: &[u8]) -> AddrRange {
    let start = memory.as_ptr().addr() as u64;
    let end = start + memory.len() as u64;
    AddrRange::new(round_up(start, PAGE_SIZE), round_down(end, PAGE_SIZE))
}

/// Our memory in swap, in bytes.
fn swapped() -> io::Result<u64> {
    Ok(Proc::default().status(std::process::id(), &mut Vec::new())?.swap_bytes)
}

/// The time that a read of each page took, in ns.
fn read_in_no_order(memory: &[u8]) -> Vec<u64> {
    let page = usize::try_from(PAGE_SIZE).unwrap_or(4096);
    // An odd step goes through all of a power of two.
    let order = (0..PAGES).map(|nr| nr.wrapping_mul(1_597_463) % PAGES);
    order
        .map(|nr| {
            let before = Instant::now();
            black_box(memory[black_box(nr * page + page)]);
            u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX)
        })
        .collect()
}
