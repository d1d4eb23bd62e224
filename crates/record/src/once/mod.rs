//! Memory that several targets share, counted once.
//!
//! Mappings of the same part of one object (a file, a memfd, a System V segment, `/dev/zero`) show
//! the same pages in every process. A sum over processes counts them as often as they are mapped.
//! [`Sharing`] knows which parts are the same, from the mappings' devices, inodes and offsets, and
//! gives each part to one of its targets: the one in which most accesses were seen, since a page
//! that one process touches is in use.
//!
//! Pages of private mappings that can be written become a process's own, so they are counted in
//! every process, also where they are still shared after a fork. Records of older versions have no
//! objects; there nothing is known to be shared.

mod filled;
mod pages;
mod regions;

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::AddrRange;

use crate::{Mapping, Object};

pub use pages::{SharedUnit, counted_again};

/// Which parts of the targets' memory are the same.
#[derive(Debug, Clone, Default)]
pub struct Sharing {
    objects: BTreeMap<(u64, u64), u32>,
    /// The device and inode of each object.
    keys: Vec<(u64, u64)>,
    /// By object: in how many parts of targets it is.
    uses: BTreeMap<u32, u32>,
    generation: u64,
    targets: BTreeMap<u32, Mapped>,
}

/// The parts of one target that may be shared, in address order.
#[derive(Debug, Clone, Default)]
struct Mapped {
    version: u64,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy)]
struct Part {
    range: AddrRange,
    object: u32,
    /// Where the part begins in the object, in bytes.
    offset: u64,
}

impl Sharing {
    /// Takes in the mappings of a target, unless this version of them was taken in before.
    pub fn learn(&mut self, id: u32, version: u64, mappings: &[Mapping]) {
        let known = self.targets.get(&id).is_some_and(|mapped| mapped.version == version);
        if known {
            return;
        }
        let mut parts: Vec<Part> = Vec::new();
        for m in mappings {
            let Some(object) = m.shared_object() else { continue };
            let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
            let key = (object.device, object.inode);
            let nr = *self.objects.entry(key).or_insert(next);
            if nr == next {
                self.keys.push(key);
            }
            let range = AddrRange::new(m.start, m.end);
            let is_behind = parts.last().is_none_or(|last| last.range.end <= range.start);
            // A forged record may have any mapping.
            let is_whole = object.offset.checked_add(range.len()).is_some();
            if is_behind && is_whole && !range.is_empty() {
                parts.push(Part { range, object: nr, offset: object.offset });
            }
        }
        let objects: BTreeSet<u32> = parts.iter().map(|part| part.object).collect();
        let alone: Vec<u32> = objects.into_iter().filter(|nr| !self.is_shared(*nr)).collect();
        self.forget(id);
        for part in &parts {
            *self.uses.entry(part.object).or_default() += 1;
        }
        self.targets.insert(id, Mapped { version, parts });
        if alone.into_iter().any(|nr| self.is_shared(nr)) {
            self.generation += 1;
        }
    }

    /// Drops what is known of a target.
    pub fn forget(&mut self, id: u32) {
        for part in self.targets.remove(&id).into_iter().flat_map(|mapped| mapped.parts) {
            if let Some(uses) = self.uses.get_mut(&part.object) {
                *uses = uses.saturating_sub(1);
            }
        }
    }

    /// Increased whenever memory of one target has become another's as well. Until then,
    /// [`Sharing::shared_units`] of other targets do not change.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether more than one part is of this object.
    fn is_shared(&self, object: u32) -> bool {
        self.uses.get(&object).is_some_and(|uses| *uses > 1)
    }

    /// Whether two of these targets may share memory.
    #[must_use]
    pub fn is_any(&self, ids: impl Iterator<Item = u32>) -> bool {
        let mut seen = BTreeSet::new();
        ids.filter_map(|id| self.targets.get(&id)).any(|mapped| {
            let own: BTreeSet<u32> = mapped.parts.iter().map(|part| part.object).collect();
            own.into_iter().any(|object| !seen.insert(object))
        })
    }

    /// What a target maps of objects, in address order: the object's number as in
    /// [`SharedUnit::object`], where it is mapped, and which part of what that is.
    pub fn mapped(&self, id: u32) -> impl Iterator<Item = (u32, AddrRange, Object)> {
        self.parts(id).iter().filter_map(|part| {
            let (device, inode) = *self.keys.get(usize::try_from(part.object).ok()?)?;
            Some((part.object, part.range, Object { device, inode, offset: part.offset }))
        })
    }

    fn parts(&self, id: u32) -> &[Part] {
        self.targets.get(&id).map_or(&[], |mapped| &mapped.parts)
    }
}
