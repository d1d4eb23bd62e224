//! Idle memory by page tables, where the kernel has no bitmap. It covers mapped memory only.
//!
//! Each round looks at all page tables of all processes, which costs about 2 ms of CPU per GiB.
//! What was touched is made old again, by whole units of 2 MiB: a flush of the TLB is paid per
//! call, not per page. A unit in which nothing was touched needs that no more. So memory that has
//! been idle for long costs nothing but the look. A page is idle if all its entries are old one
//! interval after they were found or made old. Pages are told apart by frame. So a page that
//! several processes map is counted once, for the cgroup that the kernel charged it to.
//!
//! ```text
//! visit (a process) -> Memory (by frame) -> Past (a page) -> Files (whose) -> sums -> Report
//!   ^ Budget: which share of the touched units is made old
//! ```
//!
//! **If the budget does not suffice**, of the touched units only a share is made old, drawn anew in
//! each round. What was old already is known in any case. Of what was young at the last look, the
//! part that was drawn tells for all: it counts as `1 / share`. So the sums are unbiased. Once a
//! page was drawn and is idle it stays known, so this part shrinks from round to round to what is
//! in use.
//!
//! What cannot be made old is reported as unresolved, and is not idle. The same holds for processes
//! that another Isotherm watches, which are only looked at. A process is claimed only for the
//! moment in which its pages are made old, so that others can begin to watch it.
//!
//! Not seen: page cache that no process maps, memory of processes that we may not read, our own
//! memory; touches that another Isotherm took away that began and ended between two looks.

mod budget;
mod memory;
mod past;
mod units;
mod visit;
mod whose;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::{TargetId, Time};
use isotherm_host::error::SetError;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;
use isotherm_host::ram::Ram;
use isotherm_ops::pagewalk::PageWalk;
use isotherm_pages::frames::groups::Ancestry;
use isotherm_pages::frames::{self, FrameFile, FramesError, FramesKind, Groups, Which};
use isotherm_pages::idle::Lock;
use isotherm_sys::clock::{now, process_cpu_ns};

use super::kinds::{Bytes, Kind};
use super::report::{Method, Report, Unknown};
use super::table;
use crate::scanning::known::Ids;
use crate::scanning::piece::mixed;
use crate::scanning::scan::{Options, lock, no_ram, sleep_to};
use budget::{Budget, Cost};
use memory::{Counts, FRAME, MOST_IDS, Memory};
use units::Round;
use visit::{Target, Visited};
use whose::Files;

/// Processes that are kept open from one round to the next. The tables hold 1024 at once.
const MOST_KEPT: usize = 1000;
/// Of so many rounds, each block's pages are asked for their owner in one, although they stayed
/// idle: a page can be moved to another cgroup.
const REFRESH: u64 = 32;
/// Blocks whose questions are asked together.
const ASKED_TOGETHER: usize = 64;

/// A scan by page tables.
#[derive(Debug)]
pub struct Walk {
    walk: PageWalk,
    proc: Proc,
    files: Files<std::fs::File>,
    options: Options,
    cgroups: Cgroups,
    ancestry: Ancestry,
    ids: Ids,
    budget: Budget,
    seed: u64,
    targets: BTreeMap<u32, Target>,
    next_target: u32,
    looked: BTreeMap<u32, Time>,
    memory: Memory,
    round: Round,
    begin: Time,
    rounds: u64,
    _lock: Lock,
}

impl Walk {
    /// Loads what it needs.
    ///
    /// # Errors
    ///
    /// No page tables can be read, or no frames' flags.
    pub fn open(options: Options) -> Result<Self, FramesError> {
        let proc = Proc::default();
        let flags = FrameFile::open(proc.root(), Which::Flags)?;
        let lock = lock()?;
        let walk = PageWalk::new().map_err(no_walk)?;
        let ram = Ram::read(&proc).map_err(no_ram)?;
        let end = ram.ranges.last().map_or(0, |range| range.end / FRAME);
        #[expect(clippy::cast_precision_loss, reason = "a time below days")]
        let budget = options.interval.as_nanos() as f64 * options.cpu;
        Ok(Self {
            walk,
            files: Files { flags, cgroups: FrameFile::open(proc.root(), Which::Cgroup).ok() },
            budget: Budget::new(budget, resident_pages(&proc)),
            options,
            cgroups: Cgroups::mounted(&proc),
            proc,
            ancestry: Ancestry::default(),
            ids: Ids::with_most(MOST_IDS),
            seed: now().as_ns(),
            targets: BTreeMap::new(),
            next_target: 0,
            looked: BTreeMap::new(),
            memory: Memory::new(end),
            round: Round::default(),
            begin: now(),
            rounds: 0,
            _lock: lock,
        })
    }

    /// Runs the next round and reports; the first call runs two. As
    /// [`Scan::next`](super::Scan::next).
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn next(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<Report>, FramesError> {
        if self.rounds == 0 {
            self.begin = now();
            if self.round(stop)?.is_none() {
                return Ok(None);
            }
        }
        self.round(stop)
    }

    fn round(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<Report>, FramesError> {
        if let Some(groups) = Groups::read(&self.cgroups) {
            self.ancestry.note(&groups);
        }
        let begin_ns = process_cpu_ns();
        let seed = mixed(self.seed ^ self.rounds);
        let (share, drew) = (self.budget.share(), self.budget.last_share() < 1.0);
        self.round = Round { share, seed, drew, ..Round::default() };
        let mut unknown = Unknown::default();
        let Some((shortest, longest)) = self.visit_all(&mut unknown, stop) else { return Ok(None) };
        let mut counts = Counts::default();
        let sums = self.take(&mut counts)?;
        (unknown.unresolved, unknown.watched) = (counts.stuck, counts.watched);
        unknown.set_again = self.round.set_again;
        let cpu_ns = process_cpu_ns().saturating_sub(begin_ns);
        self.note_cost(cpu_ns);
        self.rounds += 1;
        let sums: Vec<_> = self.ids.inos().iter().copied().zip(sums).collect();
        let rows = Groups::read(&self.cgroups).map(|groups| {
            self.ancestry.note(&groups);
            table::rows(&groups, &self.ancestry, &sums)
        });
        Ok(Some(Report {
            method: Method::PageWalk,
            round: self.rounds - 1,
            rows: rows.unwrap_or_else(|| table::whole(&sums)),
            share: counts.share(),
            shortest_ns: shortest,
            longest_ns: longest,
            cpu_ns,
            memory: counts.mapped,
            others: 0,
            unknown: Some(unknown),
        }))
    }

    /// Visits all processes, each at its time. Returns the shortest and the longest time since the
    /// last visit; `None` if the scan is to stop.
    fn visit_all(
        &mut self,
        unknown: &mut Unknown,
        stop: &mut dyn FnMut() -> bool,
    ) -> Option<(u64, u64)> {
        let interval = u64::try_from(self.options.interval.as_nanos()).unwrap_or(u64::MAX);
        let spread = self.options.spread.clamp(0.01, 1.0);
        let begin = self.begin + interval.saturating_mul(self.rounds);
        let (mut shortest, mut longest) = (u64::MAX, 0);
        for (place, pid) in self.processes() {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of the interval"
            )]
            let due = begin + (place as f64 / 4_294_967_296.0 * spread * interval as f64) as u64;
            if !sleep_to(due, stop) {
                return None;
            }
            let at = now();
            if let Some(last) = self.looked.insert(pid, at) {
                (shortest, longest) = (shortest.min(at.since(last)), longest.max(at.since(last)));
            }
            match self.visit(pid, stop) {
                Ok(Visited::Looked) => unknown.processes += 1,
                Ok(Visited::Watched) => unknown.watched_processes += 1,
                Ok(Visited::Nothing) => {}
                Ok(Visited::Stopped) => return None,
                Err(_) => unknown.refused += 1,
            }
            if self.targets.len() > MOST_KEPT {
                self.let_go(pid);
            }
        }
        Some(if longest == 0 { (0, 0) } else { (shortest, longest) })
    }

    /// Judges what the round found: makes pages older, finds their cgroups, and adds up.
    fn take(&mut self, counts: &mut Counts) -> Result<Vec<Bytes>, FramesError> {
        if self.ids.is_full() {
            self.ids.clear();
            self.memory.forget_ages();
        }
        let weight = 1.0 / self.budget.last_share();
        let mut sums = Vec::new();
        for blocks in self.memory.blocks().chunks(ASKED_TOGETHER) {
            let (memory, rounds) = (&mut self.memory, self.rounds);
            let ask = |first: &u64| {
                let again = (first / memory::BLOCK + rounds).is_multiple_of(REFRESH);
                memory.judge(*first, again, counts)
            };
            let asks: Vec<_> = blocks.iter().map(ask).collect();
            self.files.answer(&asks, &mut self.memory, &mut self.ids).map_err(|e| {
                frames::error(FramesKind::Io, "read flags and cgroups of frames", "", "").with(e)
            })?;
            sums.resize(self.ids.inos().len(), Bytes::default());
            for first in blocks {
                self.memory.add_up(*first, &mut sums, weight);
                self.memory.drop_empty(*first);
            }
        }
        for place in std::mem::take(&mut self.round.places) {
            if let Some((kind, id)) = self.memory.owner(place.frame)
                && kind != Kind::Unevictable
            {
                sums[id as usize].add_place(place.pages * FRAME, weight);
            }
        }
        Ok(sums)
    }

    #[expect(clippy::cast_precision_loss, reason = "a time below days, a number of units")]
    fn note_cost(&mut self, cpu_ns: u64) {
        let round = &self.round;
        let units = (round.drawn + round.taken).max(1);
        self.budget.note(&Cost {
            cpu_ns: cpu_ns as f64,
            arm_ns: round.arm_ns as f64,
            drawn: round.drawn as f64 / units as f64,
            set_again: round.set_again,
        });
    }

    /// The processes that have memory, each with its place in the round (of 2^32), which never
    /// changes.
    fn processes(&mut self) -> Vec<(u64, u32)> {
        let mut pids = BTreeSet::new();
        let own = std::process::id();
        let listed = self.proc.for_each_pid(|pid| {
            if pid != own {
                pids.insert(pid);
            }
        });
        drop(listed);
        let gone: Vec<u32> =
            self.targets.keys().filter(|pid| !pids.contains(pid)).copied().collect();
        gone.into_iter().for_each(|pid| self.let_go(pid));
        self.looked.retain(|pid, _| pids.contains(pid));
        let mut places: Vec<(u64, u32)> = pids
            .into_iter()
            .filter(|pid| resident(&self.proc, *pid) > 0)
            .map(|pid| (mixed(u64::from(pid)) >> 32, pid))
            .collect();
        places.sort_unstable();
        places
    }

    fn let_go(&mut self, pid: u32) {
        if let Some(target) = self.targets.remove(&pid) {
            self.walk.remove_target(target.id);
        }
    }

    /// Opens a process, if it is not open; `None` if it has ended.
    fn target(&mut self, pid: u32) -> Result<Option<TargetId>, SetError> {
        if let Some(target) = self.targets.get(&pid) {
            return Ok(Some(target.id));
        }
        let id = TargetId(self.next_target);
        self.next_target += 1;
        match self.walk.add_target(id, pid) {
            Ok(()) => {}
            Err(e) if e.is_gone() => return Ok(None),
            Err(e) => return Err(e),
        }
        self.targets.insert(pid, Target::new(id));
        Ok(Some(id))
    }
}

/// Resident pages of a process; 0 for kernel threads and those that have ended.
fn resident(proc: &Proc, pid: u32) -> u64 {
    let text = std::fs::read_to_string(proc.path_of(pid, "statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "a number of pages")]
fn resident_pages(proc: &Proc) -> f64 {
    let mut pages = 0;
    let listed = proc.for_each_pid(|pid| pages += resident(proc, pid));
    drop(listed);
    pages as f64
}

fn no_walk(error: SetError) -> FramesError {
    let kind = FramesKind::from(error.class());
    frames::error(kind, "read page tables instead", error.to_string(), error.hint())
}
