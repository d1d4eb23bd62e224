//! The position of a pass within a target, and the handling of regions that the pass cuts
//! (`damos_apply_target()`; R§4.2).
//!
//! The kernel keeps regions in a linked list. A cut inserts the second part behind the region. When
//! all schemes have handled a region, the kernel joins it with the one in front of it if the pass
//! left the two alike. Without that join, memory that filters refuse would stay cut into pieces the
//! size of the quota: two million pieces of 4 KiB in 8 GiB.
//!
//! Here regions are in a vector, where each cut and each join moves all regions behind it. So a
//! part that was cut off waits beside the vector until its turn comes, and then takes a place that
//! a join has freed. Joins are collected and done many at a time. The result is the kernel's,
//! because regions are joined in the kernel's order: schemes finish with a region before the pass
//! looks at the next one.
//!
//! Invariants: while a request waits for its answer, no part waits beside the vector, so all
//! regions are in the vector and in order. A pass never holds more than twice the regions that the
//! kernel would hold, plus [`FEW`].

use alloc::vec::Vec;

use crate::region::Region;
use crate::target::{Target, absorb, split_off};

/// The number of joins that may wait even if the target has few regions.
const FEW: usize = 64;

/// A place among the regions of a target.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// Index of the region whose turn it is.
    pub(super) region: usize,
    /// Regions in front of this index are joined. Regions from here to `region` wait to be joined.
    joined: usize,
    /// The parts that were cut off behind the region. The nearest part is last.
    cut_off: Vec<Region>,
}

impl Position {
    /// Moves to the first region.
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

    /// Cuts the region behind its first `left` bytes, if it is longer. The rest has its turn next.
    pub(super) fn cut(&mut self, target: &mut Target, left: u64) {
        let this = &mut target.regions[self.region];
        if 0 < left && left < this.len() {
            self.cut_off.push(split_off(this, left, &mut target.watches));
        }
    }

    /// Puts all parts that were cut off into the vector, so that the driver sees every region.
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

    /// Joins the regions that still wait, after the last region had its turn.
    pub(super) fn finish(&mut self, target: &mut Target, max_region: u64) {
        self.join(target, target.regions.len(), max_region);
        target.regions.truncate(self.joined);
        self.region = self.joined;
    }

    /// Joins the waiting regions in front of index `end`. The places between `joined` and `end` are
    /// free afterwards.
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

/// Whether a pass may join two neighbours.
fn is_like(region: &Region, next: &Region) -> bool {
    region.range.end == next.range.start
        && region.age == next.age
        && region.since_action == next.since_action
        && region.last_nr_accesses == next.last_nr_accesses
        && region.nr_accesses == next.nr_accesses
        && region.unresolved == next.unresolved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{AddrRange, PAGE_SIZE};
    use crate::region::WatchId;
    use crate::rng::Rng;
    use crate::target::TargetId;

    /// What has to be the same in both lists. The number of a watch may differ, because the store
    /// assigns it.
    type Facts = (AddrRange, u32, bool);

    fn facts(regions: &[Region]) -> Vec<Facts> {
        regions.iter().map(|r| (r.range, r.age, r.watch != WatchId::NONE)).collect()
    }

    /// Up to 300 regions, most of them neighbours. Some have watched pages.
    fn target(rng: &mut Rng) -> Target {
        let mut target = Target::new(TargetId(0));
        let mut start = 0;
        for _ in 0..rng.range(0, 300) {
            start += PAGE_SIZE * u64::from(rng.range(0, 8) == 0);
            let end = start + PAGE_SIZE * rng.range(1, 20);
            let mut region = Region::new(AddrRange::new(start, end));
            if rng.range(0, 3) == 0 {
                target.watches.of(&mut region.watch);
            }
            target.regions.push(region);
            start = end;
        }
        target
    }

    /// A pass through a plain list, for comparison: each cut inserts and each join removes at once.
    struct Naive {
        target: Target,
        at: usize,
    }

    impl Naive {
        fn go_on(&mut self, max_region: u64) {
            let at = self.at;
            let regions = &mut self.target.regions;
            let joins = at > 0
                && is_like(&regions[at - 1], &regions[at])
                && regions[at - 1].len() + regions[at].len() <= max_region;
            if joins {
                let this = regions.remove(at);
                absorb(&mut regions[at - 1], &this, &mut self.target.watches);
            } else {
                self.at += 1;
            }
        }
    }

    /// One pass over a random target. Random cuts and ages are applied to both lists.
    fn check_pass(position: &mut Position, seed: u64) {
        let mut rng = Rng::seeded(seed);
        let mut target = target(&mut rng);
        let mut naive = Naive { target: target.clone(), at: 0 };
        let max_region = PAGE_SIZE * rng.range(1, 200);
        let different_age = rng.range(2, 12);
        position.start();
        while !position.is_behind(&target) {
            for _ in 0..rng.range(0, 4) {
                let left = PAGE_SIZE * rng.range(0, 6);
                position.cut(&mut target, left);
                naive.target.cut(naive.at, left);
            }
            let age = u32::from(rng.range(0, different_age) == 0);
            target.regions[position.region].age = age;
            naive.target.regions[naive.at].age = age;
            assert_eq!(
                facts(&target.regions[position.region..][..1]),
                facts(&naive.target.regions[naive.at..][..1]),
                "seed {seed}"
            );
            let is_last = naive.at + 1 == naive.target.regions.len();
            assert_eq!(position.is_last(&target), is_last, "seed {seed}");
            if rng.range(0, 3) == 0 {
                position.put_back(&mut target);
                let rest = facts(&target.regions[position.region..]);
                assert_eq!(rest, facts(&naive.target.regions[naive.at..]), "seed {seed}");
                target.watches.verify(&target.regions);
            }
            position.go_on(&mut target, max_region);
            naive.go_on(max_region);
        }
        position.finish(&mut target, max_region);
        assert_eq!(facts(&target.regions), facts(&naive.target.regions), "seed {seed}");
        target.watches.verify(&target.regions);
    }

    /// All passes use one position, as in a context.
    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn as_a_plain_list() {
        let mut position = Position::default();
        for seed in 0..2000 {
            check_pass(&mut position, seed);
        }
    }
}
