//! The operations set: the interface between the core and the code that looks at memory.
//!
//! A set answers two questions about single pages, in batches: *make it old*
//! ([`Operations::prepare`]) and *was it touched since* ([`Operations::check`]). It has no policy.
//! The core decides which pages to ask about, when, and how often. So every set is measured on the
//! same decisions.

use alloc::vec::Vec;

use crate::addr::AddrRange;
use crate::scheme::{Applied, Counters, Eligible, Measure, Request, Scheme};
use crate::target::TargetId;
use crate::time::Time;
use crate::unit::UnitCheck;

/// What an operations set found out about one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageState {
    /// The set gave no answer, for example because the check failed. Counts as no evidence.
    #[default]
    Unknown,
    /// No page is mapped there. Counts as not accessed.
    Absent,
    /// Mapped, and not touched since it was last made old.
    Old,
    /// Mapped and touched. From `prepare`: touched, and still young, because nothing was cleared.
    Young,
    /// From `prepare` only: the page was young and is old now. Clearing the accessed bit is the
    /// expensive case.
    Cleared,
    /// Touched, but this set cannot make it old, for example because it is shared or locked. Counts
    /// as no evidence.
    Unresolved,
}

/// One page that the core wants looked at or made old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Whose page.
    pub target: TargetId,
    /// Any address inside the page.
    pub addr: u64,
    /// In: the state that the caller last saw. Out: what was found.
    pub state: PageState,
    /// Out: log2 of the size in bytes of the page-table leaf that maps it: 12, 21 or 30.
    pub leaf_shift: u8,
    /// A number by which the caller finds the page again in its tables. The operations set does not
    /// change it. The core does not use it, and its checks have 0.
    pub tag: u32,
}

impl Check {
    /// A question about the page at `addr` of `target`, with the caller's own number.
    #[must_use]
    pub const fn new(target: TargetId, addr: u64, tag: u32) -> Self {
        Self { target, addr, state: PageState::Unknown, leaf_shift: 12, tag }
    }
}

/// Why the mappings of a target could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateError {
    /// The target is gone for good.
    Gone,
    /// The target is there, but could not be read this time or maps nothing yet. The core asks
    /// again later.
    NotNow,
}

/// One region of a window that the operations set observed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// Where, in bytes of the target's address space.
    pub range: AddrRange,
    /// Positive samples of the window.
    pub nr_accesses: u32,
    /// Number of windows for which the region has looked like this.
    pub age: u32,
    /// Whether pages of it are known to be in use, whatever the count says; see
    /// [`Region::in_use`](crate::region::Region::in_use).
    pub in_use: bool,
}

/// A window that the operations set observed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observation {
    /// When the window began, as far as the set knows.
    pub start: Time,
    /// When the window ended.
    pub end: Time,
    /// Number of windows that were lost between the one before and this one.
    pub lost: u64,
    /// Whether the next window is there already.
    pub more: bool,
    /// The window's sample interval, in µs.
    pub sample_us: u64,
    /// The window's length by the set's attributes, in µs.
    pub aggr_us: u64,
}

/// What the kernel is reclaiming of a target's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaimed<'a> {
    /// Nothing, as far as is known.
    Nothing,
    /// Nothing any more, and it is not to be expected soon: there is room for more memory.
    Over,
    /// Memory in these ranges only, sorted and not overlapping: mapped files, say.
    Part(&'a [AddrRange]),
    /// Any of it.
    All,
}

/// How often others clear the accessed bit of a page, in clears per page of 4 KiB and second: the
/// kernel's reclaim and DAMON, or another monitor. All 0: nothing is known of such.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClearRate {
    /// The estimate.
    pub mean: f64,
    /// Lower end of its 90 % interval.
    pub lo: f64,
    /// Upper end of that interval.
    pub hi: f64,
}

/// An operations set: the only code that touches the watched memory, or the simulation of it.
///
/// Errors never stop a batch: a page that could not be looked at stays [`PageState::Unknown`].
pub trait Operations {
    /// Makes every page of the batch old, and sets `state` to how it was found: [`PageState::Old`]
    /// (nothing was done), [`PageState::Cleared`], [`PageState::Absent`] or
    /// [`PageState::Unresolved`].
    fn prepare(&mut self, batch: &mut [Check]);

    /// Looks at every page of the batch without changing it, and sets `state` to what was found:
    /// [`PageState::Old`], [`PageState::Young`], [`PageState::Absent`] or
    /// [`PageState::Unresolved`].
    fn check(&mut self, batch: &mut [Check]);

    /// Whether the set answers about whole units, as [`Method::Census`](crate::Method::Census)
    /// needs.
    fn has_units(&self) -> bool {
        false
    }

    /// Makes the pages of each unit old, and sets its answers. Units are sorted by target and
    /// address.
    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        let _ = batch;
    }

    /// Looks at every unit of the batch without changing it, and sets its answers. Units are sorted
    /// by target and address.
    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        let _ = batch;
    }

    /// Writes the target's mappings (sorted, not overlapping, page-aligned) into `maps`, which is
    /// empty at the call. The core decides which gaps to leave out.
    ///
    /// # Errors
    ///
    /// See [`UpdateError`]; `maps` is ignored then.
    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError>;

    /// What the kernel is reclaiming of this target's memory, so that it needs the accessed bits
    /// itself. Asked after each update, for the method `census` only. A set that cannot know says
    /// nothing.
    fn reclaimed(&mut self, _target: TargetId) -> Reclaimed<'_> {
        Reclaimed::Nothing
    }

    /// How often others clear accessed bits here, as far as the set can measure it. Asked after
    /// each update, for the method `census` only.
    fn others_clear(&mut self) -> ClearRate {
        ClearRate::default()
    }

    /// Whether the target still exists.
    fn target_valid(&mut self, target: TargetId) -> bool;

    /// [`Method::Observed`](crate::Method::Observed) only: goes on to the next finished window, if
    /// there is one. A set that watches single pages has none.
    fn next_window(&mut self) -> Option<Observation> {
        None
    }

    /// Writes the target's regions of that window, in address order, into `regions`, which is empty
    /// at the call. No region means that nothing is known of the target.
    fn observe(&mut self, target: TargetId, regions: &mut Vec<Observed>) {
        let _ = (target, regions);
    }

    /// Carries out a request of a scheme. A set that cannot act does nothing and settles all of the
    /// range. In the kernel, too, an action that a set does not know costs quota and has no effect.
    fn apply(&mut self, request: &Request, scheme: &Scheme) -> Applied {
        let _ = scheme;
        Applied { covered: request.range.len(), ..Applied::default() }
    }

    /// Is called when the schemes committed last take effect, before the first request of one of
    /// them. `before` has the counters of the schemes until then, by index.
    fn schemes_committed(&mut self, before: &[Counters]) {
        let _ = before;
    }

    /// Sets for each range how many bytes are on the node asked about. An answer that is not known
    /// stays as it is.
    fn eligible(&mut self, ranges: &mut [Eligible]) {
        let _ = ranges;
    }

    /// Answers those of `measures` that it can. The others stay `None`.
    fn measure(&mut self, measures: &mut [Measure]) {
        let _ = measures;
    }
}
