//! The processes of the machine, listed once for all trackers of this program.
//!
//! An agent with fifty contexts has fifty trackers that look for children of their targets. What
//! they look through is the same, so one of them lists it and the others get what it found. The
//! listing is numbered, and each process says in which one it was new, so that a tracker can tell
//! what it has not seen yet.
//!
//! A listing costs some microseconds per process of the machine, and on a busy machine something is
//! forked all the time. So listings are as far apart as their CPU time allows: where there are
//! thousands of processes, a child is found some seconds later, and the budget is kept. Who has a
//! new target does not wait so long.
//!
//! Invariants. A published listing does not change. No lock is held while `/proc` is read: who
//! comes meanwhile gets the listing before. One that fails changes nothing, and is tried again.
//!
//! Absent: whose child a process is (`tracker`), and names (`roster`).

use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use isotherm_core::Time;
use isotherm_host::proc::{LastPid, Proc};
use isotherm_sys::clock::thread_cpu_ns;

/// A process as it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) ppid: u32,
    pub(super) start_ticks: u64,
    /// The number of the listing in which it was new, or seen to have another parent.
    pub(super) since: u64,
}

/// All processes as of some time.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Numbers rise.
    pub(super) nr: u64,
    /// The number of the last listing in which every process was looked at anew.
    pub(super) full_nr: u64,
    /// Sorted by pid.
    pub(super) processes: Vec<Process>,
}

impl Listed {
    /// The process with this pid.
    pub(super) fn get(&self, pid: u32) -> Option<&Process> {
        let at = self.processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        self.processes.get(at)
    }
}

/// Keeps the CPU time of something that is repeated below a share.
#[derive(Debug, Default, Clone, Copy)]
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
/// Whether something was forked is looked up this far apart, in ns. A tracker asks every 100 ms.
const ASK_EVERY_NS: u64 = 50_000_000;
/// Who has a new target may have a listing that is older than this taken anew, whatever it costs.
const FRESH_NS: u64 = 100_000_000;
/// How often every process is looked at anew. A pid that was reused between two listings looks
/// unchanged to the quick way, and this look finds it. It is left out while nothing was forked,
/// because then no pid was reused.
const FULL_EVERY_NS: u64 = 2_000_000_000;
/// How often every process is looked at in any case: the last pid may have come round to the same
/// number.
const ALWAYS_EVERY_NS: u64 = 10 * FULL_EVERY_NS;

/// What is kept from one listing to the next.
#[derive(Debug, Default)]
struct State {
    listed: Option<Arc<Listed>>,
    is_being_read: bool,
    newest: LastPid,
    last_pid: Option<u32>,
    asked_at: Time,
    /// When every process was looked at last; `None` for never.
    full_at: Option<Time>,
    /// Whether anything was forked since then, as far as known.
    forked: bool,
    listings: Pace,
    full: Pace,
}

/// Where trackers get listings.
#[derive(Debug, Default)]
pub(super) struct Listing {
    state: Mutex<State>,
}

/// That of the machine's `/proc`.
static MACHINE: LazyLock<Arc<Listing>> = LazyLock::new(Arc::default);

impl Listing {
    /// That of this `/proc`: a made-up one has its own for everybody who asks.
    pub(super) fn of(proc: &Proc) -> Arc<Self> {
        if proc.is_real() { Arc::clone(&MACHINE) } else { Arc::default() }
    }

    /// The latest listing, after a new one if it is time for that. `urgent`: one is wanted that is
    /// hardly older than now. `None`: somebody else is reading the first one.
    ///
    /// # Errors
    ///
    /// If `/proc` cannot be listed now.
    pub(super) fn latest(
        &self,
        proc: &Proc,
        now: Time,
        urgent: bool,
        buf: &mut Vec<u8>,
    ) -> io::Result<Option<Arc<Listed>>> {
        let mut state = self.lock();
        let is_fresh = state.listed.is_some() && now.since(state.asked_at) < ASK_EVERY_NS;
        if state.is_being_read || is_fresh && !urgent {
            return Ok(state.listed.clone());
        }
        state.is_being_read = true;
        state.asked_at = now;
        let mut newest = std::mem::take(&mut state.newest);
        drop(state);
        // Whatever happens, somebody else can read next time.
        let turn = Turn(self);
        // Read before the listing, so that the next call finds a fork in between.
        let last_pid = newest.read(proc);
        let mut state = self.lock();
        state.newest = newest;
        let Some(full) = state.due(now, last_pid, urgent) else {
            return Ok(state.listed.clone());
        };
        let before = state.listed.clone().unwrap_or_default();
        drop(state);

        let begin = thread_cpu_ns();
        let listed = Arc::new(list(proc, &before, full, buf)?);
        let pace = Pace { last: now, took_ns: thread_cpu_ns().saturating_sub(begin) };
        let mut state = self.lock();
        state.listed = Some(Arc::clone(&listed));
        state.last_pid = last_pid;
        if full {
            state.full_at = Some(now);
            (state.forked, state.full) = (false, pace);
        } else {
            state.listings = pace;
        }
        drop(state);
        drop(turn);
        Ok(Some(listed))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether to list now, and if so, whether to look at every process.
    fn due(&mut self, now: Time, last_pid: Option<u32>, urgent: bool) -> Option<bool> {
        let forked = last_pid.is_none() || last_pid != self.last_pid;
        self.forked |= forked;
        let full = match self.full_at {
            None => true,
            Some(at) if self.forked => now.since(at) >= FULL_EVERY_NS,
            Some(at) => now.since(at) >= ALWAYS_EVERY_NS,
        };
        let full = full && (self.full_at.is_none() || self.full.allows(now, SHARES.1));
        let last = self.listings.last.max(self.full.last);
        let may = self.listings.allows(now, SHARES.0) || urgent && now.since(last) >= FRESH_NS;
        (full || forked && may).then_some(full)
    }
}

/// The right to read, for one thread at a time.
struct Turn<'l>(&'l Listing);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().is_being_read = false;
    }
}

/// Lists all processes. With `full` each is looked at, else those that were not there before.
fn list(proc: &Proc, before: &Listed, full: bool, buf: &mut Vec<u8>) -> io::Result<Listed> {
    let mut pids = Vec::with_capacity(before.processes.len() + 16);
    proc.for_each_pid(|pid| pids.push(pid))?;
    pids.sort_unstable();
    let nr = before.nr + 1;
    let mut processes = Vec::with_capacity(pids.len());
    for pid in pids {
        let known = before.get(pid);
        if let Some(known) = known
            && !full
        {
            processes.push(*known);
            continue;
        }
        // One that is gone again is none of ours to miss.
        if let Ok(stat) = proc.stat(pid, buf) {
            let (ppid, start_ticks) = (stat.ppid, stat.starttime);
            let same = known.filter(|k| (k.ppid, k.start_ticks) == (ppid, start_ticks));
            let since = same.map_or(nr, |known| known.since);
            processes.push(Process { pid, ppid, start_ticks, since });
        }
    }
    let full_nr = if full { nr } else { before.full_nr };
    Ok(Listed { nr, full_nr, processes })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// A `/proc` in which these processes are, the last of them forked last.
    fn put(root: &Path, pids: &[u32]) {
        for pid in pids {
            let dir = root.join(pid.to_string());
            std::fs::create_dir_all(&dir).unwrap();
            let rest = "0 ".repeat(17);
            std::fs::write(dir.join("stat"), format!("{pid} (x) S 1 {rest}77 0 0")).unwrap();
        }
        let last = pids.last().unwrap();
        std::fs::write(root.join("loadavg"), format!("0.1 0.1 0.1 1/99 {last}\n")).unwrap();
    }

    fn pids(listing: &Listing, proc: &Proc, ms: u64, urgent: bool) -> (u64, Vec<u32>) {
        let now = Time(ms * S / 1000);
        let listed = listing.latest(proc, now, urgent, &mut Vec::new()).unwrap().unwrap();
        (listed.nr, listed.processes.iter().map(|process| process.pid).collect())
    }

    #[test]
    fn a_listing_that_takes_long_is_not_repeated_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, listing) = (Proc::new(dir.path()), Listing::default());
        put(dir.path(), &[10, 11]);
        assert_eq!(pids(&listing, &proc, 100_000, false), (1, vec![10, 11]));
        put(dir.path(), &[10, 11, 12]);
        assert_eq!(pids(&listing, &proc, 101_000, false).1, [10, 11, 12], "it takes no time here");
        let slow = |quick: u64, full: u64| {
            let mut state = listing.lock();
            (state.listings.took_ns, state.full.took_ns) = (quick, full);
        };
        slow(5_000_000, 10_000_000);
        put(dir.path(), &[10, 11, 12, 13]);
        assert_eq!(pids(&listing, &proc, 110_000, false).0, 2, "no two thousand times 5 ms");
        assert_eq!(pids(&listing, &proc, 112_000, false), (3, vec![10, 11, 12, 13]));
        slow(5_000_000, 10_000_000);
        put(dir.path(), &[10, 11, 12, 13, 14]);
        assert_eq!(pids(&listing, &proc, 113_000, false).0, 3);
        assert_eq!(pids(&listing, &proc, 113_000, true).0, 4, "a new target does not wait");
        slow(5_000_000, 10_000_000);
        put(dir.path(), &[10, 11, 12, 13, 14, 15]);
        assert_eq!(pids(&listing, &proc, 113_050, true).0, 4, "but not for each of many");
        slow(5_000_000, 0);
        let listed = listing.latest(&proc, Time(160 * S), false, &mut Vec::new()).unwrap().unwrap();
        assert_eq!((listed.nr, listed.full_nr), (5, 5), "all of them are looked at again");
        let since: Vec<u64> = listed.processes.iter().map(|process| process.since).collect();
        assert_eq!(since, [1, 1, 2, 3, 4, 5], "those that are the same are not new");
    }

    #[test]
    fn a_pid_with_another_process_is_new_at_the_next_look_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, listing) = (Proc::new(dir.path()), Listing::default());
        put(dir.path(), &[10, 11]);
        assert_eq!(pids(&listing, &proc, 1000, false).0, 1);
        let stat = dir.path().join("10/stat");
        let text = std::fs::read_to_string(&stat).unwrap();
        std::fs::write(&stat, text.replace(" 77 ", " 99 ")).unwrap();
        put(dir.path(), &[11, 12]);
        let at = |s: u64| {
            let listed = listing.latest(&proc, Time(s * S), false, &mut Vec::new());
            *listed.unwrap().unwrap().get(10).unwrap()
        };
        assert_eq!((at(2).start_ticks, at(2).since), (77, 1), "the quick way does not see it");
        // Long after it, since a look at all may be slow, and waits in proportion.
        let found = at(60);
        assert_eq!((found.start_ticks, found.since), (99, 3));
    }

    #[test]
    fn a_listing_that_fails_leaves_the_one_before_and_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("proc");
        let (proc, listing) = (Proc::new(&root), Listing::default());
        let mut buf = Vec::new();
        assert!(listing.latest(&proc, Time(S), false, &mut buf).is_err());
        put(&root, &[10]);
        assert_eq!(pids(&listing, &proc, 1001, false), (1, vec![10]), "there was none before");
        std::fs::rename(&root, dir.path().join("away")).unwrap();
        // The open `loadavg` still reads; nothing was forked, so nothing is wanted.
        assert_eq!(pids(&listing, &proc, 1100, false).0, 1);
        std::fs::write(dir.path().join("away/loadavg"), "0.1 0.1 0.1 1/99 11\n").unwrap();
        assert!(listing.latest(&proc, Time(2 * S), false, &mut buf).is_err());
        assert_eq!(pids(&listing, &proc, 2010, false), (1, vec![10]), "others have what there is");
        std::fs::rename(dir.path().join("away"), &root).unwrap();
        put(&root, &[10, 11]);
        assert_eq!(pids(&listing, &proc, 2100, false), (2, vec![10, 11]));
    }

    #[test]
    fn nobody_waits_for_who_reads() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, listing) = (Proc::new(dir.path()), Listing::default());
        put(dir.path(), &[10]);
        let mut buf = Vec::new();
        listing.lock().is_being_read = true;
        assert!(listing.latest(&proc, Time(S), true, &mut buf).unwrap().is_none());
        drop(Turn(&listing));
        assert_eq!(pids(&listing, &proc, 1000, false).0, 1);
        listing.lock().is_being_read = true;
        put(dir.path(), &[10, 11]);
        assert_eq!(pids(&listing, &proc, 9000, true), (1, vec![10]));
    }
}
