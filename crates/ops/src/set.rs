//! The operations sets that this crate has, behind one type, for a monitor that takes any of them.

use isotherm_core::ops::UpdateError;
use isotherm_core::{
    AddrRange, Check, ClearRate, Method, Observation, Observed, Operations, PageBits, Reclaimed,
    TargetId, UnitCheck,
};
use isotherm_host::error::{Error, SetError, SetKind};
use isotherm_host::proc::Proc;
use isotherm_pages::idle::Folios;
use isotherm_pages::tables::PageTables;

use crate::idle::IdleOps;
use crate::kdamond::Kdamond;
use crate::pagewalk::PageWalk;
use crate::smaps::SmapsOps;
use crate::targets::Target;

/// An operations set over real processes.
#[derive(Debug)]
pub enum OpsSet {
    /// Page tables read by eBPF.
    PageWalk(Box<PageWalk>),
    /// The kernel's idle page tracking.
    Idle(Box<IdleOps>),
    /// The kernel's own DAMON.
    Kdamond(Box<Kdamond>),
    /// Whole mappings by `/proc/PID/smaps`.
    Smaps(Box<SmapsOps>),
}

/// What looks at single pages of processes.
pub trait Pages {
    /// The page tables.
    fn tables(&mut self) -> &mut PageTables;

    /// These leaves are young and are about to be made old by somebody else; see
    /// [`PageWalk::keep_young`]. Where nobody monitors by these page tables, nothing is to be kept.
    fn keep_young(&mut self, _id: TargetId, _leaves: &mut dyn Iterator<Item = u64>) {}
}

/// What an operations set lends to who looks at single pages beside the set's own questions.
pub enum PageView<'a> {
    /// The page tables of its targets.
    Tables(&'a mut dyn Pages),
    /// The marks of idle page frames. They are those of the whole machine, and each is a folio's.
    Marks(&'a mut Folios),
}

impl<'a> PageView<'a> {
    /// The page tables, if it is by them that the set looks.
    #[must_use]
    pub fn tables(self) -> Option<&'a mut dyn Pages> {
        match self {
            Self::Tables(pages) => Some(pages),
            Self::Marks(_) => None,
        }
    }

    /// The marks, if it is by them that the set looks.
    #[must_use]
    pub fn marks(self) -> Option<&'a mut Folios> {
        match self {
            Self::Marks(folios) => Some(folios),
            Self::Tables(_) => None,
        }
    }
}

impl std::fmt::Debug for PageView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tables(_) => "Tables",
            Self::Marks(_) => "Marks",
        })
    }
}

/// An operations set with whose targets schemes can work.
pub trait SchemeOps: Operations {
    /// What looks at single pages: the set itself, or what stands beside one that cannot. None if
    /// single pages cannot be seen.
    fn page_view(&mut self) -> Option<PageView<'_>>;

    /// log2 of the bytes, around the page of this check, that a clear of it made old.
    fn cleared_shift(&self, check: &Check) -> u8 {
        check.leaf_shift
    }

    /// The pages of the unit that were touched, and that a clear of it made old.
    fn cleared_pages(&self, unit: &UnitCheck) -> PageBits {
        unit.young.and(unit.pages).minus(unit.stuck)
    }

    /// Whether a page of a unit that stays old was not touched for sure: when the unit was made
    /// old, no processor kept a translation by which pages are accessed unseen.
    fn units_are_proof(&self) -> bool {
        true
    }

    /// Keeps the set from clearing accessed bits of pages that it was not asked about. To clear a
    /// page that cannot be cleared singly, it would clear all pages of the process, or the page in
    /// all processes that map it, and memory that was touched before would look idle afterwards.
    /// From then on the regions of such pages stay unresolved.
    fn keep_evidence(&mut self);
}

impl Pages for PageTables {
    fn tables(&mut self) -> &mut PageTables {
        self
    }
}

impl Pages for PageWalk {
    fn tables(&mut self) -> &mut PageTables {
        self.tables()
    }

    fn keep_young(&mut self, id: TargetId, leaves: &mut dyn Iterator<Item = u64>) {
        self.keep_young(id, leaves);
    }
}

impl OpsSet {
    /// The set's name, as in `--ops`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PageWalk(_) => "pagewalk",
            Self::Idle(_) => "idle",
            Self::Kdamond(_) => "kdamond",
            Self::Smaps(_) => "smaps",
        }
    }

    /// Takes in a target.
    ///
    /// # Errors
    ///
    /// If the set cannot look at it: it is gone, or something is not permitted.
    pub fn attach(&mut self, target: &Target) -> Result<(), SetError> {
        match (self, &target.memory) {
            (Self::PageWalk(set), None) => set.add_target(target.id, target.pid),
            (Self::Idle(set), None) => set.add_target(target.id, target.pid),
            (Self::Idle(set), Some(memory)) => {
                set.add_memory(target.id, memory.clone());
                Ok(())
            }
            (Self::Kdamond(set), None) => set.add_target(target.id, target.pid),
            (Self::Kdamond(set), Some(memory)) => {
                let ranges = memory.ranges(&Proc::default()).map_err(Error::by_class)?;
                set.add_memory(target.id, ranges)
            }
            (Self::Smaps(set), None) => set.add_target(target.id, target.pid),
            (set, Some(memory)) => Err(SetError::new(
                SetKind::NotSupported,
                format!("operations set `{}` cannot watch physical memory", set.name()),
                format!("watch {memory}"),
                "it looks at the memory of processes",
                "use `idle` or `kdamond`",
            )),
        }
    }

    /// Lets a target go.
    pub fn detach(&mut self, id: TargetId) {
        match self {
            Self::PageWalk(set) => set.remove_target(id),
            Self::Idle(set) => set.remove_target(id),
            Self::Kdamond(set) => set.remove_target(id),
            Self::Smaps(set) => set.remove_target(id),
        }
    }

    /// The sampling method that the set takes, if `wanted` is asked for.
    #[must_use]
    pub const fn method(&self, wanted: Method) -> Method {
        match self {
            // The kernel samples.
            Self::Kdamond(_) => Method::Observed,
            // A clear hits the whole process, so a page cannot be kept armed while another is
            // sampled.
            Self::Smaps(_) => Method::Resample,
            Self::PageWalk(_) | Self::Idle(_) => wanted,
        }
    }

    /// The sampling method of a command that was not told any, if `usual` is its usual one.
    #[must_use]
    pub const fn usual_method(&self, usual: Method) -> Method {
        match (self, usual) {
            // A mark costs a walk of the page tables per page, so a census of all memory takes
            // longer than by `pagewalk`.
            (Self::Idle(_), Method::Census) => Method::FirstTouch,
            _ => self.method(usual),
        }
    }

    /// The shortest sample interval for which the set answers every question, in µs.
    #[must_use]
    pub fn least_sample_us(&self) -> u64 {
        match self {
            Self::PageWalk(_) | Self::Idle(_) | Self::Kdamond(_) => 1,
            Self::Smaps(set) => set.limits().sample_us(),
        }
    }

    /// Whether a page that was made old shows its next access at once. Else that may take until the
    /// processor drops the page's translation from its TLB.
    #[must_use]
    pub const fn sees_at_once(&self) -> bool {
        match self {
            Self::PageWalk(_) | Self::Smaps(_) => true,
            Self::Idle(_) | Self::Kdamond(_) => false,
        }
    }

    /// The set that runs in the kernel, if it is that.
    pub const fn kdamond(&mut self) -> Option<&mut Kdamond> {
        match self {
            Self::Kdamond(set) => Some(set),
            _ => None,
        }
    }

    fn set(&mut self) -> &mut dyn Operations {
        match self {
            Self::PageWalk(set) => set.as_mut(),
            Self::Idle(set) => set.as_mut(),
            Self::Kdamond(set) => set.as_mut(),
            Self::Smaps(set) => set.as_mut(),
        }
    }
}

impl SchemeOps for OpsSet {
    fn page_view(&mut self) -> Option<PageView<'_>> {
        match self {
            Self::PageWalk(walk) => Some(PageView::Tables(walk.as_mut())),
            Self::Kdamond(set) => set.tables().map(|tables| PageView::Tables(tables)),
            Self::Idle(idle) => Some(PageView::Marks(idle.folios())),
            Self::Smaps(_) => None,
        }
    }

    fn cleared_shift(&self, check: &Check) -> u8 {
        match self {
            // The folio may be larger than the leaf: the largest is a huge page.
            Self::Idle(idle) if idle.is_large(check.target, check.addr) => check.leaf_shift.max(21),
            _ => check.leaf_shift,
        }
    }

    fn cleared_pages(&self, unit: &UnitCheck) -> PageBits {
        let cleared = unit.young.and(unit.pages).minus(unit.stuck);
        match self {
            // All of a large folio has one mark.
            Self::Idle(idle) => {
                let large = idle.large_pages(unit);
                if large.and(cleared).is_empty() { cleared } else { cleared.or(large) }
            }
            _ => cleared,
        }
    }

    fn units_are_proof(&self) -> bool {
        self.sees_at_once()
    }

    fn keep_evidence(&mut self) {
        match self {
            Self::PageWalk(walk) => {
                walk.set_fallback_limit(0);
                walk.set_marker(None);
            }
            Self::Kdamond(set) => set.look_at_pages(),
            Self::Idle(_) | Self::Smaps(_) => {}
        }
    }
}

impl Operations for OpsSet {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.set().prepare(batch);
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.set().check(batch);
    }

    fn has_units(&self) -> bool {
        match self {
            Self::PageWalk(set) => set.has_units(),
            Self::Idle(set) => set.has_units(),
            Self::Kdamond(_) | Self::Smaps(_) => false,
        }
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.set().prepare_units(batch);
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.set().check_units(batch);
    }

    fn reclaimed(&mut self, target: TargetId) -> Reclaimed<'_> {
        self.set().reclaimed(target)
    }

    fn others_clear(&mut self) -> ClearRate {
        self.set().others_clear()
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        self.set().update(target, maps)
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        self.set().target_valid(target)
    }

    fn next_window(&mut self) -> Option<Observation> {
        self.set().next_window()
    }

    fn observe(&mut self, target: TargetId, regions: &mut Vec<Observed>) {
        self.set().observe(target, regions);
    }
}
