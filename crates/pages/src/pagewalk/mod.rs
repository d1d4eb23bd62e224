//! Operations set `pagewalk`: reads the accessed bits of other processes' page tables with BPF.
//!
//! Reading ([`Operations::check`]) touches nothing of the target and costs well under 100 ns per page
//! in batches. Clearing ([`Operations::prepare`]) is done by `process_madvise(MADV_COLD)`, on exactly
//! those pages that are young.
//!
//! ```text
//! batch -> look (sort) -> kernel (BPF program `walk`) -> entry -> Old | Young | Absent
//!                                                          '-> clear -> look again -> Cleared | Unresolved
//! ```
//!
//! Needs: Linux with BTF and `bpf_loop` (5.17; tested from 6.1 on), x86-64; `CAP_BPF` and `CAP_PERFMON` to
//! read; `CAP_SYS_PTRACE`, `CAP_SYS_NICE` and `CAP_DAC_READ_SEARCH` for other users' processes.
//!
//! Invariants: only user addresses are walked; a page is never called `Cleared` or `Old` by `prepare` on
//! the word of a call alone, only by its entry or by the kernel's flags for it. Buffers are kept: a look allocates nothing once
//! it was asked about as many pages before. Clearing does: for pages that have to be cleared twice, for those
//! that can only be cleared with all of their process, and once a second for the sizes of folios.
//!
//! Absent on purpose: which pages, when, how often (the core's), and who the targets are (`targets`').

mod asm;
pub mod btf;
mod calibrate;
mod clear;
mod dense;
#[cfg(test)]
mod disasm;
mod entry;
mod error;
mod fallback;
mod folio;
mod kernel;
mod look;
mod marker;
mod prepare;
mod program;
mod space;
mod unresolved;

use std::path::Path;
use std::time::Duration;

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId, Time};

use self::error::error;
pub use dense::{Dense, Table};
pub use entry::Entry;
pub use error::SETCAP;
pub use marker::Marker;

use isotherm_host::error::{ErrorKind, SetError};
use isotherm_host::proc::{Proc, is_denied, is_gone, read_monitored_ranges};
use isotherm_sys::clock::now;

use self::clear::Cold;
use self::folio::Largest;
use self::kernel::{Kernel, Paging};
use self::look::{PageKey, Query, look};
use self::program::MAX_SLOTS;
use self::space::Space;
use self::unresolved::Unresolved;

/// What the set has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Pages looked at.
    pub looks: u64,
    /// Time that took, in ns.
    pub look_ns: u64,
    /// Leaves whose accessed bit was cleared.
    pub clears: u64,
    /// Time that clearing took, in ns.
    pub clear_ns: u64,
    /// Ranges given to the kernel to clear: the number of TLB flushes caused, at most.
    pub flushes: u64,
    /// Times that a page was found to be impossible to clear.
    pub unresolved: u64,
    /// Pages that a [`Marker`] made old, as the set itself could not.
    pub marks: u64,
    /// Times that all bits of a process were cleared at once, as the last resort.
    pub whole_clears: u64,
}

/// How the set was set up; for `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Levels of the page tables: 4 or 5.
    pub levels: u8,
    /// Time to make and load the programs.
    pub load: Duration,
}

/// The operations set.
#[derive(Debug)]
pub struct PageWalk {
    kernel: Kernel,
    setup: Setup,
    /// Kernel address of a `mem` file's operations, by which such a file is known.
    file_ops: u64,
    /// First address that no process has.
    user_end: u64,
    spaces: Vec<Option<Space>>,
    /// Where each target's space is, sorted by target.
    slots: Vec<(TargetId, u16)>,
    queries: Vec<Query>,
    young: Vec<Query>,
    /// What the last `prepare` could not clear.
    stuck: Vec<Query>,
    cold: Cold,
    unresolved: Unresolved,
    marker: Option<Box<dyn Marker>>,
    max_clears: usize,
    fallback_limit: u64,
    /// When the kernel may be made to put pages on their LRU lists.
    next_drain: Time,
    text: Vec<u8>,
    counters: Counters,
}

impl PageWalk {
    /// Loads the programs and finds out how this kernel's page tables are laid out.
    ///
    /// # Errors
    ///
    /// [`SetError`], with the reason and what to do about it.
    pub fn new() -> Result<Self, SetError> {
        if !cfg!(target_arch = "x86_64") {
            let why = "page tables of this machine's architecture are not known yet";
            let (kind, tried) = (ErrorKind::NotSupported, "read page tables");
            return Err(error(kind, tried, None, why, "use another operations set"));
        }
        let (mut kernel, load) = Kernel::load()?;
        let (Paging { levels, .. }, own) = calibrate::calibrate(&mut kernel)?;
        Ok(Self {
            kernel,
            setup: Setup { levels, load },
            file_ops: own.file_ops,
            user_end: if levels == 5 { 1 << 56 } else { 1 << 47 },
            spaces: Vec::new(),
            slots: Vec::new(),
            queries: Vec::new(),
            young: Vec::new(),
            stuck: Vec::new(),
            cold: Cold::new(Largest::of(Path::new(folio::SETTINGS), now())),
            unresolved: Unresolved::default(),
            marker: None,
            max_clears: 1024,
            fallback_limit: fallback::MAX_RSS,
            next_drain: Time(0),
            text: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// How the set was set up.
    #[must_use]
    pub const fn setup(&self) -> Setup {
        self.setup
    }

    /// What was done so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Clears at most this many pages in one [`Operations::prepare`]; the rest stay `Young`. Default
    /// 1024. A clear can cost 20 µs, so this bounds how late a tick can get.
    pub fn set_max_clears(&mut self, pages: usize) {
        self.max_clears = pages;
    }

    /// Clears pages that cannot be cleared singly together with all others of the process, if it has
    /// at most so much resident memory, in bytes; 0 switches that off. Default 256 MiB. It is done so
    /// rarely that it costs the target less than 0.5 %; above the limit such pages are `Unresolved`.
    pub fn set_fallback_limit(&mut self, bytes: u64) {
        self.fallback_limit = bytes;
    }

    /// Watches process `pid` under the name `id`.
    ///
    /// # Errors
    ///
    /// [`SetError`]: it is gone, we may not look, or too many targets.
    pub fn add_target(&mut self, id: TargetId, pid: u32) -> Result<(), SetError> {
        self.remove_target(id);
        let free = self.spaces.iter().position(Option::is_none).unwrap_or(self.spaces.len());
        let Some(slot) = u16::try_from(free).ok().filter(|s| usize::from(*s) < MAX_SLOTS) else {
            let why = format!("{MAX_SLOTS} processes are the most that this set holds");
            let error = error(ErrorKind::Busy, "add a target", None, why, "");
            return Err(error.of_process(pid));
        };
        let space = Space::open(&mut self.kernel, self.file_ops, pid)?;
        self.kernel.set_space(slot, space.resolved.pgd);
        if free == self.spaces.len() {
            self.spaces.push(None);
        }
        self.spaces[free] = Some(space);
        let at = self.slots.partition_point(|(other, _)| *other < id);
        self.slots.insert(at, (id, slot));
        Ok(())
    }

    /// Lets go of a target; unknown ones are ignored.
    pub fn remove_target(&mut self, id: TargetId) {
        if let Ok(at) = self.slots.binary_search_by_key(&id, |(other, _)| *other) {
            let (_, slot) = self.slots.remove(at);
            self.forget_space(slot);
            self.spaces[usize::from(slot)] = None;
        }
    }

    /// Takes hold of the address space that the target has now, after an exec. Returns whether it was
    /// a new one. [`Operations::update`] does the same.
    ///
    /// # Errors
    ///
    /// [`SetError`]: the target is gone or may not be looked at any more.
    pub fn reopen(&mut self, id: TargetId) -> Result<bool, SetError> {
        let unknown = || {
            let tried = format!("follow target {}", id.0);
            error(ErrorKind::Gone, tried, None, "no such target", "")
        };
        let slot = self.slot(id).ok_or_else(unknown)?;
        let space = self.spaces[usize::from(slot)].as_mut().ok_or_else(unknown)?;
        let changed = space.follow_exec(&mut self.kernel, self.file_ops)?;
        if changed {
            let pgd = space.resolved.pgd;
            self.forget_space(slot);
            self.kernel.set_space(slot, pgd);
        }
        Ok(changed)
    }

    /// The leaves that begin at these addresses are young, and are about to be made old by somebody else. They still count as
    /// touched in [`Operations::check`], until [`Operations::prepare`] is asked to make them old. Unknown targets are ignored.
    pub fn keep_young(&mut self, id: TargetId, leaves: &mut dyn Iterator<Item = u64>) {
        let Some(slot) = self.slot(id) else { return };
        let Some(space) = self.spaces.get_mut(usize::from(slot)).and_then(Option::as_mut) else {
            return;
        };
        let mut young = leaves.map(|addr| PageKey::new(slot, addr)).collect();
        space.fallback.keep(&mut young);
    }

    fn forget_space(&mut self, slot: u16) {
        // Before the file is closed: its page tables may be gone the moment after.
        self.kernel.set_space(slot, 0);
        self.unresolved.forget(|page| page.slot() == slot);
    }

    fn slot(&self, id: TargetId) -> Option<u16> {
        let at = self.slots.binary_search_by_key(&id, |(other, _)| *other).ok()?;
        self.slots.get(at).map(|(_, slot)| *slot)
    }

    fn space(&self, id: TargetId) -> Option<&Space> {
        self.spaces.get(usize::from(self.slot(id)?))?.as_ref()
    }

    /// Looks at every page of the batch; leaves the answers in `self.queries`, and says `Unknown` or
    /// `Absent` where there was nothing to ask.
    fn look_at(&mut self, batch: &mut [Check]) {
        let begin = now();
        self.queries.clear();
        let mut last = None;
        for (nr, check) in batch.iter_mut().enumerate() {
            let slot = match last {
                Some((id, slot)) if id == check.target => slot,
                _ => self.slot(check.target),
            };
            last = Some((check.target, slot));
            check.leaf_shift = 12;
            check.state = PageState::Unknown;
            let (Some(slot), Ok(nr)) = (slot, u32::try_from(nr)) else { continue };
            if check.addr >= self.user_end {
                check.state = PageState::Absent;
                continue;
            }
            let page = PageKey::new(slot, check.addr);
            self.queries.push(Query { page, nr, entry: Entry::default() });
        }
        if look(&mut self.kernel, &mut self.queries).is_err() {
            // Not answered: every state is `Unknown` already.
            self.queries.clear();
        }
        self.counters.looks += self.queries.len() as u64;
        self.counters.look_ns += now().since(begin);
    }

    /// Looks at every page of the batch, and tells the place in it and the entry of each that is mapped; the
    /// states of others become `Unknown` or `Absent`. For another set that needs the frames.
    pub fn entries(&mut self, batch: &mut [Check], mut each: impl FnMut(&mut Check, u32, Entry)) {
        self.look_at(batch);
        for query in &self.queries {
            let check = &mut batch[query.nr as usize];
            if query.entry.is_present() {
                each(check, query.nr, query.entry);
            } else if !query.entry.is_fault() {
                check.state = PageState::Absent;
            }
        }
    }

    /// What a look alone says about a page.
    fn seen(&self, query: &Query, at: Time) -> PageState {
        let entry = query.entry;
        let kept = || {
            let space = self.spaces.get(usize::from(query.page.slot())).and_then(Option::as_ref);
            space.is_some_and(|space| space.fallback.has(query.leaf()))
        };
        if entry.is_fault() {
            PageState::Unknown
        } else if !entry.is_present() {
            PageState::Absent
        } else if entry.is_young() && self.unresolved.contains(query.leaf(), at) {
            PageState::Unresolved
        } else if entry.is_young() || kept() {
            PageState::Young
        } else {
            PageState::Old
        }
    }
}

impl Operations for PageWalk {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.look_at(batch);
        self.make_old(batch);
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.look_at(batch);
        let at = now();
        for query in &self.queries {
            let check = &mut batch[query.nr as usize];
            check.state = self.seen(query, at);
            check.leaf_shift = query.entry.leaf_shift();
        }
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        maps.clear();
        let pid = self.space(target).map(|space| space.pid).ok_or(UpdateError::Gone)?;
        if let Err(e) = self.reopen(target) {
            let gone = e.kind() == ErrorKind::Gone;
            return Err(if gone { UpdateError::Gone } else { UpdateError::NotNow });
        }
        match read_monitored_ranges(&Proc::default(), pid, &mut self.text, maps) {
            Ok(()) if !self.target_valid(target) => Err(UpdateError::Gone),
            Ok(()) if maps.is_empty() => Err(UpdateError::NotNow),
            Ok(()) => Ok(()),
            Err(e) if is_gone(&e) && !is_denied(&e) => Err(UpdateError::Gone),
            Err(_) => Err(UpdateError::NotNow),
        }
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        self.space(target).is_some_and(|space| !space.has_exited())
    }
}
