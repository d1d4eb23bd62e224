//! Looking at every page of a range: what evidence and proof stand on.

use std::io;

use isotherm_core::{AddrRange, TargetId};

use super::pages::{Bits, GRANULE};
use crate::pagewalk::{Dense, PageWalk};
use crate::tier::Places;

/// What a look found in one granule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// Pages that are mapped.
    pub(super) present: Bits,
    /// Those of them that were touched since they were last made old.
    pub(super) young: Bits,
    /// One huge page maps all of it.
    pub(super) huge: bool,
}

impl Seen {
    /// What of it can be acted on within `range`: a huge page only as a whole, or it would be split.
    pub(super) fn inside(self, start: u64, range: AddrRange) -> Bits {
        let bits = Bits::of(start, range);
        if self.huge && bits != Bits::ALL { Bits::default() } else { bits.and(self.present) }
    }
}

/// Something that can look.
pub(super) trait Look {
    /// Calls `f` with the start of each granule of `range` in which something is mapped, and what is seen
    /// there, in address order. Changes nothing.
    fn look(
        &mut self,
        target: TargetId,
        range: AddrRange,
        f: &mut dyn FnMut(u64, Seen),
    ) -> io::Result<()>;

    /// Calls `f` with the start of each granule of `range` and its pages that are on `node`. Changes nothing.
    /// What does not see frames cannot tell.
    fn on_node(
        &mut self,
        _target: TargetId,
        _range: AddrRange,
        _places: &Places,
        _node: u32,
        _f: &mut dyn FnMut(u64, Bits),
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Look for PageWalk {
    fn look(
        &mut self,
        target: TargetId,
        range: AddrRange,
        f: &mut dyn FnMut(u64, Seen),
    ) -> io::Result<()> {
        self.dense_tables(target, range, &mut |start, found| match found {
            Dense::Table(table) => {
                let present = Bits(table.present());
                f(start, Seen { present, young: Bits(table.young()), huge: false });
            }
            Dense::Huge(entry) if 1 << entry.leaf_shift() == GRANULE => {
                let young = if entry.is_young() { Bits::ALL } else { Bits::default() };
                f(start, Seen { present: Bits::ALL, young, huge: true });
            }
            // 1 GiB at once: nothing here acts on that.
            Dense::Huge(_) => {}
        })
    }

    fn on_node(
        &mut self,
        target: TargetId,
        range: AddrRange,
        places: &Places,
        node: u32,
        f: &mut dyn FnMut(u64, Bits),
    ) -> io::Result<()> {
        let here = |frame| places.node_of(frame) == Some(node);
        self.dense_tables(target, range, &mut |start, found| match found {
            Dense::Table(table) => {
                let mut pages = Bits::default();
                for (nr, entry) in table.entries().enumerate() {
                    let is = entry.is_present() && here(entry.frame() >> 12);
                    pages.0[nr / 64] |= u64::from(is) << (nr % 64);
                }
                f(start, pages);
            }
            // All frames of a huge page are in one block of memory.
            Dense::Huge(entry) if here(entry.frame() >> 12) => f(start, Bits::ALL),
            Dense::Huge(_) => {}
        })
    }
}
