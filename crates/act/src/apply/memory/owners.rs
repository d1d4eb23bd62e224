//! From frames to the processes that have them, so that these can be acted on.
//!
//! Only pages that exactly one process maps are used. The kernel skips shared pages when the advice
//! comes from another process, and taking a page from only one of its users would free nothing.
//! Each page is looked up once more in its process before it counts.

use std::collections::BTreeMap;
use std::io;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, Time};
use isotherm_host::proc::Proc;
use isotherm_pages::paddr::rmap::{self, Found};
use isotherm_sys::clock::now;

use crate::apply::pages::{Bits, GRANULE};
use crate::apply::target::Chosen;
use crate::{PageEntry, Process};

/// Bytes that cannot be reached through a process, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Unreached {
    /// No process maps them, or none whose page tables can be read: page cache, swap cache.
    pub(super) unmapped: u64,
    /// Several mappings share them.
    pub(super) shared: u64,
    /// They are Isotherm's own.
    pub(super) own: u64,
    /// They moved in the meantime, or their process cannot be acted on.
    pub(super) gone: u64,
}

/// Who maps some frames, as it was at one time.
#[derive(Debug, Default)]
pub(super) struct OwnerMap {
    /// Sorted.
    frames: Vec<u64>,
    found: Found,
    /// When it was made.
    pub(super) at: Time,
}

impl OwnerMap {
    /// Asks all page tables about `frames`, which are sorted.
    pub(super) fn make(frames: Vec<u64>) -> io::Result<Self> {
        let found = rmap::find(&Proc::default(), &frames)?;
        Ok(Self { frames, found, at: now() })
    }

    /// Whether all of these were asked about.
    pub(super) fn knows(&self, frames: &[u64]) -> bool {
        frames.iter().all(|frame| self.frames.binary_search(frame).is_ok())
    }

    /// Pages of processes, by pid, for frames that were asked about.
    pub(super) fn by_process(
        &self,
        frames: &[u64],
        out: &mut Unreached,
    ) -> BTreeMap<u32, Vec<(u64, u64)>> {
        let mut pages: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        let found = &self.found;
        for frame in frames {
            let Ok(nr) = self.frames.binary_search(frame) else {
                out.unmapped += PAGE_SIZE;
                continue;
            };
            match (found.mapped[nr], found.places[nr].first()) {
                (1, Some(place)) => {
                    let process = usize::try_from(place.process).unwrap_or(usize::MAX);
                    match found.processes.get(process) {
                        Some(owner) => {
                            pages.entry(owner.pid).or_default().push((place.addr, *frame));
                        }
                        None => out.gone += PAGE_SIZE,
                    }
                }
                (0, _) | (1, None) => out.unmapped += PAGE_SIZE,
                _ => out.shared += PAGE_SIZE,
            }
        }
        pages
    }
}

/// Selects the pages to act on: those that are still where they were and that no other process
/// maps.
pub(super) fn chosen(process: &Process, mut pages: Vec<(u64, u64)>, out: &mut Unreached) -> Chosen {
    pages.sort_unstable();
    let mut granules: BTreeMap<u64, Bits> = BTreeMap::new();
    let mut rest = pages.as_slice();
    while let Some(&(first, _)) = rest.first() {
        // Pages near each other are read at once.
        let near =
            rest.windows(2).take_while(|two| two[1].0 - two[0].0 <= 16 * PAGE_SIZE).count() + 1;
        let (run, behind) = rest.split_at(near);
        rest = behind;
        let last = run.last().map_or(first, |(addr, _)| *addr);
        let mut left = run.iter().peekable();
        let mut still = |addr: u64, entry: PageEntry| {
            if let Some((_, frame)) = left.next_if(|(wanted, _)| *wanted == addr) {
                if entry.frame() == Some(*frame) && entry.is_exclusive() {
                    let start = addr / GRANULE * GRANULE;
                    let bits = granules.entry(start).or_default();
                    *bits = bits.or(Bits::of(start, AddrRange::new(addr, addr + PAGE_SIZE)));
                } else if entry.is_present() && !entry.is_exclusive() {
                    out.shared += PAGE_SIZE;
                } else {
                    out.gone += PAGE_SIZE;
                }
            }
        };
        if process.page_entries(AddrRange::new(first, last + PAGE_SIZE), &mut still).is_err() {
            out.gone += run.len() as u64 * PAGE_SIZE;
        }
    }
    let mut chosen = Chosen::default();
    for (start, bits) in granules {
        // All of a granule may be one folio.
        chosen.push(start, bits, bits == Bits::ALL, u64::MAX);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_pages::paddr::rmap::{Owner, Place};

    #[test]
    fn only_pages_of_one_process_are_reached() {
        let owner = |pid| Owner { pid, name: String::new(), start_ticks: 0 };
        let place = |process, addr| Place { process, addr };
        let found = Found {
            processes: vec![owner(10), owner(20)],
            places: vec![
                vec![place(0, 4096)],
                vec![place(0, 8192), place(1, 8192)],
                vec![],
                vec![place(1, 4096)],
            ],
            mapped: vec![1, 2, 0, 1],
            ..Found::default()
        };
        let mut out = Unreached::default();
        let map = OwnerMap { frames: vec![5, 6, 7, 8], found, at: Time(0) };
        assert_eq!([map.knows(&[6, 8]), map.knows(&[6, 9])], [true, false]);
        let pages = map.by_process(&[5, 6, 7, 8], &mut out);
        assert_eq!(pages, BTreeMap::from([(10, vec![(4096, 5)]), (20, vec![(4096, 8)])]));
        assert_eq!(
            out,
            Unreached { unmapped: PAGE_SIZE, shared: PAGE_SIZE, ..Unreached::default() }
        );
    }
}
