//! Where in a target a pass is, and what becomes of regions that it cuts (`damos_apply_target()`; R§4.2).
//!
//! The kernel has a linked list. A cut inserts behind the region, and when the schemes are through with
//! a region, it is joined with the one in front of it if the pass left them alike. Otherwise what filters
//! refuse would stay in pieces of the quota: two million of 4 KiB in 8 GiB.
//!
//! Here regions are in a vector, where a cut and a join each move all regions behind it. So what was cut
//! off waits beside the vector until it is its turn, and takes the place that a join has freed. And
//! joins wait until there are many of them. The order in which regions are joined, and so the result, is
//! the kernel's: whatever schemes do to a region is done before the next one is looked at.
//!
//! Invariants: when somebody has to act, nothing waits beside the vector, so that the regions are all
//! there and in order. A pass never holds more than twice the regions that the kernel would, plus
//! [`FEW`].

use alloc::vec::Vec;

use crate::region::Region;
use crate::target::{Target, absorb, split_off};

/// So many joins may wait, however few regions there are.
const FEW: usize = 64;

/// A place among the regions of a target.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// Index of the region whose turn it is.
    pub(super) region: usize,
    /// Regions in front of this index are joined; those from here to `region` wait for it.
    joined: usize,
    /// What was cut off behind the region, the nearest last.
    cut_off: Vec<Region>,
}

impl Position {
    /// At the first region.
    pub(super) fn start(&mut self) {
        self.region = 0;
        self.joined = 0;
        self.cut_off.clear();
    }

    /// Whether every region of the target had its turn.
    pub(super) fn is_behind(&self, target: &Target) -> bool {
        self.region >= target.regions.len()
    }

    /// Whether no region of the target comes after this one.
    pub(super) fn is_last(&self, target: &Target) -> bool {
        self.cut_off.is_empty() && self.region + 1 >= target.regions.len()
    }

    /// Cuts the region behind its first `left` bytes, if there is anything behind; the rest comes next.
    pub(super) fn cut(&mut self, target: &mut Target, left: u64) {
        let this = &mut target.regions[self.region];
        if 0 < left && left < this.len() {
            self.cut_off.push(split_off(this, left, &mut target.watches));
        }
    }

    /// Puts what was cut off in its place, as somebody may look now.
    pub(super) fn put_back(&mut self, target: &mut Target) {
        for (i, region) in (self.region + 1..).zip(self.cut_off.drain(..).rev()) {
            target.regions.insert(i, region);
        }
    }

    /// Goes on to the next region. No joined region is larger than `max_region` bytes.
    pub(super) fn go_on(&mut self, target: &mut Target, max_region: u64) {
        let end = self.region + 1;
        let waiting = end - self.joined;
        if self.cut_off.is_empty() && waiting <= FEW.max(target.regions.len() / 2) {
            self.region = end;
            return;
        }
        self.join(target, end, max_region);
        let mut free = self.joined..end;
        if let Some(next) = self.cut_off.pop() {
            match free.next() {
                Some(place) => target.regions[place] = next,
                None => target.regions.insert(end, next),
            }
        }
        target.regions.drain(free);
        self.region = self.joined;
    }

    /// Joins what still waits, behind the last region.
    pub(super) fn finish(&mut self, target: &mut Target, max_region: u64) {
        self.join(target, target.regions.len(), max_region);
        target.regions.truncate(self.joined);
        self.region = self.joined;
    }

    /// Joins the regions in front of index `end` that wait for it. What is between `joined` and `end`
    /// then is left over.
    fn join(&mut self, target: &mut Target, end: usize, max_region: u64) {
        for i in self.joined..end {
            let (front, back) = target.regions.split_at_mut(i);
            let this = &back[0];
            if let Some(prev) = front[..self.joined].last_mut()
                && is_like(prev, this)
                && prev.len() + this.len() <= max_region
            {
                absorb(prev, this, &mut target.watches);
                continue;
            }
            target.regions.swap(self.joined, i);
            self.joined += 1;
        }
    }
}

/// Whether a pass may join a region with the one that follows.
fn is_like(region: &Region, next: &Region) -> bool {
    region.range.end == next.range.start
        && region.age == next.age
        && region.since_action == next.since_action
        && region.last_nr_accesses == next.last_nr_accesses
        && region.nr_accesses == next.nr_accesses
        && region.unresolved == next.unresolved
}
