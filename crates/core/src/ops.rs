//! The seam between the core and whatever can look at memory: the operations set.
//!
//! A set answers two questions about single pages, in batches: *make it old*
//! ([`Operations::prepare`]) and *was it touched since* ([`Operations::check`]). It keeps no
//! policy: which pages, when, and how often is the core's business, so every set is scored on the
//! same decisions.

use alloc::vec::Vec;

use crate::addr::AddrRange;
use crate::scheme::{Action, Counters, Metric, NodeLevel, Scheme};
use crate::time::Time;

/// A target's name inside one context. The driver gives them out and never uses one twice, so that
/// a reused pid can never be taken for its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TargetId(pub u32);

/// What an operations set found out about one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageState {
    /// Not answered: the set could not look (a failing check). Counts as no evidence.
    #[default]
    Unknown,
    /// No page is mapped there. Counts as not accessed.
    Absent,
    /// Mapped, and not touched since it was last made old.
    Old,
    /// Mapped and touched. From `prepare`: touched, and still young (nothing was cleared).
    Young,
    /// From `prepare` only: it was young and is old now. This is what costs.
    Cleared,
    /// Touched, but this set cannot make it old (shared, locked): no evidence from here.
    Unresolved,
}

/// One page that the core wants looked at or made old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Whose page.
    pub target: TargetId,
    /// Any address inside the page.
    pub addr: u64,
    /// In: how the caller last saw it. Out: what was found.
    pub state: PageState,
    /// Out: log2 of the size in bytes of the page-table leaf that maps it: 12, 21 or 30.
    pub leaf_shift: u8,
    /// A number of the caller's own, to find the page again in its tables. Whoever answers leaves
    /// it as it is. The core has no use for it, and its checks have 0.
    pub tag: u32,
}

impl Check {
    /// A question about the page at `addr` of `target`, with the caller's own number.
    #[must_use]
    pub const fn new(target: TargetId, addr: u64, tag: u32) -> Self {
        Self { target, addr, state: PageState::Unknown, leaf_shift: 12, tag }
    }
}

/// What a target's address space looks like now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateError {
    /// The target is gone for good.
    Gone,
    /// It is there but could not be read this time, or maps nothing yet; ask again later.
    NotNow,
}

/// What a scheme wants done to one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// Index of the scheme in the context.
    pub scheme: usize,
    /// What to do.
    pub action: Action,
    /// To whose memory.
    pub target: TargetId,
    /// Where.
    pub range: AddrRange,
    /// The region's samples per window.
    pub nr_accesses: u32,
    /// The region's windows since it looks like this, or since the last action if that is less.
    pub age: u32,
    /// Whether a core filter let it in, so that the ops filters are not asked.
    pub bypass_filters: bool,
    /// What the quota is charged, in bytes. `strict` only.
    pub charged: u64,
    /// Ask the kernel for no more than so many bytes. Not `strict`: there the range is short
    /// enough.
    pub max_bytes: u64,
    /// Stop between two batches after so much time, in ns.
    pub max_ns: u64,
}

/// What came of a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Bytes from the start of the range that are settled. 0: nothing was done, ask again in the
    /// next pass (there is no evidence yet, or no time was left). Not `strict`.
    pub covered: u64,
    /// With `covered` 0: so many bytes at the start are to be left alone for now; what follows, if
    /// anything does, is asked about in the same pass. Not `strict`.
    pub skip: u64,
    /// Bytes that the kernel was asked to act on: what the quota is charged. Not `strict`.
    pub asked: u64,
    /// Bytes acted on.
    pub applied: u64,
    /// Bytes that the ops filters let in.
    pub passed: u64,
    /// Bytes that were refused because the destination had no room.
    pub no_room: u64,
    /// Time that it took, in ns.
    pub ns: u64,
}

/// One fact about the machine that a context wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Index of the scheme that wants it.
    pub scheme: usize,
    /// What; totals are asked for as they are, since any start.
    pub metric: Metric,
    /// The answer; `None`: not known now.
    pub value: Option<u64>,
    /// Of a metric on all of a node's memory, also how full that node is; `None`: not known, or not
    /// of a node.
    pub level: Option<NodeLevel>,
}

impl Measure {
    /// A question that is not answered yet.
    #[must_use]
    pub const fn new(scheme: usize, metric: Metric) -> Self {
        Self { scheme, metric, value: None, level: None }
    }
}

/// A region that a scheme could act on, of which the context wants to know how much is on the
/// scheme's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eligible {
    /// Index of the scheme that wants it.
    pub scheme: usize,
    /// Whose memory.
    pub target: TargetId,
    /// Where.
    pub range: AddrRange,
    /// The node.
    pub nid: u32,
    /// The answer, an estimate, in bytes. Comes as all of the range.
    pub bytes: u64,
}

/// One region that the operations set made out itself, at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// Where, in bytes of the target's address space.
    pub range: AddrRange,
    /// Positive samples of the window.
    pub nr_accesses: u32,
    /// For how many windows it has looked like this.
    pub age: u32,
}

/// A window that the operations set observed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observation {
    /// When it began; as far as the set knows.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Windows between this one and the one before that nobody saw.
    pub lost: u64,
    /// Whether the next one is there already.
    pub more: bool,
    /// Its sample interval, in µs.
    pub sample_us: u64,
    /// Its length by the attributes, in µs.
    pub aggr_us: u64,
}

/// An operations set: the only thing that touches the memory (or the simulation) that is watched.
///
/// Errors never stop a batch: a page that could not be looked at stays [`PageState::Unknown`].
pub trait Operations {
    /// Makes every page of the batch old, and says in `state` how it was found: [`PageState::Old`]
    /// (nothing was done), [`PageState::Cleared`], [`PageState::Absent`] or
    /// [`PageState::Unresolved`].
    fn prepare(&mut self, batch: &mut [Check]);

    /// Looks at every page of the batch and changes nothing: [`PageState::Old`],
    /// [`PageState::Young`], [`PageState::Absent`] or [`PageState::Unresolved`].
    fn check(&mut self, batch: &mut [Check]);

    /// Writes the target's mappings (sorted, not overlapping, page-aligned) into `maps`, which
    /// comes empty. The core decides which gaps to leave out.
    ///
    /// # Errors
    ///
    /// See [`UpdateError`]; `maps` is ignored then.
    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError>;

    /// Whether the target still exists.
    fn target_valid(&mut self, target: TargetId) -> bool;

    /// [`Method::Observed`](crate::Method::Observed) only: goes on to the next finished window, if
    /// there is one. A set that watches single pages has none.
    fn next_window(&mut self) -> Option<Observation> {
        None
    }

    /// Writes the target's regions of that window, in address order, into `regions`, which comes
    /// empty. Nothing: nothing is known of the target.
    fn observe(&mut self, target: TargetId, regions: &mut Vec<Observed>) {
        let _ = (target, regions);
    }

    /// Does what a scheme wants. A set that cannot act does nothing, and settles all of the range:
    /// as in the kernel, where an action that a set does not know costs quota and has no effect.
    fn apply(&mut self, request: &Request, scheme: &Scheme) -> Applied {
        let _ = scheme;
        Applied { covered: request.range.len(), ..Applied::default() }
    }

    /// Hears that the schemes which were committed last are in force from now on, before it is
    /// asked to apply one of them. `before` is what those before them had counted, by index.
    fn schemes_committed(&mut self, before: &[Counters]) {
        let _ = before;
    }

    /// Says of each range how many bytes are on the node that is asked about; what it does not know
    /// stays.
    fn eligible(&mut self, ranges: &mut [Eligible]) {
        let _ = ranges;
    }

    /// Answers what it can of `measures`; the rest stays `None`.
    fn measure(&mut self, measures: &mut [Measure]) {
        let _ = measures;
    }
}
