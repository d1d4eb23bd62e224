//! What walks of page tables cost on this machine, measured on memory of our own.
//!
//! The same reads are timed over small pages and over huge ones: in no order, and in order with all
//! of each page. Invariants: nobody else's memory is touched; the least of several turns counts,
//! since noise only adds. Absent: programs with less memory than the TLB covers. Their walks cost
//! less than this.

use std::hint::black_box;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Once, OnceLock};
use std::time::Instant;

use isotherm_core::AddrRange;
use isotherm_core::addr::{round_down, round_up};
use isotherm_pages::advice::{Answer, advise};
use isotherm_sys::madvise::Remote;
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::advise::HUGE;

/// Bytes that are read: more than TLBs cover.
const BYTES: usize = 32 << 20;
/// Random reads per turn.
const READS: usize = 20_000;
/// So many, each shorter than a time slice, that some are not interrupted on a busy machine.
const TURNS: usize = 40;
/// Bytes that are swept over per turn.
const SWEPT: usize = 4 << 20;
/// Bounds of what is believed, in ns: of a random access, and of a page that is swept over.
const RANDOM_NS: (f64, f64) = (1.0, 50.0);
const SWEPT_NS: (f64, f64) = (1.0, 50.0);

/// What small pages cost more than a huge page does, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WalkPrice {
    /// An access to a random page.
    pub random_ns: f64,
    /// A page that is gone over from its begin to its end, after its neighbour.
    pub swept_ns: f64,
}

impl WalkPrice {
    /// A cautious guess, for where nothing can be measured.
    pub const GUESS: Self = Self { random_ns: 3.0, swept_ns: 5.0 };
}

static PRICE: OnceLock<WalkPrice> = OnceLock::new();

/// The price on this machine, if it is known. Else another thread begins to measure it.
pub(crate) fn walk_price_soon() -> Option<WalkPrice> {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        // Where there is no thread to be had, nothing is known.
        std::thread::Builder::new().name("walk price".into()).spawn(walk_price).ok();
    });
    PRICE.get().copied()
}

/// The price on this machine. It is measured when first asked for, which takes some 100 ms and
/// 64 MiB of memory, and is a guess where the kernel makes no huge pages.
#[must_use]
pub fn walk_price() -> WalkPrice {
    *PRICE.get_or_init(|| measured().ok().flatten().unwrap_or(WalkPrice::GUESS))
}

/// None if no huge pages could be made.
fn measured() -> io::Result<Option<WalkPrice>> {
    let huge = usize::try_from(HUGE).unwrap_or(2 << 20);
    let fill = || vec![1_u8; BYTES + 2 * huge];
    let (small, large) = (fill(), fill());
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty())?;
    let (mut made, whole) = (0, inside(&large));
    let mut told = |answer| {
        if let Answer::Accepted(range) = answer {
            made += AddrRange::len(&range);
        }
        true
    };
    advise(pidfd.as_fd(), &[whole], Remote::Collapse, &mut Vec::new(), &mut told)?;
    if made < BYTES as u64 {
        return Ok(None);
    }
    let mut least = [[f64::INFINITY; 2]; 2];
    for turn in 0..TURNS {
        for (nr, memory) in [&small, &large].into_iter().enumerate() {
            let start = usize::try_from(inside(memory).start).unwrap_or(0);
            let data = &memory[start - memory.as_ptr().addr()..][..BYTES];
            least[nr][0] = least[nr][0].min(random_ns(data, turn as u64));
            least[nr][1] =
                least[nr][1].min(swept_ns(&data[turn % (BYTES / SWEPT) * SWEPT..][..SWEPT]));
        }
    }
    let saved =
        |what: usize, (low, high): (f64, f64)| (least[0][what] - least[1][what]).clamp(low, high);
    Ok(Some(WalkPrice { random_ns: saved(0, RANDOM_NS), swept_ns: saved(1, SWEPT_NS) }))
}

/// The whole huge pages of it.
fn inside(memory: &[u8]) -> AddrRange {
    let start = memory.as_ptr().addr() as u64;
    AddrRange::new(round_up(start, HUGE), round_down(start + memory.len() as u64, HUGE))
}

#[expect(clippy::cast_precision_loss, reason = "some ms")]
fn each_ns(begun: Instant, nr: usize) -> f64 {
    begun.elapsed().as_nanos() as f64 / nr as f64
}

/// The time of a read of a random page.
fn random_ns(data: &[u8], seed: u64) -> f64 {
    let (mut state, mut sum, begun) = (seed, 0_u64, Instant::now());
    for _ in 0..READS {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 33).unwrap_or(0) % data.len();
        sum = sum.wrapping_add(u64::from(data[at]));
    }
    black_box(sum);
    each_ns(begun, READS)
}

/// The time per page of a read of all lines in order.
fn swept_ns(data: &[u8]) -> f64 {
    let begun = Instant::now();
    black_box(data.iter().step_by(64).fold(0_u64, |sum, byte| sum.wrapping_add((*byte).into())));
    each_ns(begun, data.len() / 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_within_what_is_believed() {
        let price = walk_price();
        assert!((1.0..=50.0).contains(&price.random_ns), "{price:?}");
        assert!((1.0..=50.0).contains(&price.swept_ns), "{price:?}");
        assert_eq!(walk_price(), price, "it is measured once");
    }
}
