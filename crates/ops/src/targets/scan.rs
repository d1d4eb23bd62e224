//! Finding the children of the targets in `/proc`, cheaply.
//!
//! A listing costs some microseconds per process of the machine, and on a busy machine something is
//! forked all the time. So listings are as far apart as their CPU time allows: where there are
//! thousands of processes, a child is found some seconds later, and the budget is kept.

use std::io;

use isotherm_core::Time;
use isotherm_host::proc::{LastPid, Proc};
use isotherm_sys::clock::thread_cpu_ns;

/// A process that was not there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Newcomer {
    pub(super) pid: u32,
    pub(super) ppid: u32,
    pub(super) start_ticks: u64,
}

/// Remembers which pids were looked at already.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Pids of the last listing, sorted.
    seen: Vec<u32>,
    listed: Vec<u32>,
    newest: LastPid,
    last_pid: Option<u32>,
    /// When everything was looked at last; `None` for never.
    full_at: Option<Time>,
    /// Whether anything was forked since then, as far as known.
    forked: bool,
    listings: Pace,
    full: Pace,
}

/// Keeps the CPU time of something that is repeated below a share.
#[derive(Debug, Default)]
struct Pace {
    last: Time,
    took_ns: u64,
}

impl Pace {
    /// Whether it may be done again, if it may take one part in `share` of one CPU.
    fn allows(&self, now: Time, share: u64) -> bool {
        now.since(self.last) >= self.took_ns.saturating_mul(share)
    }
}

/// Listings take at most one part in this many of one CPU, and so do looks at every process, which
/// only find what a listing misses.
const SHARES: (u64, u64) = (2000, 5000);

/// How often every process is looked at anew. A pid that was reused between two listings looks
/// unchanged to the quick way, and this look finds it. It is left out while nothing was forked,
/// because then no pid was reused.
const FULL_EVERY_NS: u64 = 2_000_000_000;
/// How often every process is looked at in any case: the last pid may have come round to the same
/// number.
const ALWAYS_EVERY_NS: u64 = 10 * FULL_EVERY_NS;

impl Scan {
    /// Lists processes that may be new since the last call into `found`, parents before children
    /// wherever pids rise.
    pub(super) fn newcomers(
        &mut self,
        proc: &Proc,
        now: Time,
        buf: &mut Vec<u8>,
        found: &mut Vec<Newcomer>,
    ) -> io::Result<()> {
        found.clear();
        // Read before the listing, so that the next call finds a fork in between.
        let last_pid = self.newest.read(proc);
        let forked = last_pid.is_none() || last_pid != self.last_pid;
        self.forked |= forked;
        let full = match self.full_at {
            None => true,
            Some(at) if self.forked => now.since(at) >= FULL_EVERY_NS,
            Some(at) => now.since(at) >= ALWAYS_EVERY_NS,
        };
        let full = full && (self.full_at.is_none() || self.full.allows(now, SHARES.1));
        let is_due = full || forked && self.listings.allows(now, SHARES.0);
        if !is_due {
            return Ok(());
        }
        let begin = thread_cpu_ns();
        self.listed.clear();
        proc.for_each_pid(|pid| self.listed.push(pid))?;
        self.listed.sort_unstable();
        for &pid in &self.listed {
            if !full && self.seen.binary_search(&pid).is_ok() {
                continue;
            }
            // One that is gone again is none of ours to miss.
            if let Ok(stat) = proc.stat(pid, buf) {
                found.push(Newcomer { pid, ppid: stat.ppid, start_ticks: stat.starttime });
            }
        }
        std::mem::swap(&mut self.seen, &mut self.listed);
        self.last_pid = last_pid;
        let pace = Pace { last: now, took_ns: thread_cpu_ns().saturating_sub(begin) };
        if full {
            self.full_at = Some(now);
            (self.forked, self.full) = (false, pace);
        } else {
            self.listings = pace;
        }
        Ok(())
    }

    /// Whether the pid was there at the last listing.
    pub(super) fn has_seen(&self, pid: u32) -> bool {
        self.seen.binary_search(&pid).is_ok()
    }

    /// Makes the next call look at everything.
    pub(super) fn forget(&mut self) {
        self.full_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A `/proc` in which these processes are, the last of them forked last.
    fn proc_with(root: &std::path::Path, pids: &[u32]) {
        for pid in pids {
            let dir = root.join(pid.to_string());
            std::fs::create_dir_all(&dir).unwrap();
            let rest = "0 ".repeat(17);
            std::fs::write(dir.join("stat"), format!("{pid} (x) S 1 {rest}77 0 0")).unwrap();
        }
        let last = pids.last().unwrap();
        std::fs::write(root.join("loadavg"), format!("0.1 0.1 0.1 1/99 {last}\n")).unwrap();
    }

    #[test]
    fn a_listing_that_takes_long_is_not_repeated_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let proc = Proc::new(dir.path());
        let (mut scan, mut buf, mut found) = (Scan::default(), Vec::new(), Vec::new());
        let mut pids = |scan: &mut Scan, s: u64| {
            scan.newcomers(&proc, Time(s * S), &mut buf, &mut found).unwrap();
            found.iter().map(|new| new.pid).collect::<Vec<_>>()
        };
        proc_with(dir.path(), &[10, 11]);
        assert_eq!(pids(&mut scan, 100).len(), 2);
        proc_with(dir.path(), &[10, 11, 12]);
        assert_eq!(pids(&mut scan, 101), [12], "a listing takes no time here");
        (scan.listings.took_ns, scan.full.took_ns) = (5_000_000, 10_000_000);
        proc_with(dir.path(), &[10, 11, 12, 13]);
        assert_eq!(pids(&mut scan, 110), [] as [u32; 0], "two thousand times 5 ms have not passed");
        assert_eq!(pids(&mut scan, 112), [13], "they have now, and not five thousand times 10 ms");
        scan.full.took_ns = 0;
        proc_with(dir.path(), &[10, 11, 12, 13, 14]);
        assert_eq!(pids(&mut scan, 160).len(), 5, "all of them are looked at again");
    }
}
