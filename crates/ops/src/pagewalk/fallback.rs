//! Clears all accessed bits of a process at once, by `/proc/PID/clear_refs`. This is for pages that
//! nothing else can clear: pages mapped by several processes, locked, of hugetlb, or in large
//! folios of files.
//!
//! `clear_refs` is a known hazard on large processes. The kernel holds the mmap lock for writing
//! while it walks the whole process (8 to 16 ms per GiB). Afterwards the process pays half a
//! microsecond for every page that it touches again. So its use is bounded twice: it is used only
//! on processes with at most [`MAX_RSS`] of resident memory, and so rarely that both costs together
//! stay below 0.5 % of the time. It is used up to [`MOST_RARER`] times more rarely if only a small
//! part of the memory needs it. What the process will touch again is not known before. It is at
//! most what was young the last time, which of a process that has just filled its memory is all of
//! it. So where that alone forbids another use, what was touched since is counted.
//!
//! `clear_refs` also clears pages that the monitor is watching. So the set of young pages is read
//! first and kept: such a page still counts as young until it is prepared itself. (A first access
//! in the moment between reading and clearing is lost.) On kernels that track soft-dirty pages the
//! TLB is not flushed: a page in constant use can look old for a few milliseconds longer there.
//!
//! The same holds for pages that other parts of this program make old ([`Fallback::keep`]). An
//! actor that arms memory for evidence must not hide touches from the monitor.
//!
//! The file belongs to the target's user and only its owner may write it, so for processes of
//! other users it needs `CAP_DAC_OVERRIDE`. A refusal is told once per target.

use std::fs::File;
use std::io;

use isotherm_core::Time;
use isotherm_host::proc::{MappedSize, Proc};

use isotherm_pages::clear_refs::clear_accessed;
use isotherm_pages::tables::PageKey;
use isotherm_sys::clock::{now, thread_cpu_ns};

use super::barred::Barred;
use super::stuck::StuckUnits;

/// Processes with more resident memory are left alone by default, in bytes. At 16 ms per GiB the
/// mmap lock of a process of this size is held for 10 ms.
pub(super) const MAX_RSS: u64 = 640 << 20;
/// How long the size of a process is believed, in ns.
const SIZE_NS: u64 = 1_000_000_000;
/// The process's time to set one bit again, in ns (measured: 470 to 800).
const SET_AGAIN_NS: u64 = 500;
/// Least time between two clears, as a multiple of what one costs: 0.5 %.
const REST: u64 = 200;
/// The part of the young leaves that has to need the clearing for it to be done as often as that.
const FAIR_PART: u64 = 4;
/// If fewer need it, it is done more rarely, by so many times at most.
const MOST_RARER: u64 = 16;
/// Least time between two clears, in ns, whatever one costs: one aggregation window by default.
const MIN_REST_NS: u64 = 100_000_000;
/// What was touched since the last use is counted so long after it, in ns, and again each time when
/// half as long again has passed. To count reads all page tables, 1 to 2 ms per GiB.
const COUNT_NS: u64 = 1_000_000_000;
/// After a refusal (no permission, too large) or without effect, try again so much later, in ns.
const RETRY_NS: u64 = 10_000_000_000;

/// The most leaves that are kept. Beyond that all are dropped, and count as touched only when they
/// are touched again.
const MAX_KEPT: usize = 1 << 18;

/// Those for the sake of which all memory is to be cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// Leaves that are young, and that nothing else makes old.
    pub(super) needed: u64,
    /// Leaves of which is known whether they are young. Those that are needed belong to them.
    pub(super) known: u64,
}

impl Asked {
    /// Those who need it know what it costs.
    pub(super) const ALL: Self = Self { needed: u64::MAX, known: u64::MAX };
}

/// One use.
#[derive(Debug, Clone, Copy)]
struct Last {
    end: Time,
    /// What it took, without what the process paid, in ns.
    own_ns: u64,
    /// How many leaves were young; or were touched since, if that was counted.
    all: u64,
    /// When they were counted.
    counted: Time,
}

impl Last {
    /// How many leaves the process may have touched again, at most. Of those that nobody asked
    /// about, all may be young again.
    fn again(&self, asked: Asked) -> u64 {
        self.all.min(asked.needed.saturating_add(self.all.saturating_sub(asked.known)))
    }

    /// Whether enough time has passed for those who ask, if so many leaves are touched again.
    fn is_over(&self, again: u64, asked: Asked, now: Time) -> bool {
        let cost_ns = self.own_ns + again * SET_AGAIN_NS;
        let fair = asked.needed.saturating_mul(FAIR_PART).max(1);
        let rarer = (again / fair).clamp(1, MOST_RARER);
        now.since(self.end) >= (cost_ns * REST * rarer).max(MIN_REST_NS)
    }
}

/// One address space's state.
#[derive(Debug, Default)]
pub(super) struct Fallback {
    /// Leaves that were young when all were cleared, by their first page; sorted.
    kept: Vec<PageKey>,
    /// Units that advice does not make old.
    pub(super) stuck: StuckUnits,
    /// Where there must be no advice.
    pub(super) barred: Barred,
    /// From when on its mappings may be read again.
    pub(super) next_maps: Time,
    /// Tells how much it maps.
    pub(super) statm: MappedSize,
    /// When its mappings were read, and how much it mapped just before that.
    pub(super) mapped: Option<(Time, [u64; 3])>,
    /// What that took, in ns of CPU time.
    pub(super) maps_ns: u64,
    /// Whether people were told that no page can be made old any more.
    pub(super) told_refusal: bool,
    /// Whether people were told that the process may not be cleared as a whole.
    pub(super) told_shared_refusal: bool,
    /// When it was used last.
    last: Option<Last>,
    /// Until then it is not tried at all.
    refused_until: Time,
    /// Resident memory in bytes, and when that was read.
    size: Option<(u64, Time)>,
}

impl Fallback {
    /// Whether it may be used on process `pid` at all: the process has at most `limit` bytes, and
    /// it was not refused a short time ago.
    pub(super) fn is_allowed(&mut self, pid: u32, limit: u64, now: Time) -> bool {
        if limit == 0 || now < self.refused_until {
            return false;
        }
        let known = self.size.filter(|(_, read)| now.since(*read) < SIZE_NS);
        let (bytes, _) = known.unwrap_or_else(|| {
            let pages = self.statm.resident(&Proc::default(), pid, &mut Vec::new());
            (pages.map_or(u64::MAX, |pages| pages * 4096), now)
        });
        self.size = known.or(Some((bytes, now)));
        bytes <= limit
    }

    /// Whether enough time has passed since it was used last to do it for those who ask.
    ///
    /// The first time most memory is young, since the process has filled it. What it pays is known
    /// afterwards only, by what it touches again.
    pub(super) fn is_due(&self, asked: Asked, now: Time) -> bool {
        self.last.is_none_or(|last| last.is_over(last.again(asked), asked, now))
    }

    /// Whether it would be due if nothing but what is asked about was touched again, so that it is
    /// worth to count what was.
    pub(super) fn is_worth_counting(&self, asked: Asked, now: Time) -> bool {
        self.last.is_some_and(|last| {
            let rest_ns = (last.counted.since(last.end) / 2).max(COUNT_NS);
            let is_old = now.since(last.counted) >= rest_ns;
            is_old && last.is_over(last.all.min(asked.needed), asked, now)
        })
    }

    /// So many leaves were touched since it was used last.
    pub(super) fn note_touched(&mut self, leaves: u64, now: Time) {
        if let Some(last) = &mut self.last {
            (last.all, last.counted) = (leaves, now);
        }
    }

    /// Puts off the next try, after a refusal.
    pub(super) fn put_off(&mut self, now: Time) {
        self.refused_until = now + RETRY_NS;
    }

    /// Clears everything. `young` are the leaves that are young now, sorted; `begin` is the CPU
    /// time of the thread, in ns, when it began to look for them. Returns when they were cleared.
    pub(super) fn clear(
        &mut self,
        pid: u32,
        mut young: Vec<PageKey>,
        begin: u64,
    ) -> io::Result<Time> {
        let all = young.len() as u64;
        let mut file = File::options().write(true).open(format!("/proc/{pid}/clear_refs"))?;
        let cleared = clear_accessed(&mut file)?;
        self.keep(&mut young);
        // Not real time: this thread may have waited for a CPU, without the lock.
        let own_ns = thread_cpu_ns().saturating_sub(begin);
        let end = now();
        self.last = Some(Last { end, own_ns, all, counted: end });
        Ok(cleared)
    }

    /// Records that these leaves, given by their first page, are young and are made old by other
    /// code.
    pub(super) fn keep(&mut self, young: &mut Vec<PageKey>) {
        if young.is_empty() {
            return;
        }
        self.kept.append(young);
        // Two sorted parts, which a stable sort joins.
        self.kept.sort();
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

    /// Forgets the kept leaves that begin in these ranges of pages (first, and behind the last;
    /// sorted), because the monitor makes them old itself.
    pub(super) fn forget(&mut self, ranges: &[(PageKey, PageKey)]) {
        let (Some((first, _)), Some((_, behind))) = (ranges.first(), ranges.last()) else { return };
        if self.between(*first, *behind).is_empty() {
            return;
        }
        let mut ranges = ranges.iter().peekable();
        self.kept.retain(|page| {
            while ranges.next_if(|(_, behind)| behind <= page).is_some() {}
            ranges.peek().is_none_or(|(first, _)| page < first)
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn page(nr: u64) -> PageKey {
        PageKey::new(0, nr << 12)
    }

    #[test]
    fn forgets_the_leaves_of_some_ranges() {
        let mut fallback = Fallback::default();
        fallback.keep(&mut (0..20).map(page).collect());
        fallback.forget(&[(page(30), page(40))]);
        assert_eq!(fallback.kept.len(), 20);
        fallback.forget(&[(page(2), page(4)), (page(4), page(5)), (page(18), page(30))]);
        let left: Vec<_> = (0..20).filter(|nr| fallback.has(page(*nr))).collect();
        assert_eq!(left, [0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]);
        assert!(fallback.between(page(2), page(5)).is_empty());
    }

    #[test]
    fn is_used_more_rarely_for_few_pages_than_for_many() {
        let mut fallback = Fallback::default();
        let end = Time(1_000_000_000);
        let asked = |needed, known| Asked { needed, known };
        assert!(fallback.is_due(asked(1, 1), end), "the first time");
        // 1 ms of our own, and another for 2000 young leaves.
        fallback.last = Some(Last { end, own_ns: 1_000_000, all: 2000, counted: end });
        for (needed, known, wait_ms) in [
            (2000, 2000, 400),
            (500, 500, 400),
            (250, 250, 800),
            (1, 1, 6400),
            (u64::MAX, u64::MAX, 400),
            // Of all memory that was young, a tenth was touched again.
            (200, 2000, 220),
            // Nobody has asked about another half.
            (200, 1000, 320),
        ] {
            let (due, asked) = (end + wait_ms * 1_000_000, asked(needed, known));
            assert!(fallback.is_due(asked, due), "{asked:?}");
            assert!(!fallback.is_due(asked, Time(due.0 - 1)), "{asked:?}");
        }
    }

    #[test]
    fn what_was_touched_since_is_counted_where_that_may_allow_it() {
        let end = Time(1_000_000_000);
        // The process had filled its memory: 128,000 leaves.
        let last = Last { end, own_ns: 5_000_000, all: 128_000, counted: end };
        let mut fallback = Fallback { last: Some(last), ..Fallback::default() };
        let asked = Asked { needed: 1000, known: 5000 };
        let in_2_s = end + 2_000_000_000;
        assert!(!fallback.is_due(asked, in_2_s));
        assert!(!fallback.is_worth_counting(asked, end + COUNT_NS), "not due in any case");
        assert!(fallback.is_worth_counting(asked, in_2_s));
        // It goes over 2000 of them.
        fallback.note_touched(2000, in_2_s);
        assert!(fallback.is_due(asked, in_2_s));
        // Or over all of them, and then it is not counted again at once.
        fallback.note_touched(128_000, in_2_s);
        assert!(!fallback.is_due(asked, in_2_s));
        assert!(!fallback.is_worth_counting(asked, in_2_s + (COUNT_NS - 1)));
        assert!(fallback.is_worth_counting(asked, in_2_s + COUNT_NS));
        // The longer it lasts, the more rarely it is counted.
        let in_10_s = end + 10_000_000_000;
        fallback.note_touched(128_000, in_10_s);
        assert!(!fallback.is_worth_counting(asked, in_10_s + (5 * COUNT_NS - 1)));
        assert!(fallback.is_worth_counting(asked, in_10_s + 5 * COUNT_NS));
    }

    #[test]
    fn is_not_used_on_large_processes_or_after_a_refusal() {
        let own = std::process::id();
        let mut fallback = Fallback::default();
        let now = Time(5_000_000_000);
        assert!(fallback.is_allowed(own, u64::MAX, now) && !fallback.is_allowed(own, 0, now));
        assert!(!fallback.is_allowed(own, 4096, now));
        assert!(!Fallback::default().is_allowed(u32::MAX, 1 << 40, now), "no such process");
        fallback.put_off(now);
        assert!(!fallback.is_allowed(own, u64::MAX, now + (RETRY_NS - 1)));
        assert!(fallback.is_allowed(own, u64::MAX, now + RETRY_NS));
    }
}
