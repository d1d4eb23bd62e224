//! The tiering policy in a context over made-up memory: two or three nodes, and areas of 1 MiB, of
//! which some are hot.
//!
//! The made-up world does what the actor does with real pages. It demotes an area only after it
//! watched the area idle for a second, and does not move an area again for 30 seconds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use isotherm_core::Eligible;
use isotherm_core::ops::UpdateError;
use isotherm_core::scheme::{Action, Metric, NodeLevel};
use isotherm_core::{
    AddrRange, Applied, Attrs, Check, Clock, Context, Driver, Event, Measure, Method, Observation,
    Observed, Operations, Request, Scheme, TargetId, Time,
};

use super::*;
use crate::policy::TargetSpec;

const MIB: u64 = 1 << 20;
const ID: TargetId = TargetId(1);
const SECOND_NS: u64 = 1_000_000_000;

/// A machine whose memory is made of areas of 1 MiB.
#[derive(Debug)]
struct World {
    now: Time,
    /// The node that each area lies on.
    at: Vec<usize>,
    /// Whether each area is accessed all the time.
    hot: Vec<bool>,
    /// Areas that are accessed a little.
    warm: std::ops::Range<usize>,
    /// How many areas each node can hold.
    capacity: Vec<u64>,
    /// How many areas lie on each node.
    used: Vec<u64>,
    /// The high watermark of each node, in bytes.
    high: u64,
    /// How many freed areas of the first node the free lists of the CPUs can keep from the node.
    lists: u64,
    /// How many they keep now.
    listed: u64,
    /// Since when an area is watched for being idle.
    armed: BTreeMap<usize, Time>,
    /// When each area was moved.
    moves: Vec<Vec<Time>>,
    /// How many of the next requests the kernel refuses.
    refusals: usize,
    /// Whether it refuses them for want of room, not because pages are pinned.
    no_room: bool,
    /// Whether moves are only pretended.
    dry_run: bool,
    /// Requests so far.
    acts: u64,
    /// Whether the levels of the nodes cannot be read.
    lost: bool,
    /// When the last window ended.
    window: Time,
    /// Bytes that each scheme was asked to move and moved, in the order of the policy.
    moved: Vec<u64>,
}

impl World {
    /// A world with this many areas, which fill the first node but for `free_of_first`, then the
    /// next nodes.
    fn new(capacity: &[u64], areas: usize, free_of_first: u64) -> Self {
        let (mut at, mut left) = (Vec::new(), capacity.to_vec());
        left[0] -= free_of_first;
        for _ in 0..areas {
            let node = left.iter().position(|l| *l > 0).unwrap();
            left[node] -= 1;
            at.push(node);
        }
        Self {
            now: Time(1_000_000_000),
            hot: vec![false; at.len()],
            warm: 0..0,
            moves: vec![Vec::new(); at.len()],
            used: (0..capacity.len())
                .map(|node| at.iter().filter(|n| **n == node).count() as u64)
                .collect(),
            at,
            capacity: capacity.to_vec(),
            high: 0,
            lists: 0,
            listed: 0,
            armed: BTreeMap::new(),
            refusals: 0,
            no_room: true,
            dry_run: false,
            acts: 0,
            lost: false,
            window: Time(0),
            moved: Vec::new(),
        }
    }

    fn free(&self, node: usize) -> u64 {
        self.capacity[node] - self.used[node] - if node == 0 { self.listed } else { 0 }
    }

    /// Makes `n` areas hot and all others cold: from `first` on, every `nth`.
    fn heat(&mut self, first: usize, nth: usize, n: usize) {
        self.hot.fill(false);
        (0..n).for_each(|i| self.hot[first + i * nth] = true);
    }

    /// How many of the hot areas lie on the first node, in percent.
    fn hot_on_first(&self) -> usize {
        let hot = self.hot.iter().filter(|h| **h).count();
        let there = self.hot.iter().zip(&self.at).filter(|(hot, at)| **hot && **at == 0).count();
        there * 100 / hot.max(1)
    }
}

impl World {
    /// Free memory of a node as goals see it. In a dry run, areas that the run pretends to have
    /// moved count as moved.
    fn level(&self, node: usize) -> NodeLevel {
        let moves = if self.dry_run { &self.moves[..] } else { &[] };
        let pretended = moves.iter().zip(&self.at).filter(|(moves, _)| !moves.is_empty());
        let (mut to, mut from) = (0, 0);
        for (_, at) in pretended {
            to += u64::from(*at != node);
            from += u64::from(*at == node);
        }
        NodeLevel {
            free: (self.free(node) + from).saturating_sub(to) * MIB,
            total: self.capacity[node] * MIB,
            high: self.high,
            coming: if node == 0 { self.listed * MIB } else { 0 },
        }
    }

    /// Moves an area. Returns `None` while it is not yet known to be idle.
    fn act(&mut self, area: usize, request: &Request, scheme: &Scheme) -> Option<Applied> {
        let len = MIB;
        let to = usize::try_from(scheme.target_nid.unwrap()).unwrap();
        if request.action == Action::MigrateCold {
            let armed = *self.armed.entry(area).or_insert(self.now);
            if self.now.since(armed) < SECOND_NS {
                return None;
            }
        }
        // A dry run never forgets which areas it pretends to have moved.
        let rests = |at: &Time| self.dry_run || self.now.since(*at) < 30 * SECOND_NS;
        let held = self.moves[area].last().is_some_and(rests);
        if held || request.max_bytes < MIB || self.at[area] == to {
            return Some(Applied { covered: len, ..Applied::default() });
        }
        if self.refusals > 0 || (!self.dry_run && self.free(to) == 0) {
            self.refusals = self.refusals.saturating_sub(1);
            let no_room = if self.no_room { MIB } else { 0 };
            return Some(Applied { covered: len, asked: MIB, no_room, ..Applied::default() });
        }
        assert!(request.max_bytes <= scheme.quota.sz);
        if !self.dry_run {
            let from = std::mem::replace(&mut self.at[area], to);
            (self.used[from], self.used[to]) = (self.used[from] - 1, self.used[to] + 1);
            self.listed += u64::from(from == 0 && self.listed < self.lists);
        }
        self.moves[area].push(self.now);
        self.armed.remove(&area);
        self.moved.resize(self.moved.len().max(request.scheme + 1), 0);
        self.moved[request.scheme] += MIB;
        Some(Applied { covered: len, asked: MIB, applied: MIB, passed: MIB, ..Applied::default() })
    }
}

/// The world, shared by the context that acts on it and the test that looks at it.
#[derive(Debug, Clone)]
struct Shared(Rc<RefCell<World>>);

impl Operations for Shared {
    fn prepare(&mut self, _: &mut [Check]) {}

    fn check(&mut self, _: &mut [Check]) {}

    fn update(&mut self, _: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        maps.push(AddrRange::new(0, self.0.borrow().at.len() as u64 * MIB));
        Ok(())
    }

    fn target_valid(&mut self, _: TargetId) -> bool {
        true
    }

    fn next_window(&mut self) -> Option<Observation> {
        let mut world = self.0.borrow_mut();
        if world.now.since(world.window) < SECOND_NS {
            return None;
        }
        let now = world.now;
        let start = std::mem::replace(&mut world.window, now);
        world.listed -= world.listed.div_ceil(8);
        let (sample_us, aggr_us) = (ATTRS.0, ATTRS.1);
        Some(Observation { start, end: world.now, sample_us, aggr_us, ..Observation::default() })
    }

    fn observe(&mut self, _: TargetId, regions: &mut Vec<Observed>) {
        let world = self.0.borrow();
        regions.extend(world.hot.iter().enumerate().map(|(i, hot)| Observed {
            range: AddrRange::new(i as u64 * MIB, (i as u64 + 1) * MIB),
            nr_accesses: match (hot, world.warm.contains(&i)) {
                (true, _) => 15,
                (false, warm) => u32::from(warm),
            },
            age: 10,
            in_use: *hot,
        }));
    }

    fn apply(&mut self, request: &Request, scheme: &Scheme) -> Applied {
        let mut world = self.0.borrow_mut();
        world.acts += 1;
        // Regions that a pass joined are done area by area.
        let area = usize::try_from(request.range.start / MIB).unwrap();
        let later = Applied { skip: MIB.min(request.range.len()), ..Applied::default() };
        world.act(area, request, scheme).unwrap_or(later)
    }

    fn eligible(&mut self, ranges: &mut [Eligible]) {
        let world = self.0.borrow();
        for asked in ranges {
            let areas = asked.range.start / MIB..asked.range.end / MIB;
            let here = |area: &u64| {
                let area = usize::try_from(*area).unwrap();
                world.at[area] as u64 == u64::from(asked.nid)
            };
            asked.bytes = areas.filter(here).count() as u64 * MIB;
        }
    }

    fn measure(&mut self, measures: &mut [Measure]) {
        let world = self.0.borrow();
        for measure in measures.iter_mut().filter(|_| !world.lost) {
            if let Metric::NodeMemUsedBp(nid) | Metric::NodeMemFreeBp(nid) = measure.metric {
                measure.level = Some(world.level(usize::try_from(nid).unwrap()));
            }
        }
    }
}

impl Clock for Shared {
    fn now(&mut self) -> Time {
        self.0.borrow().now
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        let mut world = self.0.borrow_mut();
        world.now = world.now.max(deadline);
        false
    }
}

/// Sample and aggregation interval, in µs.
const ATTRS: (u64, u64) = (100_000, 1_000_000);

/// A context that runs the policy over a world.
struct Tiering {
    driver: Driver<Shared, Shared>,
    world: Shared,
}

impl Tiering {
    fn new(nodes: u32, world: World) -> Self {
        let knobs = Knobs { dry_run: world.dry_run, ..Knobs::default() };
        let processes = Processes { targets: vec![TargetSpec::Pid(1)], children: false };
        let policy = knobs.policy_of_processes(&hierarchy(nodes), &processes);
        let attrs = Attrs {
            sample_us: ATTRS.0,
            aggr_us: ATTRS.1,
            method: Method::Observed,
            max_nr_regions: 1 << 20,
            ..Attrs::default()
        };
        let mut context = Context::new(attrs, 1).unwrap();
        context.add_ranges(ID);
        let schemes: Vec<Scheme> =
            policy.contexts[0].schemes.iter().map(|s| s.scheme.clone()).collect();
        context.commit_schemes(schemes);
        let world = Shared(Rc::new(RefCell::new(world)));
        Self { driver: Driver::new(context, world.clone(), world.clone()), world }
    }

    fn world(&self) -> std::cell::RefMut<'_, World> {
        self.world.0.borrow_mut()
    }

    fn run_for(&mut self, seconds: u64) {
        let end = self.world().now.plus_us(seconds * 1_000_000);
        while self.world().now < end {
            assert_eq!(self.driver.run(), Event::Snapshot);
            self.driver.context.verify();
        }
    }

    /// Used and free shares of the first node, in basis points.
    fn shares(&self) -> (u64, u64) {
        let world = self.world();
        let free = world.free(0) * 10_000 / world.capacity[0];
        (10_000 - free, free)
    }

    /// Bytes moved by the n-th scheme.
    fn moved(&self, nr: usize) -> u64 {
        self.world().moved.get(nr).copied().unwrap_or(0)
    }
}

fn hierarchy(nodes: u32) -> Hierarchy {
    let link = |upper| Link { upper, lower: upper + 1, promotes: true, demotes: true };
    Hierarchy { links: (0..nodes - 1).map(link).collect(), why: Vec::new() }
}

#[test]
fn hot_memory_comes_up_and_the_goals_are_held() {
    goals_are_held(0);
    // Here the CPUs' free lists keep pages that demotion frees, and return them later.
    goals_are_held(8);
}

fn goals_are_held(lists: u64) {
    // The fast node of 1 GiB is full. Of the 1.6 GiB in use, 13 % are hot.
    let mut world = World::new(&[1024, 1024], 1638, 0);
    world.lists = lists;
    world.heat(1, 7, 205);
    let mut tiering = Tiering::new(2, world);
    for change in 0..3 {
        tiering.run_for(60);
        assert_eq!(tiering.world().hot_on_first(), 100, "change {change}");
        let (used_bp, free_bp) = tiering.shares();
        assert!(
            used_bp.abs_diff(9970) < 100 && free_bp < 150,
            "lists {lists}, change {change}: {used_bp} used, {free_bp} free"
        );
        tiering.world().heat(100 + change * 50, 6, 205);
    }
    let minute = 60 * SECOND_NS;
    for moves in &tiering.world().moves {
        let most = moves.iter().map(|at| {
            let within = |m: &&Time| **m >= *at && m.since(*at) < minute;
            moves.iter().filter(within).count()
        });
        assert!(most.max().unwrap_or(0) <= 2, "{moves:?}");
    }
}

#[test]
fn hot_and_cold_memory_change_places() {
    // Both nodes are full, apart from the memory that the goals keep free. So an area can move up
    // only after another has moved down.
    let mut world = World::new(&[1024, 1024], 2000, 5);
    world.heat(1030, 1, 500);
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(60);
    assert_eq!(tiering.world().hot_on_first(), 100);
    assert_eq!(tiering.moved(0), 500 * MIB);
    let (up, down) = (tiering.moved(0), tiering.moved(1));
    assert!(up.abs_diff(down) <= 16 * MIB, "{up} up, {down} down");
}

#[test]
fn nothing_is_moved_without_need() {
    for (name, capacity, areas, free) in [
        ("all fits into the fast node", [1024, 1024], 900, 0),
        ("all hot memory is there already", [1024, 1024], 1500, 6),
    ] {
        let mut world = World::new(&capacity, areas, free);
        world.heat(0, 1, 100);
        let mut tiering = Tiering::new(2, world);
        tiering.run_for(30);
        assert_eq!(tiering.world().moves.iter().flatten().count(), 0, "{name}");
        // An area on the slow node becomes hot, and moves up.
        let slow = tiering.world().at.iter().position(|node| *node == 1);
        if let Some(area) = slow {
            tiering.world().hot[area] = true;
            tiering.run_for(3);
            assert_eq!(tiering.world().at[area], 0, "{name}");
        }
    }
}

#[test]
fn hot_memory_on_the_fast_node_does_not_hide_what_is_less_hot_on_the_slow_one() {
    // A quota admits the regions with the best scores. The 900 MiB of hot memory on the fast node
    // score higher than the warm memory that could be promoted, and must not use up the quota.
    let mut world = World::new(&[1024, 1024], 1500, 40);
    world.heat(0, 1, 900);
    world.warm = 1400..1420;
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(10);
    let world = tiering.world();
    let up = (1400..1420).filter(|area| world.at[*area] == 0).count();
    assert_eq!(up, 20, "of 20 warm areas");
}

#[test]
fn a_quota_is_kept_and_room_is_left() {
    let mut world = World::new(&[102_400, 102_400], 110_000, 5120);
    world.heat(100_000, 1, 8000);
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(10);
    let promoted = tiering.moved(0) / MIB;
    // Nothing is known to be hot in the first second.
    assert!((1600..=2000).contains(&promoted), "{promoted} MiB in 10 s at 200 MiB/s");
    // The watermarks need 66 MiB free, which is more than the goal's own 0.3 %.
    let mut world = World::new(&[1024, 2048], 2000, 0);
    world.high = 66 * MIB;
    world.heat(1500, 1, 300);
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(60);
    assert_eq!(tiering.world().hot_on_first(), 100);
    let goals = |tiering: &Tiering, nr: usize| {
        let goal = tiering.driver.context.schemes()[nr].scheme().quota.goals[0];
        (goal.target_now(), goal.stand.unwrap().by_watermark)
    };
    // 66 MiB are 6.445 % of 1 GiB. The goals keep 0.2 % more.
    assert_eq!((goals(&tiering, 0), goals(&tiering, 1)), ((9355, true), (665, true)));
    let free = tiering.world().free(0);
    assert!((66..=72).contains(&free), "{free} MiB free");
}

#[test]
fn hot_memory_rises_through_three_tiers() {
    let mut world = World::new(&[1024, 1024, 2048], 3500, 0);
    // All hot memory is on the slowest node, and both above it are full.
    world.heat(2600, 2, 400);
    let mut tiering = Tiering::new(3, world);
    tiering.run_for(200);
    let there = tiering.world().hot_on_first();
    assert!(there >= 95, "{there}");
}

#[test]
fn a_full_slow_node_takes_nothing() {
    let mut world = World::new(&[1024, 512], 1530, 0);
    world.high = 4 * MIB;
    world.heat(1100, 1, 200);
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(60);
    let left = tiering.world().free(1);
    assert!(left >= 4, "{left} MiB free on the slow node, which needs 4");
}

#[test]
fn a_full_node_is_left_alone_for_a_while() {
    let mut world = World::new(&[1024, 1024], 1500, 100);
    world.heat(1200, 1, 200);
    world.refusals = usize::MAX;
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(31);
    let rests = tiering.driver.context.schemes()[0].nr_rests();
    assert!((4..=6).contains(&rests), "rests of 1, 2, 4, 8 and 16 s fit into 31 s, not {rests}");
    tiering.world().refusals = 0;
    tiering.run_for(60);
    assert_eq!(tiering.world().hot_on_first(), 100);
}

#[test]
fn pages_that_cannot_be_moved_are_no_reason_to_rest() {
    // The first 50 requests are refused because pages are pinned; the node has room.
    let mut world = World::new(&[1024, 1024], 1500, 100);
    world.heat(1200, 1, 80);
    (world.refusals, world.no_room) = (50, false);
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(5);
    assert_eq!(tiering.driver.context.schemes()[0].nr_rests(), 0);
    assert_eq!(tiering.world().hot_on_first(), 100);
}

#[test]
fn a_dry_run_moves_nothing_and_says_what_it_would() {
    let mut world = World::new(&[1024, 1024], 1500, 0);
    world.dry_run = true;
    world.heat(1200, 1, 200);
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(60);
    assert_eq!(tiering.world().hot_on_first(), 0);
    let (up, down) = (tiering.moved(0) / MIB, tiering.moved(1) / MIB);
    assert_eq!(up, 200, "MiB: each hot area once, although the fast node is full");
    assert!(down >= 200, "{down} MiB");
}

#[test]
fn without_levels_nothing_is_moved() {
    let mut world = World::new(&[1024, 1024], 1500, 0);
    world.heat(1200, 1, 200);
    world.lost = true;
    let mut tiering = Tiering::new(2, world);
    tiering.run_for(5);
    assert_eq!(tiering.world().acts, 0);
    tiering.world().lost = false;
    tiering.run_for(60);
    assert_eq!(tiering.world().hot_on_first(), 100, "goes on when the levels can be read again");
}
