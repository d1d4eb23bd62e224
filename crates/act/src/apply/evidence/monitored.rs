//! What the monitor's own looks tell of idle pages, so that no scheme has to make them old again.
//!
//! The method `census` makes whole units old and looks at them. Its questions pass through
//! [`Acting`](crate::apply::Acting), so the answers are noted here: which pages of a unit were not
//! touched since it was made old. That is what a scheme's own arming would find out, and it is
//! older.
//!
//! Two generations are kept of each unit. A unit in use is made old often, and each time the pages
//! that were in use begin anew. The older generation has fewer pages, for a longer time.
//!
//! Invariants: as for [`Evidence`](super::armed::Evidence): a page leaves a generation for good
//! when anybody sees it young, and pages that cannot be made old never enter. A unit is a granule.

use std::collections::BTreeMap;

use isotherm_core::{AddrRange, Time, UnitCheck};

use crate::apply::pages::{Bits, granules};

/// A generation of at least this age becomes the older one when the unit is made old again, in ns.
const GENERATION_NS: u64 = 3_000_000_000;
/// Units that the monitor has not looked at for so long are dropped, in ns. It looks at all units
/// in turn.
const FORGOTTEN_NS: u64 = 300_000_000_000;

/// Pages that were not touched since a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::apply) struct Idle {
    pub(in crate::apply) since: Time,
    /// The last look.
    pub(in crate::apply) looked: Time,
    pub(in crate::apply) pages: Bits,
}

/// What is known of the units of one target.
#[derive(Debug, Default)]
pub(in crate::apply) struct Monitored {
    /// By start; the newer generation first.
    units: BTreeMap<u64, [Idle; 2]>,
}

impl Monitored {
    /// The monitor has made a unit old; `check` has what it found before.
    pub(in crate::apply) fn made_old(&mut self, check: &UnitCheck, now: Time) {
        if !check.answered {
            // Nobody knows what was made old.
            self.units.remove(&check.start);
            return;
        }
        let asked = check.pages;
        let young = check.young.and(asked);
        let [newer, older] = self.units.entry(check.start).or_default();
        newer.pages = newer.pages.minus(young);
        older.pages = older.pages.minus(young);
        if asked.count() == 1 {
            // One page alone does not begin a generation.
            return;
        }
        if now.since(newer.since) >= GENERATION_NS {
            *older = *newer;
        }
        let pages = check.present.and(asked).minus(check.stuck);
        *newer = Idle { since: now, looked: now, pages };
    }

    /// The monitor has looked at a unit.
    pub(in crate::apply) fn looked(&mut self, check: &UnitCheck, now: Time) {
        let Some(generations) = self.units.get_mut(&check.start) else { return };
        for idle in generations {
            let left = idle.pages.minus(check.young.or(check.stuck).and(check.pages));
            idle.pages = left.minus(check.pages.minus(check.present));
            if check.pages.count() > 1 {
                // One page alone does not tell of the others.
                idle.looked = now;
            }
        }
    }

    /// A range was touched, and then made old by a scheme.
    pub(in crate::apply) fn touched(&mut self, range: AddrRange) {
        for (start, part) in granules(range) {
            for idle in self.units.get_mut(&start).into_iter().flatten() {
                idle.pages = idle.pages.minus(Bits::of(start, part));
            }
        }
    }

    /// A scheme has acted on these pages of the granule at `start`.
    pub(in crate::apply) fn acted_on(&mut self, start: u64, pages: Bits) {
        for idle in self.units.get_mut(&start).into_iter().flatten() {
            idle.pages = idle.pages.minus(pages);
        }
    }

    /// The pages of the granule at `start` that are known to be idle: for as long as `confirm_ns`
    /// if there are any, else those that have been idle for the longest time so far.
    pub(in crate::apply) fn idle(&self, start: u64, confirm_ns: u64, now: Time) -> Option<Idle> {
        let [newer, older] = self.units.get(&start)?;
        let is_long = |idle: &Idle| now.since(idle.since) >= confirm_ns;
        let found =
            if is_long(newer) || older.pages.is_empty() || !is_long(older) { newer } else { older };
        (!found.pages.is_empty()).then_some(*found)
    }

    /// The granules that begin in `range` and that the monitor has made old since `since`, in
    /// address order. What is young in them was touched after that.
    pub(in crate::apply) fn made_old_since(
        &self,
        range: AddrRange,
        since: Time,
    ) -> impl Iterator<Item = u64> {
        let units = self.units.range(range.start..range.end);
        units.filter(move |(_, [newer, _])| newer.since >= since).map(|(start, _)| *start)
    }

    /// Drops what the monitor does not look at any more.
    pub(in crate::apply) fn sweep(&mut self, now: Time) {
        self.units.retain(|_, [newer, _]| now.since(newer.looked) < FORGOTTEN_NS);
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::TargetId;
    use isotherm_core::unit::UNIT;

    use super::*;
    use crate::apply::pages::GRANULE;

    const S: u64 = 1_000_000_000;

    fn check(pages: Bits, young: Bits) -> UnitCheck {
        let check = UnitCheck::new(TargetId(1), UNIT, pages);
        UnitCheck { answered: true, present: Bits::ALL, young, ..check }
    }

    fn found(monitored: &Monitored, confirm: u64, now: u64) -> Option<(u64, u64)> {
        let idle = monitored.idle(UNIT, confirm * S, Time(now * S))?;
        Some((idle.since.0 / S, idle.pages.count()))
    }

    #[test]
    fn a_unit_is_a_granule() {
        assert_eq!(UNIT, GRANULE);
    }

    #[test]
    fn a_look_at_one_page_does_not_tell_when_others_were_looked_at() {
        let mut monitored = Monitored::default();
        monitored.made_old(&check(Bits::ALL, Bits::default()), Time(10 * S));
        monitored.looked(&check(Bits::page(3), Bits::page(3)), Time(12 * S));
        let idle = monitored.idle(UNIT, S, Time(13 * S)).unwrap();
        assert_eq!((idle.looked.0 / S, idle.pages.count()), (10, 511));
    }

    #[test]
    fn pages_that_nobody_touched_since_they_were_made_old_are_idle() {
        let mut monitored = Monitored::default();
        assert_eq!(found(&monitored, 3, 1), None, "nothing is known");
        monitored.made_old(&check(Bits::ALL, Bits::ALL), Time(10 * S));
        assert_eq!(found(&monitored, 3, 11), Some((10, 512)));
        monitored.looked(&check(Bits::ALL, Bits::page(7)), Time(12 * S));
        // A touch counts, whoever sees it.
        monitored.touched(AddrRange::new(UNIT, UNIT + 8192));
        assert_eq!(found(&monitored, 3, 14), Some((10, 509)));
        // The page in use begins anew. The others were idle all the time.
        monitored.made_old(&check(Bits::ALL, Bits::page(7)), Time(15 * S));
        assert_eq!(found(&monitored, 3, 16), Some((10, 509)), "long enough");
        assert_eq!(found(&monitored, 3, 18), Some((15, 512)), "more pages, long enough");
        assert_eq!(found(&monitored, 9, 18), Some((15, 512)), "none is, so more pages");
        monitored.sweep(Time(400 * S));
        assert_eq!(found(&monitored, 3, 400), None);
    }

    #[test]
    fn units_that_were_made_old_just_now_are_told() {
        let mut monitored = Monitored::default();
        for nr in 1..=3 {
            let check = UnitCheck { start: nr * UNIT, ..check(Bits::ALL, Bits::ALL) };
            monitored.made_old(&check, Time(nr * S));
        }
        let range = AddrRange::new(UNIT, 3 * UNIT);
        let since = |s| monitored.made_old_since(range, Time(s * S)).collect::<Vec<_>>();
        assert_eq!([since(1), since(2), since(3)], [vec![UNIT, 2 * UNIT], vec![2 * UNIT], vec![]]);
    }

    #[test]
    fn what_was_acted_on_is_not_idle_once_more() {
        let mut monitored = Monitored::default();
        monitored.made_old(&check(Bits::ALL, Bits::ALL), Time(S));
        monitored.acted_on(UNIT, Bits::page(1).or(Bits::page(2)));
        assert_eq!(found(&monitored, 1, 5), Some((1, 510)));
    }

    #[test]
    fn what_was_not_answered_or_not_made_old_is_not_idle() {
        let mut monitored = Monitored::default();
        let stuck = Bits::page(3).or(Bits::page(4));
        let shared = UnitCheck { stuck, ..check(Bits::ALL, Bits::ALL) };
        monitored.made_old(&shared, Time(S));
        assert_eq!(found(&monitored, 1, 5), Some((1, 510)));
        // A sentinel makes one page old, which had been touched.
        monitored.made_old(&check(Bits::page(9), Bits::page(9)), Time(2 * S));
        assert_eq!(found(&monitored, 1, 5), Some((1, 509)));
        let gone = UnitCheck { present: Bits::page(1), ..check(Bits::ALL, Bits::default()) };
        monitored.looked(&gone, Time(3 * S));
        assert_eq!(found(&monitored, 1, 5), Some((1, 1)), "pages that are gone");
        monitored.made_old(&UnitCheck { answered: false, ..shared }, Time(4 * S));
        assert_eq!(found(&monitored, 1, 5), None);
    }
}
