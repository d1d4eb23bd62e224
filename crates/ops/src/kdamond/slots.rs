//! Which target stands at which index of the kernel's context.
//!
//! The kernel knows targets only by their index, in the files and in its reports. New targets go to
//! the end. When one goes, those behind it move up. [`Claim::commit`](isotherm_damon::Claim)
//! carries that out.

use isotherm_core::{AddrRange, TargetId};
use isotherm_damon::model;

/// A target in the kernel's context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) id: TargetId,
    /// 0: physical memory.
    pub(super) pid: i32,
    /// Its ranges, if they are given (`fvaddr`, `paddr`). They are part of every configuration.
    pub(super) given: Vec<AddrRange>,
    /// Whether the given ranges are the process's mappings, and change with them.
    pub(super) follows: bool,
    /// Ranges to begin with, for the next configuration only. Later ones leave the regions alone.
    pub(super) fresh: Vec<AddrRange>,
}

/// The targets, by index.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots {
    pub(super) list: Vec<Slot>,
}

impl Slots {
    /// Names by index.
    pub(super) fn ids(&self) -> Vec<TargetId> {
        self.list.iter().map(|slot| slot.id).collect()
    }

    /// The targets of a configuration.
    pub(super) fn targets(&self) -> Vec<model::Target> {
        let target = |slot: &Slot| {
            let regions = if slot.fresh.is_empty() { &slot.given } else { &slot.fresh };
            model::Target { pid: slot.pid, regions: regions.clone(), obsolete: false }
        };
        self.list.iter().map(target).collect()
    }

    /// The kernel has its regions now.
    pub(super) fn settled(&mut self) {
        for slot in &mut self.list {
            slot.fresh.clear();
        }
    }

    /// Stores new ranges, and says whether they differ. They are in every configuration from the
    /// next on.
    pub(super) fn set_ranges(&mut self, id: TargetId, ranges: &[AddrRange]) -> bool {
        let slot = self.list.iter_mut().find(|slot| slot.id == id && slot.follows);
        let Some(slot) = slot.filter(|slot| !ranges.is_empty() && slot.given != ranges) else {
            return false;
        };
        slot.given = ranges.to_vec();
        true
    }

    /// Takes a target out; its index, if it was there.
    pub(super) fn remove(&mut self, id: TargetId) -> Option<usize> {
        let at = self.list.iter().position(|slot| slot.id == id)?;
        self.list.remove(at);
        Some(at)
    }
}
