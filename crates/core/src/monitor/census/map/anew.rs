//! When the turns of a target start over, since all that they have counted is past.
//!
//! A program fills its memory, and uses it after that. Of memory that is used in small pieces, each
//! unit has a few pages, and that they wake up is not worth to arm the unit for: pages that are
//! touched once in a second wake up all the time, in each unit. So of few units one page is armed
//! alone. Where it is touched again within a sample, others are looked at and asked as well. Where
//! such pages are touched again and again, memory is used in another way than it was. Then all
//! units of which pages have woken up have their turn as soon as memory that was never seen, and
//! until then nothing that was counted of them counts.
//!
//! Invariants: turns do not start over again for some time, since each time costs what the first
//! ones have cost. Pages of few units, as the program's own text and stack, say nothing of the
//! others: each unit counts once.

use super::super::cross::Cross;
use super::super::curve;
use super::Map;
use crate::time::Time;
use crate::unit::UNIT;

/// Pages that are looked back on, each of another unit.
const LAST: usize = 8;
/// So many of them have to be touched all the time. A page that was not touched for
/// a tenth of a second, and is touched ten times in one, is found so once in seven times.
const LASTING: u32 = 6;
/// For how long units start over as soon as pages of them are seen to have woken up, in ns: once
/// each. To look at all of them takes a second or two.
const STARTING_NS: u64 = 3_000_000_000;
/// The most units that are gone through in a window: 16 GiB take less than a millisecond.
const MOST_VISITED: usize = 8192;
/// Least time from one start to the next, in ns.
const REST_NS: u64 = 5_000_000_000;

/// What single pages have told of units of which few pages had woken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::monitor::census) struct FewWoken {
    /// Whether each of the last pages was touched all the time, one bit each; and where the units
    /// of these pages start, the newest first.
    lasts: u8,
    units: [u64; LAST],
    /// When units began to start over last; 0 if they never did.
    began: Time,
    /// The unit that is gone through next.
    at: usize,
}

impl FewWoken {
    /// A page of this unit has told. Returns whether others are to be asked at once, since they may
    /// be touched all the time as well.
    pub(in crate::monitor::census) fn hear(&mut self, unit: u64, lasts: bool, now: Time) -> bool {
        if self.units.contains(&unit) {
            return false;
        }
        self.lasts = self.lasts << 1 | u8::from(lasts);
        self.units.rotate_right(1);
        self.units[0] = unit;
        let has_rested = self.began == Time(0) || now.since(self.began) >= REST_NS;
        if self.lasts.count_ones() >= LASTING && has_rested {
            *self = Self { began: now, ..Self::default() };
        }
        lasts && has_rested
    }
}

impl Map {
    /// Whether turns start over now.
    pub(in crate::monitor::census) fn is_starting_over(&self, now: Time) -> bool {
        self.few_woken.began > Time(0) && now.since(self.few_woken.began) < STARTING_NS
    }

    /// Turns start over for the units of which pages have woken up, of as many as a window allows.
    /// Returns how many bytes these have.
    pub(in crate::monitor::census) fn start_over(&mut self, now: Time) -> u64 {
        self.busy_at = now;
        self.drifts = Default::default();
        self.sums.are_told = false;
        let mut nr = 0;
        for _ in 0..self.units.len().min(MOST_VISITED) {
            let at = self.few_woken.at % self.units.len();
            self.few_woken.at = at + 1;
            if !self.units[at].has_woken_since_turn(self.few_woken.began) {
                continue;
            }
            let (was_unknown, course) = (self.units[at].is_unknown(), self.units[at].course);
            self.sums.take_out(&self.units[at]);
            self.units[at].start_over();
            self.sums.add(&self.units[at]);
            self.count(at, course, curve::ALL);
            self.nr_unknown += usize::from(!was_unknown);
            nr += 1;
        }
        if nr > 0 {
            // What is known of moments is past as well.
            self.cross = Cross::default();
        }
        nr * UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::AddrRange;
    use crate::region::Region;
    use crate::rng::Rng;
    use crate::snapshot::SPANS;
    use crate::target::TargetId;
    use crate::unit::{PageBits, UnitCheck};

    const S: u64 = 1_000_000_000;
    const SPANS_NS: [u64; SPANS] = [S / 200, S / 10, S, 10 * S, 60 * S];

    #[test]
    fn turns_start_over_when_most_of_the_last_pages_are_touched_all_the_time_and_not_too_often() {
        let mut few = FewWoken::default();
        let mut unit = 0;
        for (at, lasts, is_asked, began) in [
            (1, true, true, 0),
            (2, true, true, 0),
            (3, true, true, 0),
            (4, false, false, 0),
            (5, true, true, 0),
            (6, true, true, 0),
            (7, false, false, 0),
            (8, true, true, 8),
            // What has told of the change before says nothing of the next one.
            (9, true, false, 8),
            (10, true, false, 8),
            (11, true, false, 8),
            (12, true, false, 8),
            (13, true, true, 8),
            (14, true, true, 14),
        ] {
            unit += UNIT;
            assert_eq!(few.hear(unit, lasts, Time(at * S)), is_asked, "at {at} s");
            assert_eq!(few.began, Time(began * S), "at {at} s");
        }
        // Units that are always in use say nothing of the others, however often they are asked.
        let mut few = FewWoken::default();
        for at in 1..100 {
            few.hear(UNIT * (1 + at % 5), true, Time(at * S));
        }
        assert_eq!(few.began, Time(0));
    }

    #[test]
    fn units_of_which_pages_have_woken_up_have_their_turn_once_more() {
        let id = TargetId(1);
        let mut map = Map::new(id, &mut Rng::seeded(1));
        map.fit(&[Region::new(AddrRange::new(0, 3 * UNIT))], Time(0));
        let woken = PageBits::page(7).or(PageBits::page(70));
        let ms = |ms: u64| Time(ms * S / 1000);
        for at in 0..3 {
            let ask = |young| UnitCheck {
                answered: true,
                present: PageBits::ALL,
                young,
                ..UnitCheck::new(id, map.units[at].start, PageBits::ALL)
            };
            let (armed, idle, awake) = (ask(PageBits::ALL), ask(PageBits::default()), ask(woken));
            let unit = &mut map.units[at];
            unit.is_turn = true;
            map.sums.take_out(unit);
            unit.was_armed(&armed, ms(10));
            unit.was_looked_at(&idle, ms(15), &SPANS_NS, false);
            unit.was_looked_at(&idle, ms(110), &SPANS_NS, false);
            // Pages of the second one are in use from now on, and nobody has seen the third since.
            if at == 1 {
                unit.was_looked_at(&awake, ms(600), &SPANS_NS, false);
            }
            map.sums.add(unit);
        }
        map.nr_unknown = 0;
        let counted = |map: &Map| [0, 1, 2].map(|at| map.units[at].planes().counted(0));
        assert_eq!(counted(&map), [Some(0); 3]);
        assert!(!map.is_starting_over(ms(700)));
        map.few_woken.began = ms(700);
        assert!(map.is_starting_over(ms(3600)) && !map.is_starting_over(ms(3700)));
        assert_eq!(map.start_over(ms(800)), UNIT);
        assert_eq!((counted(&map), map.nr_unknown), ([Some(0), None, Some(0)], 1));
        assert!(map.units[1].is_unknown() && map.units[1].armed);
        assert_eq!(map.start_over(ms(900)), 0, "once");
    }
}
