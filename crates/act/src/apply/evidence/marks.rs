//! Looks at pages of processes by marks of idle page frames, and makes pages old by setting marks.
//! This gives evidence on kernels where page tables cannot be read.
//!
//! A page is young unless its folio's mark is set, so a page that was never marked is young. A mark
//! covers all processes that map the folio. Pages that several processes map always count as young
//! here, because no advice would take them. Marking flushes no TLB, so memory that is armed this
//! way is held until [`Translations`](crate::apply::evidence::translations) were dropped.
//!
//! Marks do not tell how much of a huge page is touched, because a folio has one mark.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use isotherm_core::{AddrRange, PageState, TargetId};
use isotherm_pages::idle::{Ask, Folios};
use isotherm_pages::places::Places;
use isotherm_sys::clock::now;

use crate::Process;
use crate::apply::evidence::look::{Look, Seen};
use crate::apply::pages::{Bits, GRANULE, granules};

/// CPU time that gathering evidence by marks may take, in ns per second, and what of that may be
/// saved up: enough for some GiB that turn cold together. One pass is limited besides, as the
/// monitor samples nothing meanwhile.
pub(in crate::apply) const MARK_NS_PER_S: u64 = 20_000_000;
pub(in crate::apply) const MARK_MOST_NS: u64 = 1_000_000_000;
/// Assumed time to mark a MiB, in ns, before it is measured. It is high, so that the first piece is
/// small.
pub(in crate::apply) const MARK_NS_PER_MIB: u64 = 5_000_000;
/// Pages that are asked about at once.
const PIECE: usize = 8192;

/// Looks at one process.
#[derive(Debug)]
pub(in crate::apply) struct Marks<'a> {
    folios: &'a mut Folios,
    process: Arc<Process>,
}

/// A page that is mapped.
#[derive(Debug, Clone, Copy)]
struct Page {
    addr: u64,
    frame: Option<u64>,
    is_exclusive: bool,
}

impl<'a> Marks<'a> {
    pub(in crate::apply) const fn new(folios: &'a mut Folios, process: Arc<Process>) -> Self {
        Self { folios, process }
    }

    /// The parts of a range where something is mapped. A range can span a whole address space.
    fn runs(&self, range: AddrRange) -> io::Result<Vec<AddrRange>> {
        let mut runs = Vec::new();
        self.process.page_runs(range, &mut |run, kind| {
            if kind.is_present() && !kind.is_zero() {
                runs.push(run);
            }
        })?;
        Ok(runs)
    }

    /// Appends the pages of a range that are mapped.
    fn pages(&self, range: AddrRange, pages: &mut Vec<Page>) -> io::Result<()> {
        self.process.page_entries(range, &mut |addr, entry| {
            if entry.is_present() {
                let is_exclusive = entry.is_exclusive();
                pages.push(Page { addr, frame: entry.frame(), is_exclusive });
            }
        })
    }

    /// Asks about all mapped pages of a range, and calls `f` with what is found, and what was found
    /// before `marking`.
    fn ask(
        &mut self,
        range: AddrRange,
        marking: bool,
        f: &mut dyn FnMut(u64, Seen, Bits),
    ) -> io::Result<()> {
        let mut pages: Vec<Page> = Vec::new();
        for (start, part) in self.runs(range)?.into_iter().flat_map(granules) {
            let begins = pages.last().is_some_and(|last| last.addr < start);
            if begins && pages.len() >= PIECE {
                self.ask_about(&pages, marking, f)?;
                pages.clear();
            }
            self.pages(part, &mut pages)?;
        }
        self.ask_about(&pages, marking, f)
    }

    fn ask_about(
        &mut self,
        pages: &[Page],
        marking: bool,
        f: &mut dyn FnMut(u64, Seen, Bits),
    ) -> io::Result<()> {
        let asks = (0_u32..).zip(pages).filter_map(|(nr, page)| Some(Ask::new(page.frame?, nr)));
        let mut asks: Vec<Ask> = asks.collect();
        if marking {
            self.folios.mark(&mut asks, now())?;
        } else {
            self.folios.look(&mut asks)?;
        }
        answer(pages, &asks, f);
        Ok(())
    }
}

/// Turns answers about frames into what is seen of granules.
fn answer(pages: &[Page], asks: &[Ask], f: &mut dyn FnMut(u64, Seen, Bits)) {
    let mut granules_seen: BTreeMap<u64, (Seen, Bits, u64)> = BTreeMap::new();
    let mut is_known = vec![false; pages.len()];
    for ask in asks {
        let nr = ask.nr as usize;
        let Some(page) = pages.get(nr) else { continue };
        let marked = matches!(ask.state, PageState::Old | PageState::Cleared);
        is_known[nr] = marked && page.is_exclusive;
        let (start, bit) = bit_of(page.addr);
        let (seen, before, in_place) = granules_seen.entry(start).or_default();
        if ask.state != PageState::Old {
            *before = before.or(bit);
        }
        // Part of one folio of 2 MiB that lies as the granule does.
        let of_huge = ask.head % 512 == 0 && ask.frame == ask.head + (page.addr - start) / 4096;
        *in_place += u64::from(of_huge);
        seen.present = seen.present.or(bit);
    }
    for (page, is_known) in pages.iter().zip(is_known) {
        let (start, bit) = bit_of(page.addr);
        let (seen, ..) = granules_seen.entry(start).or_default();
        seen.present = seen.present.or(bit);
        if !is_known {
            seen.young = seen.young.or(bit);
        }
    }
    for (start, (mut seen, before, in_place)) in granules_seen {
        seen.huge = in_place == 512;
        f(start, seen, before);
    }
}

/// The granule of an address, and its bit there.
fn bit_of(addr: u64) -> (u64, Bits) {
    let start = addr / GRANULE * GRANULE;
    (start, Bits::of(start, AddrRange::new(addr, addr + 4096)))
}

impl Look for Marks<'_> {
    fn look(
        &mut self,
        _: TargetId,
        range: AddrRange,
        f: &mut dyn FnMut(u64, Seen),
    ) -> io::Result<()> {
        self.ask(range, false, &mut |start, seen, _| f(start, seen))
    }

    fn marks(&self) -> bool {
        true
    }

    fn mark(
        &mut self,
        _: TargetId,
        range: AddrRange,
        f: &mut dyn FnMut(u64, Seen, Bits),
    ) -> Option<io::Result<()>> {
        Some(self.ask(range, true, f))
    }

    fn on_node(
        &mut self,
        _: TargetId,
        range: AddrRange,
        places: &Places,
        node: u32,
        f: &mut dyn FnMut(u64, Seen, Bits),
    ) -> io::Result<()> {
        let (mut all, mut pages) = (BTreeMap::new(), Vec::new());
        self.ask(range, false, &mut |start, seen, _| {
            all.insert(start, seen);
        })?;
        let mut here = places.is_on(node);
        for (start, part) in granules(range) {
            let Some(seen) = all.get(&start) else { continue };
            pages.clear();
            self.pages(part, &mut pages)?;
            let there = pages.iter().filter(|page| page.frame.is_some_and(&mut here));
            let bits = there.fold(Bits::default(), |bits, page| bits.or(bit_of(page.addr).1));
            f(start, *seen, bits);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_old_only_if_its_mark_stands_and_nobody_else_has_it() {
        let states = [
            PageState::Old,
            PageState::Cleared,
            PageState::Young,
            PageState::Unresolved,
            PageState::Unknown,
        ];
        for (is_exclusive, young) in [(true, 4), (false, 6)] {
            let page =
                |nr: u64| Page { addr: GRANULE + nr * 4096, frame: Some(100 + nr), is_exclusive };
            let mut pages: Vec<Page> = (0..5).map(page).collect();
            pages.push(Page { frame: None, ..page(5) });
            let asks: Vec<Ask> = (0_u32..)
                .zip(states)
                .map(|(nr, state)| Ask { state, ..Ask::new(100 + u64::from(nr), nr) })
                .collect();
            let mut found = Vec::new();
            answer(&pages, &asks, &mut |start, seen, before| {
                found.push((
                    start,
                    seen.present.count(),
                    seen.young.count(),
                    before.count(),
                    seen.huge,
                ));
            });
            assert_eq!(found, [(GRANULE, 6, young, 4, false)], "alone: {is_exclusive}");
        }
    }

    #[test]
    fn a_huge_page_is_one_that_lies_as_its_granule_does() {
        for (name, first, huge) in [("aligned", 1024, true), ("not aligned", 1025, false)] {
            let page =
                |nr: u64| Page { addr: nr * 4096, frame: Some(first + nr), is_exclusive: true };
            let pages: Vec<Page> = (0..512).map(page).collect();
            let asks: Vec<Ask> = (0_u32..512)
                .map(|nr| Ask {
                    head: first,
                    state: PageState::Old,
                    ..Ask::new(first + u64::from(nr), nr)
                })
                .collect();
            answer(&pages, &asks, &mut |_, seen, _| assert_eq!(seen.huge, huge, "{name}"));
        }
    }
}
