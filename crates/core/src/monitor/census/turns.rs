//! Units in turn: those that were never armed, and those that have waited long enough.
//!
//! Where there are many targets, what was never seen has its turn before what was, in whichever
//! target it is. Else pages that cannot be made old, as those of libraries that many processes
//! share, are asked about again and again in one target after the other, and a budget that is small
//! is gone before the turn comes to memory that nobody has seen yet.

use alloc::vec::Vec;

use super::budget::Budget;
use super::map::{CHUNK, Map, from};
use super::unit::Unit;
use super::{DOUBT_REST_NS, MOST_ARMED, SPARED, SPARED_FIRST, TOGETHER_REST_NS};
use crate::attrs::Attrs;
use crate::snapshot::SPANS;
use crate::target::TargetId;
use crate::time::Time;
use crate::unit::{AllMemory, UnitCheck};

/// Units that are visited at most before one sample to find some to arm; when a window begins, an
/// eighth of all if that is more, but no more than the second number: of a terabyte, to read an
/// eighth takes longer than a budget of 1 % has. If none of them is due, that is all until the
/// next window: to wake up for every sample costs more than a small budget has.
const MOST_VISITED: (usize, usize) = (64, 1024);
/// A sample of this length has room for [`MOST_ARMED`] units, in µs. In a longer one more of them
/// are armed, of other targets: 200 processes have thousands of units, and eight of them ten times
/// a second would take minutes. And how many times longer counts at most.
const ROOM_US: (u64, u64) = (5_000, 20);

/// The most units that are armed before one sample, over all targets.
fn most_armed(attrs: &Attrs) -> usize {
    let times = (attrs.sample_us / ROOM_US.0).clamp(1, ROOM_US.1);
    MOST_ARMED * usize::try_from(times).unwrap_or(1)
}

/// The turns before one sample.
#[derive(Debug)]
pub(super) struct Turns {
    now: Time,
    spans: [u64; SPANS],
    most: usize,
    /// Whether a few units are armed whatever is left of the budget.
    is_starved: bool,
    /// Whether what is known already has to wait, since something is unknown.
    is_first_pass: bool,
    window_begins: bool,
}

impl Turns {
    pub(super) fn new(
        is_first_pass: bool,
        budget: &Budget,
        attrs: &Attrs,
        now: Time,
        window_begins: bool,
    ) -> Self {
        Self {
            now,
            spans: super::spans(attrs),
            most: most_armed(attrs),
            is_starved: budget.is_starved(now),
            is_first_pass,
            window_begins,
        }
    }

    pub(super) const fn is_starved(&self) -> bool {
        self.is_starved
    }

    pub(super) const fn is_first_pass(&self) -> bool {
        self.is_first_pass
    }

    /// Chooses units of these targets, the one at `first` first. Returns whether there is nothing
    /// left that could be armed now.
    pub(super) fn choose(
        &self,
        maps: &mut [Map],
        first: usize,
        units: &mut Vec<UnitCheck>,
        budget: &mut Budget,
    ) -> bool {
        let mut is_idle = true;
        let unknown_first = [true, false].into_iter().skip(usize::from(!self.is_first_pass));
        for unknown in unknown_first {
            let maps = from(maps, first);
            for map in maps.filter(|map| map.has_unknown(self.now) == unknown) {
                is_idle &= self.choose_of(map, units, budget);
            }
        }
        is_idle
    }

    /// Whether one more unit may be chosen.
    fn has_room(&self, nr: usize, budget: &Budget) -> bool {
        let is_granted = self.is_starved && nr < MOST_ARMED;
        nr < self.most && (is_granted || budget.allows_turn())
    }

    fn choose_of(&self, map: &mut Map, units: &mut Vec<UnitCheck>, budget: &mut Budget) -> bool {
        let now = self.now;
        let is_first = map.has_together && map.next_together == Time(0);
        let is_blind = map.needs_clearing && budget.allows_clearing(now, true);
        let is_wanted = is_blind && now >= map.next_together;
        if map.is_newly_shared && now >= map.next_doubt {
            doubt(map, units, now);
            return false;
        }
        // A clearing spares nothing. Reclaim needs the bits that it would take.
        if is_first || is_wanted && !map.spared.any(now) {
            // The first clearing is of use to all that was never seen, so that waits for it.
            let may = self.is_starved || budget.allows_overdraft();
            if may && units.len() < self.most && budget.is_apart(now) {
                choose_together(map, units, budget, now);
            }
            return false;
        }
        let most_ns = map.longest_rest(now);
        let share = if self.window_begins { map.units.len() / 8 } else { 0 };
        // The set holds the target's mmap lock for all that is armed of it at once.
        let mut nr_here = units.iter().filter(|check| check.target == map.id).count();
        for _ in 0..share.clamp(MOST_VISITED.0, MOST_VISITED.1).min(map.units.len()) {
            if nr_here >= CHUNK || !self.has_room(units.len(), budget) {
                return false;
            }
            let Some(at) = map.next_to_arm() else { break };
            let is_in_sample = map.is_in_sample(at, SPARED_FIRST);
            let unit = &mut map.units[at];
            let is_due = if map.spared.unit(unit.start, now) {
                // Every unit has its time, one after the other.
                let slot = usize::try_from(now.0 / SPARED.1).unwrap_or(0);
                (is_in_sample && unit.is_unknown())
                    || (at + slot).is_multiple_of(SPARED.0) && now.since(unit.since) >= SPARED.1
            } else {
                let waited = !self.is_first_pass && unit.has_waited(now, &self.spans, most_ns);
                unit.is_unknown() || unit.needs_clearing() || waited
            };
            let is_asked = |c: &UnitCheck| (c.target, c.start) == (map.id, unit.start);
            if is_due && unit.together {
                if budget.allows_clearing(now, unit.needs_clearing()) {
                    choose_together(map, units, budget, now);
                }
            } else if is_due && !units.iter().any(is_asked) {
                (unit.is_turn, unit.was_granted) = (true, self.is_starved);
                budget.reserve(unit.leaves(unit.plane(0)));
                if self.is_starved {
                    budget.grant();
                }
                units.push(UnitCheck::new(map.id, unit.start, *unit.pages));
                nr_here += 1;
            }
        }
        true
    }
}

/// Units of a target that can only be made old together: all of them, or none if they were asked
/// about a short time ago. As all memory of the target is made old, what was never seen is asked
/// about as well.
fn choose_together(map: &mut Map, units: &mut Vec<UnitCheck>, budget: &mut Budget, now: Time) {
    if now < map.next_together {
        return;
    }
    map.together_rest_ns = (map.together_rest_ns * 2).clamp(TOGETHER_REST_NS.0, TOGETHER_REST_NS.1);
    map.next_together = now + map.together_rest_ns;
    map.needs_clearing = false;
    let spared = &map.spared;
    let rides = |u: &Unit| !u.armed && !spared.unit(u.start, now);
    let asked = asked(map.id, units);
    for unit in map.units.iter_mut().filter(|unit| unit.together || rides(unit)) {
        if asked.contains(&unit.start) {
            continue;
        }
        unit.is_turn = true;
        budget.reserve(unit.leaves(unit.plane(0)));
        let all_memory = if unit.together { AllMemory::IfStuck } else { AllMemory::Only };
        units.push(UnitCheck::new(map.id, unit.start, *unit.pages).with(all_memory));
    }
}

/// All units of a target, since one of them has become shared.
///
/// After a fork all memory of a target is shared at once, and was seen before. To make each unit
/// old by itself would lose what is known of it, and find out only that it is shared. So the set is
/// asked once about all of them, and makes none old by that.
fn doubt(map: &mut Map, units: &mut Vec<UnitCheck>, now: Time) {
    map.is_newly_shared = false;
    map.next_doubt = now + map.units.len() as u64 * DOUBT_REST_NS;
    let asked = asked(map.id, units);
    let is_doubtful = |u: &&Unit| u.armed && !u.together && !asked.contains(&u.start);
    let ask = |u: &Unit| UnitCheck::new(map.id, u.start, *u.pages).with(AllMemory::Only);
    units.extend(map.units.iter().filter(is_doubtful).map(ask));
}

/// Which units of a target are asked about already.
fn asked(id: TargetId, units: &[UnitCheck]) -> Vec<u64> {
    units.iter().filter(|check| check.target == id).map(|check| check.start).collect()
}

#[cfg(test)]
mod tests {
    use super::super::map::Outlook;
    use super::*;
    use crate::addr::AddrRange;
    use crate::ops::Reclaimed;
    use crate::region::Region;
    use crate::rng::Rng;
    use crate::unit::{PageBits, UNIT};

    const NOW: Time = Time(10_000_000_000);

    fn map(id: u32, units: u64) -> Map {
        let mut map = Map::new(TargetId(id), &mut Rng::seeded(1));
        map.fit(&[Region::new(AddrRange::new(0, units * UNIT))], Time(0));
        map
    }

    /// A target of pages that are shared, and can only be made old together with all others.
    fn shared(id: u32) -> Map {
        let mut map = map(id, 4);
        for unit in &mut map.units {
            let check = UnitCheck {
                present: PageBits::ALL,
                together: true,
                ..UnitCheck::new(TargetId(id), unit.start, PageBits::ALL)
            };
            unit.was_armed(&check, Time(0));
        }
        map.nr_unknown = 0;
        map
    }

    /// How many units of each target are chosen.
    fn chosen(maps: &mut [Map], bp: u32, sample_us: u64) -> Vec<usize> {
        let mut budget = Budget::default();
        budget.begin(bp, Time(0));
        budget.earn(bp, NOW);
        let attrs = Attrs { sample_us, ..Attrs::default() };
        let is_first_pass = Outlook::of(maps, NOW).has_unknown;
        let turns = Turns::new(is_first_pass, &budget, &attrs, NOW, true);
        budget.set_first_pass(turns.is_first_pass());
        let mut units = Vec::new();
        turns.choose(maps, 0, &mut units, &mut budget);
        let of = |map: &Map| units.iter().filter(|check| check.target == map.id).count();
        maps.iter().map(of).collect()
    }

    #[test]
    fn what_nobody_has_seen_comes_before_what_nobody_can_see() {
        // No budget at all: a few units are armed all the same.
        let mut maps = [shared(1), shared(2), shared(3), map(4, 64)];
        assert_eq!(chosen(&mut maps, 0, 100_000), [0, 0, 0, CHUNK]);
        let mut maps = [shared(1), shared(2), shared(3)];
        assert_eq!(
            chosen(&mut maps, 0, 100_000),
            [4, 4, 0],
            "when all was seen they have their turn"
        );
    }

    #[test]
    fn the_first_clearing_of_a_target_is_for_all_that_was_never_seen() {
        let mut maps = [shared(1), shared(2)];
        for map in &mut maps {
            map.has_together = true;
            // Two units are known to be shared, and nothing is known of the others.
            map.units[2..].iter_mut().for_each(|unit| (unit.armed, unit.together) = (false, false));
            map.nr_unknown = 2;
        }
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.set_first_pass(true);
        let choose = |maps: &mut [Map], budget: &mut Budget, now| {
            let is_first_pass = Outlook::of(maps, now).has_unknown;
            let turns = Turns::new(is_first_pass, budget, &Attrs::default(), now, true);
            let mut units = Vec::new();
            turns.choose(maps, 0, &mut units, budget);
            units.iter().map(|c| (c.target.0, c.all_memory == AllMemory::Only)).collect::<Vec<_>>()
        };
        let all = |id| [(id, false), (id, false), (id, true), (id, true)];
        assert_eq!(choose(&mut maps[..1], &mut budget, NOW), all(1));
        // Looks follow within some samples, and another clearing would make them late.
        budget.cleared(10_000_000, NOW);
        assert_eq!(choose(&mut maps[1..], &mut budget, NOW + 59_000_000), []);
        assert_eq!(choose(&mut maps[1..], &mut budget, NOW + 60_000_000), all(2));
    }

    #[test]
    fn when_one_unit_has_become_shared_all_are_asked_about_once() {
        let mut map = map(1, 64);
        for unit in &mut map.units {
            let check = UnitCheck { answered: true, present: PageBits::ALL, ..whole(unit) };
            unit.was_armed(&check, Time(0));
        }
        map.nr_unknown = 0;
        let found = UnitCheck { answered: true, together: true, ..whole(&map.units[5]) };
        assert!(map.units[5].is_newly_shared(&found), "advice was of use before");
        assert!(!map.units[5].is_newly_shared(&UnitCheck { pages: PageBits::page(3), ..found }));
        map.is_newly_shared = true;
        map.units[5].was_armed(&found, Time(0));
        assert!(!map.units[5].is_newly_shared(&found), "that is known");
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.earn(100, NOW);
        let mut asked = |map: &mut Map, now| {
            let maps = core::slice::from_mut(map);
            let is_first_pass = Outlook::of(maps, now).has_unknown;
            let turns = Turns::new(is_first_pass, &budget, &Attrs::default(), now, true);
            let mut units = Vec::new();
            turns.choose(maps, 0, &mut units, &mut budget);
            let only_together = units.iter().filter(|c| c.all_memory == AllMemory::Only).count();
            (only_together, units.len() - only_together)
        };
        assert_eq!(asked(&mut map, NOW), (63, 0));
        // They are asked about one by one again.
        assert_eq!(asked(&mut map, NOW), (0, CHUNK));
        map.is_newly_shared = true;
        assert_eq!(asked(&mut map, NOW + (64 * DOUBT_REST_NS - 1)), (0, CHUNK), "not so soon");
        let later = NOW + 64 * DOUBT_REST_NS;
        assert_eq!(asked(&mut map, later), (63, 0));
        // What needs it is made old together with all memory.
        map.needs_clearing = true;
        map.set_reclaimed(Reclaimed::All, later);
        assert_eq!(asked(&mut map, later), (0, 0), "reclaim needs the bits");
        map.set_reclaimed(Reclaimed::Over, later);
        assert_eq!(asked(&mut map, later), (0, 1));
    }

    /// A question about a whole unit.
    fn whole(unit: &Unit) -> UnitCheck {
        UnitCheck::new(TargetId(1), unit.start, PageBits::ALL)
    }

    #[test]
    fn a_long_sample_has_room_for_many_targets() {
        for (sample_us, total) in [(5_000, CHUNK), (20_000, 4 * CHUNK), (100_000, 10 * CHUNK)] {
            let mut maps: Vec<_> = (0..10).map(|id| map(id, 64)).collect();
            let chosen = chosen(&mut maps, 10_000, sample_us);
            assert_eq!(chosen.iter().sum::<usize>(), total, "{chosen:?}");
            assert!(chosen.iter().all(|nr| *nr <= CHUNK), "{chosen:?}");
        }
    }
}
