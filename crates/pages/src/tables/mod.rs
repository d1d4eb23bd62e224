//! Page tables of other processes, read by BPF programs: which pages are mapped, where, and which
//! of them were accessed. Reading touches nothing of the process and costs well under 100 ns per
//! page in batches.
//!
//! ```text
//! Check, PageKey -> look (sorts) -> program::kernel (BPF program `walk`) -> Entry
//! AddrRange      -> dense        -> program::kernel (BPF program `dense`) -> Table, huge Entry
//! young queries  -> clear (`process_madvise(MADV_COLD)`)
//! ```
//!
//! Needs: Linux with BTF and `bpf_loop` (5.17; tested from 6.1 on), x86-64; `CAP_BPF` and
//! `CAP_PERFMON` to read; `CAP_SYS_PTRACE`, `CAP_SYS_NICE` and `CAP_DAC_READ_SEARCH` for other
//! users' processes.
//!
//! Invariants: only user addresses are walked. Buffers are kept, so a look at no more pages than an
//! earlier one allocates nothing.
//!
//! This module does not decide what an accessed bit means for a monitor, nor what is done about
//! pages that cannot be made old. Both belong to the operations set `pagewalk`.

mod barred;
mod clear;
mod dense;
mod entry;
mod error;
mod folio;
mod look;
pub mod program;
mod space;

use std::time::Duration;

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, PageState, TargetId};
use isotherm_host::error::{SetError, SetKind};
use isotherm_host::proc::{Proc, is_denied, is_gone, read_monitored_ranges};
use isotherm_sys::clock::now;

pub use self::clear::Clearer;
pub use self::dense::{Dense, Table};
pub use self::entry::Entry;
pub use self::error::SETCAP;
pub use self::look::{PageKey, Query};
pub use self::space::{PageFlags, Space};

use self::error::SET;
use self::program::calibrate::calibrate;
use self::program::code::MAX_SLOTS;
use self::program::kernel::{Kernel, Paging};

/// How the programs were set up; for `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Levels of the page tables: 4 or 5.
    pub levels: u8,
    /// Time to make and load the programs.
    pub load: Duration,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Looks {
    /// Pages looked at one by one.
    pub pages: u64,
    /// Time that took, in ns.
    pub ns: u64,
}

/// A reader of page tables, and the address spaces that it reads.
#[derive(Debug)]
pub struct PageTables {
    kernel: Kernel,
    setup: Setup,
    /// Kernel address of a `mem` file's operations, by which such a file is known.
    file_ops: u64,
    /// First address that no process has.
    user_end: u64,
    /// By slot, which is the number by which the BPF programs know an address space.
    spaces: Vec<Option<Space>>,
    /// Where each target's space is, sorted by target.
    slots: Vec<(TargetId, u16)>,
    queries: Vec<Query>,
    text: Vec<u8>,
    looks: Looks,
}

impl PageTables {
    /// Loads the programs and finds out how this kernel's page tables are laid out.
    ///
    /// # Errors
    ///
    /// [`SetError`], with the reason and what to do about it.
    pub fn new() -> Result<Self, SetError> {
        if !cfg!(target_arch = "x86_64") {
            let why = "page tables of this machine's architecture are not known yet";
            let (kind, tried) = (SetKind::NotSupported, "read page tables");
            return Err(SetError::of_set(SET, kind, tried, why, "use another operations set"));
        }
        let (mut kernel, load) = Kernel::load()?;
        let (Paging { levels, .. }, own) = calibrate(&mut kernel)?;
        Ok(Self {
            kernel,
            setup: Setup { levels, load },
            file_ops: own.file_ops,
            user_end: if levels == 5 { 1 << 56 } else { 1 << 47 },
            spaces: Vec::new(),
            slots: Vec::new(),
            queries: Vec::new(),
            text: Vec::new(),
            looks: Looks::default(),
        })
    }

    /// How the programs were set up.
    #[must_use]
    pub const fn setup(&self) -> Setup {
        self.setup
    }

    /// How much was looked at so far.
    #[must_use]
    pub const fn looks(&self) -> Looks {
        self.looks
    }

    /// Opens the memory of process `pid` under the name `id`; one of the same name is let go.
    ///
    /// # Errors
    ///
    /// [`SetError`]: it is gone, we may not look, or too many targets.
    pub fn add_target(&mut self, id: TargetId, pid: u32) -> Result<(), SetError> {
        self.remove_target(id);
        let free = self.spaces.iter().position(Option::is_none).unwrap_or(self.spaces.len());
        let Some(slot) = u16::try_from(free).ok().filter(|s| usize::from(*s) < MAX_SLOTS) else {
            let why = format!("{MAX_SLOTS} processes are the most that this set holds");
            let full = SetError::of_set(SET, SetKind::Full, "add a target", why, "");
            return Err(full.of_process(SET, pid));
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

    /// Lets go of a target. Returns the slot that it had; `None` if it is not known.
    pub fn remove_target(&mut self, id: TargetId) -> Option<u16> {
        let at = self.slots.binary_search_by_key(&id, |(other, _)| *other).ok()?;
        let (_, slot) = self.slots.remove(at);
        // Before the file is closed: its page tables may be gone the moment after.
        self.kernel.set_space(slot, 0);
        self.spaces[usize::from(slot)] = None;
        Some(slot)
    }

    /// Takes hold of the address space that the target has now, after an exec. Returns whether it
    /// was a new one. [`PageTables::update`] does the same.
    ///
    /// # Errors
    ///
    /// [`SetError`]: the target is gone or may not be looked at any more.
    pub fn reopen(&mut self, id: TargetId) -> Result<bool, SetError> {
        let unknown = || {
            let tried = format!("follow target {}", id.0);
            SetError::of_set(SET, SetKind::Gone, tried, "no such target", "")
        };
        let slot = self.slot(id).ok_or_else(unknown)?;
        let space = self.spaces[usize::from(slot)].as_mut().ok_or_else(unknown)?;
        let changed = space.follow_exec(&mut self.kernel, self.file_ops)?;
        if changed {
            self.kernel.set_space(slot, space.resolved.pgd);
        }
        Ok(changed)
    }

    /// Follows the target through an exec, and reads its mappings into `maps`. Returns whether its
    /// address space is a new one.
    ///
    /// # Errors
    ///
    /// [`UpdateError`]: it is gone, or has nothing to look at now.
    pub fn update(&mut self, id: TargetId, maps: &mut Vec<AddrRange>) -> Result<bool, UpdateError> {
        maps.clear();
        let pid = self.space_of(id).map(Space::pid).ok_or(UpdateError::Gone)?;
        let changed = self.reopen(id).map_err(|e| {
            if e.kind() == SetKind::Gone { UpdateError::Gone } else { UpdateError::NotNow }
        })?;
        match read_monitored_ranges(&Proc::default(), pid, &mut self.text, maps) {
            Ok(()) if !self.is_alive(id) => Err(UpdateError::Gone),
            Ok(()) if maps.is_empty() => Err(UpdateError::NotNow),
            Ok(()) => Ok(changed),
            Err(e) if is_gone(&e) && !is_denied(&e) => Err(UpdateError::Gone),
            Err(_) => Err(UpdateError::NotNow),
        }
    }

    /// Whether the target is known and its process has not ended.
    #[must_use]
    pub fn is_alive(&self, id: TargetId) -> bool {
        self.space_of(id).is_some_and(|space| !space.has_exited())
    }

    /// The slot of a target: the number in the [`PageKey`]s of its pages.
    #[must_use]
    pub fn slot(&self, id: TargetId) -> Option<u16> {
        let at = self.slots.binary_search_by_key(&id, |(other, _)| *other).ok()?;
        self.slots.get(at).map(|(_, slot)| *slot)
    }

    /// The address space in a slot.
    #[must_use]
    pub fn space(&self, slot: u16) -> Option<&Space> {
        self.spaces.get(usize::from(slot))?.as_ref()
    }

    fn space_of(&self, id: TargetId) -> Option<&Space> {
        self.space(self.slot(id)?)
    }

    /// Looks at every page of the batch. The answers are in [`PageTables::queries`]; states become
    /// `Unknown` or `Absent` where there was nothing to ask.
    pub fn look_at(&mut self, batch: &mut [Check]) {
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
        if look::look(&mut self.kernel, &mut self.queries).is_err() {
            // Not answered: every state is `Unknown` already.
            self.queries.clear();
        }
        self.looks.pages += self.queries.len() as u64;
        self.looks.ns += now().since(begin);
    }

    /// What the last [`PageTables::look_at`] found, sorted by page.
    #[must_use]
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// Answers these queries anew; sorts them by page.
    ///
    /// # Errors
    ///
    /// What the kernel says about running the program.
    pub fn look_again(&mut self, queries: &mut [Query]) -> std::io::Result<()> {
        look::look(&mut self.kernel, queries)
    }

    /// Looks at every page of the batch. `each` gets the place in the batch and the entry of each
    /// page that is mapped; the states of the others become `Unknown` or `Absent`. This is for
    /// operations sets that need the frames.
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

    /// Counts the young leaves (pages, or huge pages) of a whole target.
    ///
    /// # Errors
    ///
    /// What the kernel says about running the program.
    pub fn young_leaves(&mut self, target: TargetId) -> std::io::Result<u64> {
        let mut young = 0;
        let everything = AddrRange::new(0, u64::MAX);
        self.dense(target, everything, &mut |_, entry| young += u64::from(entry.is_young()))?;
        Ok(young)
    }
}
