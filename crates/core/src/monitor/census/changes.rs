//! What has changed, and what is done about it at once, out of turn.
//!
//! ```text
//! a quiet unit wakes up -> its neighbours are looked at after the next sample
//!                       -> one of its pages is armed alone: is it touched again within a sample?
//!                       -> the unit is armed, as soon as the budget allows it
//! few pages of it do    -> one is armed alone, now and then: do the turns start over (`map/anew`)?
//! a hot unit goes cold  -> its neighbours get a sentinel; those that cannot have one are armed
//!                       -> the unit is armed; one per window whatever is left of the budget
//! either                -> more hot units than usual get a sentinel: others may have gone cold
//! the working set moved -> after the next sample up to 512 units are looked at in turn: a sweep
//! ```
//!
//! The working set has moved when a hot unit has gone cold, or when two units have woken up within
//! a window and a page of each was touched again within a sample. What moves wakes up in many
//! places that are no neighbours, so all are looked at. A sweep does not wait for the end of the
//! window, or what it finds would show a window later. Sweeps are rare enough to be paid from a
//! small share of the budget.
//!
//! Looks and single pages are cheap, so they are made whatever is left of the budget, up to a
//! number per window. Units wait here at most once for each.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::MOST_ARMED;
use super::budget::Budget;
use super::map::{Map, of_target, unit_at};
use super::unit::{News, Unit};
use crate::rng::Rng;
use crate::snapshot::SPANS;
use crate::target::TargetId;
use crate::time::Time;
use crate::unit::{PageBits, UnitCheck};

/// Pages that wake up in a quiet unit and make it armed out of turn.
const WOKEN: u64 = 32;
/// How far around a changed unit others are suspected of having changed, in units.
const NEAR: usize = 6;
/// A unit that was armed less than this long ago is not armed out of turn, in ns.
const REST_NS: u64 = 200_000_000;
/// Suspects that get a sentinel, per window.
const MOST_SUSPECTS: usize = 64;
/// Least time between two windows in which more hot units get a sentinel since something has
/// changed, in ns.
const ALERT_NS: u64 = 500_000_000;
/// Units that are looked at in a sweep. A look costs a microsecond or two.
const SWEPT: usize = 512;
/// Least time between two sweeps, in ns.
const SWEEP_NS: u64 = 500_000_000;
/// The working set has moved if within a window so many units have woken up of which a page was
/// touched again within a sample.
const CONFIRMED: usize = 2;
/// Units that have woken up of which a page is armed, and neighbours of such units that are looked
/// at, per window.
const MOST_WOKEN: usize = 64;
const MOST_NEAR: usize = 64;
/// Where pages are touched at random, some wake up in every unit, and hardly any is touched again
/// at once. So one is asked per window, and so many for each that was touched again in the last
/// one. To ask costs 20 µs to 150 µs.
const AGAIN: usize = 8;
/// The last units that have woken up, of which the newest is asked first.
const MOST_QUEUED: usize = 256;
/// The last units of which few pages have woken up, of which one is drawn. And the time until the
/// next one is asked, in ns, if a page was not touched again.
const MOST_FEW: usize = 64;
const FEW_REST_NS: u64 = 400_000_000;
/// Waiting units that are tried at most before one sample.
const MOST_TRIED: usize = 64;
/// Units that have gone cold that are armed per window when nothing is left of the budget. One page
/// has told of each, and nothing is known of the others until then. None of them is hot, so the
/// target pays nothing, and 30 µs per window are 0.03 % of a CPU.
const MOST_CALMED: usize = 1;

/// A unit.
type Place = (TargetId, u64);

/// The units that have changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Units to be armed out of turn.
    urgent: VecDeque<Place>,
    /// Units that get a sentinel first, since a neighbour has gone cold.
    suspects: VecDeque<Place>,
    /// Units that have woken up, of which a page is to be armed.
    woken: VecDeque<Place>,
    /// The last units of which few pages have woken up; the one of which a page is armed; and when
    /// one of the next is.
    few: VecDeque<Place>,
    few_asked: Option<Place>,
    few_at: Time,
    /// Units to be looked at, since a neighbour has woken up.
    near: Vec<Place>,
    /// Units of which a page is armed since they have woken up.
    alone: Vec<Place>,
    /// How many more units that have woken up, neighbours of such, and units that have gone cold
    /// this window allows.
    woken_left: usize,
    near_left: usize,
    calmed_left: usize,
    /// Whether something has changed, and when hot units were asked about that last.
    has_news: bool,
    alerted: Time,
    /// Units that have woken up of which a page has told in this window, and those of them that are
    /// touched all the time.
    told: usize,
    confirmed: usize,
    /// Whether the working set has moved since the last sweep, and when the next one may be.
    has_moved: bool,
    next_sweep: Time,
}

impl Changes {
    /// A window begins.
    pub(super) fn begin_window(&mut self) {
        let is_told = self.told > 0;
        let most = if is_told { 1 + self.confirmed * AGAIN } else { MOST_WOKEN };
        (self.woken_left, self.near_left) = (most.min(MOST_WOKEN), MOST_NEAR);
        self.calmed_left = MOST_CALMED;
        (self.told, self.confirmed) = (0, 0);
    }

    /// Whether a sample from now something is to be done.
    pub(super) fn are_pending(&self, now: Time) -> bool {
        self.woken_left > 0 && !self.woken.is_empty()
            || self.near_left > 0 && !self.near.is_empty()
            || !self.alone.is_empty()
            || self.is_sweep_due(now)
    }

    /// How many hot units are to get a sentinel at least, in a window that begins now.
    pub(super) fn sentinels(&mut self, now: Time) -> usize {
        let is_alert = self.has_news && now.since(self.alerted) >= ALERT_NS;
        if !is_alert {
            return 0;
        }
        (self.has_news, self.alerted) = (false, now);
        MOST_SUSPECTS
    }

    fn is_sweep_due(&self, now: Time) -> bool {
        self.has_moved && now >= self.next_sweep
    }

    /// How many units are to be looked at in turn now, since the working set has moved.
    pub(super) fn sweep(&mut self, budget: &Budget, now: Time) -> usize {
        if !self.is_sweep_due(now) {
            return 0;
        }
        let rest_ns = budget.rest_of_sweep(SWEPT).max(SWEEP_NS);
        (self.has_moved, self.next_sweep) = (false, now + rest_ns);
        SWEPT
    }

    /// Takes in what a look has found out about the unit at this place. Returns whether regions
    /// should show it soon.
    pub(super) fn take(&mut self, map: &mut Map, at: usize, news: News) -> bool {
        let is_passing = map.is_passing();
        let (id, unit) = (map.id, &mut map.units[at]);
        let place = (id, unit.start);
        if news.again && !unit.urgent {
            unit.urgent = true;
            self.urgent.push_back(place);
        } else if news.risen && !unit.suspected && unit.can_have_sentinel() {
            unit.suspected = true;
            self.suspects.push_back(place);
        }
        let (has_woken, is_confirmed) = (news.woken >= WOKEN, news.lasts == Some(true));
        self.told += usize::from(news.lasts.is_some());
        self.confirmed += usize::from(is_confirmed);
        let has_moved = news.calmed || is_confirmed && self.confirmed >= CONFIRMED;
        self.has_moved |= has_moved && !is_passing;
        if let Some(lasts) = news.lasts.filter(|_| self.few_asked == Some(place)) {
            self.few_asked = None;
            // Where all of the memory is gone over, turns tell how much of it is.
            if !is_passing && map.few_woken.hear(unit.start, lasts, unit.looked) {
                // Others may have woken up as well.
                (self.has_moved, self.few_at) = (true, unit.looked);
            }
        }
        if !news.calmed && !has_woken {
            // A program that fills its memory goes over it, too, so that is no reason to ask none.
            let is_fresh = unit.looked.since(unit.since) < REST_NS;
            if news.woken > 0 && !is_fresh && !unit.is_restless() {
                self.few.truncate(MOST_FEW - 1);
                self.few.push_front(place);
            }
            return is_confirmed;
        }
        let (changed_at, is_restless) = (unit.looked, unit.is_restless());
        map.nr_changed += 1;
        if is_restless && !news.calmed {
            return true;
        }
        // Where everything is gone over it is no news.
        let is_news = has_woken && !is_passing;
        if is_news {
            self.woken.truncate(MOST_QUEUED - 1);
            self.woken.push_front(place);
        }
        self.has_news |= is_news || news.calmed;
        for nr in at.saturating_sub(NEAR)..(at + NEAR + 1).min(map.units.len()) {
            let unit = &mut map.units[nr];
            if !news.calmed && nr != at {
                // It may have woken up as well.
                if is_news && unit.young.is_empty() && unit.looked < changed_at {
                    self.near.push((id, unit.start));
                }
                continue;
            }
            if nr != at && !unit.suspected && unit.can_have_sentinel() {
                unit.suspected = true;
                self.suspects.push_back((id, unit.start));
                continue;
            }
            let is_answer = nr == at && news.judged;
            // What wakes up where as much is touched all the time was only missed by the first
            // look.
            let is_fresh = changed_at.since(unit.since) < REST_NS && unit.is_sure();
            if !unit.urgent && !is_answer && !is_fresh && !unit.young.is_empty() {
                unit.urgent = true;
                self.urgent.push_back((id, unit.start));
            }
        }
        true
    }

    /// Units to be armed out of turn.
    pub(super) fn choose_urgent(
        &mut self,
        maps: &mut [Map],
        units: &mut Vec<UnitCheck>,
        budget: &mut Budget,
        is_first_pass: bool,
        now: Time,
    ) {
        // Memory that was never seen has half of the places.
        let most = if is_first_pass { MOST_ARMED / 2 } else { MOST_ARMED };
        for _ in 0..self.urgent.len().min(MOST_TRIED) {
            let is_allowed = budget.allows_overdraft();
            if units.len() >= most || !is_allowed && self.calmed_left == 0 {
                return;
            }
            let Some(place) = self.urgent.pop_front() else { return };
            let Some((unit, is_spared)) = find(maps, place, now) else { continue };
            if !is_allowed && !unit.is_calmed() {
                self.urgent.push_back(place);
                continue;
            }
            if is_spared || unit.together {
                unit.urgent = false;
            }
            if unit.urgent && now.since(unit.since) < REST_NS {
                self.urgent.push_back(place);
                continue;
            }
            if core::mem::take(&mut unit.urgent) {
                // A unit that is first armed out of turn is no part of an even sample.
                unit.in_turn &= unit.armed;
                unit.is_turn = false;
                self.calmed_left -= usize::from(!is_allowed);
                let hot = if unit.is_calmed() { PageBits::default() } else { unit.plane(0) };
                budget.reserve(unit.leaves(hot));
                units.push(UnitCheck::new(place.0, place.1, *unit.pages));
            }
        }
        // Those that wait are gone through once per window, not before every sample.
        if !budget.allows_overdraft() {
            self.calmed_left = 0;
        }
    }

    /// Single pages of units that have woken up.
    pub(super) fn choose_woken(
        &mut self,
        maps: &mut [Map],
        units: &mut Vec<UnitCheck>,
        rng: &mut Rng,
        now: Time,
    ) {
        while self.woken_left > 0
            && let Some(place) = self.woken.pop_front()
        {
            if ask_page(maps, units, place, now, |unit| unit.choose_woken(rng.next_u32().into())) {
                self.woken_left -= 1;
                self.alone.push(place);
            }
        }
        self.choose_few(maps, units, rng, now);
    }

    /// A page of a unit of which few pages have woken up. If that was touched again last time, one
    /// of the next unit follows at once.
    fn choose_few(
        &mut self,
        maps: &mut [Map],
        units: &mut Vec<UnitCheck>,
        rng: &mut Rng,
        now: Time,
    ) {
        while now >= self.few_at && !self.few.is_empty() {
            let drawn = rng.range(0, self.few.len() as u64);
            let Some(place) = self.few.swap_remove_back(usize::try_from(drawn).unwrap_or(0)) else {
                return;
            };
            if ask_page(maps, units, place, now, |unit| unit.choose_woken(rng.next_u32().into())) {
                self.alone.push(place);
                (self.few_asked, self.few_at) = (Some(place), now + FEW_REST_NS);
            }
        }
    }

    /// Single pages of hot units that a neighbour makes suspect. `chosen` gets the units.
    pub(super) fn choose_suspects(
        &mut self,
        maps: &mut [Map],
        units: &mut Vec<UnitCheck>,
        rng: &mut Rng,
        now: Time,
        chosen: &mut Vec<Place>,
    ) {
        for _ in 0..MOST_SUSPECTS {
            let Some(place) = self.suspects.pop_front() else { break };
            if let Some((unit, _)) = find(maps, place, now) {
                unit.suspected = false;
            }
            if ask_page(maps, units, place, now, |unit| unit.choose_sentinel(rng.next_u32().into()))
            {
                chosen.push(place);
            }
        }
    }

    /// What has woken up and its neighbours, to be looked at.
    pub(super) fn choose_looks(
        &mut self,
        maps: &[Map],
        units: &mut Vec<UnitCheck>,
        spans: &[u64; SPANS],
        now: Time,
    ) {
        let unit_at = |(target, start): Place| unit_at(maps, target, start);
        self.alone.retain(|place| {
            let Some(unit) = unit_at(*place).filter(|unit| unit.is_waking()) else { return false };
            // It may have been armed late in its sample.
            let is_over = unit.is_waking_over(now, spans);
            if is_over {
                units.push(UnitCheck::new(place.0, place.1, *unit.pages));
            }
            !is_over || unit.has_time_to_wake(now, spans)
        });
        self.near.sort_unstable();
        self.near.dedup();
        // What the window does not allow is found by the looks in turn.
        self.near.truncate(self.near_left);
        self.near_left -= self.near.len();
        let near = self.near.drain(..).filter_map(|place| Some((place.0, unit_at(place)?)));
        units.extend(near.map(|(target, unit)| UnitCheck::new(target, unit.start, *unit.pages)));
    }
}

/// The unit at this place, and whether it is spared now.
fn find(maps: &mut [Map], place: Place, now: Time) -> Option<(&mut Unit, bool)> {
    let map = of_target(maps, place.0)?;
    let at = map.find(place.1)?;
    let is_spared = map.spared.unit(place.1, now);
    Some((&mut map.units[at], is_spared))
}

/// Asks about the page that `choose` takes of this unit, unless the unit is spared or asked
/// about anyway. Returns whether it is asked.
fn ask_page(
    maps: &mut [Map],
    units: &mut Vec<UnitCheck>,
    place: Place,
    now: Time,
    choose: impl FnOnce(&mut Unit) -> Option<PageBits>,
) -> bool {
    let unit = find(maps, place, now).filter(|(_, is_spared)| !is_spared);
    let is_asked = units.iter().any(|c| (c.target, c.start) == place);
    let page = unit.filter(|_| !is_asked).and_then(|(unit, _)| choose(unit));
    units.extend(page.map(|page| UnitCheck::new(place.0, place.1, page)));
    page.is_some()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::addr::AddrRange;
    use crate::region::Region;
    use crate::unit::UNIT;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_sweep_follows_a_move_at_once_and_another_one_has_to_wait() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        map.fit(&[Region::new(AddrRange::new(0, 8 * UNIT))], Time(0));
        let (mut changes, confirmed) =
            (Changes::default(), News { lasts: Some(true), ..News::default() });
        let now = Time(1000 * MS);
        for _ in 0..3 {
            changes.begin_window();
            changes.take(&mut map, 0, confirmed);
            assert!(!changes.are_pending(now), "one unit in a window is no move");
        }
        changes.take(&mut map, 7, confirmed);
        assert!(changes.are_pending(now));
        assert_eq!([0; 2].map(|_| changes.sweep(&budget, now)), [SWEPT, 0]);
        // Hot memory that goes cold tells by itself.
        changes.take(&mut map, 0, News { calmed: true, ..News::default() });
        changes.begin_window();
        let rest_ns = budget.rest_of_sweep(SWEPT);
        assert!(rest_ns >= SWEEP_NS, "at 1 % of a CPU the budget decides: {rest_ns}");
        assert_eq!(changes.sweep(&budget, now + (rest_ns - 1)), 0);
        assert_eq!(changes.sweep(&budget, now + rest_ns), SWEPT);
        // A tenth of the budget: ten times as long.
        budget.begin(10, Time(0));
        assert!(budget.rest_of_sweep(SWEPT).abs_diff(10 * rest_ns) <= MS);
    }

    #[test]
    fn what_wakes_up_is_asked_about_as_often_as_it_is_touched_again() {
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        map.fit(&[Region::new(AddrRange::new(0, 8 * UNIT))], Time(0));
        let mut changes = Changes::default();
        for (told, lasting, asked) in
            [(0, 0, 64), (64, 64, 64), (64, 3, 25), (25, 0, 1), (0, 0, 64)]
        {
            for nr in 0..told {
                let news = News { lasts: Some(nr < lasting), ..News::default() };
                changes.take(&mut map, 0, news);
            }
            changes.begin_window();
            assert_eq!(changes.woken_left, asked, "{lasting} of {told}");
        }
        // What does not have its turn is asked about later, the newest first, or never.
        for nr in 0..300 {
            changes.take(&mut map, nr % 8, News { woken: WOKEN, ..News::default() });
        }
        assert_eq!(changes.woken.len(), MOST_QUEUED);
        assert_eq!(changes.woken.front(), Some(&(TargetId(1), 3 * UNIT)));
    }

    #[test]
    fn what_has_gone_cold_is_armed_one_by_one_when_nothing_is_left() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.reserve(1 << 40);
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        map.fit(&[Region::new(AddrRange::new(0, 8 * UNIT))], Time(0));
        let now = Time(1000 * MS);
        let mut changes = Changes::default();
        for (at, is_calmed) in [false, true, true].into_iter().enumerate() {
            let unit = &mut map.units[at];
            let check = UnitCheck::new(TargetId(1), unit.start, PageBits::ALL);
            unit.was_armed(&UnitCheck { present: PageBits::ALL, ..check }, Time(MS));
            if is_calmed {
                unit.calm(now);
            }
            unit.urgent = true;
            changes.urgent.push_back((TargetId(1), unit.start));
        }
        let mut maps = [map];
        let mut chosen = Vec::new();
        for _ in 0..4 {
            changes.begin_window();
            let mut units = Vec::new();
            for _ in 0..2 {
                changes.choose_urgent(&mut maps, &mut units, &mut budget, true, now);
            }
            chosen.push(units.iter().map(|unit| unit.start / UNIT).collect::<Vec<_>>());
        }
        assert_eq!(chosen, [vec![1], vec![2], vec![], vec![]], "what may be hot waits");
    }

    #[test]
    fn where_what_wakes_up_passes_by_there_is_no_sweep() {
        let mut map = Map::new(TargetId(1), &mut Rng::seeded(1));
        map.fit(&[Region::new(AddrRange::new(0, 8 * UNIT))], Time(0));
        (0..4).for_each(|_| map.take_alarm(true));
        let mut changes = Changes::default();
        for news in [
            News { lasts: Some(true), ..News::default() },
            News { lasts: Some(true), ..News::default() },
            News { calmed: true, ..News::default() },
        ] {
            changes.take(&mut map, 0, news);
        }
        assert_eq!(changes.sweep(&Budget::default(), Time(1000 * MS)), 0);
    }
}
