//! Tests: units with pages that cannot be made old, for a while.

use super::Unit;
use crate::snapshot::SPANS;
use crate::target::TargetId;
use crate::time::Time;
use crate::unit::{PageBits, UNIT, UnitCheck};

const MS: u64 = 1_000_000;
const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];

/// An answer about these pages, all of which are mapped and young.
fn young(pages: PageBits) -> UnitCheck {
    let check = UnitCheck::new(TargetId(1), UNIT, pages);
    UnitCheck { answered: true, present: PageBits::ALL, young: PageBits::ALL, ..check }
}

/// A unit of which all pages are touched all the time. It is armed at 1 s, and looked at for the
/// last time at `until` ms. These pages stay young.
fn hot(stuck: PageBits, until: u64) -> Unit {
    let mut unit = Unit::new(UNIT, PageBits::ALL, Time(0));
    unit.is_turn = true;
    unit.was_armed(&UnitCheck { stuck, ..young(PageBits::ALL) }, Time(1000 * MS));
    for ms in [1005, 1100, 2000].into_iter().filter(|ms| *ms <= until) {
        unit.was_looked_at(&young(PageBits::ALL), Time(ms * MS), &SPANS_NS, false);
    }
    unit
}

#[test]
fn pages_that_were_stuck_were_not_idle() {
    let mut unit = hot(PageBits::page(3), 2000);
    let info = unit.info();
    assert_eq!(info.touched[2], Some(PageBits::ALL.minus(PageBits::page(3))));
    assert_eq!(info.unresolved, PageBits::page(3));
    // Nothing is known of the page until a span has passed in which it was not stuck.
    unit.was_armed(&young(PageBits::ALL), Time(2500 * MS));
    unit.was_looked_at(&young(PageBits::ALL), Time(2505 * MS), &SPANS_NS, false);
    let info = unit.info();
    assert_eq!((info.touched[0], info.unresolved), (Some(PageBits::ALL), PageBits::default()));
    assert_eq!(info.touched[2], None);
    // It was armed out of turn, and is measured for all spans.
    for ms in [2600, 3500, 12_500] {
        unit.was_looked_at(&young(PageBits::ALL), Time(ms * MS), &SPANS_NS, false);
    }
    assert_eq!([0, 1, 2, 3].map(|nr| unit.planes().counted(nr)), [Some(512); 4]);
}

#[test]
fn a_sentinel_that_cannot_be_made_old_tells_nothing() {
    for (stuck, calmed) in [(false, true), (true, false)] {
        let mut unit = hot(PageBits::default(), 1100);
        let page = unit.choose_sentinel(7).unwrap();
        let stuck = if stuck { page } else { PageBits::default() };
        unit.was_armed(&UnitCheck { stuck, ..young(page) }, Time(1600 * MS));
        let after = UnitCheck { young: PageBits::ALL.minus(page), ..young(PageBits::ALL) };
        let news = unit.was_looked_at(&after, Time(1700 * MS), &SPANS_NS, false);
        assert_eq!(news.calmed, calmed);
        assert_eq!(unit.rate(0) > 0.0, !calmed);
    }
}

#[test]
fn a_page_that_was_lost_is_neither_idle_nor_in_use_until_it_is_made_old_again() {
    let mut unit = hot(PageBits::default(), 1005);
    let lost = PageBits::page(3);
    let look = UnitCheck { stuck: lost, ..young(PageBits::ALL) };
    unit.was_looked_at(&look, Time(1100 * MS), &SPANS_NS, false);
    // What a later look says of it was not since it was made old.
    unit.was_looked_at(&young(PageBits::ALL), Time(2000 * MS), &SPANS_NS, false);
    let info = unit.info();
    assert_eq!((info.touched[2], info.unresolved), (Some(PageBits::ALL.minus(lost)), lost));
    unit.was_armed(&young(PageBits::ALL), Time(2500 * MS));
    unit.was_looked_at(&young(PageBits::ALL), Time(2505 * MS), &SPANS_NS, false);
    let info = unit.info();
    assert_eq!((info.touched[0], info.unresolved), (Some(PageBits::ALL), PageBits::default()));
}

#[test]
fn a_sentinel_that_was_lost_does_not_calm_its_unit() {
    let mut unit = hot(PageBits::default(), 1100);
    let page = unit.choose_sentinel(7).unwrap();
    unit.was_armed(&young(page), Time(1200 * MS));
    let after = UnitCheck { stuck: page, young: PageBits::ALL.minus(page), ..young(PageBits::ALL) };
    let news = unit.was_looked_at(&after, Time(1300 * MS), &SPANS_NS, false);
    assert!(!news.calmed && unit.rate(0) > 0.0);
}
