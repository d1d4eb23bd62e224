//! Our own engine: which memory goes where, step by step.
//!
//! A step is short (0.1 s) and does little: over each link it demotes what the upper node lacks of its free goal, then
//! promotes as much as there is room for. While hot memory waits on the lower node, demotion keeps a little more
//! free than its goal says (a quarter of a percent of the node), so that both go on at the same pace and the node is
//! never filled to its watermarks: promotion is never blocked, and the kernel's own reclaim never woken.
//!
//! How much a step may move is the core's to say ([`QuotaState`], with the scheme's goal as it stands at the step);
//! which regions come first is the core's score. Which pages of a region: those on the link's other node that are
//! young (promotion), or proven idle one by one (demotion); that is the hands' part.
//!
//! Invariants: promotion stops at the upper node's used goal, or at its high watermark if that is more; demotion
//! never goes below its free goal by more than what waits; a refused promotion (`ENOMEM`) rests for a second, then
//! for twice as long each time, up to 16 s.
//!
//! Absent: I/O.

use isotherm_act::apply::Settings;
use isotherm_core::scheme::score::{Facts, score};
use isotherm_core::scheme::{QuotaState, Scheme};
use isotherm_core::{AddrRange, Applied, Attrs, Request, Snapshot, TargetId, Time};
use isotherm_host::nodes::Level;
use serde::Serialize;

use super::heat::HeatTable;
use super::hierarchy::{Hierarchy, Link};
use super::knobs::Knobs;
use super::placed::{Placed, Placement};

/// How long a step may take, in ns: the monitor samples nothing meanwhile.
const STEP_NS: u64 = 50_000_000;
/// What demotion keeps free beyond its goal while hot memory waits, at most, in basis points of the node. Some is left of it when nothing waits any more.
const HEADROOM_BP: u64 = 25;
/// While more than this waits, in basis points of the node, promotion needs room now, and what CPUs will give back from their lists is no room yet.
const MUCH_BP: u64 = 100;
/// The overlap of the two goals, in basis points, which is kept where watermarks move them.
const OVERLAP_BP: u64 = 20;
/// A request is for no more than this, in bytes: what is looked at closely to move a part of it.
const PIECE: u64 = 8 << 20;
/// In a step, so many times as much as may be moved is looked at, or begun to be watched.
const AHEAD: u64 = 16;
/// The smallest region, in bytes.
const PAGE: u64 = 4096;
const SECOND_NS: u64 = 1_000_000_000;
/// The longest rest after refused promotions, in ns.
const LONGEST_REST_NS: u64 = 16 * SECOND_NS;

/// What the engine does things with.
pub trait Hands {
    /// The levels of the hierarchy's nodes, in their order.
    ///
    /// # Errors
    ///
    /// What could not be read, for people.
    fn levels(&mut self) -> Result<Vec<Level>, String>;
    /// How many bytes of a range are on each of the hierarchy's nodes.
    fn bytes_on(&mut self, target: TargetId, range: AddrRange, bytes: &mut Vec<u64>);
    /// Does a request.
    fn act(&mut self, request: &Request, scheme: &Scheme) -> Applied;
    /// The time.
    fn now(&self) -> Time;
}

/// A scheme of a link.
#[derive(Debug)]
struct Side {
    /// Its number for the hands.
    number: usize,
    scheme: Scheme,
    quota: QuotaState,
    /// Bytes moved; in a dry run, that would have been.
    moved: u64,
}

/// A link at work.
#[derive(Debug)]
struct Worked {
    link: Link,
    /// The places of upper and lower among the nodes.
    at: [usize; 2],
    promote: Side,
    demote: Side,
    pressure: Pressure,
    /// When promotion goes on after it was refused, and how long it rested.
    rest: Option<(Time, u64)>,
    nr_rests: u64,
}

/// What presses on an upper node: its goals as they are used, which its watermarks may have moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Pressure {
    /// Bytes that promotion leaves free.
    pub floor: u64,
    /// Bytes that demotion keeps free.
    pub keep: u64,
    /// Whether the node's watermarks are above the goals asked for, so that others are used.
    pub by_watermarks: bool,
    /// Bytes that wait to be promoted.
    pub waiting: u64,
}

impl Pressure {
    /// The goals of the knobs, or higher ones where the node's watermarks are above them.
    pub(super) fn of(level: Level, knobs: &Knobs) -> Self {
        let goal = bp(level.total, 10_000_u64.saturating_sub(knobs.used_bp));
        let floor = goal.max(level.high);
        let asked = bp(level.total, knobs.free_bp);
        let keep =
            if floor > goal { asked.max(floor + bp(level.total, OVERLAP_BP)) } else { asked };
        Self { floor, keep, by_watermarks: floor > goal, waiting: 0 }
    }
}

/// How a link stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkStanding {
    /// The faster node.
    pub upper: u32,
    /// The slower node.
    pub lower: u32,
    /// What of the faster node is used, in basis points.
    pub used_bp: u64,
    /// What of it is free, in basis points.
    pub free_bp: u64,
    /// The goal of promotion, in basis points used.
    pub used_goal_bp: u64,
    /// The goal of demotion, in basis points free.
    pub free_goal_bp: u64,
    /// Whether watermarks moved the goals.
    pub by_watermarks: bool,
    /// Bytes promoted so far.
    pub promoted: u64,
    /// Bytes demoted so far.
    pub demoted: u64,
    /// Bytes that wait to be promoted.
    pub waiting: u64,
    /// How often promotion rested because the node had no room.
    pub rests: u64,
}

impl LinkStanding {
    pub(super) fn new(
        link: Link,
        level: Level,
        pressure: Pressure,
        promoted: u64,
        demoted: u64,
        rests: u64,
    ) -> Self {
        let free_bp = bp_of(level.free, level.total);
        Self {
            upper: link.upper,
            lower: link.lower,
            used_bp: 10_000 - free_bp.min(10_000),
            free_bp,
            used_goal_bp: 10_000 - bp_of(pressure.floor, level.total).min(10_000),
            free_goal_bp: bp_of(pressure.keep, level.total),
            by_watermarks: pressure.by_watermarks,
            promoted,
            demoted,
            waiting: pressure.waiting,
            rests,
        }
    }
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    nodes: Vec<u32>,
    links: Vec<Worked>,
    memory: Placement,
    /// Counts steps.
    turn: u64,
    is_idle: bool,
    attrs: Attrs,
    knobs: Knobs,
    levels: Vec<Level>,
    /// Bytes that a dry run has moved to each node; less than 0: from it.
    pretended: Vec<i64>,
}

impl Engine {
    /// An engine for a hierarchy, and how its hands carry out each scheme.
    #[must_use]
    pub fn new(hierarchy: &Hierarchy, knobs: &Knobs) -> (Self, Vec<Settings>) {
        let nodes = hierarchy.nodes();
        let place = |node: u32| nodes.iter().position(|n| *n == node).unwrap_or(0);
        let (mut links, mut settings) = (Vec::new(), Vec::new());
        for &link in &hierarchy.links {
            let mut side = |scheme: Scheme, how: Settings| {
                settings.push(how);
                let scheme = knobs.stepwise(scheme);
                Side { number: settings.len() - 1, scheme, quota: QuotaState::default(), moved: 0 }
            };
            let [up, down] = knobs.settings(link);
            links.push(Worked {
                link,
                at: [place(link.upper), place(link.lower)],
                promote: side(knobs.promote(link), up),
                demote: side(knobs.demote(link), down),
                pressure: Pressure::default(),
                rest: None,
                nr_rests: 0,
            });
        }
        let engine = Self {
            pretended: vec![0; nodes.len()],
            memory: Placement::new(nodes.len()),
            nodes,
            links,
            turn: 0,
            is_idle: false,
            attrs: knobs.attrs,
            knobs: knobs.clone(),
            levels: Vec::new(),
        };
        (engine, settings)
    }

    /// Takes in a finished window. What was known of where its memory is stays known.
    pub fn snapshot(&mut self, hands: &mut dyn Hands, snapshot: &Snapshot, attrs: &Attrs) {
        self.attrs = *attrs;
        self.memory.window(snapshot);
        self.memory.look(hands);
    }

    /// A step over all links.
    ///
    /// # Errors
    ///
    /// If the levels of the nodes cannot be read; nothing is moved then.
    pub fn step(&mut self, hands: &mut dyn Hands) -> Result<(), String> {
        self.memory.look(hands);
        self.turn = self.turn.wrapping_add(1);
        self.read_levels(hands)?;
        self.is_idle = true;
        for nr in 0..self.links.len() {
            self.press(nr);
            // Who goes second may find the time used up by a call that took longer than it was given.
            let demotion_first = self.turn.is_multiple_of(2);
            for demotes in [demotion_first, !demotion_first] {
                let moved = if demotes { self.demote(nr, hands) } else { self.promote(nr, hands) };
                // Reading levels is most of the cost of a step that moves nothing.
                if moved > 0 {
                    self.is_idle = false;
                    self.read_levels(hands)?;
                }
            }
            let worked = &self.links[nr];
            let free = self.levels.get(worked.at[0]).map_or(0, |level| level.free);
            self.is_idle &= worked.pressure.waiting == 0 && free >= worked.pressure.keep;
        }
        Ok(())
    }

    /// Whether the last step moved nothing and the next one will not, as long as levels and windows stay as they are.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.is_idle
    }

    fn read_levels(&mut self, hands: &mut dyn Hands) -> Result<(), String> {
        self.levels = hands.levels()?;
        for (level, more) in self.levels.iter_mut().zip(&self.pretended) {
            level.free = level.free.saturating_add_signed(-more).min(level.total);
        }
        Ok(())
    }

    /// What presses on a link's upper node now.
    fn press(&mut self, nr: usize) {
        let worked = &mut self.links[nr];
        let level = self.levels.get(worked.at[0]).copied().unwrap_or_default();
        let hot = self.memory.regions.iter().filter(|r| r.nr_accesses > 0);
        let waiting = hot.map(|r| r.on.get(worked.at[1]).copied().unwrap_or(0)).sum();
        worked.pressure = Pressure { waiting, ..Pressure::of(level, &self.knobs) };
    }

    /// Demotes over a link; returns the bytes moved.
    fn demote(&mut self, nr: usize, hands: &mut dyn Hands) -> u64 {
        if !self.links[nr].link.demotes {
            return 0;
        }
        let time_ns = self.time_ns();
        let [upper, lower] = self.links[nr].at;
        let (level, below) = (self.levels[upper], self.levels[lower]);
        let worked = &mut self.links[nr];
        let extra = if worked.link.promotes {
            worked.pressure.waiting.min(bp(level.total, HEADROOM_BP))
        } else {
            0
        };
        let want = worked.pressure.keep + extra;
        // What demotion freed stays on a CPU's list for seconds. Towards the end it counts, or more would be demoted than the goal says.
        let is_much = worked.link.promotes && worked.pressure.waiting > bp(level.total, MUCH_BP);
        let coming = if is_much { 0 } else { level.coming };
        // A node that is full itself takes nothing.
        let room_below = below.free.saturating_sub(below.high);
        let most = want.saturating_sub(level.free + coming).min(room_below);
        let free_bp = bp_of(level.free, level.total);
        let side = &mut worked.demote;
        // At least one: a goal of 0 would not count.
        set_goal(side, free_bp, bp_of(want, level.total).max(1));
        if most < PAGE {
            return 0;
        }
        let order = order(&self.memory.regions, side, &self.attrs, |r| r.nr_accesses == 0, upper);
        let moved =
            run(hands, &mut self.memory.regions, &order, side, [upper, lower], most, time_ns);
        self.pretend(upper, lower, moved.applied);
        moved.applied
    }

    /// Promotes over a link; returns the bytes moved.
    fn promote(&mut self, nr: usize, hands: &mut dyn Hands) -> u64 {
        if !self.links[nr].link.promotes {
            return 0;
        }
        let time_ns = self.time_ns();
        let [upper, lower] = self.links[nr].at;
        let level = self.levels[upper];
        let worked = &mut self.links[nr];
        let now = hands.now();
        if worked.rest.is_some_and(|(until, _)| now < until) {
            return 0;
        }
        let most = level.free.saturating_sub(worked.pressure.floor);
        let side = &mut worked.promote;
        let goal_bp = 10_000 - bp_of(worked.pressure.floor, level.total).min(10_000);
        set_goal(side, 10_000 - bp_of(level.free, level.total).min(10_000), goal_bp);
        // Goals are in basis points: less than one of those left is left.
        if most < PAGE {
            return 0;
        }
        let order =
            order(&self.memory.regions, side, &self.attrs, |r| r.known && r.nr_accesses > 0, lower);
        let moved =
            run(hands, &mut self.memory.regions, &order, side, [lower, upper], most, time_ns);
        if moved.asked > 0 && moved.applied * 2 < moved.asked {
            let rested = worked.rest.map_or(SECOND_NS / 2, |(_, rested)| rested);
            let rest = (rested * 2).min(LONGEST_REST_NS);
            worked.rest = Some((Time(now.as_ns() + rest), rest));
            worked.nr_rests += 1;
        } else if moved.applied > 0 {
            worked.rest = None;
        }
        self.pretend(lower, upper, moved.applied);
        moved.applied
    }

    /// How long each scheme may take in a step: all the same, so that none that finds nothing to do keeps another from what there is.
    fn time_ns(&self) -> u64 {
        STEP_NS / (2 * self.links.len().max(1) as u64)
    }

    fn pretend(&mut self, from: usize, to: usize, bytes: u64) {
        if self.knobs.dry_run {
            let bytes = i64::try_from(bytes).unwrap_or(0);
            self.pretended[from] -= bytes;
            self.pretended[to] += bytes;
        }
    }

    /// The nodes, ascending.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// How hot memory is, node by node, as last looked up.
    #[must_use]
    pub fn heat(&self) -> HeatTable {
        HeatTable::new(
            &self.nodes,
            &self.memory.regions,
            self.attrs.max_nr_accesses(),
            self.attrs.aggr_us,
        )
    }

    /// How each link stands.
    #[must_use]
    pub fn standing(&self) -> Vec<LinkStanding> {
        let standing = |w: &Worked| {
            let level = self.levels.get(w.at[0]).copied().unwrap_or_default();
            let (up, down) = (w.promote.moved, w.demote.moved);
            LinkStanding::new(w.link, level, w.pressure, up, down, w.nr_rests)
        };
        self.links.iter().map(standing).collect()
    }
}

/// So many basis points of a node.
const fn bp(total: u64, bp: u64) -> u64 {
    total / 10_000 * bp
}

/// The nearest: [`bp`] rounds down, and what was asked for is to be seen again.
pub(super) fn bp_of(part: u64, all: u64) -> u64 {
    let (part, all) = (part / 64, all / 64);
    part.saturating_mul(10_000).saturating_add(all / 2).checked_div(all).unwrap_or(0)
}

/// The scheme's goal as it stands now.
fn set_goal(side: &mut Side, current: u64, target: u64) {
    if let Some(goal) = side.scheme.quota.goals.first_mut() {
        goal.target = target;
        goal.measured(Some(current), false);
    }
}

/// The regions that a scheme is for, that have something on a node, by score.
fn order(
    regions: &[Placed],
    side: &Side,
    attrs: &Attrs,
    is_for: impl Fn(&Placed) -> bool,
    from: usize,
) -> Vec<usize> {
    let mut all: Vec<(u32, usize)> = Vec::new();
    for (nr, region) in regions.iter().enumerate() {
        if is_for(region) && region.on.get(from).is_some_and(|bytes| *bytes >= PAGE) {
            let facts =
                Facts { sz: region.range.len(), nr_accesses: region.nr_accesses, age: region.age };
            let by = side.scheme.action.order();
            all.push((score(by, facts, side.scheme.quota.weights, attrs), nr));
        }
    }
    // The highest score first; regions alike in the order of their addresses.
    all.sort_by_key(|(score, nr)| (u32::MAX - score, *nr));
    all.into_iter().map(|(_, nr)| nr).collect()
}

/// What a scheme did in a step.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    asked: u64,
    applied: u64,
}

/// Applies a scheme to regions in this order, as far as its quota, `most` bytes and its time go.
fn run(
    hands: &mut dyn Hands,
    regions: &mut [Placed],
    order: &[usize],
    side: &mut Side,
    [from, to]: [usize; 2],
    most: u64,
    time_ns: u64,
) -> Sum {
    let begin = hands.now();
    side.quota.adjust(&side.scheme.quota, begin, PAGE, false);
    let (mut sum, mut offered) = (Sum::default(), 0);
    // What has to be proven idle takes a while, so more of it is begun than is needed at once.
    let enough = side.quota.left(PAGE).min(most).saturating_mul(AHEAD).max(8 * PIECE);
    for &nr in order {
        let region = &mut regions[nr];
        let mut at = region.range.start;
        while at < region.range.end {
            let left = side.quota.left(PAGE).min(most.saturating_sub(sum.asked));
            let spent = hands.now().since(begin);
            if left < PAGE || spent >= time_ns || offered > enough {
                return sum;
            }
            // Whole pieces at whole addresses, so that none is looked at in two halves.
            let end = (at / PIECE + 1).saturating_mul(PIECE).min(region.range.end);
            let request = Request {
                scheme: side.number,
                action: side.scheme.action,
                target: region.target,
                range: AddrRange::new(at, end),
                nr_accesses: region.nr_accesses,
                age: region.age,
                bypass_filters: false,
                charged: 0,
                max_bytes: left / PAGE * PAGE,
                max_ns: time_ns - spent,
            };
            let did = hands.act(&request, &side.scheme);
            side.quota.charged_sz += did.asked;
            side.quota.spend(did.ns);
            sum.asked += did.asked;
            sum.applied += did.applied;
            side.moved += did.applied;
            region.on[from] = region.on[from].saturating_sub(did.applied);
            region.on[to] += did.applied;
            if did.asked == 0 {
                offered += end - at;
                // What was looked through has nothing to move, until it is looked up again.
                region.on[from] = region.on[from].saturating_sub(did.covered);
            }
            at = match (did.covered, did.skip) {
                (0, 0) => end,
                (0, skip) => at.saturating_add(skip),
                (covered, _) => at.saturating_add(covered),
            };
        }
    }
    sum
}

#[cfg(test)]
mod tests;
