//! Operations set `idle`: the kernel's idle page tracking (`CONFIG_IDLE_PAGE_TRACKING`).
//!
//! The set makes a page old by marking its frame in a bitmap of the machine's memory
//! ([`Bitmap`](isotherm_pages::idle::Bitmap)), and reads the mark to look at the page. The kernel
//! reads and clears the accessed bits of **all** processes that map the frame, so accesses to
//! shared pages are seen. Reclaim is not affected: the kernel keeps what it cleared as "young".
//! Compared with `pagewalk`, this costs a system call per page and step, or per 64 frames where
//! whole units are asked about (`units`). The TLB is not flushed, so a page in constant use can
//! look idle for a moment.
//!
//! ```text
//! batch -> walker (address -> frame)
//!       -> records (same frame as when marked?)
//!       -> folios (first frame, marks)
//! ```
//!
//! What a mark sees (R§3.2, 7.1, 9.5): accesses through page tables anywhere in the folio, which
//! may be up to 2 MiB; and buffered writes by system calls. Buffered *reads* by system calls are
//! not seen where the multi-generational LRU is on. What cannot be tracked (slab, page tables,
//! hugetlb, pages isolated for a move) is `Unresolved`.
//!
//! Targets are processes, or physical memory ([`IdleOps::add_memory`]), where an address is a
//! frame's.
//!
//! Invariants: a page whose frame changed since it was marked is never judged by the old frame's
//! mark; one user of marks per machine ([`Lock`]); buffers are kept, so that a steady tick
//! allocates nothing.
//!
//! Absent on purpose: which pages, when, how often (the core's), who the targets are (`targets`'),
//! and the machine-wide scan per cgroup, which needs no targets.

mod armed;
mod pagemaps;
mod records;
mod units;
mod walker;

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId, UnitCheck};
use isotherm_host::error::SetError;
use isotherm_host::proc::Proc;
use isotherm_pages::frames::Flags;
use isotherm_pages::idle::{Ask, Folios, Lock, open};
use isotherm_pages::tables::PageTables;
use isotherm_sys::clock::now;

use self::armed::Armed;
use self::pagemaps::Pagemaps;
use self::records::{Record, Records};
use self::units::Scratch;
use self::walker::Walker;
use crate::targets::Memory;

/// What the set has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Pages looked at.
    pub looks: u64,
    /// Time that took, in ns.
    pub look_ns: u64,
    /// Pages marked.
    pub marks: u64,
    /// Time that took, in ns.
    pub mark_ns: u64,
    /// Answers `Unresolved`.
    pub unresolved: u64,
    /// Pages that had another frame than when they were marked.
    pub moved: u64,
    /// System calls to the bitmap and to `kpageflags`.
    pub calls: u64,
}

/// The operations set.
#[derive(Debug)]
pub struct IdleOps {
    walker: Walker,
    folios: Folios,
    /// Targets in physical memory.
    memory: Vec<(TargetId, Memory)>,
    records: Records,
    /// Units that were made old as a whole.
    armed: Armed,
    scratch: Scratch,
    asks: Vec<Ask>,
    /// Pages found young. Their frames must be compared with those that were marked.
    again: Vec<Check>,
    text: Vec<u8>,
    counters: Counters,
    _lock: Lock,
}

impl IdleOps {
    /// Opens the bitmap, and takes the machine's lock for it. The frames of processes come from the
    /// page tables if BPF is available, else from `pagemap`.
    ///
    /// # Errors
    ///
    /// [`SetError`], with the reason and what to do about it.
    pub fn new() -> Result<Self, SetError> {
        let walk = PageTables::new();
        Self::with(
            walk.map_or_else(|_| Walker::Pagemap(Pagemaps::new()), |w| Walker::Bpf(w.into())),
        )
    }

    /// As [`IdleOps::new`], but frames of processes always come from `pagemap`.
    ///
    /// # Errors
    ///
    /// [`SetError`], with the reason and what to do about it.
    pub fn by_pagemap() -> Result<Self, SetError> {
        Self::with(Walker::Pagemap(Pagemaps::new()))
    }

    fn with(walker: Walker) -> Result<Self, SetError> {
        let (folios, lock) = open()?;
        Ok(Self {
            walker,
            folios,
            memory: Vec::new(),
            records: Records::default(),
            armed: Armed::default(),
            scratch: Scratch::default(),
            asks: Vec::new(),
            again: Vec::new(),
            text: Vec::new(),
            counters: Counters::default(),
            _lock: lock,
        })
    }

    /// Whether frames of processes come from the page tables, rather than from `pagemap`.
    #[must_use]
    pub const fn reads_page_tables(&self) -> bool {
        matches!(self.walker, Walker::Bpf(_))
    }

    /// What was done so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        Counters { calls: self.folios.calls(), ..self.counters }
    }

    /// The bitmap and flags, for questions about frames that are nobody's target.
    pub const fn folios(&mut self) -> &mut Folios {
        &mut self.folios
    }

    /// Watches process `pid` under the name `id`.
    ///
    /// # Errors
    ///
    /// [`SetError`]: it is gone, or we may not look.
    pub fn add_target(&mut self, id: TargetId, pid: u32) -> Result<(), SetError> {
        self.remove_target(id);
        self.walker.add(id, pid)
    }

    /// Watches physical memory under the name `id`: addresses are physical. Every
    /// [`Operations::update`] reads again where that memory is.
    pub fn add_memory(&mut self, id: TargetId, memory: Memory) {
        self.remove_target(id);
        self.memory.push((id, memory));
    }

    /// Lets go of a target; unknown ones are ignored.
    pub fn remove_target(&mut self, id: TargetId) {
        self.walker.remove(id);
        self.memory.retain(|(other, _)| *other != id);
        self.records.forget(id);
        self.armed.forget(id);
    }

    /// Whether the page was part of a large folio when it was marked last.
    #[must_use]
    pub fn is_large(&self, target: TargetId, addr: u64) -> bool {
        self.records.get(target, addr).is_some_and(|record| record.compound)
    }

    fn is_memory(&self, id: TargetId) -> bool {
        self.memory.iter().any(|(other, _)| *other == id)
    }

    /// Turns the batch into questions about frames. Says `Unknown` or `Absent` for a page without a
    /// frame.
    fn find(&mut self, batch: &mut [Check]) {
        let asks = &mut self.asks;
        asks.clear();
        self.walker.find(batch, |check, nr, place| {
            check.leaf_shift = place.leaf_shift;
            asks.push(Ask { accessed: place.accessed, ..Ask::new(place.frame, nr) });
        });
        if self.memory.is_empty() {
            return;
        }
        for (nr, check) in (0..).zip(batch) {
            if self.memory.iter().any(|(id, _)| *id == check.target) {
                (check.state, check.leaf_shift) = (PageState::Unknown, 12);
                self.asks.push(Ask::new(check.addr >> 12, nr));
            }
        }
    }

    /// Checks whether pages found young still have the frame that was marked. If not, the mark was
    /// that of another page.
    fn confirm(&mut self, batch: &mut [Check]) {
        let mut again = std::mem::take(&mut self.again);
        again.clear();
        for ask in self.asks.iter().filter(|ask| ask.state == PageState::Young) {
            let check = &batch[ask.nr as usize];
            if !self.is_memory(check.target) {
                again.push(Check::new(check.target, check.addr, ask.nr));
            }
        }
        if !again.is_empty() {
            again.sort_unstable_by_key(|check| check.tag);
            self.asks.sort_unstable_by_key(|ask| ask.nr);
            let asks = &self.asks;
            self.walker.find(&mut again, |check, _, place| {
                let asked = asks.binary_search_by_key(&check.tag, |ask| ask.nr);
                let same = asked.is_ok_and(|at| asks[at].frame == place.frame);
                check.state = if same { PageState::Young } else { PageState::Unknown };
            });
            for check in &again {
                // Young, gone, or elsewhere.
                batch[check.tag as usize].state = check.state;
            }
        }
        self.again = again;
    }
}

impl Operations for IdleOps {
    fn prepare(&mut self, batch: &mut [Check]) {
        let begin = now();
        self.find(batch);
        if self.folios.mark(&mut self.asks, begin).is_err() {
            // Not answered: every state is `Unknown` or `Absent` already.
            self.asks.clear();
        }
        for check in batch.iter().filter(|check| check.state == PageState::Absent) {
            self.records.put(check.target, check.addr, Record::ABSENT);
        }
        for ask in &self.asks {
            let check = &mut batch[ask.nr as usize];
            check.state = ask.state;
            self.counters.unresolved += u64::from(ask.state == PageState::Unresolved);
            let record = Record {
                frame: ask.frame,
                head: ask.head,
                leaf_shift: check.leaf_shift,
                compound: ask.flags.has(Flags::HEAD),
            };
            self.records.put(check.target, check.addr, record);
        }
        self.counters.marks += self.asks.len() as u64;
        self.counters.mark_ns += now().since(begin);
    }

    fn check(&mut self, batch: &mut [Check]) {
        let begin = now();
        self.find(batch);
        for check in batch.iter().filter(|check| check.state == PageState::Absent) {
            if self.records.get(check.target, check.addr).is_some() {
                self.records.put(check.target, check.addr, Record::ABSENT);
            }
        }
        // Where nothing has changed the folio is known, so one file is enough.
        let known_by_bits = self.reads_page_tables();
        for ask in &mut self.asks {
            let check = &batch[ask.nr as usize];
            let record = self.records.get(check.target, check.addr);
            if let Some(record) = record.filter(|record| record.frame == ask.frame)
                && (known_by_bits || record.head == record.frame)
            {
                ask.head = record.head;
            }
        }
        if self.folios.look(&mut self.asks).is_err() {
            self.asks.clear();
        }
        for nr in 0..self.asks.len() {
            self.judge(nr, batch);
        }
        self.confirm(batch);
        self.counters.looks += batch.len() as u64;
        self.counters.look_ns += now().since(begin);
    }

    fn has_units(&self) -> bool {
        true
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.mark_units(batch);
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.look_at_units(batch);
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        match self.memory.iter().find(|(id, _)| *id == target) {
            Some((_, memory)) => match memory.ranges(&Proc::default()) {
                Ok(ranges) => {
                    maps.clone_from(&ranges);
                    Ok(())
                }
                // A node that was taken out; it may come back.
                Err(_) => Err(UpdateError::NotNow),
            },
            None => {
                self.walker.update(target, &mut self.text, maps)?;
                self.armed.tidy(target, maps, now());
                Ok(())
            }
        }
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        self.is_memory(target) || self.walker.is_alive(target)
    }
}

impl IdleOps {
    /// Holds what was found of a frame against what was known of its page.
    fn judge(&mut self, nr: usize, batch: &mut [Check]) {
        let ask = &mut self.asks[nr];
        let check = &mut batch[ask.nr as usize];
        let record = self.records.get(check.target, check.addr);
        let changed = record.filter(|record| record.frame != ask.frame);
        if let Some(old) = changed {
            self.counters.moved += 1;
            // A mark moves with its page's content, and so does a missing mark. A page that came
            // from swap or as a copy was touched for that. But pages that were joined (512 into one
            // of 2 MiB, or equal ones into one) lose their marks, touched or not.
            let joined = check.leaf_shift > old.leaf_shift
                || ask.flags.has(Flags::HEAD) && !old.compound
                || ask.flags.has(Flags::KSM);
            if ask.state == PageState::Young && joined && old != Record::ABSENT {
                ask.state = PageState::Unknown;
            }
        }
        check.state = ask.state;
        self.counters.unresolved += u64::from(ask.state == PageState::Unresolved);
        if matches!(ask.state, PageState::Old | PageState::Young) && changed.is_some() {
            let record = Record {
                frame: ask.frame,
                head: ask.head,
                leaf_shift: check.leaf_shift,
                compound: ask.head != ask.frame || ask.flags.has(Flags::HEAD),
            };
            self.records.put(check.target, check.addr, record);
        }
    }
}
