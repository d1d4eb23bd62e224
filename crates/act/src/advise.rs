//! Advice on another process's memory, by `process_madvise(2)`, in batches.
//!
//! * A batch is one call of at most 512 ranges and `batch_bytes` bytes; `stop` is asked between two
//!   batches. So an action ends soon after it should, and exceeds a quota by one batch at most.
//! * Ranges are cut at multiples of 2 MiB: a cut inside of a huge page would make the kernel split
//!   it.
//! * Single calls are made by [`isotherm_pages::advice`]; a range that fails is recorded.
//! * A range over several mappings fails as a whole if one of them is refused. Then
//!   `/proc/PID/maps` is read and the call is made again for each mapping, so that only the refused
//!   mapping (for example a locked one) and the holes count as refused.
//!
//! The kernel may accept a range and still skip pages of it silently: pages that are shared, busy
//! or dirty, and pages so new that they still wait on another CPU to be put on their LRU list.
//! [`Process::page_runs`] tells what really became of the pages.

use std::io;

use isotherm_core::AddrRange;
use isotherm_core::addr::{PAGE_SIZE, round_down, round_up};
use isotherm_host::proc::{Proc, parse_maps};
use isotherm_pages::advice::{Answer, MOST_COLD, advise};
use isotherm_sys::madvise::{MAX_BYTES, Remote};

use super::outcome::{Outcome, Stopwatch};
use super::process::Process;

/// The size of a huge page.
pub(super) const HUGE: u64 = 2 << 20;
/// Ranges per call.
const BATCH_RANGES: usize = 512;

/// What to do with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Reclaim it now (`MADV_PAGEOUT`): anonymous pages to swap, file pages dropped or written.
    Pageout,
    /// Reclaim it first when memory is short (`MADV_COLD`).
    Cold,
    /// Bring it in (`MADV_WILLNEED`): read ahead, swap in as far as the swap cache.
    Willneed,
    /// Make huge pages of it now (`MADV_COLLAPSE`, Linux 6.1), each aligned 2 MiB inside of the
    /// ranges; what is left at their ends is not asked for.
    Collapse,
}

impl Advice {
    /// Bytes per batch such that a batch takes about 10 ms; to make memory old, which is done all
    /// the time, at most [`MOST_COLD`].
    #[must_use]
    pub const fn default_batch_bytes(self) -> u64 {
        match self {
            Self::Pageout | Self::Willneed => 8 << 20,
            Self::Cold => MOST_COLD,
            Self::Collapse => 2 * HUGE,
        }
    }

    const fn remote(self) -> Remote {
        match self {
            Self::Pageout => Remote::PageOut,
            Self::Cold => Remote::Cold,
            Self::Willneed => Remote::WillNeed,
            Self::Collapse => Remote::Collapse,
        }
    }
}

impl Process {
    /// Gives advice on these ranges, in batches of at most `batch_bytes` bytes; `stop` is asked
    /// before each batch. Ranges are widened to whole pages.
    ///
    /// This method returns no error. The outcome says what the kernel refused and whether the
    /// process has ended.
    pub fn advise(
        &self,
        advice: Advice,
        ranges: &[AddrRange],
        batch_bytes: u64,
        stop: &mut dyn FnMut() -> bool,
    ) -> Outcome {
        let watch = Stopwatch::start();
        let mut call = Calls { process: self, advice, iovecs: Vec::new(), out: Outcome::default() };
        let mut batch = Vec::new();
        let mut pieces = pieces(advice, ranges, batch_bytes).peekable();
        while pieces.peek().is_some() && !call.out.is_cut_short() {
            batch.clear();
            let mut bytes = 0;
            let limit = batch_bytes.max(PAGE_SIZE);
            while let Some(piece) = pieces.next_if(|p| batch.is_empty() || bytes + p.len() <= limit)
            {
                bytes += piece.len();
                batch.push(piece);
                if batch.len() == BATCH_RANGES {
                    break;
                }
            }
            if stop() {
                call.out.stopped = true;
            } else if self.is_gone() {
                call.out.gone = true;
            } else {
                call.batch(&batch, true);
            }
        }
        let mut out = call.out;
        (out.elapsed_ns, out.cpu_ns) = watch.read();
        out
    }
}

/// The ranges in pieces of at most `batch_bytes`, cut at multiples of 2 MiB if that is possible.
fn pieces(
    advice: Advice,
    ranges: &[AddrRange],
    batch_bytes: u64,
) -> impl Iterator<Item = AddrRange> + '_ {
    let collapse = advice == Advice::Collapse;
    let (size, align) = match (collapse, batch_bytes) {
        (true, _) => (HUGE, HUGE),
        (_, HUGE..) => (batch_bytes.min(MAX_BYTES) / HUGE * HUGE, HUGE),
        _ => (batch_bytes.max(PAGE_SIZE) / PAGE_SIZE * PAGE_SIZE, PAGE_SIZE),
    };
    ranges.iter().flat_map(move |range| {
        let (mut at, end) = if collapse {
            (round_up(range.start, HUGE), round_down(range.end, HUGE))
        } else {
            (round_down(range.start, PAGE_SIZE), round_up(range.end, PAGE_SIZE))
        };
        std::iter::from_fn(move || {
            let start = at;
            at = round_down(start.saturating_add(size), align).min(end);
            (start < end).then_some(AddrRange::new(start, at))
        })
    })
}

/// Calls for one action.
#[derive(Debug)]
struct Calls<'p> {
    process: &'p Process,
    advice: Advice,
    iovecs: Vec<libc::iovec>,
    out: Outcome,
}

impl Calls<'_> {
    /// Makes the calls for all of these ranges. `split` tells whether a range that fails is tried
    /// again, mapping by mapping.
    fn batch(&mut self, batch: &[AddrRange], split: bool) {
        let (process, advice) = (self.process, self.advice.remote());
        let mut iovecs = std::mem::take(&mut self.iovecs);
        let mut told = |answer| {
            match answer {
                Answer::Accepted(range) => self.out.accept(range.len()),
                Answer::Refused(range, errno) => {
                    let split = split && !self.is_collapse();
                    if !split || self.in_parts(range, errno).is_err() {
                        self.out.refuse(range, errno);
                    }
                }
            }
            !self.out.is_cut_short()
        };
        let ended = advise(process.pidfd(), batch, advice, &mut iovecs, &mut told);
        if let Err(e) = ended {
            self.out.gone = e.raw_os_error() == Some(libc::ESRCH);
            self.out.denied = !self.out.gone;
        }
        self.iovecs = iovecs;
    }

    fn is_collapse(&self) -> bool {
        self.advice == Advice::Collapse
    }

    /// Asks for each mapping inside of `range` on its own. Holes count as refused.
    fn in_parts(&mut self, range: AddrRange, errno: i32) -> io::Result<()> {
        let mut text = Vec::new();
        Proc::default().read(self.process.pid(), "maps", &mut text)?;
        let mut at = range.start;
        for mapping in parse_maps(&text).filter(|m| m.range.intersects(&range)) {
            let part =
                AddrRange::new(mapping.range.start.max(at), mapping.range.end.min(range.end));
            if at < part.start {
                self.out.refuse(AddrRange::new(at, part.start), libc::ENOMEM);
            }
            at = part.end;
            if part == range {
                self.out.refuse(range, errno);
            } else {
                self.batch(&[part], false);
            }
            if self.out.is_cut_short() {
                return Ok(());
            }
        }
        if at < range.end {
            self.out.refuse(AddrRange::new(at, range.end), libc::ENOMEM);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_at_huge_page_borders() {
        let mib = |a: u64, b: u64| AddrRange::new(a << 20, b << 20);
        let page = |a: u64, b: u64| AddrRange::new(a << 12, b << 12);
        for (name, advice, range, batch, expected) in [
            ("fits", Advice::Pageout, mib(1, 3), 8 << 20, vec![mib(1, 3)]),
            ("cut at 2 MiB", Advice::Pageout, mib(1, 8), 4 << 20, vec![mib(1, 4), mib(4, 8)]),
            ("odd size", Advice::Cold, mib(0, 5), 3 << 20, vec![mib(0, 2), mib(2, 4), mib(4, 5)]),
            ("pages", Advice::Cold, page(1, 4), 8192, vec![page(1, 3), page(3, 4)]),
            ("less than a page", Advice::Cold, page(1, 3), 1, vec![page(1, 2), page(2, 3)]),
            ("widened", Advice::Cold, AddrRange::new(5000, 9000), 1 << 20, vec![page(1, 3)]),
            (
                "only whole huge pages",
                Advice::Collapse,
                mib(1, 7),
                4 << 20,
                vec![mib(2, 4), mib(4, 6)],
            ),
            ("none", Advice::Collapse, mib(1, 3), 4 << 20, vec![]),
            ("upside down", Advice::Cold, mib(3, 1), 4 << 20, vec![]),
        ] {
            assert_eq!(pieces(advice, &[range], batch).collect::<Vec<_>>(), expected, "{name}");
        }
    }
}
