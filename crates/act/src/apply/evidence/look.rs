//! Looking at every page of a range. Evidence and proof rest on this.

use std::io;

use isotherm_core::{AddrRange, TargetId};
use isotherm_ops::set::Pages;
use isotherm_pages::places::Places;
use isotherm_pages::tables::Dense;

use crate::apply::pages::{Bits, GRANULE};

/// What a look found in one granule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::apply) struct Seen {
    /// Pages that are mapped.
    pub(in crate::apply) present: Bits,
    /// Those of them that were touched since they were last made old.
    pub(in crate::apply) young: Bits,
    /// One huge page maps all of it.
    pub(in crate::apply) huge: bool,
}

impl Seen {
    /// The pages of it that can be acted on within `range`. A huge page counts only as a whole, or
    /// it would be split.
    pub(in crate::apply) fn inside(self, start: u64, range: AddrRange) -> Bits {
        let bits = Bits::of(start, range);
        if self.huge && bits != Bits::ALL { Bits::default() } else { bits.and(self.present) }
    }
}

/// Something that can look.
pub(in crate::apply) trait Look {
    /// Calls `f` with the start of each granule of `range` in which something is mapped, and what
    /// is seen there, in address order. Changes nothing.
    fn look(
        &mut self,
        target: TargetId,
        range: AddrRange,
        f: &mut dyn FnMut(u64, Seen),
    ) -> io::Result<()>;

    /// Whether pages are made old by marks ([`Look::mark`]).
    fn marks(&self) -> bool {
        false
    }

    /// Makes all pages of `range` old by marks, which count only after TLB entries were dropped.
    /// Calls `f` as [`Look::look`] does, with what is seen now and with the pages that are known to
    /// have been touched before. Returns `None` if this looker sets no marks; then advice has to
    /// make the pages old.
    fn mark(
        &mut self,
        _target: TargetId,
        _range: AddrRange,
        _f: &mut dyn FnMut(u64, Seen, Bits),
    ) -> Option<io::Result<()>> {
        None
    }

    /// Tells the operations set that the leaves at these addresses were young, and were then made
    /// old by advice from outside of the set. The set goes on reporting them as touched until it is
    /// asked to make them old itself.
    fn made_old(&mut self, _target: TargetId, _leaves: &mut dyn Iterator<Item = u64>) {}

    /// As [`Look::look`], and also tells which pages of each granule are on `node`. A looker that
    /// does not see frames cannot tell.
    fn on_node(
        &mut self,
        _target: TargetId,
        _range: AddrRange,
        _places: &Places,
        _node: u32,
        _f: &mut dyn FnMut(u64, Seen, Bits),
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Looks by page tables.
pub(in crate::apply) struct ByTables<'a>(pub(in crate::apply) &'a mut dyn Pages);

impl Look for ByTables<'_> {
    fn look(
        &mut self,
        target: TargetId,
        range: AddrRange,
        f: &mut dyn FnMut(u64, Seen),
    ) -> io::Result<()> {
        self.0.tables().dense_tables(target, range, &mut |start, found| {
            if let Some(seen) = seen(&found) {
                f(start, seen);
            }
        })
    }

    fn made_old(&mut self, target: TargetId, leaves: &mut dyn Iterator<Item = u64>) {
        self.0.keep_young(target, leaves);
    }

    fn on_node(
        &mut self,
        target: TargetId,
        range: AddrRange,
        places: &Places,
        node: u32,
        f: &mut dyn FnMut(u64, Seen, Bits),
    ) -> io::Result<()> {
        let mut here = places.is_on(node);
        self.0.tables().dense_tables(target, range, &mut |start, found| {
            let Some(seen) = seen(&found) else { return };
            let mut pages = Bits::default();
            match found {
                Dense::Table(table) => {
                    for (nr, entry) in table.entries().enumerate() {
                        let is = entry.is_present() && here(entry.frame() >> 12);
                        pages.0[nr / 64] |= u64::from(is) << (nr % 64);
                    }
                }
                // All frames of a huge page are in one block of memory.
                Dense::Huge(entry) if here(entry.frame() >> 12) => pages = Bits::ALL,
                Dense::Huge(_) => {}
            }
            f(start, seen, pages);
        })
    }
}

/// What is seen in a granule; none of 1 GiB at once: nothing here acts on that.
fn seen(found: &Dense<'_>) -> Option<Seen> {
    match found {
        Dense::Table(table) => {
            Some(Seen { present: Bits(table.present()), young: Bits(table.young()), huge: false })
        }
        Dense::Huge(entry) if 1 << entry.leaf_shift() == GRANULE => {
            let young = if entry.is_young() { Bits::ALL } else { Bits::default() };
            Some(Seen { present: Bits::ALL, young, huge: true })
        }
        Dense::Huge(_) => None,
    }
}
