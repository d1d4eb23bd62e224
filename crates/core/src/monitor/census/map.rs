//! The units of a target, sorted, and the orders in which they take their turns.

mod all;
mod anew;
mod found;
mod places;
mod spared;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub(super) use self::all::{Crossing, Outlook, from};
use self::anew::FewWoken;
use self::found::Found;
use self::places::Places;
pub(super) use self::spared::Spared;
use super::cross::Cross;
use super::curve::{self, Course, Curve, Drift, Lines};
use super::touched::Sums;
use super::unit::{News, Outline, Unit, Woken};
use crate::addr::{AddrRange, round_down};
use crate::ops::{ClearRate, Reclaimed};
use crate::region::Region;
use crate::rng::Rng;
use crate::snapshot::{SPANS, Touched};
use crate::target::{Target, TargetId, place_of};
use crate::time::Time;
use crate::unit::{PageBits, UNIT};

/// Chunks of units are visited in this many rounds, each over all of the target. So a part of a
/// pass is an even sample of the target, whatever lies in it.
const ROUNDS: usize = 16;
/// Multiples of this number are far apart from each other in their upper bits: 2^64 divided by the
/// golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
/// Units of a chunk: 16 MiB, which are armed together with one flush of the TLB. One by one they
/// cost two to three times as much.
pub(super) const CHUNK: usize = 8;

/// Chunks of a target from which on what is near touched memory comes first: 16 GiB. The first pass
/// over less takes seconds, in any order.
const LARGE: usize = 1024;
/// Pages of a unit that must be touched within a sample for its neighbours to come first.
const TOUCHED: u64 = 32;

/// A target has grown if more than one in so many of its bytes is new.
const GROWN: u64 = 16;
/// The span over which units that change are counted, in ns.
const COUNTED_NS: u64 = 2_000_000_000;
/// A target is calm when for this time, in ns, no more than one in so many units has changed.
const CALM: (u64, u64) = (20_000_000_000, 128);
/// The longest time between two turns, in ns, if in that span every unit has changed.
const REST_OF_ALL_NS: u64 = 60_000_000;

/// The place of a target's map among those of all targets.
pub(super) fn place(maps: &[Map], id: TargetId) -> Option<usize> {
    place_of(maps, id, |map| map.id)
}

/// The map of a target.
pub(super) fn of_target(maps: &mut [Map], id: TargetId) -> Option<&mut Map> {
    place(maps, id).map(|at| &mut maps[at])
}

/// The unit of a target that begins there.
pub(super) fn unit_at(maps: &[Map], id: TargetId, start: u64) -> Option<&Unit> {
    let map = &maps[place(maps, id)?];
    map.units.get(map.find(start)?)
}

/// The units of one target.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub(super) id: TargetId,
    /// What is watched: the runs of adjacent regions. And how often the target's ranges had been
    /// set when that was found out; 0 if it never was.
    pub(super) areas: Vec<AddrRange>,
    nr_set: u64,
    /// Sorted by start. A unit that two areas share is there once.
    pub(super) units: Vec<Unit>,
    /// Where each of them is.
    places: Places,
    /// The outline of each unit, as it was when [`Map::outline`] was called last.
    pub(super) outlines: Vec<Option<Outline>>,
    /// Units that were never armed, or not since all has changed.
    pub(super) nr_unknown: usize,
    /// Whether much of it can only be made old together.
    pub(super) has_together: bool,
    /// Whether some of it could be made old alone before, so that more of it may have become like
    /// that: the target has forked.
    pub(super) is_newly_shared: bool,
    /// Whether some of it is in use and cannot be seen until such units are made old.
    pub(super) needs_clearing: bool,
    /// When such units may be asked about again; 0 if they never were.
    pub(super) next_together: Time,
    /// From when on it may be found out which other units have become shared.
    pub(super) next_doubt: Time,
    /// How long it takes until then, in ns. It becomes longer with each refusal.
    pub(super) together_rest_ns: u64,
    /// How much was touched, over all units.
    pub(super) sums: Sums,
    /// How soon that was touched.
    pub(super) curve: Curve,
    /// How far the sums are out of date, by span.
    drifts: [Drift; SPANS],
    /// What was touched at the same time.
    pub(super) cross: Cross,
    /// The largest share of touched pages that others hide, over all spans.
    pub(super) hidden: f64,
    /// What was told of the spans last, of which, and how often others cleared bits then.
    told: (Touched, [u64; SPANS], ClearRate),
    /// Starts of units of which the next snapshot tells.
    pub(super) fresh: Vec<u64>,
    /// What was found touched when units were made old, until it is told.
    pub(super) found: Found,
    /// Bytes of the areas.
    pub(super) watched: u64,
    /// What is spared, since it is being reclaimed.
    pub(super) spared: Spared,
    /// Units that were never armed and are spared, as it was when that was asked last.
    nr_unknown_spared: usize,
    /// Units that have changed since `counted_from`.
    pub(super) nr_changed: u64,
    counted_from: Time,
    /// When more than a few units had changed last, or units were new.
    busy_at: Time,
    /// The mean of the last alarms: 255 if all of them were false.
    false_alarms: u8,
    /// What single pages have told of units that have woken up.
    pub(super) woken: Woken,
    /// What is known of units of which few pages have woken up.
    pub(super) few_woken: FewWoken,
    /// The longest time between two turns of a unit, in ns.
    longest_rest_ns: u64,
    /// Where in the order the next unit to arm is.
    arm_at: usize,
    /// The round that comes first.
    first_round: usize,
    /// Units beside touched ones that are armed first, and how many of them came since the last
    /// chunk in the usual order.
    near: VecDeque<usize>,
    nr_near: usize,
    /// The next unit to look at in turn, and the number of the round.
    look_at: usize,
    look_round: usize,
    /// What its share of the looks had over, in parts of one look of which all units make one.
    looks_over: usize,
    /// The unit that was tried last for a sentinel in turn.
    sentinel_at: usize,
}

impl Map {
    /// No unit yet, of a target.
    pub(super) fn new(id: TargetId, rng: &mut Rng) -> Self {
        let first_round = usize::try_from(rng.range(0, ROUNDS as u64)).unwrap_or(0);
        Self { id, first_round, ..Self::default() }
    }

    /// Whether the unit at this place is in an even sample of one unit in `every`, of which one in
    /// a small target is as well.
    pub(super) fn is_in_sample(&self, at: usize, every: usize) -> bool {
        at % every == self.first_round % self.units.len().clamp(1, every)
    }

    /// When its units were last looked at, on average, without those that never were.
    pub(super) fn looked(&self) -> Option<Time> {
        let known = || self.units.iter().filter(|unit| unit.known);
        let first = known().map(|unit| unit.looked).min()?;
        let (nr, sum) = known().fold((0_u64, 0_u64), |(nr, sum), unit| {
            (nr + 1, sum.saturating_add(unit.looked.since(first)))
        });
        Some(first + sum / nr)
    }

    /// As [`Map::fit`], if the target's ranges were set since.
    pub(super) fn follow(&mut self, target: &Target, now: Time) -> Option<u64> {
        let nr_set = core::mem::replace(&mut self.nr_set, target.nr_set);
        if nr_set == target.nr_set { None } else { self.fit(&target.regions, now) }
    }

    /// Fits the units to a target's regions. Units that stay keep what is known of them. Returns
    /// the bytes that are new, or `None` if nothing has changed.
    pub(super) fn fit(&mut self, regions: &[Region], now: Time) -> Option<u64> {
        let mut runs = regions.iter().map(|r| r.range);
        let mut same = self.areas.iter();
        let mut run: Option<AddrRange> = None;
        // Whether the runs of regions are the areas is found out without a list.
        let is_same = loop {
            match (runs.next(), &mut run) {
                (Some(next), Some(run)) if run.end == next.start => run.end = next.end,
                (next, open) => {
                    if let Some(done) = open.take()
                        && same.next() != Some(&done)
                    {
                        break false;
                    }
                    *open = next;
                    if next.is_none() {
                        break same.next().is_none();
                    }
                }
            }
        };
        (!is_same).then(|| self.rebuild(regions, now))
    }

    fn rebuild(&mut self, regions: &[Region], now: Time) -> u64 {
        self.areas.clear();
        for r in regions {
            match self.areas.last_mut() {
                Some(last) if last.end == r.range.start => last.end = r.range.end,
                _ => self.areas.push(r.range),
            }
        }
        let mut fresh = 0;
        // A list that grows by doubling would take twice of what it needs.
        let most: u64 = self.areas.iter().map(|area| area.len() / UNIT + 2).sum();
        let most = usize::try_from(most).unwrap_or(0);
        let mut old =
            core::mem::replace(&mut self.units, Vec::with_capacity(most)).into_iter().peekable();
        for area in &self.areas {
            let mut start = round_down(area.start, UNIT);
            while start < area.end {
                let pages = PageBits::of(start, *area);
                if let Some(last) = self.units.last_mut().filter(|u| u.start == start) {
                    last.pages.set(last.pages.or(pages));
                } else {
                    while old.next_if(|u| u.start < start).is_some() {}
                    let unit = match old.next_if(|u| u.start == start) {
                        Some(mut unit) => {
                            let more = pages.minus(*unit.pages);
                            unit.pages.set(pages);
                            if !more.is_empty() {
                                // Of the new pages nothing is known, so the unit begins anew.
                                unit = Unit::new(start, pages, now);
                            }
                            unit
                        }
                        None => {
                            fresh += UNIT;
                            Unit::new(start, pages, now)
                        }
                    };
                    self.units.push(unit);
                }
                start += UNIT;
            }
        }
        self.cross.stop();
        // The places have changed.
        self.places.fill(self.units.iter().map(|unit| unit.start));
        self.found.keep(|start| self.places.find(start).is_some());
        self.near.clear();
        self.outlines.clear();
        self.outlines.reserve_exact(self.units.len());
        self.outlines.extend(self.units.iter().map(Unit::outline));
        self.nr_unknown = self.units.iter().filter(|unit| unit.is_unknown()).count();
        self.watched = self.areas.iter().map(AddrRange::len).sum();
        self.sums = Sums::default();
        self.units.iter().for_each(|unit| self.sums.add(unit));
        self.curve = Curve::default();
        self.units.chunks(CHUNK).for_each(|chunk| self.curve.add(chunk, curve::ALL));
        if fresh > 0 {
            self.busy_at = now;
        }
        if fresh.saturating_mul(GROWN) > self.watched {
            // What is known of moments is no share of this.
            self.cross = Cross::default();
            self.drifts = Default::default();
        }
        fresh
    }

    /// The longest time between two turns of a unit, in ns. The more units change, the sooner all
    /// of them are measured again: also those that seem to stay the same, or the sums of all units
    /// would be no fair picture.
    pub(super) fn longest_rest(&mut self, now: Time) -> u64 {
        if now.since(self.counted_from) >= COUNTED_NS || self.longest_rest_ns == 0 {
            if !self.has_few_changes() {
                self.busy_at = now;
            }
            let changed = core::mem::take(&mut self.nr_changed).max(1);
            let ns = REST_OF_ALL_NS.saturating_mul(self.units.len() as u64) / changed;
            (self.counted_from, self.longest_rest_ns) = (now, ns);
        }
        self.longest_rest_ns
    }

    fn has_few_changes(&self) -> bool {
        self.nr_changed.saturating_mul(CALM.1) <= self.units.len() as u64
    }

    /// Whether hardly anything has changed for some time.
    pub(super) fn is_calm(&self, now: Time) -> bool {
        self.has_few_changes() && now.since(self.busy_at) >= CALM.0
    }

    /// The unit at this place has changed.
    pub(super) fn outline(&mut self, at: usize) {
        self.outlines[at] = self.units[at].outline();
    }

    /// The course of the unit at this place is not what it was `before`, at these points.
    fn count(&mut self, at: usize, before: Course, points: u16) {
        let first = at - at % CHUNK;
        let behind = (first + CHUNK).min(self.units.len());
        let now = core::mem::replace(&mut self.units[at].course, before);
        self.curve.take_out(&self.units[first..behind], points);
        self.units[at].course = now;
        self.curve.add(&self.units[first..behind], points);
    }

    /// Takes in what the turn of the unit at this place has counted. `before`: its course until
    /// then.
    pub(super) fn hear(&mut self, at: usize, before: Course, news: &News) {
        if news.counted != 0 {
            self.count(at, before, news.counted);
        }
        let (since, all) = (self.units[at].last_turn(), self.units.len());
        for (drift, differs) in self.drifts.iter_mut().zip(news.recount.differs) {
            if let Some(pages) = differs {
                drift.note(since, pages, all);
            }
        }
    }

    /// The cross-section that goes on is over. The next one begins `rest_ns` later.
    pub(super) fn end_cross(&mut self, spans: &[u64; SPANS], now: Time, rest_ns: u64) {
        let (counted, size) = self.sums.counted(self.units.len(), &self.lines(spans));
        let mut cross = core::mem::take(&mut self.cross);
        let unit_at = |start| self.units.get(self.places.find(start)?);
        cross.end(unit_at, counted, size, spans, (now, rest_ns));
        self.cross = cross;
        self.sums.are_told = false;
    }

    /// How much was touched within the spans, if others clear bits so often. By that a
    /// cross-section is wanted, or not. Of many targets most sleep, and of them nothing new is to
    /// be told.
    pub(super) fn tell(&mut self, spans: &[u64; SPANS], others: &ClearRate) -> Touched {
        let (told, told_spans, told_others) = &self.told;
        let (lines, nr) = (self.lines(spans), self.units.len());
        let touched = || self.sums.touched(nr, self.watched, others, &lines);
        if self.sums.are_told && (told_spans, told_others) == (spans, others) {
            debug_assert_eq!(*told, touched(), "nothing has changed");
            return *told;
        }
        let touched = touched();
        let ((counted, size), is_passing) = (self.sums.counted(nr, &lines), lines.is_passing);
        let is_past = self.cross.doubt(counted, size, is_passing);
        self.hidden = self.sums.hidden(others);
        self.told = (touched, *spans, *others);
        self.sums.are_told = !is_past;
        touched
    }

    /// What is known of the spans beside the sums.
    pub(super) fn lines<'a>(&'a self, spans: &'a [u64; SPANS]) -> Lines<'a> {
        let is_passing = self.is_passing();
        Lines { curve: &self.curve, spans, is_passing, cross: &self.cross, drifts: &self.drifts }
    }

    /// A unit was armed since something had woken up, which had passed by then, or not.
    pub(super) fn take_alarm(&mut self, is_false: bool) {
        let to = if is_false { u8::MAX } else { 0 };
        self.sums.are_told = false;
        self.false_alarms = u8::midpoint(self.false_alarms, u8::midpoint(self.false_alarms, to));
    }

    /// Whether what wakes up mostly passes by before a unit can be armed for it, as where all of
    /// the memory is gone over.
    pub(super) const fn is_passing(&self) -> bool {
        self.false_alarms >= 128
    }

    /// Takes in what the kernel is reclaiming of the target's memory.
    pub(super) fn set_reclaimed(&mut self, reclaimed: Reclaimed<'_>, now: Time) {
        self.spared.note(reclaimed, now);
        self.nr_unknown_spared = 0;
        if self.nr_unknown > 0 && self.spared.any(now) {
            let unknown = self.units.iter().filter(|unit| unit.is_unknown());
            self.nr_unknown_spared = unknown.filter(|u| self.spared.unit(u.start, now)).count();
        }
    }

    /// Whether there are units that were never armed, and may be.
    pub(super) fn has_unknown(&self, now: Time) -> bool {
        self.nr_unknown > self.nr_unknown_spared && !self.spared.all(now)
    }

    /// The place of the unit at `start`.
    pub(super) fn find(&self, start: u64) -> Option<usize> {
        self.places.find(start)
    }

    /// The first sample of a unit was seen. What is near a touched unit is probably touched, too,
    /// so in a first pass that takes long it does not wait for its round.
    pub(super) fn was_first_seen(&mut self, at: usize) {
        let is_large = self.units.len() >= LARGE * CHUNK && self.nr_unknown > 0;
        if !is_large || self.units[at].plane(0).count() < TOUCHED {
            return;
        }
        let chunk = at / CHUNK;
        for chunk in [chunk.wrapping_sub(1), chunk + 1] {
            let Some(start) = chunk.checked_mul(CHUNK).filter(|at| *at < self.units.len()) else {
                continue;
            };
            for at in start..(start + CHUNK).min(self.units.len()) {
                let unit = &mut self.units[at];
                // Those that come for this reason are no even sample of the target.
                if !unit.armed && core::mem::take(&mut unit.in_turn) {
                    self.near.push_back(at);
                }
            }
        }
    }

    /// The next unit to arm: in the usual order, or near what was found touched, a chunk of each by
    /// turns. So memory that is touched everywhere is no reason to leave the order.
    pub(super) fn next_to_arm(&mut self) -> Option<usize> {
        if self.nr_near < CHUNK
            && let Some(at) = self.near.pop_front()
        {
            self.nr_near += 1;
            return Some(at);
        }
        let at = self.next_in_order()?;
        if at % CHUNK == CHUNK - 1 {
            self.nr_near = 0;
        }
        Some(at)
    }

    /// The next unit in the order of arming: chunk by chunk, in rounds.
    fn next_in_order(&mut self) -> Option<usize> {
        let chunks = self.units.len().div_ceil(CHUNK);
        let per_round = chunks.div_ceil(ROUNDS);
        // The last rounds may lack a chunk, and the last chunk some units.
        for _ in 0..2 * ROUNDS {
            if per_round == 0 {
                return None;
            }
            self.arm_at = (self.arm_at + 1) % (per_round * ROUNDS * CHUNK);
            let (nr, in_chunk) = (self.arm_at / CHUNK, self.arm_at % CHUNK);
            let (round, nr) = (nr / per_round, nr % per_round);
            // Consecutive rounds are far apart: the bits of their numbers are reversed. What
            // passes by at even distances does not meet the chunks of a round all at the same
            // point of its way: each has a residue of its own.
            let of_chunk = (nr as u64 + 1).wrapping_mul(MIX) >> (u64::BITS - 4);
            let residue = (round.reverse_bits() >> (usize::BITS - 4))
                + self.first_round
                + usize::try_from(of_chunk).unwrap_or(0);
            let at = (nr * ROUNDS + residue % ROUNDS) * CHUNK + in_chunk;
            if at < self.units.len() {
                return Some(at);
            }
            // On to the next chunk.
            self.arm_at += CHUNK - 1 - in_chunk;
        }
        None
    }

    /// The next unit in the order of looking: one of a chunk, in rounds over all of the target.
    /// What has changed often has neighbours that have changed, too, so it shows in the first
    /// round.
    pub(super) fn next_to_look_at(&mut self) -> Option<usize> {
        if self.units.is_empty() {
            return None;
        }
        self.look_at += CHUNK;
        // The last rounds of a small target have no unit.
        while self.look_at >= self.units.len() {
            self.look_round = (self.look_round + 1) % CHUNK;
            self.look_at = self.look_round.reverse_bits() >> (usize::BITS - CHUNK.ilog2());
        }
        Some(self.look_at)
    }

    /// How many of its units are to be looked at now, if `nr` are of all `total` units. What is
    /// over waits: a look at each of hundreds of small targets costs more than a small budget has.
    pub(super) fn looks_of(&mut self, nr: usize, total: usize) -> usize {
        let (all, total) = (self.units.len(), total.max(1));
        let parts = nr.min(total).saturating_mul(all).saturating_add(self.looks_over);
        self.looks_over = parts % total;
        (parts / total).min(all)
    }

    /// The next unit in the order of the addresses, to be tried for a sentinel. If chance chose
    /// them, some hot units would go without for seconds.
    pub(super) fn next_for_sentinel(&mut self) -> Option<usize> {
        self.sentinel_at = (self.sentinel_at + 1).checked_rem(self.units.len())?;
        Some(self.sentinel_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::UnitCheck;

    fn regions(ranges: &[(u64, u64)]) -> Vec<Region> {
        ranges.iter().map(|(a, b)| Region::new(AddrRange::new(*a, *b))).collect()
    }

    #[test]
    fn units_follow_the_areas_and_keep_what_is_known() {
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        let all = regions(&[(4096, UNIT), (UNIT, 3 * UNIT), (3 * UNIT + 8192, 4 * UNIT)]);
        assert_eq!(map.fit(&all, Time(0)), Some(4 * UNIT));
        assert_eq!(map.nr_unknown, 4);
        let pages: Vec<_> = map.units.iter().map(|u| u.pages.count()).collect();
        assert_eq!(pages, [511, 512, 512, 510]);
        map.units[1].known = true;
        assert_eq!(map.fit(&all, Time(0)), None, "nothing has changed");
        // Regions are drawn anew all the time. Only the areas matter.
        let same = regions(&[(4096, 3 * UNIT), (3 * UNIT + 8192, 4 * UNIT)]);
        assert_eq!(map.fit(&same, Time(0)), None);
        assert_eq!(
            map.fit(&regions(&[(UNIT, 2 * UNIT), (8 * UNIT, 9 * UNIT)]), Time(0)),
            Some(UNIT)
        );
        assert_eq!(map.units.iter().map(|u| u.start / UNIT).collect::<Vec<_>>(), [1, 8]);
        assert!(map.units[0].known && !map.units[1].known);
    }

    #[test]
    fn a_sample_is_even_and_never_empty() {
        for (len, nr) in [(1, 1), (3, 1), (16, 1), (33, 2), (64, 4)] {
            let mut firsts = Vec::new();
            for seed in 1..40 {
                let mut map = Map::new(TargetId(1), &mut Rng::seeded(seed));
                map.fit(&regions(&[(0, len * UNIT)]), Time(0));
                let sample: Vec<_> =
                    (0..map.units.len()).filter(|at| map.is_in_sample(*at, 16)).collect();
                assert!((nr..=nr + 1).contains(&sample.len()), "{len}: {sample:?}");
                firsts.push(sample[0]);
            }
            firsts.sort_unstable();
            firsts.dedup();
            assert!(len < 3 || firsts.len() > 2, "{len}: it begins anywhere: {firsts:?}");
        }
    }

    #[test]
    fn how_old_it_is_is_told_of_what_was_looked_at() {
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        map.fit(&regions(&[(0, 3 * UNIT)]), Time(0));
        assert_eq!(map.looked(), None);
        for (unit, at) in map.units.iter_mut().zip([100, 300]) {
            (unit.known, unit.looked) = (true, Time(at));
        }
        assert_eq!(map.looked(), Some(Time(200)), "the third was never looked at");
    }

    #[test]
    fn the_order_visits_every_unit_once() {
        for nr in [1, 5, 8, 16, 17, 100, 128, 129, 1000] {
            let mut map = Map::new(TargetId(1), &mut Rng::seeded(nr));
            map.fit(&regions(&[(0, nr * UNIT)]), Time(0));
            let mut seen: Vec<_> = (0..nr).filter_map(|_| map.next_to_arm()).collect();
            seen.sort_unstable();
            let all: Vec<_> = (0..usize::try_from(nr).unwrap()).collect();
            assert_eq!(seen, all, "{nr} units");
        }
    }

    #[test]
    fn the_chunks_of_a_round_are_at_no_even_distances() {
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        map.fit(&regions(&[(0, (16 * ROUNDS * CHUNK) as u64 * UNIT)]), Time(0));
        let round = (0..16 * CHUNK).filter_map(|_| map.next_to_arm()).step_by(CHUNK);
        let mut residues: Vec<_> = round.map(|at| at / CHUNK % ROUNDS).collect();
        assert_eq!(residues.len(), 16);
        residues.sort_unstable();
        residues.dedup();
        assert!(residues.len() > 8, "{residues:?}");
    }

    #[test]
    fn what_is_near_touched_memory_comes_by_turns_with_the_usual_order() {
        for (nr, is_large) in [(LARGE * CHUNK, true), (LARGE * CHUNK - 1, false)] {
            let mut map = Map::new(TargetId(0), &mut Rng::seeded(1));
            map.rebuild(&regions(&[(0, nr as u64 * UNIT)]), Time(0));
            let at = 100 * CHUNK + 3;
            let check = UnitCheck {
                answered: true,
                present: PageBits::ALL,
                ..UnitCheck::new(TargetId(0), map.units[at].start, PageBits::ALL)
            };
            map.units[at].is_turn = true;
            map.units[at].was_armed(&check, Time(0));
            let all = UnitCheck { young: PageBits::ALL, ..check };
            let spans = [5_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 60_000_000_000];
            map.units[at].was_looked_at(&all, Time(spans[0]), &spans, false);
            map.was_first_seen(at);
            map.was_first_seen(at);
            let order: Vec<usize> =
                (0..4 * CHUNK).filter_map(|_| map.next_to_arm()).map(|at| at / CHUNK).collect();
            let near: Vec<usize> =
                (0..order.len()).filter(|i| [99, 101].contains(&order[*i])).collect();
            let expected: Vec<usize> = (0..CHUNK).chain(2 * CHUNK - 1..3 * CHUNK - 1).collect();
            assert_eq!(near, if is_large { expected } else { Vec::new() }, "{order:?}");
            assert_eq!(map.units[99 * CHUNK].in_turn, !is_large, "no even sample");
        }
    }

    #[test]
    fn the_looks_in_turn_are_spread_and_leave_no_unit_out() {
        for nr in [1, 5, 8, 17, 100] {
            let mut map = Map::new(TargetId(1), &mut Rng::seeded(nr));
            map.fit(&regions(&[(0, nr * UNIT)]), Time(0));
            let all: Vec<_> = (0..usize::try_from(nr).unwrap()).collect();
            for _ in 0..2 {
                let seen: Vec<_> = all.iter().filter_map(|_| map.next_to_look_at()).collect();
                let chunks: Vec<_> = seen.iter().map(|at| at / CHUNK).collect();
                let first = &chunks[..chunks.len().div_ceil(CHUNK) - 1];
                assert!(first.windows(2).all(|two| two[0] != two[1]), "{nr} units: {seen:?}");
                let mut seen = seen;
                seen.sort_unstable();
                assert_eq!(seen, all, "{nr} units");
            }
        }
    }

    #[test]
    fn looks_are_shared_by_size_and_small_targets_wait_for_theirs() {
        let map = |nr: u64| {
            let mut map = Map::new(TargetId(1), &mut Rng::seeded(nr));
            map.fit(&regions(&[(0, nr * UNIT)]), Time(0));
            map
        };
        // Two looks at a time, of 400 units.
        let mut maps: Vec<_> = [200].into_iter().chain([2; 100]).map(map).collect();
        let mut sums = alloc::vec![0; maps.len()];
        for nr in 1..=100 {
            for (sum, map) in sums.iter_mut().zip(&mut maps) {
                *sum += map.looks_of(2, 400);
            }
            assert!(sums.iter().sum::<usize>() <= 2 * nr, "{nr}: {sums:?}");
        }
        assert_eq!((sums[0], &sums[1..]), (100, &[1; 100][..]));
    }

    #[test]
    fn what_mostly_passes_by_is_known_after_a_few_alarms() {
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        let passing: Vec<_> = [true; 4]
            .into_iter()
            .chain([false; 4])
            .map(|is_false| {
                map.take_alarm(is_false);
                map.is_passing()
            })
            .collect();
        assert_eq!(passing, [false, false, true, true, true, false, false, false]);
    }

    #[test]
    fn a_target_is_calm_some_time_after_its_last_change() {
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        let s = |s: u64| Time(s * 1_000_000_000);
        map.fit(&regions(&[(0, 256 * UNIT)]), s(1));
        map.longest_rest(s(1));
        assert!(!map.is_calm(s(20)) && map.is_calm(s(21)), "it was new");
        map.nr_changed = 2;
        assert!(map.is_calm(s(30)), "one unit in 128");
        map.nr_changed = 3;
        assert!(!map.is_calm(s(30)));
        map.longest_rest(s(31));
        assert!(!map.is_calm(s(50)) && map.is_calm(s(51)));
    }
}
