//! `census`: every page, a unit of 2 MiB at a time.
//!
//! To make one page old from user space costs up to 20 µs; to make 512 neighbours old costs hardly
//! more, because a flush of the TLB is paid per call. To look at 512 pages costs 1.4 µs. So whole
//! units are *armed* and looked at, and nothing is guessed: a region's count is the share of its
//! pages that were touched within one sample, times the largest count. Regions are a summary that
//! is drawn anew at the end of every window.
//!
//! ```text
//! arm:   what was never armed, in rounds; what changed, out of turn; the rest, rarer if it stays
//! look:  1 sample, 1 window, 1 s, 10 s, 1 min after arming; and all in turn, at windows' ends
//! sentinel: one page of a hot unit, armed alone: shows at once when hot memory goes cold
//! ```
//!
//! * `unit`: what is known of one unit; `planes`: its pages that were touched within spans;
//! * `map`: the units of a target, and the orders in which they take their turns;
//! * `turns`: which units have their turn;
//! * `changes`: what is done out of turn where memory has changed;
//! * `budget`: CPU time that may be used;
//! * `cross`: pages all over a target that are made old at once, where turns leave a doubt;
//! * `touched`: how much was touched within spans, over all units; `lost`: what others hide of it;
//! * `draw`: regions from units.
//!
//! Invariants: no page is called idle that no look has answered for. Real times of looks count, so
//! a late look is used and not trusted for more. The budget is overdrawn only for memory that has
//! changed, and that is paid back. Absent: merging and splitting by the loop.

mod budget;
mod changes;
mod cross;
mod curve;
mod draw;
mod lost;
mod map;
mod planes;
mod touched;
mod turns;
mod unit;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Reverse;

use self::budget::Budget;
use self::changes::Changes;
use self::draw::{Run, Runs};
use self::lost::widened;
use self::map::{CHUNK, Crossing, Map, Outlook, Spared, from, of_target, place, unit_at};
use self::planes::{EARLY, is_over};
use self::turns::Turns;
use super::Wish;
use super::method::{Ended, Sampler, Scene};
use super::observed::take;
use crate::addr::PAGE_SIZE;
use crate::attrs::Attrs;
use crate::interval::count;
use crate::ops::{ClearRate, Observed, Reclaimed};
use crate::snapshot::{RegionInfo, SPANS, TargetInfo, UnitInfo};
use crate::target::{Target, TargetId, place_of};
use crate::time::Time;
use crate::unit::UnitCheck;

/// The most units of a target that are armed before one sample: 16 MiB, so that a set needs one
/// call, and the target's mmap lock is free between the calls.
const MOST_ARMED: usize = CHUNK;
/// Time until units that can only be made old together are asked about again, in ns: after the
/// first question, and at most. The set knows how often that may be done, and has to look at all of
/// them to find out.
const TOGETHER_REST_NS: (u64, u64) = (250_000_000, 2_000_000_000);
/// To find out which units have become shared, all are looked at, and the kernel is asked about
/// their young pages. Again after this time for each unit, in ns: 1 s for 100 MiB, 10 s for 1 GiB.
const DOUBT_REST_NS: u64 = 20_000_000;
/// Pages of a unit that can only be made old together with all memory of the target, so that it is
/// likely that this is so for much of it.
const MUCH_TOGETHER: u64 = 256;
/// When something changes, regions are drawn after one in this many parts of the time that the last
/// drawing has to be paid for. What that is too early is made up for afterwards.
const HASTE: u64 = 4;
/// The longest time for which a drawing has to be paid for, in ns.
const LONGEST_KEPT_NS: u64 = 60_000_000_000;
/// Of memory that is spared, one in this many units is made old, at most once in this time, in ns.
/// Reclaim decides by the same accessed bits, and the advice that clears them makes pages inactive
/// as well: where it is given every 3 s, memory that is touched once a second is paged out and
/// comes back two to six times as often. One unit in 16 every 12 s still showed in the faults, one
/// in 128 does not.
const SPARED: (usize, u64) = (128, 12_000_000_000);
/// Of memory that is spared and was never made old, one in this many units is, once: what is known
/// of the rest is what is known of those. To make all of it old moves all of it to the end of the
/// queue that reclaim takes from, and memory in use is paged out until it has gone through once.
const SPARED_FIRST: usize = 16;
/// Units that are tried for a sentinel, per window: usually, and after something has changed. And
/// the fewest of each target where there are many, of as many targets as the larger of these
/// numbers allows. The others follow in the next windows.
const SENTINELS_TRIED: (usize, usize) = (256, 4096);
const LEAST_TRIED: usize = 16;
/// A list of looks to come is not shortened below this number.
const LEAST_PRUNED: usize = 4096;
/// Times between arming and looks after the window, in ns.
const LATER_NS: [u64; 3] = [1_000_000_000, 10_000_000_000, 60_000_000_000];

/// A unit that is to be looked at.
#[derive(Debug, Clone, Copy)]
struct Due {
    sample: u64,
    target: TargetId,
    start: u64,
    /// When it was armed. If it was armed again since, another entry stands for it.
    since: Time,
}

/// The state of the method in one context.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// One per target, in the order of the targets.
    maps: Vec<Map>,
    /// What is spared of targets that have no map yet: the set is asked before memory is.
    early: Vec<(TargetId, Spared)>,
    /// Looks to come, per time between arming and look. Each list is in order of time, up to the
    /// few samples that it took to make the units of one batch old.
    due: [VecDeque<Due>; 2 + LATER_NS.len()],
    /// Looks to come before the window is over, at units with cells that are waited for.
    soon: Vec<Due>,
    /// How long each of these lists may grow until what is out of date is taken out.
    prune_at: [usize; 2 + LATER_NS.len()],
    /// The target that comes first when units are armed in turn.
    first_map: usize,
    /// The target whose units are tried first for a sentinel.
    sentinels_from: usize,
    changes: Changes,
    crossing: Crossing,
    budget: Budget,
    /// Units of which a page was armed alone in this window.
    watched_alone: Vec<(TargetId, u64)>,
    runs: Runs,
    observed: Vec<Observed>,
    /// How often others clear accessed bits.
    others: ClearRate,
    /// The sample interval when regions were drawn, and the spans of the last looks, in ns.
    sample_us: u64,
    spans: [u64; SPANS],
    /// In how many windows the drawings so far are paid for, and how many the last one cost.
    draw_after: u64,
    draw_cost: u64,
    /// Whether something has changed that regions should show soon.
    changed: bool,
    /// The place of the map that was asked for last.
    asked: usize,
    /// Whether there was nothing left to arm when it was tried last.
    idle: bool,
    /// Whether a window begins, so that sentinels are chosen.
    window_begins: bool,
}

impl Sampler for Census {
    fn start(&mut self, scene: &mut Scene<'_>) {
        self.budget.begin(scene.attrs.budget_bp, scene.now);
        self.fit(scene);
        self.window_begins = true;
    }

    /// The looks to come are counted in samples, so they are counted anew.
    fn rescale(&mut self, scene: &mut Scene<'_>, old_us: u64) {
        let (passed, new_us) = (scene.passed, scene.attrs.sample_us.max(1));
        self.maps.iter_mut().for_each(|map| map.cross.stop());
        for due in self.due.iter_mut().flatten().chain(&mut self.soon) {
            let us = due.sample.saturating_sub(passed).saturating_mul(old_us);
            due.sample = passed.saturating_add(us / new_us).max(passed + 1);
        }
    }

    /// Which units to arm now.
    fn prepare(&mut self, scene: &mut Scene<'_>) {
        scene.units.clear();
        // The mappings may have been read since the last turn.
        self.fit(scene);
        self.budget.earn(scene.attrs.budget_bp, scene.now);
        self.budget.ask(scene.now);
        let all = Outlook::of(&self.maps, scene.now);
        let (maps, budget) = (&mut self.maps, &mut self.budget);
        self.changes.choose_urgent(maps, scene.units, budget, all.has_unknown, scene.now);
        self.choose_in_turn(scene, all);
        if core::mem::take(&mut self.window_begins) {
            self.changes.begin_window();
            self.choose_sentinels(scene);
        }
        self.changes.choose_woken(&mut self.maps, scene.units, scene.rng, scene.now);
        // They come before the next turns.
        self.crossing.choose(&mut self.maps, scene.units, scene.rng, scene.now);
        scene.units.sort_unstable_by_key(|c| (c.target, c.start));
    }

    fn prepared(&mut self, scene: &mut Scene<'_>) -> u64 {
        if scene.units.is_empty() {
            return 0;
        }
        let (now, passed) = (scene.now, scene.passed);
        let (mut nr_cleared, mut is_whole) = (0, false);
        let nr_pages = scene.units.iter().filter(|check| check.pages.count() == 1).count();
        let nr = (scene.units.len(), nr_pages);
        let took_ns = self.budget.armed(nr, now, scene.units_cpu);
        for check in &*scene.units {
            let Some(map) = of_target(&mut self.maps, check.target) else { continue };
            let Some(at) = map.find(check.start) else { continue };
            let unit = &mut map.units[at];
            map.found.note(check, unit.looked);
            if map.cross.was_armed(check, now) {
                unit.was_probed(check);
                nr_cleared += unit.leaves(check.young.and(check.pages));
                continue;
            }
            let (was_unknown, before) = (unit.is_unknown(), unit.since);
            map.is_newly_shared |= unit.is_newly_shared(check);
            map.sums.take_out(unit);
            nr_cleared += unit.was_armed(check, now);
            map.needs_clearing |= unit.needs_clearing();
            map.sums.add(unit);
            let (since, target, start) = (unit.since, check.target, check.start);
            if check.pages.count() == 1 && unit.asks_for_sample() {
                self.soon.push(Due { sample: passed + 1, target, start, since });
            }
            map.has_together |= check.together && check.stuck.count() >= MUCH_TOGETHER;
            if check.together && check.answered {
                map.together_rest_ns = 0;
                is_whole |= check.all_cleared;
            }
            map.nr_unknown -= usize::from(was_unknown && !unit.is_unknown());
            map.outline(at);
            if since == before {
                continue;
            }
            for (list, wait) in self.due.iter_mut().zip(waits(scene.attrs, now.since(since))) {
                let sample = passed.saturating_add(wait);
                list.push_back(Due { sample, target, start, since });
            }
        }
        self.crossing.each(&mut self.maps, |map| {
            if map.cross.is_arming() {
                map.cross.step_was_armed(passed, &waits(scene.attrs, 0));
            }
        });
        if is_whole {
            self.budget.cleared(took_ns, now);
        }
        scene.units.clear();
        self.prune();
        nr_cleared
    }

    fn next_due(&self, scene: &Scene<'_>) -> u64 {
        let fronts = self.due.iter().filter_map(VecDeque::front);
        let (crosses, is_arming) = self.crossing.next(&self.maps);
        let looks = fronts.chain(&self.soon).map(|due| due.sample).chain(crosses).min();
        let arms = !self.idle && self.budget.allows_chunk();
        let arms = arms || self.changes.are_pending(scene.now) || is_arming;
        let arms = if arms { scene.passed.wrapping_add(1) } else { u64::MAX };
        let end = scene.turn.next_aggregation;
        looks.unwrap_or(u64::MAX).min(arms).min(end).min(scene.turn.next_update)
    }

    /// The first looks. Those at longer spans are hardly wrong if they come one sample later.
    fn not_before(&self, scene: &Scene<'_>, passed: u64) -> Time {
        let sample_ns = spans(scene.attrs)[0];
        let first = self.due[0].iter().take_while(|due| due.sample <= passed);
        let sinces = first.filter(|due| due.sample == passed).map(|due| due.since);
        let (oldest, newest) = (sinces.clone().min(), sinces.max());
        oldest.zip(newest).map_or(Time(0), |(oldest, newest)| {
            let half_ns = newest.since(oldest) / 2;
            (oldest + half_ns + sample_ns).max(newest + (sample_ns - sample_ns * EARLY / 100))
        })
    }

    /// Which units to look at: those that are due, and at the end of a window some in turn.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish> {
        scene.units.clear();
        let spans = spans(scene.attrs);
        self.spans = spans;
        for (list, span) in self.due.iter_mut().zip(spans) {
            while let Some(due) = list.front().copied().filter(|d| d.sample <= scene.passed) {
                if !is_over(scene.now.since(due.since), span, &spans) {
                    postpone(list, scene.passed);
                    break;
                }
                list.pop_front();
                let unit = unit_at(&self.maps, due.target, due.start);
                if let Some(unit) = unit.filter(|u| u.expects(due.since)) {
                    scene.units.push(UnitCheck::new(due.target, due.start, *unit.pages));
                }
            }
        }
        let (maps, passed, units) = (&self.maps, scene.passed, &mut *scene.units);
        self.soon.retain(|due| {
            let is_due = due.sample <= passed;
            let unit = is_due.then(|| unit_at(maps, due.target, due.start)).flatten();
            let unit = unit.filter(|u| u.since == due.since);
            units.extend(unit.map(|u| UnitCheck::new(due.target, due.start, *u.pages)));
            !is_due
        });
        self.budget.earn(scene.attrs.budget_bp, scene.now);
        self.changes.choose_looks(&self.maps, scene.units, &spans, scene.now);
        self.choose_looks(scene);
        let units = &mut *scene.units;
        let mut is_mixed = false;
        self.crossing.each(&mut self.maps, |map| {
            let at = (scene.passed, scene.now);
            is_mixed |= map.cross.choose_looks(map.id, at, &spans, units);
        });
        if is_mixed {
            // Of a whole unit and one of its pages, the unit is looked at.
            units.sort_unstable_by_key(|c| (c.target, c.start, Reverse(c.pages.count())));
        } else {
            units.sort_unstable_by_key(|c| (c.target, c.start));
        }
        units.dedup_by_key(|c| (c.target, c.start));
        self.budget.ask(scene.now);
        (!units.is_empty()).then_some(Wish::CheckUnits)
    }

    fn checked(&mut self, scene: &mut Scene<'_>) {
        if scene.units.is_empty() {
            return;
        }
        let now = scene.now;
        self.budget.looked(scene.units.len(), now, scene.units_cpu);
        let spans = spans(scene.attrs);
        for check in &*scene.units {
            let Some(map) = of_target(&mut self.maps, check.target) else { continue };
            let Some(at) = map.find(check.start) else { continue };
            let is_passing = map.is_passing();
            let unit = &mut map.units[at];
            let looked = check.looked.map_or(now, |at| at.min(now));
            if map.cross.note(check, looked) {
                self.budget.touched(1, false, false);
            }
            if check.pages != *unit.pages {
                continue;
            }
            let settles = unit.settles(looked, &spans);
            if unit.is_as_before(check, looked, &spans) {
                unit.was_seen_again(looked);
                if settles && map.found.is_past(check.start, unit.young) {
                    map.fresh.push(check.start);
                }
                continue;
            }
            // Only what was made old has to be set again: not what is mapped for the first time.
            let (before, present, last) = (unit.young, *unit.present, unit.looked);
            let (is_ours, was_unknown, course) = (unit.armed, unit.is_unknown(), unit.course);
            map.sums.take_out(unit);
            let mut news = unit.was_looked_at(check, looked, &spans, is_passing);
            news.published |= news.lasts.is_some_and(|lasts| map.woken.expect(lasts, unit));
            map.sums.add(unit);
            if news.published {
                map.fresh.push(check.start);
            }
            map.nr_unknown += usize::from(unit.is_unknown());
            map.nr_unknown -= usize::from(was_unknown);
            let newly = unit.young.minus(before);
            let is_news = map.found.note_look(check.start, newly, last)
                || settles && map.found.is_past(check.start, unit.young);
            if is_news && !news.published {
                map.fresh.push(check.start);
            }
            if is_ours {
                let touched = unit.leaves(newly.and(present));
                self.budget.touched(touched, unit.is_new(), unit.was_granted);
            }
            map.hear(at, course, &news);
            if let Some(ns) = news.look_in {
                let unit = &map.units[at];
                let (target, start, since) = (map.id, unit.start, unit.since);
                let sample = scene.passed + (ns / spans[0]).max(1);
                self.soon.push(Due { sample, target, start, since });
            }
            map.outline(at);
            if news.judged && map.units[at].is_new() {
                map.was_first_seen(at);
            }
            if let Some(is_false) = news.alarm {
                map.take_alarm(is_false);
            }
            self.changed |= self.changes.take(map, at, news);
        }
        self.end_crosses(&spans, scene);
        scene.units.clear();
    }

    /// Draws the regions of the window.
    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended> {
        if !scene.window_over() {
            return None;
        }
        let window_ns = scene.attrs.aggr_us.max(1).saturating_mul(1000);
        self.draw_after = self.draw_after.saturating_sub(1);
        let ahead = if self.changed { self.draw_cost - self.draw_cost / HASTE } else { 0 };
        if self.draw_after > ahead {
            keep_regions(scene.targets);
            return Some(Ended { max_nr: None, start, end: scene.now, lost: 0 });
        }
        self.changed = false;
        self.sample_us = scene.attrs.sample_us;
        let most = usize::try_from(scene.attrs.max_nr_regions).unwrap_or(usize::MAX);
        let work_ns = self.runs.draw(&self.maps, scene.now, most);
        let rest_ns = self.budget.rest_of_drawing(work_ns).min(LONGEST_KEPT_NS);
        self.draw_cost = rest_ns / window_ns;
        self.draw_after = self.draw_after.saturating_add(self.draw_cost);
        let max = count(scene.attrs.max_nr_accesses());
        for (nr, target) in scene.targets.iter_mut().enumerate() {
            self.observed.clear();
            let runs = self.runs.of(nr);
            self.observed.extend(runs.iter().map(|run| Observed {
                range: run.range,
                nr_accesses: rounded(run.rate * max),
                age: u32::try_from(run.age_ns / window_ns).unwrap_or(u32::MAX),
                // The count is rounded, so that of what is touched once in seconds is 0.
                in_use: run.rate > 0.0 || run.touched.is_any(),
            }));
            take(target, &self.observed, scene.attrs.max_nr_accesses());
            target.regions.iter_mut().zip(runs).for_each(|(r, run)| r.unresolved = !run.known);
        }
        Some(Ended { max_nr: None, start, end: scene.now, lost: 0 })
    }

    fn split(&mut self, scene: &mut Scene<'_>, _: u64) {
        (self.window_begins, self.idle) = (true, false);
        for map in self.maps.iter_mut().filter(|map| map.is_starting_over(scene.now)) {
            self.budget.advance(map.start_over(scene.now));
        }
    }

    fn interval(&mut self, target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>) {
        let at = self.place(target.id);
        let mut runs = at.map_or(&[][..], |nr| self.runs.of(nr)).iter().peekable();
        let max = count(max_nr_accesses);
        out.extend(target.regions.iter().map(|r| {
            // Schemes may have split regions since they were drawn.
            while runs.next_if(|run| run.range.end <= r.range.start).is_some() {}
            let holds =
                |run: &&&Run| run.range.start <= r.range.start && r.range.end <= run.range.end;
            let run = runs.peek().filter(holds).filter(|run| run.known);
            let of = run.map_or((0.0, max, false), |run| {
                let (lo, hi) = run.interval_of(r.len() / PAGE_SIZE);
                let shift = run.touched.leaf_shift;
                let widened = widened(hi, run.rate, self.sample_us, shift, &self.others);
                let hi = if run.sure { widened } else { 1.0 };
                // The count is rounded. The interval holds it all the same.
                let nr = count(r.nr_accesses);
                ((lo * max).min(nr), (hi * max).max(nr), true)
            });
            RegionInfo { touched: run.map(|run| run.touched), ..RegionInfo::of(r, of) }
        }));
    }

    fn reclaimed(&mut self, target: TargetId, reclaimed: Reclaimed<'_>, now: Time) {
        if let Some(map) = of_target(&mut self.maps, target) {
            map.set_reclaimed(reclaimed, now);
        } else {
            let mut spared = Spared::default();
            spared.note(reclaimed, now);
            self.early.push((target, spared));
        }
    }

    fn set_others_clear(&mut self, rate: ClearRate) {
        self.others = rate;
    }

    fn looks(&self) -> Vec<(TargetId, Time)> {
        self.maps.iter().filter_map(|map| Some((map.id, map.looked()?))).collect()
    }

    fn hidden(&self) -> f64 {
        self.maps.iter().map(|map| map.hidden).fold(0.0, f64::max)
    }

    fn take_target_ns(&mut self) -> Option<u64> {
        Some(self.budget.take_target_ns())
    }

    fn pages(&mut self, target: &Target, info: &mut TargetInfo) {
        let Some(at) = self.place(target.id) else { return };
        let map = &mut self.maps[at];
        info.touched = Some(map.tell(&self.spans, &self.others));
        let mut fresh = core::mem::take(&mut map.fresh);
        fresh.sort_unstable();
        fresh.dedup();
        info.units.extend(fresh.iter().filter_map(|start| {
            let unit = map.units[map.find(*start)?].info();
            Some(match map.found.take(*start) {
                Some((found, found_after)) => UnitInfo { found: Some(found), found_after, ..unit },
                None => unit,
            })
        }));
        fresh.clear();
        map.fresh = fresh;
    }
}

impl Census {
    /// The place of a target's map. Mostly it is the one that was asked for last, or the next.
    fn place(&mut self, id: TargetId) -> Option<usize> {
        let is = |at: &usize| self.maps.get(*at).is_some_and(|map| map.id == id);
        let near = [self.asked, self.asked + 1, 0].into_iter().find(is);
        let at = near.or_else(|| place(&self.maps, id))?;
        self.asked = at;
        Some(at)
    }

    /// Takes out looks at units that were armed again since. What is touched all the time is armed
    /// every second or so, and the list for a minute would hold dozens of entries for it.
    fn prune(&mut self) {
        for (list, prune_at) in self.due.iter_mut().zip(&mut self.prune_at) {
            if list.len() < (*prune_at).max(LEAST_PRUNED) {
                continue;
            }
            list.retain(|due| {
                let unit = unit_at(&self.maps, due.target, due.start);
                unit.is_some_and(|unit| unit.expects(due.since))
            });
            *prune_at = list.len() * 2;
        }
    }

    /// Follows the targets and their regions.
    fn fit(&mut self, scene: &mut Scene<'_>) {
        let ids = scene.targets.iter().map(|target| target.id);
        if !self.maps.iter().map(|map| map.id).eq(ids) {
            self.follow_targets(scene);
        }
        for (map, target) in self.maps.iter_mut().zip(&*scene.targets) {
            if let Some(fresh) = map.follow(target, scene.now) {
                self.budget.advance(fresh);
                // Regions have to fit the new areas at once.
                self.draw_after = 0;
            }
        }
        self.early.clear();
    }

    /// Makes one map of each target, in their order. Runs that were drawn stay with their targets.
    fn follow_targets(&mut self, scene: &mut Scene<'_>) {
        let before: Vec<TargetId> = self.maps.iter().map(|map| map.id).collect();
        let targets = &*scene.targets;
        self.maps.retain(|map| place_of(targets, map.id, |target| target.id).is_some());
        for (nr, target) in targets.iter().enumerate() {
            if let Some(at) = place(&self.maps, target.id) {
                self.maps.swap(at, nr);
                continue;
            }
            let mut map = Map::new(target.id, scene.rng);
            if let Some(at) = self.early.iter().rposition(|(id, _)| *id == target.id) {
                map.spared = self.early.swap_remove(at).1;
            }
            self.maps.insert(nr, map);
        }
        self.runs.renumber(self.maps.len(), |nr| place(&self.maps, before[nr]));
    }

    /// Units in turn: those that were never armed, and those that have waited long enough.
    fn choose_in_turn(&mut self, scene: &mut Scene<'_>, all: Outlook) {
        let (attrs, now) = (scene.attrs, scene.now);
        let units = &mut *scene.units;
        let turns = Turns::new(all.has_unknown, &self.budget, attrs, now, self.window_begins);
        let nr_before = units.len();
        self.budget.set_first_pass(turns.is_first_pass());
        self.budget.set_calm(all.is_calm);
        if !turns.is_starved() && !self.budget.allows_chunk() {
            self.idle = false;
            return;
        }
        // Another target comes first each time, so that none is left out.
        self.first_map = (self.first_map + 1) % self.maps.len().max(1);
        self.idle = turns.choose(&mut self.maps, self.first_map, units, &mut self.budget);
        if units.len() > nr_before {
            self.idle = false;
            self.budget.note_turn(now, scene.rng.next_u32());
        }
    }

    /// Single pages that are expected to be touched at once.
    fn choose_sentinels(&mut self, scene: &mut Scene<'_>) {
        let now = scene.now;
        let left = self.budget.sentinels(spans(scene.attrs)[1]);
        let alert = self.changes.sentinels(now);
        let mut left = left.max(alert);
        let tried = if alert > 0 { SENTINELS_TRIED.1 } else { SENTINELS_TRIED.0 };
        let tried = (tried / self.maps.len().max(1)).max(LEAST_TRIED);
        self.changes.choose_suspects(
            &mut self.maps,
            scene.units,
            scene.rng,
            now,
            &mut self.watched_alone,
        );
        let (mut nr_maps, mut nr_tried) = (0, 0);
        for map in from(&mut self.maps, self.sentinels_from) {
            if left == 0 || nr_tried >= SENTINELS_TRIED.1 {
                break;
            }
            nr_maps += 1;
            if map.spared.all(now) {
                continue;
            }
            for _ in 0..tried.min(map.units.len()) {
                if left == 0 {
                    break;
                }
                nr_tried += 1;
                let Some(at) = map.next_for_sentinel() else { break };
                let unit = &mut map.units[at];
                let is_asked = |c: &UnitCheck| (c.target, c.start) == (map.id, unit.start);
                if map.spared.unit(unit.start, now) || scene.units.iter().any(is_asked) {
                    continue;
                }
                if let Some(page) = unit.choose_sentinel(u64::from(scene.rng.next_u32())) {
                    scene.units.push(UnitCheck::new(map.id, unit.start, page));
                    self.watched_alone.push((map.id, unit.start));
                    left -= 1;
                }
            }
        }
        self.sentinels_from = (self.sentinels_from + nr_maps) % self.maps.len().max(1);
    }

    /// Takes in what cross-sections have found that are over.
    fn end_crosses(&mut self, spans: &[u64; SPANS], scene: &mut Scene<'_>) {
        let (budget, rng, now) = (&mut self.budget, &mut *scene.rng, scene.now);
        self.crossing.each(&mut self.maps, |map| {
            if map.cross.is_over() {
                // Not at even times: what comes back at such times would always be seen at one
                // point.
                let rest_ns = budget.rest_of_cross(map.cross.len());
                map.end_cross(spans, now, rng.range(rest_ns / 2, rest_ns + rest_ns / 2 + 1));
            }
        });
    }

    /// Units to look at for the end of a window: those with a sentinel, and others in turn. If the
    /// working set has moved, more of them, whether the window is over or not.
    fn choose_looks(&mut self, scene: &mut Scene<'_>) {
        let mut left = self.changes.sweep(&self.budget, scene.now);
        if scene.window_over() {
            left = left.max(self.budget.looks(spans(scene.attrs)[1]));
            for (target, start) in self.watched_alone.drain(..) {
                let unit = unit_at(&self.maps, target, start);
                scene.units.extend(unit.map(|u| UnitCheck::new(target, start, *u.pages)));
            }
        }
        if left == 0 {
            return;
        }
        // Each target has its share, so that none is left out.
        let total: usize = self.maps.iter().map(|map| map.units.len()).sum();
        for map in &mut self.maps {
            for _ in 0..map.looks_of(left, total) {
                let Some(at) = map.next_to_look_at() else { break };
                let unit = &map.units[at];
                scene.units.push(UnitCheck::new(map.id, unit.start, *unit.pages));
            }
        }
    }
}

/// These units were armed late in their sample, since the end of a window took long. A look now
/// would come before the end of the span, and the next one long after it.
fn postpone(list: &mut VecDeque<Due>, passed: u64) {
    for due in list.iter_mut().take_while(|due| due.sample <= passed) {
        due.sample = passed + 1;
    }
}

/// Keeps the regions of the window before, one window older.
fn keep_regions(targets: &mut [Target]) {
    for region in targets.iter_mut().flat_map(|target| &mut target.regions) {
        region.nr_accesses = region.last_nr_accesses;
        region.nr_accesses_bp = region.nr_accesses.wrapping_mul(10_000);
        region.age = region.age.saturating_add(1);
        let since = region.since_action.map(|since| since.saturating_add(1));
        region.since_action = since.filter(|since| *since < region.age);
    }
}

/// The spans of the planes, in ns: a sample, a window, a second, ten seconds, a minute.
fn spans(attrs: &Attrs) -> [u64; SPANS] {
    let us = |us: u64| us.max(1).saturating_mul(1000);
    [us(attrs.sample_us), us(attrs.aggr_us), LATER_NS[0], LATER_NS[1], LATER_NS[2]]
}

/// Samples until the looks at what was made old `ago_ns` ago: to make shared memory old takes some
/// samples, and the spans have begun meanwhile.
fn waits(attrs: &Attrs, ago_ns: u64) -> [u64; 2 + LATER_NS.len()] {
    let sample_ns = attrs.sample_us.max(1).saturating_mul(1000);
    let later = LATER_NS.map(|ns| (ns / sample_ns).max(1));
    let window = (attrs.aggr_us / attrs.sample_us.max(1)).max(1);
    let waits = [1, window, later[0], later[1], later[2]];
    waits.map(|wait| wait.saturating_sub(ago_ns / sample_ns).max(1))
}

/// The nearest count.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
fn rounded(x: f32) -> u32 {
    libm::roundf(x.max(0.0)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::AddrRange;
    use crate::monitor::Schedule;
    use crate::region::Region;
    use crate::rng::Rng;

    #[test]
    fn looks_are_due_from_the_time_when_a_unit_was_made_old() {
        let attrs = Attrs::default();
        assert_eq!(waits(&attrs, 0), [1, 20, 200, 2000, 12_000]);
        assert_eq!(waits(&attrs, 4_900_000), [1, 20, 200, 2000, 12_000]);
        assert_eq!(waits(&attrs, 12_000_000), [1, 18, 198, 1998, 11_998]);
        assert_eq!(waits(&attrs, 3_000_000_000), [1, 1, 1, 1400, 11_400]);
    }

    #[test]
    fn regions_that_schemes_have_split_keep_their_intervals() {
        let id = TargetId(1);
        let map = Map::new(id, &mut Rng::seeded(1));
        let run = |from: u64, to: u64, known, sure| {
            let range = AddrRange::new(from << 20, to << 20);
            Run { known, sure, ..Run::of_test(range, 0.5) }
        };
        let runs =
            alloc::vec![run(0, 4, true, true), run(4, 6, false, true), run(6, 8, true, false)];
        let runs = Runs::of_test(runs, 1);
        let mut census = Census { maps: alloc::vec![map], runs, ..Census::default() };
        let mut target = Target::new(id);
        for (from, to) in [(0, 1), (1, 4), (4, 6), (6, 7), (7, 8)] {
            let mut region = Region::new(AddrRange::new(from << 20, to << 20));
            region.nr_accesses = 10;
            target.regions.push(region);
        }
        let mut out = Vec::new();
        census.interval(&target, 20, &mut out);
        let resolved: Vec<_> = out.iter().map(|r| r.resolved).collect();
        assert_eq!(resolved, [true, true, false, true, true]);
        assert!(out[1].hi < 20.0, "measured: {:?}", out[1]);
        assert!(out[3].hi >= 20.0 && out[3].lo > 0.0, "a guess: {:?}", out[3]);
        assert!(out[0].touched.is_some() && out[2].touched.is_none());
    }

    /// Processes that have forked have the same addresses.
    #[test]
    fn what_was_drawn_stays_with_its_target_when_another_one_ends() {
        let (mut rng, range) = (Rng::seeded(1), AddrRange::new(0, 4 << 20));
        let rates = [(7, 0.1), (3, 0.5), (5, 1.0)];
        let maps = rates.iter().map(|(id, _)| Map::new(TargetId(*id), &mut rng)).collect();
        let run = |(target, rate)| Run { target, ..Run::of_test(range, rate) };
        let runs = rates.iter().map(|(_, rate)| *rate).enumerate().map(run).collect();
        let runs = Runs::of_test(runs, rates.len());
        let mut census = Census { maps, runs, ..Census::default() };
        let target = |id| {
            let mut target = Target::new(TargetId(id));
            target.regions.push(Region::new(range));
            target
        };
        let mut targets = [target(7), target(5), target(8)];
        census.fit(&mut Scene {
            targets: &mut targets,
            attrs: &Attrs::default(),
            rng: &mut rng,
            batch: &mut Vec::new(),
            units: &mut Vec::new(),
            units_cpu: None,
            passed: 0,
            turn: &Schedule::default(),
            now: Time(0),
        });
        let mut told = |target: &Target| {
            let mut out = Vec::new();
            census.interval(target, 20, &mut out);
            (out[0].resolved, out[0].hi)
        };
        let [first, second, new] = targets.each_ref().map(&mut told);
        assert!(first.0 && first.1 < 10.0, "{first:?}");
        assert_eq!(second, (true, 20.0));
        assert!(!new.0, "nothing was drawn of it: {new:?}");
    }
}
