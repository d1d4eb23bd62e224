//! Address space without a page, as far as page maps show it.
//!
//! Nobody has filled it yet, or it was paged out or dropped. It is no memory, so it is not cold,
//! though it is never touched. A page counts as absent only if the page maps of all targets that
//! map it show that it is not there: what another process has filled is memory. Of what no page map
//! tells nothing is known, so it counts as before.
//!
//! Page maps reach a record once a second, so they are hardly looked at more often.

use std::collections::BTreeMap;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, PageBits, Snapshot};

use crate::page_maps::PageMap;
use crate::scan::Scan;
use isotherm_record::once::Sharing;

/// The longest time between two looks, in ns.
const LOOK_NS: u64 = 1_000_000_000;

/// What is absent, by target.
#[derive(Debug, Default)]
pub(super) struct Absent {
    targets: BTreeMap<u32, Vec<AddrRange>>,
    first_ns: Option<u64>,
    next_ns: u64,
}

impl Absent {
    /// Looks at the page maps, but for a second after a look; at first more often, since most pages
    /// are seen for the first time then.
    pub(super) fn look(&mut self, scan: &Scan, s: &Snapshot, sharing: &Sharing) {
        if s.end.0 < self.next_ns {
            return;
        }
        let since_first = s.end.0.saturating_sub(*self.first_ns.get_or_insert(s.end.0));
        self.next_ns = s.end.0.saturating_add(since_first.min(LOOK_NS));
        let of = |map: Option<&PageMap>| map.map(gaps).unwrap_or_default();
        let all = scan.wanted(s).map(|(_, t)| (t.id.0, of(scan.pages.get(t.id))));
        self.targets = all.collect();
        if self.targets.len() > 1 {
            sharing.keep_filled(&mut self.targets);
        }
    }

    /// What is absent in a target.
    pub(super) fn of(&self, id: u32) -> Gaps<'_> {
        Gaps(self.targets.get(&id).map_or(&[], Vec::as_slice))
    }
}

/// What is absent in one target, in address order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gaps<'a>(&'a [AddrRange]);

impl Gaps<'_> {
    /// The bytes of a range that are absent.
    pub(super) fn bytes(self, range: AddrRange) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let first = self.0.partition_point(|gap| gap.end <= range.start);
        let inside = self.0[first..].iter().take_while(|gap| gap.start < range.end);
        inside.map(|gap| gap.overlap(&range)).sum()
    }
}

/// The address space of a target's units that holds no page, in address order.
fn gaps(map: &PageMap) -> Vec<AddrRange> {
    let mut out = Vec::new();
    for (start, unit) in &map.units {
        // A forged record may have a unit at the end of the address space.
        let fits = start.checked_add(512 * PAGE_SIZE).is_some();
        if fits && unit.present != PageBits::ALL {
            PageBits::ALL.minus(unit.present).append_to(*start, 0, &mut out);
        }
    }
    out
}
