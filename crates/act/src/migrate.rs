//! Moving pages to another NUMA node, by `move_pages(2)`, in batches.
//!
//! Each batch makes three calls. The first asks where the pages are, the second moves those that
//! are elsewhere, and the third asks where they are now. Only the third call counts as proof,
//! because the kernel moves a large page as a whole and yet reports some of its parts as busy.
//!
//! `move_pages` takes a pid. Each batch therefore begins with a check that the process still
//! exists. If the pid is given to a new process right after that check, at most one batch of that
//! process's pages is moved to another node; their content does not change.

mod marked;

use std::collections::BTreeMap;

use isotherm_core::AddrRange;
use isotherm_core::addr::PAGE_SIZE;
use isotherm_host::nodes::Nodes;
use isotherm_sys::move_pages::{UNKNOWN, move_to, query};

use super::error::{self, ActError};
use super::outcome::{Outcome, Stopwatch};
use super::process::Process;

/// Pages per batch: 8 MiB. Every call that moves pages, however few, waits until all CPUs have
/// emptied their lists of pages (`lru_cache_disable()`: an RCU grace period and a work item per
/// CPU). So a few large calls cost much less than many small ones.
pub(crate) const BATCH: usize = 2048;

/// What became of a migration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Migrated {
    /// The numbers that all actions have. Accepted bytes are those that a look afterwards shows to
    /// have moved. Pages that are absent, or already on their node, do not count as asked for. A
    /// run of pages that were refused for the same reason is one refused range.
    pub outcome: Outcome,
    /// Bytes that were on their node already.
    pub already_bytes: u64,
    /// Bytes of the ranges without a page in memory.
    pub absent_bytes: u64,
    /// Pages that were not moved, by errno (`EBUSY`, `EACCES`: mapped by others too, `ENOMEM`: the
    /// node is full).
    pub refused_pages: BTreeMap<i32, u64>,
    /// What was moved, in the order of the addresses; neighbours are joined.
    pub moved: Vec<AddrRange>,
}

impl Process {
    /// Moves the pages of these ranges, each to the node that `node_of` tells for its address
    /// (`None`: leave it). Pages that other processes map too are moved only if `shared`
    /// (`CAP_SYS_NICE`). `stop` is asked before each batch of 2048 pages.
    ///
    /// # Errors
    ///
    /// A node that does not exist or has no memory; nothing of that batch is moved. Else what is in
    /// the outcome.
    pub fn migrate(
        &self,
        nodes: &Nodes,
        ranges: &[AddrRange],
        node_of: &mut dyn FnMut(u64) -> Option<u32>,
        shared: bool,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Migrated, ActError> {
        let watch = Stopwatch::start();
        let mut moves = Moves {
            process: self,
            shared,
            unmark: marked::are_passed_over(),
            status: Vec::new(),
            out: Migrated::default(),
        };
        let mut pages = self.present_pages(ranges, &mut moves.out);
        pages.retain(|addr| node_of(*addr).is_some());
        for batch in pages.chunks(BATCH) {
            let mut to = Vec::with_capacity(batch.len());
            for addr in batch {
                let node = node_of(*addr).unwrap_or(u32::MAX);
                nodes.check(node).map_err(error::of_nodes)?;
                to.push(i32::try_from(node).unwrap_or(i32::MAX));
            }
            if moves.out.outcome.is_cut_short() {
                break;
            }
            if stop() {
                moves.out.outcome.stopped = true;
            } else if self.is_gone() {
                moves.out.outcome.gone = true;
            } else {
                moves.batch(batch, &to);
            }
        }
        let mut out = moves.out;
        (out.outcome.elapsed_ns, out.outcome.cpu_ns) = watch.read();
        Ok(out)
    }

    /// Addresses of the pages that are in memory; counts the others as absent.
    fn present_pages(&self, ranges: &[AddrRange], out: &mut Migrated) -> Vec<u64> {
        let mut pages = Vec::new();
        for range in ranges.iter().filter(|r| !r.is_empty()) {
            let before = pages.len();
            let mut note = |run: AddrRange, kind: super::PageKind| {
                if kind.is_present() && !kind.is_zero() {
                    pages.extend((run.start..run.end).step_by(4096));
                }
            };
            // It has gone if that fails, which the batches notice.
            out.outcome.gone |= self.page_runs(*range, &mut note).is_err();
            let present = (pages.len() - before) as u64 * PAGE_SIZE;
            out.absent_bytes += range.len().saturating_sub(present);
        }
        pages
    }
}

/// Batches of one migration.
#[derive(Debug)]
struct Moves<'p> {
    process: &'p Process,
    shared: bool,
    /// Whether pages that NUMA balancing has marked must be touched first.
    unmark: bool,
    status: Vec<i32>,
    out: Migrated,
}

impl Moves<'_> {
    fn batch(&mut self, pages: &[u64], to: &[i32]) {
        let pid = self.process.pid();
        if let Err(e) = query(pid, pages, &mut self.status) {
            return self.failed(e.raw_os_error());
        }
        if self.unmark
            && marked::touch(self.process, pages, &self.status)
            && let Err(e) = query(pid, pages, &mut self.status)
        {
            return self.failed(e.raw_os_error());
        }
        let (mut from, mut there) = (Vec::new(), Vec::new());
        for ((addr, node), is) in pages.iter().zip(to).zip(&self.status) {
            match *is {
                is if is == *node => self.out.already_bytes += PAGE_SIZE,
                // Gone since the page tables were read.
                is if is < 0 => self.out.absent_bytes += PAGE_SIZE,
                _ => {
                    from.push(*addr);
                    there.push(*node);
                }
            }
        }
        if from.is_empty() {
            return;
        }
        let mut said = Vec::new();
        let moved = move_to(pid, &from, &there, self.shared, &mut said);
        let errno = moved.err().and_then(|e| e.raw_os_error());
        if let Some(libc::EPERM | libc::ESRCH) = errno {
            return self.failed(errno);
        }
        if let Err(e) = query(pid, &from, &mut self.status) {
            return self.failed(e.raw_os_error());
        }
        let mut run: Option<(AddrRange, i32)> = None;
        for (nr, addr) in from.iter().enumerate() {
            if self.status[nr] == there[nr] {
                self.out.outcome.accept(PAGE_SIZE);
                match self.out.moved.last_mut() {
                    Some(last) if last.end == *addr => last.end += PAGE_SIZE,
                    _ => self.out.moved.push(AddrRange::new(*addr, addr + PAGE_SIZE)),
                }
                continue;
            }
            let why = match said[nr] {
                UNKNOWN => errno.unwrap_or(libc::EIO),
                error if error < 0 => -error,
                // It was moved somewhere else, or back.
                _ => libc::EAGAIN,
            };
            *self.out.refused_pages.entry(why).or_default() += 1;
            let page = AddrRange::new(*addr, addr + PAGE_SIZE);
            match &mut run {
                Some((range, same)) if *same == why && range.end == page.start => {
                    range.end = page.end;
                }
                _ => {
                    if let Some((range, errno)) = run.replace((page, why)) {
                        self.out.outcome.refuse(range, errno);
                    }
                }
            }
        }
        if let Some((range, errno)) = run {
            self.out.outcome.refuse(range, errno);
        }
    }

    /// The whole call failed for a reason that the next one will fail for, too.
    fn failed(&mut self, errno: Option<i32>) {
        if errno == Some(libc::ESRCH) {
            self.out.outcome.gone = true;
        } else {
            self.out.outcome.denied = true;
        }
    }
}
