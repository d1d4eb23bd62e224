//! What has changed, and what is done about it at once, out of turn.
//!
//! ```text
//! a quiet unit wakes up -> its neighbours are looked at after the next sample
//!                       -> one of its pages is armed alone: is it touched again within a sample?
//!                       -> the unit is armed, as soon as the budget allows it
//! a hot unit goes cold  -> its neighbours get a sentinel; those that cannot have one are armed
//! either                -> more hot units than usual get a sentinel: others may have gone cold
//! ```
//!
//! Looks and single pages are cheap, so they are made whatever is left of the budget, up to a
//! number per window. Units wait here at most once for each.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::MOST_ARMED;
use super::budget::Budget;
use super::map::Map;
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
/// Units that are looked at in such a window, if hot memory has gone cold: other memory has
/// probably woken up. A look costs a microsecond or two.
const ALERT_LOOKS: usize = 512;
/// Units that have woken up of which a page is armed, and neighbours of such units that are looked
/// at, per window.
const MOST_WOKEN: usize = 64;
const MOST_NEAR: usize = 64;
/// Waiting units that are tried at most before one sample.
const MOST_TRIED: usize = 64;

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
    /// Units to be looked at, since a neighbour has woken up.
    near: Vec<Place>,
    /// Units of which a page is armed since they have woken up.
    alone: Vec<Place>,
    /// How many more units that have woken up, and neighbours of such, this window allows.
    woken_left: usize,
    near_left: usize,
    /// Whether something has changed, and when hot units were asked about that last.
    has_news: bool,
    alerted: Time,
    /// Whether hot memory has gone cold, and when quiet units were looked at since then.
    has_calmed: bool,
    looked: Time,
}

impl Changes {
    /// A window begins.
    pub(super) fn begin_window(&mut self) {
        (self.woken_left, self.near_left) = (MOST_WOKEN, MOST_NEAR);
    }

    /// Whether a sample from now something is to be done.
    pub(super) fn are_pending(&self) -> bool {
        let has_woken = self.woken_left > 0 && !self.woken.is_empty();
        has_woken || !self.alone.is_empty() || self.near_left > 0 && !self.near.is_empty()
    }

    /// How many hot units are to get a sentinel at least, in a window that begins now.
    pub(super) fn sentinels(&mut self, now: Time) -> usize {
        let is_alert = self.has_news && now.since(self.alerted) >= ALERT_NS;
        if !is_alert {
            return 0;
        }
        (self.has_news, self.alerted) = (false, now);
        if core::mem::take(&mut self.has_calmed) {
            self.looked = now;
        }
        MOST_SUSPECTS
    }

    /// How many units are to be looked at in turn at least, at the end of a window that began at
    /// `start`.
    pub(super) fn looks(&self, start: Time) -> usize {
        if self.looked >= start { ALERT_LOOKS } else { 0 }
    }

    /// Takes in what a look has found out about the unit at this place. Returns whether regions
    /// should show it soon.
    pub(super) fn take(&mut self, map: &mut Map, at: usize, news: News) -> bool {
        let (id, unit) = (map.id, &mut map.units[at]);
        let place = (id, unit.start);
        if news.again && !unit.urgent {
            unit.urgent = true;
            self.urgent.push_back(place);
        } else if news.risen && !unit.suspected && unit.can_have_sentinel() {
            unit.suspected = true;
            self.suspects.push_back(place);
        }
        let has_woken = news.woken >= WOKEN;
        if !news.calmed && !has_woken {
            return news.confirmed;
        }
        let (changed_at, is_restless) = (unit.looked, unit.is_restless());
        map.nr_changed += 1;
        if is_restless && !news.calmed {
            return true;
        }
        // Where everything is gone over it is no news.
        let is_news = has_woken && !map.is_passing();
        if is_news {
            self.woken.push_back(place);
        }
        self.has_news |= is_news || news.calmed;
        self.has_calmed |= news.calmed && !map.is_passing();
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
        now: Time,
    ) {
        // Memory that was never seen has half of the places.
        let is_first_pass = maps.iter().any(|map| map.has_unknown(now));
        let most = if is_first_pass { MOST_ARMED / 2 } else { MOST_ARMED };
        for _ in 0..self.urgent.len().min(MOST_TRIED) {
            if units.len() >= most || !budget.allows_overdraft() {
                return;
            }
            let Some(place) = self.urgent.pop_front() else { return };
            let Some((unit, is_spared)) = find(maps, place, now) else { continue };
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
                budget.reserve(unit.leaves(unit.plane(0)));
                units.push(UnitCheck::new(place.0, place.1, *unit.pages));
            }
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
        let unit_at = |(target, start): Place| {
            let map = maps.iter().find(|m| m.id == target)?;
            map.units.get(map.find(start)?)
        };
        self.alone.retain(|place| {
            let Some(unit) = unit_at(*place).filter(|unit| unit.is_waking()) else { return false };
            // It may have been armed late in its sample.
            let is_over = unit.is_waking_over(now, spans);
            if is_over {
                units.push(UnitCheck::new(place.0, place.1, *unit.pages));
            }
            !is_over
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
    let map = maps.iter_mut().find(|m| m.id == place.0)?;
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
