//! Finding the children of the targets in `/proc`, cheaply.

use std::io;

use isotherm_core::Time;
use isotherm_host::proc::Proc;

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
    last_pid: Option<u32>,
    /// When everything was looked at last; `None` for never.
    full_at: Option<Time>,
    /// Whether anything was forked since then, as far as known.
    forked: bool,
}

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
        let last_pid = proc.last_pid(buf);
        let forked = last_pid.is_none() || last_pid != self.last_pid;
        self.forked |= forked;
        let full = match self.full_at {
            None => true,
            Some(at) if self.forked => now.since(at) >= FULL_EVERY_NS,
            Some(at) => now.since(at) >= ALWAYS_EVERY_NS,
        };
        if !full && !forked {
            return Ok(());
        }
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
        if full {
            self.full_at = Some(now);
            self.forked = false;
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
