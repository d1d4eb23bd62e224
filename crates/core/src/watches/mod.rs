//! The store of watches: beside the regions of a target, so that a pass over the regions that does
//! not ask for watched pages moves 64 bytes per region, whatever a [`Watch`] takes.
//!
//! A region holds the index of its watch. A watch stays where it is while regions are moved; only a
//! merge or a split of its own region touches it. Indices that became free are given out again, so
//! a steady state allocates nothing.
//!
//! A watch takes 15 cache lines. What the passes over all regions ask is in a [`Brief`] of each,
//! apart from them, so that a quiet region costs such a pass half a line.
//!
//! Invariant: no two regions of a target hold one index, and every index in use is held by a
//! region. Whoever changes a watch calls [`Watches::note`] afterwards, so that its brief says what
//! it is.

pub(crate) mod slot;
pub(crate) mod watch;

use alloc::vec::Vec;

use crate::region::{Region, WatchId};
use slot::{NEVER, State};
use watch::{Estimate, Watch};

/// What the passes over all regions ask of a watch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Brief {
    /// The sample at which a page has to be armed or looked at next.
    pub(crate) due: u64,
    /// The watch's estimate.
    pub(crate) estimate: Estimate,
    /// Number of watched pages.
    pub(crate) nr_slots: u8,
    /// Number of these that were drawn evenly.
    pub(crate) nr_even: u8,
    /// Every page is armed, and none has changed its ways: nothing to plan but a page drawn anew.
    pub(crate) quiet: bool,
    /// A page has changed its ways, and older evidence of others is stale.
    pub(crate) changing: bool,
    /// It changes, or waits before it may be split: it has to be told that a window has passed.
    pub(crate) restless: bool,
    /// There was an answer since the estimate was computed.
    pub(crate) outdated: bool,
    /// Its armed pages were looked at for the running window's end.
    pub(crate) settled: bool,
}

impl Brief {
    /// Of a region without watched pages. It waits for the window's end.
    const EMPTY: Self = Self {
        due: NEVER,
        estimate: Estimate { rate: 0.0, lo: 0.0, hi: 0.0, contrast: 0.0, resolved: false },
        nr_slots: 0,
        nr_even: 0,
        quiet: true,
        changing: false,
        restless: false,
        outdated: true,
        settled: false,
    };

    /// What a watch is now.
    fn of(watch: &Watch, settled: bool) -> Self {
        let mut brief = Self {
            estimate: watch.estimate,
            quiet: watch.changed.is_none(),
            changing: watch.changed.is_some(),
            restless: watch.changed.is_some() || watch.cooldown > 0,
            settled,
            ..Self::EMPTY
        };
        for slot in watch.slots() {
            brief.due = brief.due.min(slot.next_look).min(slot.arm_at);
            brief.nr_slots += 1;
            brief.nr_even += u8::from(!slot.edge);
            brief.quiet &= slot.state == State::Armed;
        }
        brief
    }
}

/// The watches of one target's regions.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Watches {
    store: Vec<Watch>,
    /// Of each watch.
    briefs: Vec<Brief>,
    free: Vec<WatchId>,
    /// When the first page of all is due; `None` until somebody looks for it.
    soonest: Option<u64>,
    /// The same for the regions that were not asked about last.
    others: u64,
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

    /// What the watch of a region is, in brief.
    pub(crate) fn brief(&self, id: WatchId) -> &Brief {
        self.briefs.get(id.index()).unwrap_or(&Brief::EMPTY)
    }

    /// When the first page of all has to be armed or looked at.
    pub(crate) fn next_due(&self) -> u64 {
        self.soonest.unwrap_or_else(|| self.first_due())
    }

    /// All regions were gone through: the pages of some are asked about, if `asked`, and the first
    /// page of the others is due at sample `due`.
    pub(crate) const fn ask(&mut self, due: u64, asked: bool) {
        self.others = due;
        self.soonest = if asked { None } else { Some(due) };
    }

    /// The answers are there, and all regions that were asked about are about to be noted.
    pub(crate) const fn answered(&mut self) {
        self.soonest = Some(self.others);
    }

    /// Takes down what a watch is, after its pages were changed.
    pub(crate) fn note(&mut self, id: WatchId) {
        let Some(watch) = self.store.get(id.index()) else { return };
        let brief = &mut self.briefs[id.index()];
        let before = brief.due;
        *brief = Brief::of(watch, brief.settled);
        let due = brief.due;
        self.moved(before, due);
    }

    /// Its armed pages are about to be looked at for the window's end.
    pub(crate) fn settle(&mut self, id: WatchId) {
        if let Some(brief) = self.briefs.get_mut(id.index()) {
            brief.settled = true;
        }
    }

    /// Computes the estimate of a watch from its pages.
    pub(crate) fn evaluate(&mut self, id: WatchId) {
        if let Some(watch) = self.store.get_mut(id.index()) {
            watch.evaluate();
            let brief = &mut self.briefs[id.index()];
            brief.estimate = watch.estimate;
            brief.outdated = false;
        }
    }

    /// Another window begins: every region has to be settled again.
    pub(crate) fn begin_window(&mut self) {
        self.briefs.iter_mut().for_each(|brief| brief.settled = false);
    }

    /// Gives up a watch: its region is gone.
    pub(crate) fn release(&mut self, id: WatchId) {
        if id != WatchId::NONE {
            let before = core::mem::replace(&mut self.briefs[id.index()], Brief::EMPTY).due;
            self.moved(before, NEVER);
            self.free.push(id);
        }
    }

    /// Cuts a watch at address `cut`; the watch of the part behind it.
    pub(crate) fn split_off(&mut self, id: WatchId, cut: u64) -> WatchId {
        let right = self.take();
        if let Some((a, b)) = self.pair(id, right) {
            a.split_off(cut, b);
        }
        self.briefs[right.index()].settled = self.brief(id).settled;
        self.note(id);
        self.note(right);
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
        self.note(a);
        self.release(b);
        a
    }

    /// Checks that every watched page lies in its region, that briefs say what their watches are,
    /// and that no watch is held twice or lost.
    ///
    /// # Panics
    ///
    /// If it is not so.
    pub(crate) fn verify(&self, regions: &[Region]) {
        let mut held = self.free.len();
        for region in regions {
            if let Some(watch) = self.get(region.watch) {
                watch.verify(region.range);
                let brief = self.brief(region.watch);
                let expected =
                    Brief { outdated: brief.outdated, ..Brief::of(watch, brief.settled) };
                assert_eq!(*brief, expected, "of {:?}", region.range);
                held += 1;
            }
        }
        assert_eq!(held, self.store.len(), "watches that are free or held");
        assert_eq!(self.next_due(), self.first_due(), "the first page that is due");
    }

    /// Makes room for `n` watches, so that later passes do not allocate.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.store.reserve(n.saturating_sub(self.store.len()));
        self.briefs.reserve(n.saturating_sub(self.briefs.len()));
        self.free.reserve(n.saturating_sub(self.free.len()));
    }

    /// An empty watch.
    fn take(&mut self) -> WatchId {
        if let Some(id) = self.free.pop() {
            self.store[id.index()].clear();
            return id;
        }
        self.store.push(Watch::default());
        self.briefs.push(Brief::EMPTY);
        // More regions than a u32 counts do not fit into memory.
        WatchId::from_index(self.store.len() - 1)
    }

    /// A region was due at one sample, and is at another.
    const fn moved(&mut self, before: u64, due: u64) {
        if let Some(soonest) = self.soonest {
            if due <= soonest {
                self.soonest = Some(due);
            } else if before <= soonest {
                self.soonest = None;
            }
        }
    }

    fn first_due(&self) -> u64 {
        self.briefs.iter().map(|brief| brief.due).min().unwrap_or(NEVER)
    }
}
