//! Filters: which part of the matching memory a scheme leaves alone (R§4.9).
//!
//! There are two layers, each an ordered list. *Core* filters decide about whole regions and cut
//! them where needed. *Ops* filters are evaluated by the operations set, page by page, after the
//! region counted as tried. In both layers, the first filter that applies decides. If no filter
//! applies, memory is refused if the last filter of the layer lets memory in, and let in otherwise.
//! A region that a core filter lets in skips the ops filters.

use alloc::vec::Vec;

use crate::addr::{AddrRange, round_down};
use crate::region::Region;

/// What a filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// Core: addresses inside of this range, in bytes.
    Addr(AddrRange),
    /// Core: the target with this index in the context.
    Target(usize),
    /// Anonymous memory.
    Anon,
    /// Pages on an active LRU list.
    Active,
    /// Memory charged to a cgroup, named by whoever drives the context.
    Memcg(u32),
    /// Pages accessed since they were last made old.
    Young,
    /// Pages in folios of a size in bytes, both bounds inside.
    HugepageSize(u64, u64),
    /// Page cache that no process maps.
    Unmapped,
    /// Memory of a file. Not in the kernel.
    File,
    /// Shared mappings. Not in the kernel.
    Shared,
    /// Mappings whose name matches a pattern, named by whoever drives the context. Not in the
    /// kernel.
    Mapping(u32),
}

/// A filter (`struct damos_filter`, Linux 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Filter {
    /// What it looks at.
    pub kind: FilterKind,
    /// Whether the filter applies to memory of that kind, or to all other memory.
    pub matching: bool,
    /// Whether the memory that the filter applies to is let in, or refused.
    pub allow: bool,
}

impl Filter {
    /// Whether the core evaluates it.
    #[must_use]
    pub const fn is_core(&self) -> bool {
        matches!(self.kind, FilterKind::Addr(_) | FilterKind::Target(_))
    }

    /// Whether memory that is, or is not, of the filter's kind is let in. None if the filter does
    /// not apply.
    #[must_use]
    pub const fn decide(&self, is_of_kind: bool) -> Option<bool> {
        if is_of_kind == self.matching { Some(self.allow) } else { None }
    }
}

/// A scheme's filters, by layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Filters {
    /// Evaluated by the core.
    pub core: Vec<Filter>,
    /// Evaluated by the operations set.
    pub ops: Vec<Filter>,
}

impl Filters {
    /// Appends a filter to its layer.
    pub fn push(&mut self, filter: Filter) {
        if filter.is_core() { self.core.push(filter) } else { self.ops.push(filter) }
    }

    /// Whether a region to which no core filter applies is refused.
    #[must_use]
    pub fn core_default_reject(&self) -> bool {
        self.ops.is_empty() && self.core.last().is_some_and(|filter| filter.allow)
    }

    /// Whether a page to which no ops filter applies is refused.
    #[must_use]
    pub fn ops_default_reject(&self) -> bool {
        self.ops.last().is_some_and(|filter| filter.allow)
    }

    /// Whether the ops filters let memory in; `is` says whether it is of a kind.
    pub fn ops_allow(&self, mut is: impl FnMut(&FilterKind) -> bool) -> bool {
        let decided = self.ops.iter().find_map(|filter| filter.decide(is(&filter.kind)));
        decided.unwrap_or(!self.ops_default_reject())
    }

    /// What the core filters say about `region` of the context's target number `target`.
    #[must_use]
    pub fn core_verdict(&self, target: usize, region: AddrRange, min_sz: u64) -> Verdict {
        for filter in &self.core {
            let is_of_kind = match filter.kind {
                FilterKind::Target(index) => index == target,
                FilterKind::Addr(range) => match place(range, region, min_sz) {
                    Place::Inside => true,
                    Place::Outside => false,
                    Place::CutAt(addr) => return Verdict::CutAt(addr),
                },
                _ => continue,
            };
            match filter.decide(is_of_kind) {
                Some(true) => return Verdict::LetIn,
                Some(false) => return Verdict::Refused,
                None => {}
            }
        }
        if self.core_default_reject() { Verdict::Refused } else { Verdict::Undecided }
    }
}

/// What the core filters say about a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A filter lets the region in, and the ops filters are skipped.
    LetIn,
    /// No filter applies, and the default lets the region in.
    Undecided,
    /// Refused.
    Refused,
    /// One part is inside of a filter's range and one is not. The caller cuts here and asks again.
    CutAt(u64),
}

enum Place {
    Inside,
    Outside,
    CutAt(u64),
}

/// Where a region lies relative to the range of an address filter. The bounds of the range are
/// rounded down.
const fn place(range: AddrRange, region: AddrRange, min_sz: u64) -> Place {
    let (start, end) = (round_down(range.start, min_sz), round_down(range.end, min_sz));
    if region.end <= start || end <= region.start {
        Place::Outside
    } else if region.start < start {
        Place::CutAt(start)
    } else if end < region.end {
        Place::CutAt(end)
    } else {
        Place::Inside
    }
}

/// Bytes of a region that the core filters let in, without cutting it.
pub(crate) fn allowed_bytes(filters: &Filters, target: usize, region: &Region, min_sz: u64) -> u64 {
    let (mut rest, mut bytes) = (region.range, 0);
    while !rest.is_empty() {
        // A piece may need another cut, so it is cut until one verdict holds for all of it.
        let mut piece = rest;
        let verdict = loop {
            match filters.core_verdict(target, piece, min_sz) {
                Verdict::CutAt(addr) => piece.end = addr,
                verdict => break verdict,
            }
        };
        if verdict != Verdict::Refused {
            bytes += piece.len();
        }
        rest.start = piece.end;
    }
    bytes
}
