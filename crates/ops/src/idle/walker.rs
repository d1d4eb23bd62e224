//! Where the pages of processes are: from addresses to frames, by the page tables (BPF) or by
//! `pagemap`.

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, TargetId};
use isotherm_host::error::SetError;
use isotherm_host::proc::{Proc, is_denied, is_gone, read_monitored_ranges};
use isotherm_pages::idle::SET;
use isotherm_pages::tables::PageTables;

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
}
