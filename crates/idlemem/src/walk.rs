//! Idle memory by page tables, where the kernel has no bitmap. It covers mapped memory only.
//!
//! Each round reads the page tables of all processes densely, and takes the pages whose frame is in
//! the sample. It clears the accessed bits of the young ones by the ways of `pagewalk`:
//! `MADV_COLD`, which also moves a page to the inactive list, or `clear_refs` for small processes.
//! A page is idle if all its entries are old one interval after it was found or made old. Pages are
//! told apart by frame. So a page that several processes map is counted once, for the cgroup that
//! the kernel charged it to.
//!
//! Clearing all young pages of a machine would cost more than the budget, and would destroy the
//! order of the LRU lists. So only a sample of frames is looked at, as large as the budget allows.
//! Leaves of 2 MiB are always in it, because they are cheap. Pages that cannot be cleared are
//! reported as unresolved, and are not idle.
//!
//! Not seen: page cache that no process maps, memory of processes that we may not read, our own
//! memory.

mod pages;

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId, Time};
use isotherm_host::error::SetError;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;
use isotherm_ops::pagewalk::PageWalk;
use isotherm_pages::frames::groups::Ancestry;
use isotherm_pages::frames::{
    self, Flags, FrameFile, FramesError, FramesKind, Groups, Which, by_frame, folios_of,
};
use isotherm_pages::idle::Lock;
use isotherm_pages::tables::{Entry, PageTables};
use isotherm_sys::clock::{now, process_cpu_ns};

use super::kinds::{Bytes, Kind};
use super::report::{Method, Report, Unknown};
use super::table;
use crate::scanning::known::Ids;
use crate::scanning::pace::Pace;
use crate::scanning::piece::mixed;
use crate::scanning::scan::{Options, lock, sleep_to};
use pages::{Leaf, Page, add_up, is_sampled, judge, weight};

/// Leaves that are remembered at most.
const MOST: f64 = 500_000.0;
/// Upper estimate for clearing one page, in ns, until it has been measured.
const CLEAR_NS: f64 = 2000.0;

/// A scan by page tables.
#[derive(Debug)]
pub struct Walk {
    walk: PageWalk,
    proc: Proc,
    flags: FrameFile,
    frame_cgroups: Option<FrameFile>,
    options: Options,
    cgroups: Cgroups,
    ancestry: Ancestry,
    ids: Ids,
    pace: Pace,
    share: f64,
    seed: u64,
    targets: BTreeMap<u32, TargetId>,
    next_target: u32,
    looked: BTreeMap<u32, Time>,
    pages: Vec<Page>,
    leaves: Vec<Leaf>,
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
        let mut walk = PageWalk::new().map_err(no_walk)?;
        walk.set_max_clears(usize::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a time below days")]
        let budget = options.interval.as_nanos() as f64 * options.cpu;
        let resident = resident_pages(&proc);
        Ok(Self {
            walk,
            flags,
            frame_cgroups: FrameFile::open(proc.root(), Which::Cgroup).ok(),
            options,
            cgroups: Cgroups::mounted(&proc),
            proc,
            ancestry: Ancestry::default(),
            ids: Ids::default(),
            pace: Pace::new(1, budget),
            share: (budget / CLEAR_NS).min(MOST) / resident.max(1.0),
            seed: now().as_ns(),
            targets: BTreeMap::new(),
            next_target: 0,
            looked: BTreeMap::new(),
            pages: Vec::new(),
            leaves: Vec::new(),
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
        let interval = u64::try_from(self.options.interval.as_nanos()).unwrap_or(u64::MAX);
        let spread = self.options.spread.clamp(0.01, 1.0);
        let begin = self.begin + interval.saturating_mul(self.rounds);
        if let Some(groups) = Groups::read(&self.cgroups) {
            self.ancestry.note(&groups);
        }
        let cpu = process_cpu_ns();
        let share = if self.share < 1.0 { self.share.max(1.0 / 4096.0) } else { 1.0 };
        let mut unknown = Unknown::default();
        let (mut shortest, mut longest) = (u64::MAX, 0);
        self.leaves.clear();
        for (place, pid) in self.processes() {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of the interval"
            )]
            let due = begin + (place as f64 / 4_294_967_296.0 * spread * interval as f64) as u64;
            if !sleep_to(due, stop) {
                return Ok(None);
            }
            let at = now();
            if let Some(last) = self.looked.insert(pid, at) {
                (shortest, longest) = (shortest.min(at.since(last)), longest.max(at.since(last)));
            }
            match self.look_at(pid, share) {
                Ok(true) => unknown.processes += 1,
                Ok(false) => {}
                Err(_) => unknown.refused += 1,
            }
        }
        let sums = self.take(share, &mut unknown)?;
        let cpu = process_cpu_ns().saturating_sub(cpu);
        self.pace.note(0, share, cpu);
        #[expect(clippy::cast_precision_loss, reason = "a number of pages")]
        let fits = MOST / (self.pages.len().max(1) as f64 / share);
        self.share = if self.rounds == 0 { share } else { self.pace.share().min(fits) };
        self.rounds += 1;
        let sums: Vec<_> = self.ids.inos().iter().copied().zip(sums).collect();
        let rows = Groups::read(&self.cgroups).map(|groups| {
            self.ancestry.note(&groups);
            table::rows(&groups, &self.ancestry, &sums)
        });
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "shown with few digits"
        )]
        let memory = self
            .pages
            .iter()
            .map(|p| (1_u64 << p.shift) as f64 * weight(p.shift, share))
            .sum::<f64>() as u64;
        Ok(Some(Report {
            method: Method::PageWalk,
            round: self.rounds - 1,
            rows: rows.unwrap_or_else(|| table::whole(&sums)),
            share,
            shortest_ns: if longest == 0 { 0 } else { shortest },
            longest_ns: longest,
            cpu_ns: cpu,
            memory,
            others: 0,
            unknown: Some(unknown),
        }))
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
        if let Some(id) = self.targets.remove(&pid) {
            self.walk.remove_target(id);
        }
    }

    /// Looks at the sampled pages of a process and makes them old. Returns `false` if it has none.
    fn look_at(&mut self, pid: u32, share: f64) -> Result<bool, SetError> {
        let mut maps = Vec::new();
        let id = if let Some(id) = self.targets.get(&pid) {
            *id
        } else {
            let id = TargetId(self.next_target);
            self.next_target += 1;
            if let Err(e) = self.walk.add_target(id, pid) {
                let gone = e.is_gone();
                return if gone { Ok(false) } else { Err(e) };
            }
            self.targets.insert(pid, id);
            id
        };
        match self.walk.update(id, &mut maps) {
            Ok(()) => {}
            Err(UpdateError::Gone) => {
                self.let_go(pid);
                return Ok(false);
            }
            Err(UpdateError::NotNow) => return Ok(false),
        }
        let (mut found, mut young) = (Vec::new(), Vec::new());
        for range in maps {
            collect(self.walk.tables(), id, range, share, self.seed, &mut found, &mut young);
        }
        // Pages that are young now are in `found` already. `prepare` says how making them old went.
        self.walk.prepare(&mut young);
        for check in &young {
            let leaf: &mut Leaf = &mut found[check.tag as usize];
            leaf.stuck =
                !matches!(check.state, PageState::Cleared | PageState::Old | PageState::Absent);
        }
        self.leaves.append(&mut found);
        Ok(true)
    }

    /// Judges what the round found: makes pages older, finds their cgroups, and adds up.
    fn take(&mut self, share: f64, unknown: &mut Unknown) -> Result<Vec<Bytes>, FramesError> {
        let (pages, unresolved) = judge(&mut self.leaves, &self.pages, share);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a size of memory"
        )]
        {
            unknown.unresolved = unresolved as u64;
        }
        self.pages = pages;
        self.ask().map_err(|e| {
            frames::error(FramesKind::Io, "read flags and cgroups of frames", "", "").with(e)
        })?;
        Ok(add_up(&self.pages, self.ids.inos().len(), share))
    }

    /// Reads what the pages are that are idle for the first time, and their cgroups.
    fn ask(&mut self) -> std::io::Result<()> {
        if self.ids.is_full() {
            self.ids.clear();
            self.pages.iter_mut().for_each(|page| page.age = 0);
        }
        let frames: Vec<u64> = self.pages.iter().filter(|p| p.age == 1).map(|p| p.frame).collect();
        let folios = folios_of(&mut self.flags, &frames, &|flags| flags.has(Flags::TAIL))?;
        let mut heads: Vec<u64> = folios.values().map(|folio| folio.head).collect();
        heads.dedup();
        let inos = match &mut self.frame_cgroups {
            Some(file) => by_frame(file, &heads)?,
            None => BTreeMap::new(),
        };
        for page in self.pages.iter_mut().filter(|page| page.age == 1) {
            let Some(folio) = folios.get(&page.frame) else { continue };
            // The zero page, hugetlb, device memory are on no list.
            let ino = inos.get(&folio.head).copied().unwrap_or(0);
            let counts = folio.flags.has(Flags::LRU);
            page.whose = self.ids.of(ino).filter(|_| counts).map(|id| (Kind::of(folio.flags), id));
        }
        Ok(())
    }
}

/// Collects the sampled leaves of a range. Those that are young are put on the list to be made old.
fn collect(
    tables: &mut PageTables,
    id: TargetId,
    range: AddrRange,
    share: f64,
    seed: u64,
    found: &mut Vec<Leaf>,
    young: &mut Vec<Check>,
) {
    let mut each = |addr: u64, entry: Entry| {
        let (frame, shift) = (entry.frame() >> 12, entry.leaf_shift());
        if !is_sampled(frame, shift, share, seed) {
            return;
        }
        if entry.is_young()
            && let Ok(tag) = u32::try_from(found.len())
        {
            young.push(Check::new(id, addr, tag));
        }
        found.push(Leaf { frame, shift, young: entry.is_young(), stuck: false });
    };
    // A process that ends meanwhile has no more pages.
    tables.dense(id, range, &mut each).ok();
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
