//! Clears all accessed bits of a process at once, by `/proc/PID/clear_refs`. This is for pages that
//! nothing else can clear: pages mapped by several processes, locked, of hugetlb, or in large
//! folios of files.
//!
//! `clear_refs` is a known hazard on large processes. The kernel holds the mmap lock for writing
//! while it walks the whole process (8 to 16 ms per GiB). Afterwards the process pays half a
//! microsecond for every page that it touches again. So its use is bounded twice: it is used only
//! on processes with at most [`MAX_RSS`] of resident memory, and so rarely that both costs together
//! stay below 0.5 % of the time.
//!
//! `clear_refs` also clears pages that the monitor is watching. So the set of young pages is read
//! first and kept: such a page still counts as young until it is prepared itself. (A first access
//! in the moment between reading and clearing is lost.) The TLB is not flushed: a page in constant
//! use can look old for a few milliseconds longer.
//!
//! The same holds for pages that other parts of this program make old ([`Fallback::keep`]). An
//! actor that arms memory for evidence must not hide touches from the monitor.

use std::fs::File;
use std::io;

use isotherm_core::Time;

use isotherm_pages::clear_refs::clear_accessed;
use isotherm_pages::tables::PageKey;

/// Processes with more resident memory are left alone by default, in bytes.
pub(super) const MAX_RSS: u64 = 256 << 20;
/// The process's time to set one bit again, in ns (measured: 470 to 800).
const SET_AGAIN_NS: u64 = 500;
/// Least time between two clears, as a multiple of what one costs: 0.5 %.
const REST: u64 = 200;
/// Least time between two clears, in ns, whatever one costs: one aggregation window by default.
const MIN_REST_NS: u64 = 100_000_000;
/// After a refusal (no permission, too large) or without effect, try again so much later, in ns.
const RETRY_NS: u64 = 10_000_000_000;

/// The most leaves that are kept. Beyond that all are dropped, and count as touched only when they
/// are touched again.
const MAX_KEPT: usize = 1 << 18;

/// One address space's state.
#[derive(Debug, Default)]
pub(super) struct Fallback {
    /// Leaves that were young when all were cleared, by their first page; sorted.
    kept: Vec<PageKey>,
    next: Time,
}

impl Fallback {
    /// Whether it may be used now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Puts off the next try, after a refusal.
    pub(super) fn put_off(&mut self, now: Time) {
        self.next = now + RETRY_NS;
    }

    /// Clears everything. `young` are the leaves that are young now, sorted.
    pub(super) fn clear(
        &mut self,
        pid: u32,
        mut young: Vec<PageKey>,
        begin: Time,
    ) -> io::Result<()> {
        let cost = young.len() as u64 * SET_AGAIN_NS;
        let mut file = File::options().write(true).open(format!("/proc/{pid}/clear_refs"))?;
        clear_accessed(&mut file)?;
        self.keep(&mut young);
        let end = isotherm_sys::clock::now();
        self.next = end + ((end.since(begin) + cost) * REST).max(MIN_REST_NS);
        Ok(())
    }

    /// Records that these leaves, given by their first page, are young and are made old by other
    /// code.
    pub(super) fn keep(&mut self, young: &mut Vec<PageKey>) {
        if young.is_empty() {
            return;
        }
        self.kept.append(young);
        self.kept.sort_unstable();
        self.kept.dedup();
        if self.kept.len() > MAX_KEPT {
            self.kept.clear();
        }
    }

    /// Whether the leaf that begins at this page was young when other code cleared it.
    pub(super) fn has(&self, leaf: PageKey) -> bool {
        !self.kept.is_empty() && self.kept.binary_search(&leaf).is_ok()
    }

    /// The kept leaves that begin in these pages: first, and behind the last.
    pub(super) fn between(&self, first: PageKey, behind: PageKey) -> &[PageKey] {
        let at = |page: PageKey| self.kept.partition_point(|kept| *kept < page);
        &self.kept[at(first)..at(behind)]
    }

    /// Forgets the leaf, because the monitor makes it old itself. Returns whether it was kept.
    pub(super) fn take(&mut self, leaf: PageKey) -> bool {
        if self.kept.is_empty() {
            return false;
        }
        let found = self.kept.binary_search(&leaf);
        found.map(|at| self.kept.remove(at)).is_ok()
    }
}

/// Resident memory of a process, in bytes.
pub(super) fn resident(pid: u32) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.map(|pages| pages * 4096).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
