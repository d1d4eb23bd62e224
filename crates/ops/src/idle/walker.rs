//! Where the pages of processes are: from addresses to frames, by the page tables (BPF) or by
//! `pagemap`.

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, PageBits, TargetId, UnitCheck};
use isotherm_host::error::SetError;
use isotherm_host::proc::{Proc, is_denied, is_gone, read_monitored_ranges};
use isotherm_pages::idle::SET;
use isotherm_pages::tables::{Dense, Entry, PageKey, PageTables};

use super::pagemaps::Pagemaps;

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its frame; for a huge leaf, the leaf's first.
    pub(super) frame: u64,
    /// log2 of the size of the leaf.
    pub(super) leaf_shift: u8,
    /// Whether the leaf's accessed bit is set; `None` where that cannot be seen.
    pub(super) accessed: Option<bool>,
}

/// One of the two.
#[derive(Debug)]
pub(super) enum Walker {
    Bpf(Box<PageTables>),
    Pagemap(Pagemaps),
}

impl Walker {
    pub(super) fn add(&mut self, id: TargetId, pid: u32) -> Result<(), SetError> {
        match self {
            Self::Bpf(walk) => walk.add_target(id, pid).map_err(|e| e.of_process(SET, pid)),
            Self::Pagemap(maps) => maps.add(id, pid),
        }
    }

    pub(super) fn remove(&mut self, id: TargetId) {
        match self {
            Self::Bpf(walk) => {
                walk.remove_target(id);
            }
            Self::Pagemap(maps) => maps.remove(id),
        }
    }

    pub(super) fn is_alive(&mut self, id: TargetId) -> bool {
        match self {
            Self::Bpf(walk) => walk.is_alive(id),
            Self::Pagemap(maps) => maps.is_alive(id),
        }
    }

    /// Follows the target through an exec, and reads its mappings.
    pub(super) fn update(
        &mut self,
        id: TargetId,
        text: &mut Vec<u8>,
        maps: &mut Vec<AddrRange>,
    ) -> Result<(), UpdateError> {
        let pagemaps = match self {
            Self::Bpf(walk) => return walk.update(id, maps).map(|_changed| ()),
            Self::Pagemap(pagemaps) => pagemaps,
        };
        maps.clear();
        let pid = pagemaps.pid(id).ok_or(UpdateError::Gone)?;
        if let Err(e) = pagemaps.reopen(id) {
            let gone = e.is_gone();
            return Err(if gone { UpdateError::Gone } else { UpdateError::NotNow });
        }
        match read_monitored_ranges(&Proc::default(), pid, text, maps) {
            Ok(()) if !pagemaps.is_alive(id) => Err(UpdateError::Gone),
            Ok(()) if maps.is_empty() => Err(UpdateError::NotNow),
            Ok(()) => Ok(()),
            Err(e) if is_gone(&e) && !is_denied(&e) => Err(UpdateError::Gone),
            Err(_) => Err(UpdateError::NotNow),
        }
    }

    /// Passes on every mapped page of the batch: its place in the batch, and its place in memory.
    /// The states of the other pages become `Absent` or `Unknown`.
    pub(super) fn find(
        &mut self,
        batch: &mut [Check],
        mut each: impl FnMut(&mut Check, u32, Place),
    ) {
        match self {
            Self::Bpf(walk) => walk.entries(batch, |check, nr, entry| {
                let place = Place {
                    frame: entry.frame() >> 12,
                    leaf_shift: entry.leaf_shift(),
                    accessed: Some(entry.is_young()),
                };
                each(check, nr, place);
            }),
            Self::Pagemap(maps) => maps.find(batch, |check, nr, frame| {
                each(check, nr, Place { frame, leaf_shift: 12, accessed: None });
            }),
        }
    }

    /// Passes on every mapped page of the units: the unit and its place in the batch, the page's
    /// number in the unit, and its place in memory. A huge leaf is passed on once, as page 0, with
    /// the frame that lies where the unit begins. Sets `answered` and `leaf_shift`.
    pub(super) fn find_units(
        &mut self,
        units: &mut [UnitCheck],
        places: &mut Vec<(PageKey, u32)>,
        mut each: impl FnMut(&mut UnitCheck, u32, u16, Place),
    ) {
        units.iter_mut().for_each(|unit| (unit.answered, unit.leaf_shift) = (false, 12));
        match self {
            Self::Bpf(walk) => find_in_tables(walk, units, places, &mut each),
            Self::Pagemap(maps) => {
                for (nr, unit) in (0..).zip(units) {
                    // A frame of 0: we may not see it.
                    let mut hidden = false;
                    let read = maps.unit(unit.target, unit.start, |page, frame| {
                        hidden |= frame == 0;
                        each(unit, nr, page, Place { frame, leaf_shift: 12, accessed: None });
                    });
                    unit.answered = read && !hidden;
                }
            }
        }
    }
}

fn find_in_tables(
    walk: &mut PageTables,
    units: &mut [UnitCheck],
    places: &mut Vec<(PageKey, u32)>,
    each: &mut dyn FnMut(&mut UnitCheck, u32, u16, Place),
) {
    places.clear();
    for (nr, unit) in (0..).zip(&*units) {
        places.extend(walk.slot(unit.target).map(|slot| (PageKey::new(slot, unit.start), nr)));
    }
    let looked = walk.tables_at(places, &mut |nr, found| match found {
        Dense::Table(table) => {
            // The kernel's page of zeros is nobody's memory.
            let present = PageBits(table.present_and_young().0);
            for (page, entry) in (0..).zip(table.entries()) {
                if present.0[usize::from(page / 64)] >> (page % 64) & 1 == 1 {
                    each(&mut units[nr as usize], nr, page, place_of(entry, 0));
                }
            }
        }
        Dense::Huge(entry) => {
            let unit = &mut units[nr as usize];
            unit.leaf_shift = entry.leaf_shift();
            let place = place_of(entry, unit.start);
            each(unit, nr, 0, place);
        }
    });
    for (_, nr) in &*places {
        units[*nr as usize].answered = looked.is_ok();
    }
}

/// Where the leaf lies, or the part of it that maps `addr`.
fn place_of(entry: Entry, addr: u64) -> Place {
    let leaf_shift = entry.leaf_shift();
    let inside = addr & ((1 << leaf_shift) - 1);
    Place { frame: (entry.frame() + inside) >> 12, leaf_shift, accessed: Some(entry.is_young()) }
}
