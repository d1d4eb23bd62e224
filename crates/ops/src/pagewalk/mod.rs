//! Operations set `pagewalk`: monitors processes by the accessed bits of their page tables.
//!
//! [`Operations::check`] reads accessed bits with [`PageTables`], by BPF. [`Operations::prepare`]
//! clears them with `process_madvise(MADV_COLD)`, on exactly those pages that are young.
//!
//! ```text
//! batch -> PageTables -> Entry -> Old | Young | Absent
//!                            '-> clear -> look again -> Cleared | Unresolved
//! ```
//!
//! Invariants: `prepare` never calls a page `Cleared` or `Old` because a system call succeeded. It
//! does so only by the page's entry or by the kernel's flags for the page. Clearing allocates
//! memory in three cases: for pages that have to be cleared twice, for pages that can only be
//! cleared together with all others of their process, and once a second to read the sizes of
//! folios.
//!
//! Absent on purpose: the core decides which pages are looked at, when and how often, and `targets`
//! who the targets are.

mod arm;
mod barred;
mod canary;
mod fallback;
mod marker;
mod prepare;
mod pressure;
mod shared_marks;
mod stuck;
mod units;
mod unresolved;

use std::io;

use isotherm_core::ops::UpdateError;
use isotherm_core::{
    AddrRange, Check, ClearRate, Operations, PageState, Reclaimed, TargetId, Time, UnitCheck,
};
use isotherm_host::error::SetError;
use isotherm_host::proc::Proc;
use isotherm_pages::tables::{Clearer, PageKey, PageTables, Query, Space};
use isotherm_sys::clock::{now, thread_cpu_ns};

pub use self::marker::Marker;
pub use self::shared_marks::SharedMarks;

use self::canary::Canary;
use self::fallback::Fallback;
use self::pressure::Pressure;
use self::unresolved::Unresolved;

/// Time between two readings of a target's mappings, as a multiple of what one costs: 1 %. To read
/// 65,000 mappings takes some 50 ms, and a target may change them all the time.
const MAPS_REST: u64 = 100;
/// The same for the mappings of all targets together, while they map as much as before: 0.1 %.
const SAME_SIZE_REST: u64 = 1000;

/// With so many targets at most, the files that tell their sizes stay open.
const STAY_OPEN: usize = 16;

/// What the set has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Pages looked at.
    pub looks: u64,
    /// Time that took, in ns.
    pub look_ns: u64,
    /// Units looked at.
    pub unit_looks: u64,
    /// Time that took, in ns.
    pub unit_look_ns: u64,
    /// Leaves whose accessed bit was cleared.
    pub clears: u64,
    /// Time that clearing took, in ns.
    pub clear_ns: u64,
    /// Ranges given to the kernel to clear: the number of TLB flushes caused, at most.
    pub flushes: u64,
    /// Times that a page was found to be impossible to clear.
    pub unresolved: u64,
    /// Pages that a [`Marker`] made old because the set itself could not.
    pub marks: u64,
    /// Times that all bits of a process were cleared at once, as the last resort.
    pub whole_clears: u64,
}

/// The operations set.
#[derive(Debug)]
pub struct PageWalk {
    tables: PageTables,
    /// By slot of the tables: what is kept for the clearing of all bits of a process.
    fallbacks: Vec<Fallback>,
    young: Vec<Query>,
    /// What the last `prepare` could not clear.
    stuck: Vec<Query>,
    /// Units to look at: where each is, and its position in the batch.
    places: Vec<(PageKey, u32)>,
    /// The units of the last `prepare_units`, as they were afterwards.
    units_after: Vec<UnitCheck>,
    clearer: Clearer,
    unresolved: Unresolved,
    marker: Option<Box<dyn Marker>>,
    max_clears: usize,
    fallback_limit: u64,
    same_size_ns: u64,
    /// Whether mappings of targets that map as much as before are read rarely, if that costs much.
    spares_same_size: bool,
    /// What it takes to read the mappings of all targets once, in ns of CPU time.
    all_maps_ns: u64,
    /// What the last readings of what must get no advice have cost, of all targets, in ns.
    all_barred_ns: u64,
    /// When the kernel may be made to put pages on their LRU lists.
    next_drain: Time,
    text: Vec<u8>,
    pressure: Pressure,
    canary: Canary,
    troubles: Vec<String>,
    counters: Counters,
}

impl PageWalk {
    /// Opens the page tables of this machine; see [`PageTables::new`].
    ///
    /// # Errors
    ///
    /// [`SetError`], with the reason and what to do about it.
    pub fn new() -> Result<Self, SetError> {
        Ok(Self {
            tables: PageTables::new()?,
            fallbacks: Vec::new(),
            young: Vec::new(),
            stuck: Vec::new(),
            places: Vec::new(),
            units_after: Vec::new(),
            clearer: Clearer::of_machine(),
            unresolved: Unresolved::default(),
            marker: None,
            max_clears: 1024,
            fallback_limit: fallback::MAX_RSS,
            same_size_ns: 0,
            spares_same_size: false,
            all_maps_ns: 0,
            all_barred_ns: 0,
            next_drain: Time(0),
            text: Vec::new(),
            pressure: Pressure::default(),
            canary: Canary::default(),
            troubles: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// The reader of the page tables, for callers that only want to look.
    pub const fn tables(&mut self) -> &mut PageTables {
        &mut self.tables
    }

    /// What was done so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        let looks = self.tables.looks();
        Counters { looks: looks.pages, look_ns: looks.ns, ..self.counters }
    }

    /// Limits how many pages one [`Operations::prepare`] clears; the rest stay `Young`. The default
    /// is 1024 pages. A clear can cost 20 µs, so this bounds how late a tick can get.
    pub fn set_max_clears(&mut self, pages: usize) {
        self.max_clears = pages;
    }

    /// Sets the limit of resident memory, in bytes, up to which all pages of a process are cleared
    /// at once when some cannot be cleared singly. 0 switches this off; the default is 640 MiB. The
    /// kernel holds the target's mmap lock meanwhile, up to 16 ms per GiB, so 10 ms for 640 MiB. It
    /// is done so rarely that it costs the target less than 0.5 % of its time. In a process above
    /// the limit such pages are `Unresolved`.
    pub fn set_fallback_limit(&mut self, bytes: u64) {
        self.fallback_limit = bytes;
    }

    /// Leaves the mappings of a target unread for so long, in ns, as long as it maps as much as
    /// before; 0, the default, reads them at every [`Operations::update`]. Who moves memory without
    /// mapping more or less of it is noticed that much later.
    pub const fn set_same_size_rest(&mut self, ns: u64) {
        self.same_size_ns = ns;
    }

    /// Leaves them unread for so long, if not longer, that to read those of all targets takes 0.1 %
    /// of a CPU. Those of one target with a hundred mappings are still read at every update.
    pub const fn spare_same_size(&mut self) {
        self.spares_same_size = true;
    }

    /// Watches process `pid` under the name `id`.
    ///
    /// # Errors
    ///
    /// [`SetError`]: the process is gone, it may not be inspected, or there are too many targets.
    pub fn add_target(&mut self, id: TargetId, pid: u32) -> Result<(), SetError> {
        self.remove_target(id);
        if pid == std::process::id() {
            self.canary.switch_off(&mut self.tables);
        }
        self.tables.add_target(id, pid)
    }

    /// Lets go of a target; unknown ones are ignored.
    pub fn remove_target(&mut self, id: TargetId) {
        self.pressure.forget(id);
        if let Some(slot) = self.tables.remove_target(id) {
            self.forget_space(slot);
        }
    }

    /// Problems since this was asked last, for people.
    pub fn take_troubles(&mut self) -> Vec<String> {
        let mut troubles = self.pressure.take_news();
        troubles.append(&mut self.troubles);
        troubles
    }

    /// Takes hold of the address space that the target has now, after an exec. Returns whether it
    /// was a new one. [`Operations::update`] does the same.
    ///
    /// # Errors
    ///
    /// [`SetError`]: the target is gone or may not be looked at any more.
    pub fn reopen(&mut self, id: TargetId) -> Result<bool, SetError> {
        let changed = self.tables.reopen(id)?;
        self.note_change(id, changed);
        Ok(changed)
    }

    /// Tells the set that the leaves at these addresses are young, and that other code is about to
    /// make them old. [`Operations::check`] still reports them as touched, until
    /// [`Operations::prepare`] is asked to make them old. Unknown targets are ignored.
    pub fn keep_young(&mut self, id: TargetId, leaves: &mut dyn Iterator<Item = u64>) {
        let Some(slot) = self.tables.slot(id) else { return };
        let mut young = leaves.map(|addr| PageKey::new(slot, addr)).collect();
        self.fallback(slot).keep(&mut young);
    }

    /// Whether the mappings of a target may be read now. A new address space is read at once.
    fn may_read_maps(&mut self, id: TargetId) -> bool {
        let Some(slot) = self.tables.slot(id) else { return true };
        now() >= self.fallback(slot).next_maps || self.reopen(id).is_ok_and(|is_new| is_new)
    }

    /// For how long mappings that seem to be the same are not read again, in ns.
    fn same_size_rest(&self) -> u64 {
        let sparing = if self.spares_same_size { SAME_SIZE_REST } else { 0 };
        self.same_size_ns.max(self.all_maps_ns.saturating_mul(sparing))
    }

    /// How much a target maps, if mappings that seem to be the same are not read again.
    fn mapped(&mut self, id: TargetId) -> Option<[u64; 3]> {
        let may_rest = self.same_size_ns > 0 || self.spares_same_size;
        let slot = self.tables.slot(id).filter(|_| may_rest)?;
        let pid = self.tables.space(slot)?.pid();
        let mut text = std::mem::take(&mut self.text);
        let mapped = self.fallback(slot).statm.parts(&Proc::default(), pid, &mut text);
        self.text = text;
        self.close_if_many(slot);
        mapped
    }

    /// Closes the file that tells a target's size, if all of them together would be too many.
    fn close_if_many(&mut self, slot: u16) {
        if self.fallbacks.len() > STAY_OPEN {
            self.fallback(slot).statm.close();
        }
    }

    /// Whether a target's mappings were read a short time ago and it maps as much as then.
    fn is_as_before(&mut self, id: TargetId, mapped: [u64; 3]) -> bool {
        let (rest, now) = (self.same_size_rest(), now());
        let Some(slot) = self.tables.slot(id) else { return false };
        let is_left = self.tables.space(slot).is_none_or(|space| space.is_left());
        let same = |(at, before)| before == mapped && now.since(at) < rest;
        !is_left && self.fallback(slot).mapped.is_some_and(same)
    }

    /// Notes that the kernel does not let us make a target's pages old, if that is so.
    fn note_refusal(&mut self, slot: u16, err: &io::Error) {
        let told = self.fallback(slot).told_refusal;
        let Some(space) = self.tables.space(slot) else { return };
        if err.kind() != io::ErrorKind::PermissionDenied || told {
            return;
        }
        self.troubles.push(format!(
            "memory of process {} cannot be made old any more: {err}; what is reported of it is \
             what was known before (process_madvise needs CAP_SYS_NICE and the right to trace it)",
            space.pid()
        ));
        self.fallback(slot).told_refusal = true;
    }

    /// Notes that the kernel does not let us clear a target as a whole, if that is so: what it
    /// shares with other processes is not seen then.
    fn note_shared_refusal(&mut self, slot: u16, err: &io::Error) {
        let told = self.fallback(slot).told_shared_refusal;
        let Some(pid) = self.tables.space(slot).map(Space::pid) else { return };
        if err.kind() != io::ErrorKind::PermissionDenied || told {
            return;
        }
        self.troubles.push(format!(
            "memory that process {pid} shares with others is not seen: /proc/{pid}/clear_refs \
             cannot be opened for writing: {err}; the process belongs to another user, and that \
             needs CAP_DAC_OVERRIDE (run as root, or as the service of packaging/isotherm.service)"
        ));
        self.fallback(slot).told_shared_refusal = true;
    }

    fn note_change(&mut self, id: TargetId, changed: bool) {
        if changed && let Some(slot) = self.tables.slot(id) {
            self.forget_space(slot);
        }
    }

    /// Drops what is known of the address space that was in this slot.
    fn forget_space(&mut self, slot: u16) {
        self.unresolved.forget(|page| page.slot() == slot);
        let gone = std::mem::take(self.fallback(slot));
        self.all_maps_ns = self.all_maps_ns.saturating_sub(gone.maps_ns);
        self.all_barred_ns = self.all_barred_ns.saturating_sub(gone.barred.cost_ns);
    }

    /// What is kept for the address space in this slot.
    fn fallback(&mut self, slot: u16) -> &mut Fallback {
        let slot = usize::from(slot);
        if self.fallbacks.len() <= slot {
            self.fallbacks.resize_with(slot + 1, Fallback::default);
        }
        &mut self.fallbacks[slot]
    }

    /// The state of a page as far as a look alone can tell.
    fn seen(&self, query: &Query, at: Time) -> PageState {
        let entry = query.entry;
        let kept = || {
            let fallback = self.fallbacks.get(usize::from(query.page.slot()));
            fallback.is_some_and(|fallback| fallback.has(query.leaf()))
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
        self.tables.look_at(batch);
        self.make_old(batch);
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.tables.look_at(batch);
        let at = now();
        for query in self.tables.queries() {
            let check = &mut batch[query.nr as usize];
            check.state = self.seen(query, at);
            check.leaf_shift = query.entry.leaf_shift();
        }
    }

    fn has_units(&self) -> bool {
        true
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.make_units_old(batch);
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.look_at_units(batch);
    }

    fn reclaimed(&mut self, target: TargetId) -> Reclaimed<'_> {
        let slot = self.tables.slot(target);
        let pid = slot.and_then(|slot| self.tables.space(slot)).map(|space| space.pid());
        pid.map_or(Reclaimed::Nothing, |pid| self.pressure.of(target, pid, now()))
    }

    fn others_clear(&mut self) -> ClearRate {
        self.canary.rate(&mut self.tables, now())
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        if !self.may_read_maps(target) {
            return Err(UpdateError::NotNow);
        }
        let mapped = self.mapped(target);
        if mapped.is_some_and(|mapped| self.is_as_before(target, mapped)) {
            // Advice to the kernel changes no size.
            if let Some(slot) = self.tables.slot(target) {
                self.read_barred(slot, barred::Mapped::AsMuch);
            }
            return Err(UpdateError::NotNow);
        }
        let (begin, own) = (now(), thread_cpu_ns());
        let changed = self.tables.update(target, maps)?;
        self.note_change(target, changed);
        if let Some(slot) = self.tables.slot(target) {
            let cost = thread_cpu_ns().saturating_sub(own);
            let fallback = self.fallback(slot);
            fallback.next_maps = begin + cost * MAPS_REST;
            fallback.mapped = mapped.map(|mapped| (begin, mapped));
            let last = std::mem::replace(&mut fallback.maps_ns, cost);
            self.all_maps_ns = (self.all_maps_ns + cost).saturating_sub(last);
            self.read_barred(slot, barred::Mapped::Anew);
        }
        Ok(())
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        self.tables.is_alive(target)
    }
}
