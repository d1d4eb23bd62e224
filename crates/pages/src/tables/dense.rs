//! Dense reads: every page of a range, at the price of one copy per last-level table.
//!
//! One run of the program copies up to 64 tables (128 MiB of addresses) into the map, of neighbours
//! or of any list of places. The cost of the rest depends on how the caller takes the pages: as
//! bits (512 at a time) or one by one.

use std::io;

use isotherm_core::{AddrRange, TargetId};

use super::PageTables;
use super::entry::{Entry, bit};
use super::look::PageKey;
use super::program::code::MAX_TABLES;
use super::program::kernel::Kernel;

/// Bytes that one last-level table maps.
const TABLE: u64 = 2 << 20;
/// The level in an entry's top byte for what a last-level table holds.
const LAST_LEVEL: u64 = 1 << 56;
/// The bits of an entry that are the hardware's.
const HARDWARE: u64 = (1 << 52) - 1;

/// What was found at one place of a dense read.
#[derive(Debug)]
pub enum Dense<'a> {
    /// 2 MiB that single pages map, some of them or all.
    Table(Table<'a>),
    /// A huge page, of the size that its entry says.
    Huge(Entry),
}

/// The entries of a last-level table: 512 pages.
#[derive(Debug)]
pub struct Table<'a> {
    entries: &'a [u64],
}

impl Table<'_> {
    /// The entry of page `nr` of the 512.
    fn entry(raw: u64) -> Entry {
        Entry(raw & HARDWARE | LAST_LEVEL)
    }

    /// One bit per page, the first in the lowest bit of the first word: is one mapped?
    #[must_use]
    pub fn present(&self) -> [u64; 8] {
        self.bits(Entry::is_present)
    }

    /// One bit per page, as in [`Table::present`]: was it accessed since its bit was cleared?
    #[must_use]
    pub fn young(&self) -> [u64; 8] {
        self.bits(Entry::is_young)
    }

    /// Both at once, in one pass: [`Table::present`] and [`Table::young`]. What the kernel marks as
    /// no memory of the process is left out: its own page of zeros, which is mapped where pages
    /// were only read so far, and frames of devices. Their accessed bits cannot be cleared.
    #[must_use]
    pub fn present_and_young(&self) -> ([u64; 8], [u64; 8]) {
        let (mut present, mut young) = ([0; 8], [0; 8]);
        let words = present.iter_mut().zip(&mut young);
        for ((present, young), entries) in words.zip(self.entries.chunks_exact(64)) {
            // In most memory all neighbours are alike, which costs little to find out.
            let all = entries.iter().fold(u64::MAX, |all, raw| all & raw);
            let any = entries.iter().fold(0, |any, raw| any | raw);
            let are_there = all & bit::MAPPED != 0 && any & bit::SPECIAL == 0;
            if any & bit::MAPPED == 0 || are_there && (all ^ any) & bit::ACCESSED == 0 {
                *present = if are_there { u64::MAX } else { 0 };
                *young = if are_there && any & bit::ACCESSED != 0 { u64::MAX } else { 0 };
                continue;
            }
            for (nr, &raw) in entries.iter().enumerate() {
                let is_there = raw & bit::MAPPED != 0 && raw & bit::SPECIAL == 0;
                *present |= u64::from(is_there) << nr;
                *young |= u64::from(is_there && raw & bit::ACCESSED != 0) << nr;
            }
        }
        (present, young)
    }

    /// All entries, mapped or not.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().map(|&raw| Self::entry(raw))
    }

    fn bits(&self, is: impl Fn(Entry) -> bool) -> [u64; 8] {
        let mut out = [0; 8];
        for (word, entries) in out.iter_mut().zip(self.entries.chunks_exact(64)) {
            // The last entry ends up in the highest bit.
            for &raw in entries {
                *word = *word >> 1 | u64::from(is(Self::entry(raw))) << 63;
            }
        }
        out
    }
}

impl PageTables {
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
        self.dense_tables(target, range, &mut |start, found| match found {
            Dense::Huge(entry) => each(start, entry),
            Dense::Table(table) => {
                for (nr, entry) in (0..).zip(table.entries()) {
                    let addr = start + (nr << 12);
                    if entry.is_present() && range.contains(addr) {
                        each(addr, entry);
                    }
                }
            }
        })
    }

    /// As [`PageTables::dense`], but 2 MiB at a time: `each` gets the start (a multiple of 2 MiB)
    /// and whole tables, also where only a part of one is in `range`.
    ///
    /// # Errors
    ///
    /// What the kernel says about running the program.
    pub fn dense_tables(
        &mut self,
        target: TargetId,
        range: AddrRange,
        each: &mut dyn FnMut(u64, Dense<'_>),
    ) -> io::Result<()> {
        let Some(slot) = self.slot(target) else { return Ok(()) };
        self.dense_space(slot, range, each)
    }

    /// As [`PageTables::dense_tables`], of the address space in a slot.
    ///
    /// # Errors
    ///
    /// What the kernel says about running the program.
    pub fn dense_space(
        &mut self,
        slot: u16,
        range: AddrRange,
        each: &mut dyn FnMut(u64, Dense<'_>),
    ) -> io::Result<()> {
        if self.space(slot).is_none() {
            return Ok(());
        }
        let range = AddrRange::new(range.start, range.end.min(self.user_end));
        read_tables(&mut self.kernel, slot, range, each)
    }

    /// Reads the tables of a list of places, in any order, of any address spaces: the 2 MiB around
    /// each. `each` gets the number that stands beside the place. It is not called for holes. A
    /// huge leaf is told for every place in it.
    ///
    /// # Errors
    ///
    /// What the kernel says about running the program. Some places may have been told then.
    pub fn tables_at(
        &mut self,
        places: &[(PageKey, u32)],
        each: &mut dyn FnMut(u32, Dense<'_>),
    ) -> io::Result<()> {
        for chunk in places.chunks(MAX_TABLES) {
            let keys = chunk.iter().map(|(place, _)| Kernel::key(place.slot(), place.addr()));
            let tables = self.kernel.dense(keys)?;
            for ((place, nr), (mark, table)) in chunk.iter().zip(tables.slots()) {
                match table {
                    // The walk takes an address that no process has for another one.
                    _ if place.addr() >= self.user_end => {}
                    Some(entries) => each(*nr, Dense::Table(Table { entries })),
                    None if mark.is_present() => each(*nr, Dense::Huge(mark)),
                    None => {}
                }
            }
        }
        Ok(())
    }
}

/// Reads all tables of a range of user addresses of the address space in a slot.
fn read_tables(
    kernel: &mut Kernel,
    space: u16,
    range: AddrRange,
    each: &mut dyn FnMut(u64, Dense<'_>),
) -> io::Result<()> {
    let end = range.end;
    let mut start = range.start & !(TABLE - 1);
    // A 1 GiB leaf shows in 512 slots and is told once.
    let mut told = 0;
    while start < end {
        let left = (end - start).div_ceil(TABLE);
        let nr = usize::try_from(left).unwrap_or(MAX_TABLES).min(MAX_TABLES);
        let keys = (start..).step_by(2 << 20).take(nr);
        let tables = kernel.dense(keys.map(|addr| Kernel::key(space, addr)))?;
        let mut slot = start;
        for (mark, table) in tables.slots() {
            let size = 1_u64 << mark.shift().max(21);
            match table {
                Some(entries) => each(slot, Dense::Table(Table { entries })),
                None if mark.is_present() && slot >= told => {
                    let leaf = slot & !(size - 1);
                    each(leaf, Dense::Huge(mark));
                    told = leaf + size;
                }
                None => {}
            }
            if table.is_none() && size > TABLE {
                // What follows in this hole or leaf says the same.
                slot = (slot & !(size - 1)).saturating_add(size);
                break;
            }
            slot += TABLE;
        }
        start = slot;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_like_entries_are_told_as_their_entries_are() {
        let there = [bit::MAPPED & !1, bit::MAPPED, 1, 1 | bit::ACCESSED, 1 | bit::SPECIAL, 0];
        let mixed = |nr: usize, word: usize| match word {
            0..6 => there[word],
            // One of them is another one.
            6..12 => there[if nr == 40 { word - 6 } else { 3 }],
            12..18 => there[if nr == 63 { word - 12 } else { 2 }],
            _ => there[(nr * 7 + word) % 6] | if nr.is_multiple_of(3) { bit::ACCESSED } else { 0 },
        };
        for first in 0..24 {
            let entries: Vec<u64> = (0..512).map(|nr| mixed(nr % 64, first + nr / 64)).collect();
            let (present, young) = Table { entries: &entries }.present_and_young();
            for (nr, raw) in entries.iter().enumerate() {
                let is_there = raw & bit::MAPPED != 0 && raw & bit::SPECIAL == 0;
                let is_young = is_there && raw & bit::ACCESSED != 0;
                let of = |bits: [u64; 8]| bits[nr / 64] >> (nr % 64) & 1 == 1;
                assert_eq!((of(present), of(young)), (is_there, is_young), "{first}, {nr}");
            }
        }
    }
}
