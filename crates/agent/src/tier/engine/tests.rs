//! The engine over made-up memory: two or three nodes, areas of 1 MiB that are hot or not.

use std::collections::BTreeMap;

use isotherm_core::scheme::Action;
use isotherm_core::snapshot::{RegionInfo, TargetInfo};

use super::*;

const MIB: u64 = 1 << 20;
const ID: TargetId = TargetId(1);

/// Memory of 1 MiB areas.
#[derive(Debug)]
struct World {
    now: Time,
    /// Node of each area.
    at: Vec<usize>,
    hot: Vec<bool>,
    capacity: Vec<u64>,
    high: u64,
    /// How many areas of the first node the lists of CPUs can hold, and hold now.
    lists: u64,
    listed: u64,
    /// Since when an area is watched for being idle.
    armed: BTreeMap<usize, Time>,
    /// When each area was moved.
    moves: Vec<Vec<Time>>,
    /// Areas that the kernel refuses to move.
    pinned: usize,
    dry_run: bool,
    acts: u64,
    lost: bool,
}

impl World {
    /// Filled from the first node on, with so many areas.
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
            moves: vec![Vec::new(); at.len()],
            at,
            capacity: capacity.to_vec(),
            high: 0,
            lists: 0,
            listed: 0,
            armed: BTreeMap::new(),
            pinned: 0,
            dry_run: false,
            acts: 0,
            lost: false,
        }
    }

    fn free(&self, node: usize) -> u64 {
        let used = self.at.iter().filter(|n| **n == node).count() as u64;
        self.capacity[node] - used - if node == 0 { self.listed } else { 0 }
    }

    /// Makes every `nth` area hot from `first` on, `n` of them.
    fn heat(&mut self, first: usize, nth: usize, n: usize) {
        self.hot.fill(false);
        (0..n).for_each(|i| self.hot[first + i * nth] = true);
    }

    fn snapshot(&self) -> Snapshot {
        let regions = self.hot.iter().enumerate().map(|(i, hot)| RegionInfo {
            range: AddrRange::new(i as u64 * MIB, (i as u64 + 1) * MIB),
            nr_accesses: if *hot { 15 } else { 0 },
            age: 10,
            resolved: true,
            ..RegionInfo::default()
        });
        let targets = vec![TargetInfo { id: ID, regions: regions.collect() }];
        Snapshot { max_nr_accesses: 20, targets, ..Snapshot::default() }
    }

    /// The share of the hot areas that is on the first node, in percent.
    fn hot_on_first(&self) -> usize {
        let hot = self.hot.iter().filter(|h| **h).count();
        let there = self.hot.iter().zip(&self.at).filter(|(hot, at)| **hot && **at == 0).count();
        there * 100 / hot.max(1)
    }
}

impl Hands for World {
    fn levels(&mut self) -> Result<Vec<Level>, String> {
        if self.lost {
            return Err("unplugged".to_owned());
        }
        let nodes = 0..self.capacity.len();
        let level = |node: usize| Level {
            free: self.free(node) * MIB,
            total: self.capacity[node] * MIB,
            high: self.high,
            boost: 0,
            coming: if node == 0 { self.listed * MIB } else { 0 },
        };
        Ok(nodes.map(level).collect())
    }

    fn bytes_on(&mut self, _: TargetId, range: AddrRange, bytes: &mut Vec<u64>) {
        bytes.clear();
        bytes.resize(self.capacity.len(), 0);
        bytes[self.at[usize::try_from(range.start / MIB).unwrap()]] = range.len();
    }

    fn act(&mut self, request: &Request, scheme: &Scheme) -> Applied {
        self.acts += 1;
        let (area, len) =
            (usize::try_from(request.range.start / MIB).unwrap(), request.range.len());
        let to = usize::try_from(scheme.target_nid.unwrap()).unwrap();
        if request.action == Action::MigrateCold {
            let armed = *self.armed.entry(area).or_insert(self.now);
            if self.now.since(armed) < SECOND_NS {
                return Applied { skip: len, ..Applied::default() };
            }
        }
        // What a dry run pretends to have moved is remembered for ever.
        let rests = |at: &Time| self.dry_run || self.now.since(*at) < 30 * SECOND_NS;
        let held = self.moves[area].last().is_some_and(rests);
        if held || request.max_bytes < MIB || self.at[area] == to {
            return Applied { covered: len, ..Applied::default() };
        }
        if self.pinned > 0 || (!self.dry_run && self.free(to) == 0) {
            self.pinned = self.pinned.saturating_sub(1);
            return Applied { covered: len, asked: MIB, ..Applied::default() };
        }
        assert!(request.max_bytes <= scheme.quota.sz);
        if !self.dry_run {
            let from = std::mem::replace(&mut self.at[area], to);
            self.listed += u64::from(from == 0 && self.listed < self.lists);
        }
        self.moves[area].push(self.now);
        self.armed.remove(&area);
        Applied { covered: len, asked: MIB, applied: MIB, passed: MIB, ..Applied::default() }
    }

    fn now(&self) -> Time {
        self.now
    }
}

fn hierarchy(nodes: u32) -> Hierarchy {
    let link = |upper| Link { upper, lower: upper + 1, promotes: true, demotes: true };
    Hierarchy { links: (0..nodes - 1).map(link).collect(), why: Vec::new() }
}

fn engine(nodes: u32, dry_run: bool) -> Engine {
    let knobs = Knobs { dry_run, ..Knobs::default() };
    Engine::new(&hierarchy(nodes), &knobs).0
}

/// Runs for so many seconds.
fn run_for(engine: &mut Engine, world: &mut World, seconds: u64) {
    for step in 0..seconds * 10 {
        world.now = Time(world.now.as_ns() + SECOND_NS / 10);
        if step % 10 == 0 {
            world.listed -= world.listed.div_ceil(8);
            let (snapshot, attrs) = (world.snapshot(), Attrs::default());
            engine.snapshot(world, &snapshot, &attrs);
        }
        engine.step(world).unwrap();
    }
}

#[test]
fn hot_memory_comes_up_and_the_goals_are_held() {
    goals_are_held(0);
    // Pages that demotion frees come back from the lists of CPUs later.
    goals_are_held(80);
}

fn goals_are_held(lists: u64) {
    // 10 GiB fast, full; 16 GiB in use, 13 % of it hot.
    let mut world = World::new(&[10_240, 10_240], 16_384, 0);
    world.lists = lists;
    let mut engine = engine(2, false);
    world.heat(1, 7, 2048);
    for change in 0..3 {
        run_for(&mut engine, &mut world, 60);
        assert_eq!(world.hot_on_first(), 100, "change {change}");
        let standing = engine.standing();
        let link = &standing[0];
        assert!(
            link.used_bp.abs_diff(9970) < 100 && link.free_bp < 150,
            "lists {lists}, change {change}: {link:?}"
        );
        world.heat(1000 + change * 500, 6, 2048);
    }
    let minute = 60 * SECOND_NS;
    for moves in &world.moves {
        let most = moves.iter().map(|at| {
            let within = |m: &&Time| **m >= *at && m.since(*at) < minute;
            moves.iter().filter(within).count()
        });
        assert!(most.max().unwrap_or(0) <= 2, "{moves:?}");
    }
}

#[test]
fn nothing_is_moved_without_need() {
    for (name, capacity, areas, free) in [
        ("all fits into the fast node", [1024, 1024], 900, 0),
        ("all hot memory is there already", [1024, 1024], 1500, 6),
    ] {
        let mut world = World::new(&capacity, areas, free);
        world.heat(0, 1, 100);
        let mut engine = engine(2, false);
        run_for(&mut engine, &mut world, 30);
        assert_eq!(world.moves.iter().flatten().count(), 0, "{name}");
        assert!(engine.is_idle(), "{name}");
        // Something hot on the slow node.
        if let Some(area) = world.at.iter().position(|node| *node == 1) {
            world.hot[area] = true;
            run_for(&mut engine, &mut world, 1);
            assert!(!engine.is_idle() || world.at[area] == 0, "{name}");
        }
    }
}

#[test]
fn a_quota_is_kept_and_room_is_left() {
    let mut world = World::new(&[102_400, 102_400], 110_000, 5120);
    world.heat(100_000, 1, 8000);
    let mut engine = engine(2, false);
    run_for(&mut engine, &mut world, 10);
    let promoted = engine.standing()[0].promoted / MIB;
    assert!((1800..=2000).contains(&promoted), "{promoted} MiB in 10 s at 200 MiB/s");
    // 66 MiB are needed by the watermarks, which is more than 0.3 %.
    let mut world = World::new(&[1024, 2048], 2000, 0);
    (world.high, world.now) = (66 * MIB, Time(SECOND_NS));
    world.heat(1500, 1, 300);
    let mut engine = self::engine(2, false);
    run_for(&mut engine, &mut world, 60);
    assert_eq!(world.hot_on_first(), 100);
    let link = &engine.standing()[0];
    assert!(link.by_watermarks && world.free(0) >= 66, "{link:?}, {} free", world.free(0));
    // 6.445 % of 1 GiB.
    assert_eq!(link.used_goal_bp, 9355, "{link:?}");
}

#[test]
fn three_tiers_pass_it_on() {
    let mut world = World::new(&[1024, 1024, 2048], 3500, 0);
    // All hot memory is on the slowest node, and both above it are full.
    world.heat(2600, 2, 400);
    run_for(&mut engine(3, false), &mut world, 200);
    assert!(world.hot_on_first() >= 95, "{}", world.hot_on_first());
}

#[test]
fn a_full_node_is_left_alone_for_a_while() {
    let mut world = World::new(&[1024, 1024], 1500, 100);
    world.heat(1200, 1, 200);
    world.pinned = usize::MAX;
    let mut engine = engine(2, false);
    run_for(&mut engine, &mut world, 30);
    let link = &engine.standing()[0];
    assert!((4..=6).contains(&link.rests), "1, 2, 4, 8, 16 s: {link:?}");
    world.pinned = 0;
    run_for(&mut engine, &mut world, 60);
    assert_eq!(world.hot_on_first(), 100);
}

#[test]
fn a_dry_run_moves_nothing_and_says_what_it_would() {
    let mut world = World::new(&[1024, 1024], 1500, 0);
    world.dry_run = true;
    world.heat(1200, 1, 200);
    let mut engine = engine(2, true);
    run_for(&mut engine, &mut world, 60);
    assert_eq!(world.hot_on_first(), 0);
    let link = &engine.standing()[0];
    assert_eq!(link.promoted / MIB, 200, "each once, as if there were room: {link:?}");
    assert!(link.demoted / MIB >= 200, "{link:?}");
}

#[test]
fn without_levels_nothing_is_moved() {
    let mut world = World::new(&[1024, 1024], 1500, 0);
    world.heat(1200, 1, 200);
    let mut engine = engine(2, false);
    world.lost = true;
    let snapshot = world.snapshot();
    engine.snapshot(&mut world, &snapshot, &Attrs::default());
    assert_eq!(engine.step(&mut world), Err("unplugged".to_owned()));
    assert_eq!(world.acts, 0);
}
