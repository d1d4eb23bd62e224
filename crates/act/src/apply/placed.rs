//! Where the memory of the regions is, node by node. The places are estimated, kept, and looked up
//! again.
//!
//! Every window brings new access rates, which cost nothing here. To find where memory is, page
//! tables must be read. So the two are kept apart: the regions of a new window take over what was
//! known of the same addresses, and lookups go on continuously within a small share of the time.
//! Memory of which nothing is known comes first. Memory that was accessed in the last window is
//! looked up more often than the rest, because there a change of place matters.
//!
//! Invariants: a new window is in force at once, however long lookups take. A lookup costs the same
//! for a region of any size. Nothing waits for memory whose place is unknown.

use isotherm_core::{AddrRange, Eligible, Snapshot, TargetId, Time};

use isotherm_pages::places::Places;
use isotherm_pages::tables::{Dense, PageTables};
use isotherm_sys::clock;

/// Lookups may take one part in this many of the time.
const SHARE: u64 = 50;
/// What of that may be saved up, in ns.
const MOST_NS: i64 = 20_000_000;
/// How much more time new memory may take at once, in ns. Time beyond that is not counted.
const ADVANCE_NS: i64 = -100_000_000;
/// How long the known place of a region stays valid, in ns: for a region that was accessed in the
/// last window, and for others.
const GOOD_NS: [u64; 2] = [500_000_000, 5_000_000_000];
/// The number of pieces by which a large region is looked up.
const SAMPLES: u64 = 8;
/// The size of a piece, in bytes: 64 pages.
const PIECE: u64 = 256 << 10;

/// A region, and where its pages are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Whose memory.
    pub target: TargetId,
    /// Where.
    pub range: AddrRange,
    /// Whether anything was seen of it.
    pub known: bool,
    /// Positive samples of the last window.
    pub nr_accesses: u32,
    /// For how many windows it has looked like this.
    pub age: u32,
    /// Bytes on each node of the placement.
    pub on: Vec<u64>,
    /// How many of these bytes schemes went over since the last lookup without finding anything to
    /// move. They are where they were, and are not asked for again.
    passed: Vec<u64>,
    /// When the place of its oldest part was looked up. None if the place of some part is unknown.
    looked: Option<Time>,
}

/// What can look where pages are.
pub(super) trait Lookup {
    /// How many bytes of `range` are on each of `nodes`, into `bytes`.
    fn bytes_on(&mut self, target: TargetId, range: AddrRange, nodes: &[u32], bytes: &mut Vec<u64>);

    /// The time.
    fn now(&self) -> Time;
}

/// All regions of the last window.
#[derive(Debug)]
pub struct Placement {
    /// Sorted by target and address.
    regions: Vec<Placed>,
    nodes: Vec<u32>,
    /// Counts estimates.
    turn: u64,
    /// Time that lookups may still take, in ns. Below 0 the time was used in advance.
    left_ns: i64,
    earned: Option<Time>,
}

impl Placement {
    /// Of the memory of these nodes.
    pub(super) const fn new(nodes: Vec<u32>) -> Self {
        Self { regions: Vec::new(), nodes, turn: 0, left_ns: MOST_NS, earned: None }
    }

    /// The nodes, ascending.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// The regions of the last window.
    #[must_use]
    pub fn regions(&self) -> &[Placed] {
        &self.regions
    }

    /// Answers how much of the regions is on the nodes that are asked about. There is no answer for
    /// memory that is in no region of the last window.
    pub(super) fn answer(&self, ranges: &mut [Eligible]) {
        for asked in ranges {
            let Some(at) = self.nodes.iter().position(|node| *node == asked.nid) else { continue };
            let known = self.known_of(self.of(asked.target), asked.range);
            asked.bytes = known.on[at].saturating_sub(known.passed[at]);
        }
    }

    /// Takes in what a scheme did to `covered`: `moved` bytes went from one node to another. If
    /// nothing was asked for, that memory stays where it is, and counts as having nothing to move
    /// until it is looked up again.
    pub(super) fn acted(&mut self, target: TargetId, covered: AddrRange, moved: &Moved) {
        let at = |node: Option<u32>| self.nodes.iter().position(|n| Some(*n) == node);
        let (Some(from), to) = (at(Some(moved.from)), at(moved.to)) else { return };
        let first =
            self.regions.partition_point(|r| (r.target, r.range.end) <= (target, covered.start));
        let mut left = moved.bytes;
        for region in &mut self.regions[first..] {
            if region.target != target || region.range.start >= covered.end {
                break;
            }
            if !moved.asked {
                let more = region.passed[from] + region.range.overlap(&covered);
                region.passed[from] = more.min(region.on[from]);
                continue;
            }
            let less = left.min(region.on[from]);
            region.on[from] -= less;
            region.passed[from] = region.passed[from].min(region.on[from]);
            if let Some(to) = to {
                region.on[to] += less;
                left -= less;
            }
        }
    }

    /// The regions of a target.
    fn of(&self, target: TargetId) -> &[Placed] {
        let first = self.regions.partition_point(|r| r.target < target);
        let behind = self.regions.partition_point(|r| r.target <= target);
        &self.regions[first..behind]
    }

    /// Takes in a window.
    pub(super) fn window(&mut self, snapshot: &Snapshot) {
        let mut new = Vec::with_capacity(self.regions.len());
        for target in &snapshot.targets {
            let before = self.of(target.id);
            for region in &target.regions {
                let Known { on, passed, looked } = self.known_of(before, region.range);
                new.push(Placed {
                    target: target.id,
                    range: region.range,
                    known: region.resolved,
                    nr_accesses: region.nr_accesses,
                    age: region.age,
                    on,
                    passed,
                    looked,
                });
            }
        }
        new.sort_by_key(|r| (r.target, r.range.start));
        self.regions = new;
    }

    /// What the regions of the last window say of a range: their shares.
    fn known_of(&self, before: &[Placed], range: AddrRange) -> Known {
        let none = || vec![0_u64; self.nodes.len()];
        let mut known = Known { on: none(), passed: none(), looked: Some(Time(u64::MAX)) };
        let mut covered = 0;
        let first = before.partition_point(|r| r.range.end <= range.start);
        for old in before[first..].iter().take_while(|r| r.range.start < range.end) {
            let (start, end) = (old.range.start.max(range.start), old.range.end.min(range.end));
            let (part, whole) = (end.saturating_sub(start), old.range.len().max(1));
            covered += part;
            // Less than the region's size.
            let share = |bytes: u64| {
                let share = u128::from(bytes) * u128::from(part) / u128::from(whole);
                u64::try_from(share).unwrap_or(part)
            };
            for (sums, counts) in [(&mut known.on, &old.on), (&mut known.passed, &old.passed)] {
                for (sum, bytes) in sums.iter_mut().zip(counts) {
                    *sum += share(*bytes);
                }
            }
            known.looked = known.looked.min(old.looked);
        }
        if covered != range.len() {
            known.looked = None;
        }
        known
    }

    /// Looks up as much as the time allows.
    pub(super) fn look(&mut self, lookup: &mut dyn Lookup) {
        let mut now = lookup.now();
        let earned = self.earned.replace(now).map_or(0, |at| now.since(at) / SHARE);
        self.left_ns = (self.left_ns + i64::try_from(earned).unwrap_or(MOST_NS)).min(MOST_NS);
        // By what factor the known place has passed its validity. If there is not time for all
        // regions, each kind thus has its share.
        let mut due: Vec<(u64, usize)> = Vec::new();
        for (nr, region) in self.regions.iter().enumerate() {
            let good_ns = GOOD_NS[usize::from(region.nr_accesses == 0)];
            match region.looked {
                None => due.push((u64::MAX, nr)),
                Some(at) if self.left_ns > 0 && now.since(at) >= good_ns => {
                    due.push((now.since(at).saturating_mul(1000) / good_ns, nr));
                }
                Some(_) => {}
            }
        }
        due.sort_unstable_by_key(|(late, nr)| (u64::MAX - late, *nr));
        for (_, nr) in due {
            let region = &self.regions[nr];
            if region.looked.is_some() && self.left_ns <= 0 {
                return;
            }
            let (target, range) = (region.target, region.range);
            let mut on = std::mem::take(&mut self.regions[nr].on);
            self.estimate(lookup, target, range, &mut on);
            let done = lookup.now();
            self.left_ns -= i64::try_from(done.since(now)).unwrap_or(MOST_NS);
            now = done;
            let region = &mut self.regions[nr];
            if region.looked.is_none() {
                self.left_ns = self.left_ns.max(ADVANCE_NS);
            }
            (region.on, region.looked) = (on, Some(done));
            region.passed.fill(0);
        }
    }

    /// How many bytes of a region are on each node. A large region is estimated from some pieces of
    /// it, which differ from lookup to lookup.
    fn estimate(
        &mut self,
        lookup: &mut dyn Lookup,
        target: TargetId,
        range: AddrRange,
        on: &mut Vec<u64>,
    ) {
        let pieces = range.len() / PIECE;
        if pieces <= SAMPLES {
            return lookup.bytes_on(target, range, &self.nodes, on);
        }
        self.turn = self.turn.wrapping_add(1);
        let mut sum = vec![0_u64; self.nodes.len()];
        let stride = pieces / SAMPLES;
        for i in 0..SAMPLES {
            // Not the same place of each stretch, lest a pattern hides.
            let nr = i * stride + (self.turn * 7 + i * 3) % stride;
            let start = range.start + nr * PIECE;
            lookup.bytes_on(target, AddrRange::new(start, start + PIECE), &self.nodes, on);
            sum.iter_mut().zip(on.iter()).for_each(|(sum, bytes)| *sum += bytes);
        }
        on.clear();
        on.extend(sum.iter().map(|bytes| bytes / SAMPLES * pieces));
    }
}

/// What is known of a range: as in [`Placed`].
struct Known {
    on: Vec<u64>,
    passed: Vec<u64>,
    looked: Option<Time>,
}

/// What a scheme did to a range.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    pub(super) from: u32,
    pub(super) to: Option<u32>,
    pub(super) bytes: u64,
    /// Whether anything was asked for.
    pub(super) asked: bool,
}

/// Page tables, and which frame is on which node.
#[derive(Debug)]
pub(super) struct Tables<'a> {
    pub(super) walk: &'a mut PageTables,
    pub(super) places: &'a Places,
}

impl Lookup for Tables<'_> {
    fn bytes_on(
        &mut self,
        target: TargetId,
        range: AddrRange,
        nodes: &[u32],
        bytes: &mut Vec<u64>,
    ) {
        bytes.clear();
        bytes.resize(nodes.len(), 0);
        // Frames of neighbours mostly are on the same node.
        let mut last: (u64, Option<usize>) = (u64::MAX, None);
        let mut at = |frame: u64| {
            // 2 MiB are never on two nodes.
            if frame >> 9 != last.0 {
                let node = self.places.node_of(frame);
                last = (frame >> 9, nodes.iter().position(|n| Some(*n) == node));
            }
            last.1
        };
        let looked = self.walk.dense_tables(target, range, &mut |start, found| match found {
            Dense::Huge(entry) => {
                let end = start + (1 << entry.leaf_shift());
                let part = end.min(range.end).saturating_sub(start.max(range.start));
                if let Some(at) = at(entry.frame() >> 12) {
                    bytes[at] += part;
                }
            }
            Dense::Table(table) => {
                let nr = |addr: u64| (addr.saturating_sub(start) >> 12).min(512);
                let (first, behind) = (nr(range.start), nr(range.end));
                let pages = table.entries().take(usize::try_from(behind).unwrap_or(0));
                for entry in pages.skip(usize::try_from(first).unwrap_or(0)) {
                    if entry.is_present()
                        && let Some(at) = at(entry.frame() >> 12)
                    {
                        bytes[at] += 4096;
                    }
                }
            }
        });
        if looked.is_err() {
            // A target that has gone has nothing anywhere.
            bytes.fill(0);
        }
    }

    fn now(&self) -> Time {
        clock::now()
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::snapshot::{RegionInfo, TargetInfo};

    use super::*;

    const MIB: u64 = 1 << 20;
    const ID: TargetId = TargetId(1);
    const SECOND_NS: u64 = 1_000_000_000;

    /// Memory of which every other MiB is on the second node; a look takes a while.
    struct Slow {
        now: std::cell::Cell<Time>,
        look_ns: u64,
        looks: Vec<AddrRange>,
    }

    impl Slow {
        fn new(look_ns: u64) -> Self {
            Self { now: std::cell::Cell::new(Time(SECOND_NS)), look_ns, looks: Vec::new() }
        }

        fn pass(&mut self, ns: u64) {
            self.now.set(self.now.get() + ns);
        }
    }

    impl Lookup for Slow {
        fn bytes_on(&mut self, _: TargetId, range: AddrRange, _: &[u32], bytes: &mut Vec<u64>) {
            self.pass(self.look_ns);
            self.looks.push(range);
            bytes.clear();
            bytes.resize(2, 0);
            for page in (range.start..range.end).step_by(4096) {
                bytes[usize::from(page / MIB % 2 == 1)] += 4096;
            }
        }

        fn now(&self) -> Time {
            self.now.get()
        }
    }

    fn snapshot(regions: &[(u64, u64, u32)]) -> Snapshot {
        let regions = regions.iter().map(|&(start, end, nr_accesses)| RegionInfo {
            range: AddrRange::new(start * MIB, end * MIB),
            nr_accesses,
            resolved: true,
            ..RegionInfo::default()
        });
        let targets =
            vec![TargetInfo { id: ID, regions: regions.collect(), ..TargetInfo::default() }];
        Snapshot { max_nr_accesses: 20, targets, ..Snapshot::default() }
    }

    fn on(placement: &Placement) -> Vec<Vec<u64>> {
        placement.regions.iter().map(|r| r.on.iter().map(|b| b / MIB).collect()).collect()
    }

    #[test]
    fn regions_that_split_and_join_keep_what_is_known() {
        let (mut placement, mut hands) = (Placement::new(vec![0, 1]), Slow::new(0));
        placement.window(&snapshot(&[(0, 2, 0), (2, 4, 0)]));
        placement.look(&mut hands);
        assert_eq!(on(&placement), [[1, 1], [1, 1]]);
        let looks = hands.looks.len();
        placement.window(&snapshot(&[(0, 4, 9)]));
        placement.look(&mut hands);
        assert_eq!((on(&placement), hands.looks.len()), (vec![vec![2, 2]], looks), "joined");
        placement.window(&snapshot(&[(0, 1, 0), (1, 4, 0), (4, 6, 0)]));
        let known: Vec<_> = placement.regions.iter().map(|r| r.looked.is_some()).collect();
        assert_eq!(known, [true, true, false], "the last one is new");
        placement.look(&mut hands);
        assert_eq!(on(&placement)[2], [1, 1]);
    }

    #[test]
    fn a_window_is_in_force_however_slow_lookups_are() {
        // A look takes 50 ms, as in an emulated guest on a busy machine: all regions take seconds.
        let (mut placement, mut hands) = (Placement::new(vec![0, 1]), Slow::new(50_000_000));
        let cold: Vec<_> = (0..100).map(|i| (i * 64, (i + 1) * 64, 0)).collect();
        placement.window(&snapshot(&cold));
        placement.look(&mut hands);
        assert!(
            placement.regions.iter().all(|r| r.looked.is_some()),
            "nothing is known of new memory"
        );
        let mut hot = cold;
        hot[70].2 = 15;
        placement.window(&snapshot(&hot));
        placement.look(&mut hands);
        assert_eq!(placement.regions[70].nr_accesses, 15, "at once");
        let (begin, before) = (hands.now(), hands.looks.len());
        for _ in 0..60_000 {
            hands.pass(100_000_000);
            placement.look(&mut hands);
        }
        let spent = (hands.looks.len() - before) as u64 * 50_000_000;
        let share = hands.now().since(begin) / SHARE;
        assert!(spent <= share + SECOND_NS, "{spent} ns of lookups, {share} are allowed");
        let is_hot = |look: &&AddrRange| (70 * 64 * MIB..71 * 64 * MIB).contains(&look.start);
        let of_hot = hands.looks[before..].iter().filter(is_hot).count();
        let of_all = hands.looks.len() - before;
        assert!(of_all >= 200 && of_hot > 8, "{of_hot} of {of_all}");
        let oldest = placement.regions.iter().filter_map(|r| r.looked).min();
        assert!(oldest > Some(begin), "none is left out");
    }
    #[test]
    fn what_was_moved_or_not_there_is_known_until_the_next_look() {
        let (mut placement, mut lookup) = (Placement::new(vec![0, 1]), Slow::new(0));
        placement.window(&snapshot(&[(0, 4, 9), (4, 8, 0)]));
        placement.look(&mut lookup);
        let range = |start: u64, end: u64| AddrRange::new(start * MIB, end * MIB);
        let asked = |placement: &Placement, start, end, nid| {
            let range = range(start, end);
            let mut one = [Eligible { scheme: 0, target: ID, range, nid, bytes: range.len() }];
            placement.answer(&mut one);
            one[0].bytes / MIB
        };
        assert_eq!(asked(&placement, 0, 4, 1), 2);
        // A part of a region has its share; another node is not known of.
        assert_eq!((asked(&placement, 0, 2, 1), asked(&placement, 0, 4, 7)), (1, 4));
        let moved = Moved { from: 1, to: Some(0), bytes: MIB, asked: true };
        placement.acted(ID, range(0, 4), &moved);
        assert_eq!(on(&placement), [[3, 1], [2, 2]]);
        let nothing = Moved { from: 1, to: Some(0), bytes: 0, asked: false };
        placement.acted(ID, range(0, 4), &nothing);
        assert_eq!(on(&placement), [[3, 1], [2, 2]], "it is where it was");
        assert_eq!((asked(&placement, 0, 4, 1), asked(&placement, 4, 8, 1)), (0, 2));
        // That is known of parts and of joined regions, and until the next look.
        placement.window(&snapshot(&[(0, 2, 9), (2, 8, 0)]));
        assert_eq!((asked(&placement, 0, 2, 1), asked(&placement, 2, 8, 1)), (0, 2));
        lookup.pass(10 * SECOND_NS);
        placement.look(&mut lookup);
        assert_eq!((asked(&placement, 0, 2, 1), asked(&placement, 2, 8, 1)), (1, 3));
    }
}
