//! The store of watches: beside the regions of a target, so that a pass over the regions that does not ask
//! for watched pages moves 64 bytes per region, whatever a [`Watch`] takes.
//!
//! A region holds the index of its watch. A watch stays where it is while regions are moved; only a merge or
//! a split of its own region touches it. Indices that became free are given out again, so a steady state
//! allocates nothing.
//!
//! Invariant: no two regions of a target hold one index, and every index in use is held by a region.

use alloc::vec::Vec;

use super::slot::NEVER;
use super::watch::Watch;
use crate::region::Region;

/// Where in its target's store the watch of a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchId(u32);

impl WatchId {
    /// The region has no watch.
    pub(crate) const NONE: Self = Self(u32::MAX);

    const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Default for WatchId {
    fn default() -> Self {
        Self::NONE
    }
}

/// The watches of one target's regions.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Watches {
    store: Vec<Watch>,
    /// Of each watch: when its next page is due. Apart from them, as it is looked at in every sample.
    due: Vec<u64>,
    free: Vec<WatchId>,
}

impl Watches {
    /// The watch of a region, if it has one.
    pub(crate) fn get(&self, id: WatchId) -> Option<&Watch> {
        self.store.get(id.index())
    }

    /// The watch of a region, if it has one.
    pub(crate) fn get_mut(&mut self, id: WatchId) -> Option<&mut Watch> {
        self.store.get_mut(id.index())
    }

    /// The watch of a region; gives it an empty one if it has none.
    pub(crate) fn of(&mut self, id: &mut WatchId) -> &mut Watch {
        if *id == WatchId::NONE {
            *id = self.take();
        }
        &mut self.store[id.index()]
    }

    /// The watches of two regions that have one.
    pub(crate) fn pair(&mut self, a: WatchId, b: WatchId) -> Option<(&mut Watch, &mut Watch)> {
        let [a, b] = self.store.get_disjoint_mut([a.index(), b.index()]).ok()?;
        Some((a, b))
    }

    /// The sample at which a page of the region has to be armed or looked at next. A region without a watch
    /// waits for the window's end.
    pub(crate) fn due(&self, id: WatchId) -> u64 {
        self.due.get(id.index()).copied().unwrap_or(NEVER)
    }

    /// The same for all regions.
    pub(crate) fn next_due(&self) -> u64 {
        self.due.iter().copied().min().unwrap_or(NEVER)
    }

    /// Notes when the next page of a region is due, after its pages were changed.
    pub(crate) fn plan(&mut self, id: WatchId) {
        if let Some(watch) = self.store.get(id.index()) {
            self.due[id.index()] = watch.next_due();
        }
    }

    /// Gives up a watch: its region is gone.
    pub(crate) fn release(&mut self, id: WatchId) {
        if id != WatchId::NONE {
            self.due[id.index()] = NEVER;
            self.free.push(id);
        }
    }

    /// Cuts a watch at address `cut`; the watch of the part behind it.
    pub(crate) fn split_off(&mut self, id: WatchId, cut: u64) -> WatchId {
        let right = self.take();
        if let Some((a, b)) = self.pair(id, right) {
            a.split_off(cut, b);
        }
        self.plan(id);
        self.plan(right);
        right
    }

    /// Joins the watches of two neighbours of so many bytes; the watch of both together.
    pub(crate) fn merge(&mut self, a: WatchId, sz_a: u64, b: WatchId, sz_b: u64) -> WatchId {
        let (mut a, mut b) = (a, b);
        self.of(&mut a);
        self.of(&mut b);
        if let Some((left, right)) = self.pair(a, b) {
            left.merge(sz_a, right, sz_b);
        }
        self.plan(a);
        self.release(b);
        a
    }

    /// Checks that every watched page lies in its region, and that no watch is held twice or lost.
    ///
    /// # Panics
    ///
    /// If it is not so.
    pub(crate) fn verify(&self, regions: &[Region]) {
        let mut held = self.free.len();
        for region in regions {
            if let Some(watch) = self.get(region.watch) {
                watch.verify(region.range);
                assert_eq!(self.due(region.watch), watch.next_due(), "of {:?}", region.range);
                held += 1;
            }
        }
        assert_eq!(held, self.store.len(), "watches that are free or held");
    }

    /// Makes room for `n` watches, so that later passes do not allocate.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.store.reserve(n.saturating_sub(self.store.len()));
        self.due.reserve(n.saturating_sub(self.due.len()));
        self.free.reserve(n.saturating_sub(self.free.len()));
    }

    /// An empty watch.
    fn take(&mut self) -> WatchId {
        if let Some(id) = self.free.pop() {
            self.store[id.index()].clear();
            return id;
        }
        self.store.push(Watch::default());
        self.due.push(NEVER);
        // More regions than a u32 counts do not fit into memory.
        WatchId(u32::try_from(self.store.len() - 1).unwrap_or(u32::MAX - 1))
    }
}
