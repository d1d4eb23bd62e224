//! The processes that there are, and which of them match: each read when it is new, some times
//! while it is young, and then in turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use isotherm_core::Time;
use isotherm_host::namespace::read_cgroup;
use isotherm_host::proc::{LastPid, Proc, TaskState};
use isotherm_sys::clock::thread_cpu_ns;

use super::rule::{Facts, Matcher};
use crate::targets::find::is_init;

/// For so long a process is young: it may still run its program, or be moved to its cgroup.
const YOUNG_NS: u64 = 3_000_000_000;
/// Processes are listed again after this time, even if none was forked: some have ended.
const LIST_EVERY_NS: u64 = 10_000_000_000;
/// CPU time per poll for reading processes in turn.
const TURN_NS: u64 = 1_000_000;
/// In so many polls each process has its turn, if that much time suffices.
const ROUND: usize = 10;

/// What is known of a process.
#[derive(Debug, Clone, Copy)]
struct Known {
    start_ticks: u64,
    is_member: bool,
    first_at: Time,
    read_at: Time,
}

/// All processes.
#[derive(Debug, Default)]
pub(super) struct Table {
    all: BTreeMap<u32, Known>,
    turn: VecDeque<u32>,
    newest: LastPid,
    last_pid: Option<u32>,
    listed_at: Option<Time>,
    some_unnamed: bool,
    buf: Vec<u8>,
    cgroup: Vec<u8>,
}

impl Table {
    /// Those that match, sorted.
    pub(super) fn members(&self) -> impl Iterator<Item = u32> {
        self.all.iter().filter(|(_, known)| known.is_member).map(|(pid, _)| *pid)
    }

    /// For how long the process that waits the longest was not read, in ns.
    pub(super) fn oldest_ns(&self, now: Time) -> u64 {
        self.all.values().map(|known| now.since(known.read_at)).max().unwrap_or(0)
    }

    /// Whether a process of a pod or container without a name was seen, since this was asked last.
    pub(super) fn take_unnamed(&mut self) -> bool {
        std::mem::take(&mut self.some_unnamed)
    }

    /// Takes in what has changed. `moved`: those that have come to or left a cgroup that matches.
    /// `all`: read every process.
    pub(super) fn poll(
        &mut self,
        proc: &Proc,
        matcher: &Matcher,
        now: Time,
        moved: &BTreeSet<u32>,
        all: bool,
    ) {
        self.list(proc, now);
        let young = |known: &Known| now.since(known.first_at) < YOUNG_NS;
        let at_once: Vec<u32> = self
            .all
            .iter()
            .filter(|(pid, known)| all || young(known) || moved.contains(pid))
            .map(|(pid, _)| *pid)
            .chain(moved.iter().filter(|pid| !self.all.contains_key(pid)).copied())
            .collect();
        for pid in at_once {
            self.read(proc, matcher, pid, now);
        }
        self.take_turns(proc, matcher, now);
    }

    /// Lists them if that can tell something new.
    fn list(&mut self, proc: &Proc, now: Time) {
        let last_pid = self.newest.read(proc);
        let forked = last_pid.is_none() || last_pid != self.last_pid;
        let is_due = self.listed_at.is_none_or(|at| forked || now.since(at) >= LIST_EVERY_NS);
        if !is_due {
            return;
        }
        let mut pids = BTreeSet::new();
        // A `/proc` that cannot be listed this time will be next time.
        let listed = proc.for_each_pid(|pid| {
            pids.insert(pid);
        });
        if listed.is_err() {
            return;
        }
        // Those that were there before us are not young.
        let first_at = if self.listed_at.is_some() { now } else { Time::default() };
        (self.last_pid, self.listed_at) = (last_pid, Some(now));
        self.all.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            // Read at once: it is young, or all are read.
            self.all.entry(pid).or_insert_with(|| {
                self.turn.push_back(pid);
                let never = Time::default();
                Known { start_ticks: 0, is_member: false, first_at, read_at: never }
            });
        }
    }

    /// Reads some processes, those first that were not read for the longest time.
    fn take_turns(&mut self, proc: &Proc, matcher: &Matcher, now: Time) {
        let began_ns = thread_cpu_ns();
        for _ in 0..self.turn.len().div_ceil(ROUND) {
            if thread_cpu_ns().saturating_sub(began_ns) >= TURN_NS {
                break;
            }
            let Some(pid) = self.turn.pop_front() else { break };
            let Some(known) = self.all.get(&pid) else { continue };
            if known.read_at < now {
                self.read(proc, matcher, pid, now);
            }
            if self.all.contains_key(&pid) {
                self.turn.push_back(pid);
            }
        }
    }

    /// Reads a process, and forgets it if it has ended.
    fn read(&mut self, proc: &Proc, matcher: &Matcher, pid: u32, now: Time) {
        let Some((start_ticks, is_member)) = self.facts_of(proc, matcher, pid) else {
            self.all.remove(&pid);
            return;
        };
        let before = self.all.get(&pid).filter(|known| known.start_ticks == start_ticks);
        let first_at = match (before, self.all.get(&pid)) {
            (Some(same), _) => same.first_at,
            // It was listed, and not read yet.
            (None, Some(listed)) if listed.start_ticks == 0 => listed.first_at,
            _ => now,
        };
        if self.all.insert(pid, Known { start_ticks, is_member, first_at, read_at: now }).is_none()
        {
            self.turn.push_back(pid);
        }
    }

    /// When a process began, and whether it matches; `None` if it has ended.
    fn facts_of(&mut self, proc: &Proc, matcher: &Matcher, pid: u32) -> Option<(u64, bool)> {
        let euid = if matcher.asks_for_users() {
            Some(proc.status(pid, &mut self.buf).ok()?.euid)
        } else {
            None
        };
        self.cgroup.clear();
        if matcher.asks_for_cgroups() {
            read_cgroup(proc, pid, &mut self.cgroup).ok()?;
        }
        let stat = proc.stat(pid, &mut self.buf).ok()?;
        let facts = Facts { comm: stat.comm, cgroup: &self.cgroup, euid };
        let myself = proc.is_real() && pid == std::process::id();
        let can = !myself && !stat.is_kthread && stat.state == TaskState::Alive;
        let is_member = can && !is_init(proc, pid) && matcher.matches(&facts);
        let start_ticks = stat.starttime;
        self.some_unnamed |= can && !is_member && matcher.is_unnamed(&self.cgroup);
        Some((start_ticks, is_member))
    }
}
