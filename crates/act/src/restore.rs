//! Brings memory back that is in swap: afterwards it is resident, as if nobody had paged it out.
//!
//! `MADV_WILLNEED` alone does not do that. It reads pages into the swap cache, where they count as
//! nobody's and the process still faults at each. A read of the page from outside
//! (`/proc/PID/mem`) makes the kernel map it. So the advice goes first, to read ahead, and one byte
//! of each page is read after it. Its value is dropped.
//!
//! The read sets the page's accessed bit, though the process has not touched it. So pages are made
//! old again (`MADV_COLD`), and whoever watches them goes on to see them as idle for as long as
//! they are.
//!
//! Invariants: nothing of the process changes but where its pages are. A touch by the process
//! itself within the milliseconds until pages are made old is lost.

use std::fs::File;
use std::os::unix::fs::FileExt;

use isotherm_core::AddrRange;
use isotherm_core::addr::PAGE_SIZE;
use isotherm_host::proc::{Proc, read_monitored_ranges};

use super::error::{self, ActError};
use super::{Advice, Process};

/// So much is read ahead before it is mapped.
const PART: u64 = 8 << 20;

/// What [`Process::bring_back`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restored {
    /// Bytes that were in swap and are resident again.
    pub done_bytes: u64,
    /// Bytes that were in swap and could not be read.
    pub failed_bytes: u64,
}

impl Process {
    /// Makes everything of it resident that is in swap. `stop` is asked after every 8 MiB.
    ///
    /// # Errors
    ///
    /// The process has ended, or its memory may not be read.
    pub fn bring_back(&self, stop: &mut dyn FnMut() -> bool) -> Result<Restored, ActError> {
        let (pid, proc) = (self.pid(), Proc::default());
        let said = |tried, e| error::said(pid, tried, "CAP_SYS_PTRACE", e);
        let mem = File::open(proc.path_of(pid, "mem")).map_err(|e| said("open its memory", e))?;
        let (mut text, mut ranges) = (Vec::new(), Vec::new());
        read_monitored_ranges(&proc, pid, &mut text, &mut ranges)
            .map_err(|e| said("read its mappings", e))?;
        let mut swapped = Vec::new();
        for range in ranges {
            let mut note = |run: AddrRange, kind: crate::PageKind| {
                if kind.is_swapped() {
                    swapped.push(run);
                }
            };
            self.page_runs(range, &mut note).map_err(|e| said("read its pagemap", e))?;
        }
        if self.is_gone() {
            // The files that were opened by its number may be another process's.
            return Err(error::gone(pid, "bring its memory back"));
        }
        let mut out = Restored::default();
        for part in parts(&swapped) {
            if stop() {
                break;
            }
            self.advise(Advice::Willneed, &part, PART, &mut || false);
            for at in part.iter().flat_map(|run| pages(*run)) {
                match mem.read_at(&mut [0; 1], at) {
                    Ok(1) => out.done_bytes += PAGE_SIZE,
                    _ => out.failed_bytes += PAGE_SIZE,
                }
            }
            self.advise(Advice::Cold, &part, PART, &mut || false);
        }
        Ok(out)
    }
}

fn pages(run: AddrRange) -> impl Iterator<Item = u64> {
    (run.start..run.end).step_by(usize::try_from(PAGE_SIZE).unwrap_or(4096))
}

/// The runs in groups of about [`PART`] bytes.
fn parts(runs: &[AddrRange]) -> Vec<Vec<AddrRange>> {
    let (mut all, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
    for run in runs {
        let mut at = run.start;
        while at < run.end {
            let end = run.end.min(at + (PART - bytes));
            part.push(AddrRange::new(at, end));
            bytes += end - at;
            at = end;
            if bytes == PART {
                all.push(std::mem::take(&mut part));
                bytes = 0;
            }
        }
    }
    all.extend((!part.is_empty()).then_some(part));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_page_once_and_are_small() {
        let runs = [(0, 4 << 10), (1 << 20, 21 << 20), (64 << 20, 72 << 20)];
        let runs = runs.map(|(a, b)| AddrRange::new(a, b));
        let parts = parts(&runs);
        let len = |runs: &[AddrRange]| runs.iter().map(AddrRange::len).sum::<u64>();
        assert!(parts.iter().all(|part| len(part) <= PART && !part.is_empty()));
        let of = |runs: &[AddrRange]| -> Vec<u64> { runs.iter().flat_map(|r| pages(*r)).collect() };
        assert_eq!(of(&parts.concat()), of(&runs));
    }
}
