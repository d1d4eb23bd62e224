//! Dense reads: every page of a range, at the price of one copy per last-level table.

use std::io;

use isotherm_core::{AddrRange, TargetId};

use super::PageWalk;
use super::entry::Entry;
use super::program::MAX_TABLES;

/// Bytes that one last-level table maps.
const TABLE: u64 = 2 << 20;
/// The level in an entry's top byte for what a last-level table holds.
const LAST_LEVEL: u64 = 1 << 56;
const HARDWARE: u64 = (1 << 52) - 1;

impl PageWalk {
    /// Calls `each` with the start address and the entry of every leaf that is mapped in `range`,
    /// in address order. Changes nothing.
    ///
    /// A huge leaf comes once, with its own start, which may be before the range's. Holes do not
    /// come. An unknown target maps nothing.
    ///
    /// # Errors
    ///
    /// What the kernel says about running the program.
    pub fn dense(
        &mut self,
        target: TargetId,
        range: AddrRange,
        each: &mut dyn FnMut(u64, Entry),
    ) -> io::Result<()> {
        let Some(pgd) = self.space(target).map(|space| space.resolved.pgd) else { return Ok(()) };
        let end = range.end.min(self.user_end);
        let mut start = range.start & !(TABLE - 1);
        // Leaves below this were told already: a 1 GiB leaf shows in 512 slots.
        let mut told = 0;
        while start < end {
            let left = (end - start).div_ceil(TABLE);
            let nr = usize::try_from(left).unwrap_or(MAX_TABLES).min(MAX_TABLES);
            let tables = self.kernel.dense(pgd, start, nr)?;
            let mut slot = start;
            for (mark, table) in tables.slots() {
                match table {
                    Some(table) => table_pages(slot, table, range, each),
                    None if mark.is_present() => {
                        let leaf = slot & !((1 << mark.shift()) - 1);
                        if leaf >= told {
                            each(leaf, mark);
                            told = leaf + (1 << mark.shift());
                        }
                    }
                    None => {}
                }
                slot += TABLE;
                if table.is_none() && mark.shift() > 21 {
                    // A hole or leaf of a GiB or more: what follows in it says the same.
                    let size = 1_u64 << mark.shift();
                    slot = slot.max(((slot - TABLE) & !(size - 1)).saturating_add(size));
                    break;
                }
            }
            start = slot;
        }
        Ok(())
    }
}

fn table_pages(slot: u64, table: &[u64], range: AddrRange, each: &mut dyn FnMut(u64, Entry)) {
    for (nr, &raw) in table.iter().enumerate() {
        let addr = slot + ((nr as u64) << 12);
        let entry = Entry(raw & HARDWARE | LAST_LEVEL);
        if entry.is_present() && range.contains(addr) {
            each(addr, entry);
        }
    }
}
