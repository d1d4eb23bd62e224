//! One unit, look by look.

use super::levels::per_sample;
use super::woken::Lasting;
use super::*;
use crate::target::TargetId;
use crate::unit::UNIT;

const MS: u64 = 1_000_000;
const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];

/// A look at `at` ms that finds all pages mapped and these young.
fn look(unit: &mut Unit, young: PageBits, at: u64) -> News {
    let check = UnitCheck {
        answered: true,
        present: PageBits::ALL,
        young,
        ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
    };
    unit.was_looked_at(&check, Time(at * MS), &SPANS_NS, false)
}

/// Made old at `at` ms, after these were young.
fn arm(unit: &mut Unit, young: PageBits, stuck: PageBits, at: u64) -> u64 {
    let check = UnitCheck {
        answered: true,
        present: PageBits::ALL,
        young,
        stuck,
        ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
    };
    unit.was_armed(&check, Time(at * MS))
}

/// The same when it is its turn.
fn arm_in_turn(unit: &mut Unit, young: PageBits, stuck: PageBits, at: u64) -> u64 {
    unit.is_turn = true;
    arm(unit, young, stuck, at)
}

fn cell(nr: u64) -> PageBits {
    let start = nr * (64 << 10);
    PageBits::of(0, crate::AddrRange::new(start, start + (64 << 10)))
}

fn unit() -> Unit {
    Unit::new(UNIT, PageBits::ALL, Time(0))
}

#[test]
fn a_plane_is_published_when_its_span_is_over() {
    let mut unit = unit();
    assert_eq!(arm(&mut unit, PageBits::ALL, PageBits::default(), 1000), 512);
    assert!(!look(&mut unit, PageBits::default(), 1002).judged, "too early");
    assert!(look(&mut unit, cell(0), 1005).judged);
    assert_eq!((unit.rate(0), unit.rate(1)), (1.0, 0.0));
    look(&mut unit, cell(0).or(cell(3)), 1100);
    assert_eq!((unit.plane(0), unit.plane(1)), (cell(0), cell(0).or(cell(3))));
    // What was touched stays so, also if others clear its bit.
    look(&mut unit, PageBits::default(), 2000);
    assert_eq!(unit.plane(2), cell(0).or(cell(3)));
}

#[test]
fn a_late_look_counts_with_its_real_time() {
    let mut unit = unit();
    arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    let half = PageBits([0x0000_ffff_0000_ffff; 8]).and(PageBits([0x00ff_00ff_00ff_00ff; 8]));
    look(&mut unit, half, 1010);
    // Half of the pages in two samples: 29 % in one.
    let rate = unit.rate(0);
    assert!((rate - 0.29).abs() < 0.01, "{rate}");
}

#[test]
fn a_unit_without_a_young_page_counts_as_untouched() {
    let mut unit = unit();
    look(&mut unit, PageBits::default(), 1000);
    assert!(unit.armed && unit.planes().counted(0).is_none());
    assert!(look(&mut unit, PageBits::default(), 1300).published);
    assert_eq!([0, 1, 2].map(|nr| unit.planes().counted(nr)), [Some(0), Some(0), None]);
    // What is touched much later is news, and no plane's.
    assert_eq!(look(&mut unit, PageBits::ALL, 4000).woken, 512);
    assert_eq!(unit.planes().counted(2), None);
}

#[test]
fn a_unit_that_a_look_found_idle_is_no_even_sample_until_its_turn() {
    let mut unit = unit();
    look(&mut unit, PageBits::default(), 1000);
    assert!(unit.armed && !unit.in_turn);
    arm(&mut unit, PageBits::default(), PageBits::default(), 2000);
    assert!(!unit.in_turn, "out of turn");
    arm_in_turn(&mut unit, PageBits::default(), PageBits::default(), 3000);
    assert!(unit.in_turn);
}

#[test]
fn pages_that_are_gone_for_a_moment_were_not_idle() {
    let mut unit = unit();
    arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::ALL, 1100);
    // The look at the end of the second falls into the making of a huge page.
    let gone = UnitCheck { answered: true, ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL) };
    unit.was_looked_at(&gone, Time(2000 * MS), &SPANS_NS, false);
    let back = cell(0);
    assert!(look(&mut unit, back, 2005).published);
    assert_eq!(unit.info().touched[2], Some(back));
    assert!(!look(&mut unit, PageBits::ALL, 2010).published, "they were there, and young later");
}

#[test]
fn what_is_touched_in_a_window_is_touched_in_one_of_its_samples() {
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::default(), 1005);
    look(&mut unit, cell(3), 1100);
    assert!(unit.rate(3) >= 0.04 && unit.rate(2) == 0.0, "{}", unit.rate(3));
    assert_eq!(unit.steady_ns(3, Time(1200 * MS)), 100 * MS);
}

#[test]
fn all_pages_in_some_samples_are_not_all_in_one() {
    for (touched, times, low, high) in
        [(16, 1.0, 1.0, 1.0), (16, 4.0, 0.5, 0.7), (8, 2.0, 0.28, 0.3), (0, 3.0, 0.0, 0.0)]
    {
        let rate = per_sample(touched, 16, times);
        assert!((low..=high).contains(&rate), "{touched} in {times} samples: {rate}");
    }
}

#[test]
fn something_that_passes_by_is_not_chased() {
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::default(), 1005);
    look(&mut unit, PageBits::default(), 1105);
    for nr in 1..=3 {
        assert_eq!(unit.is_restless(), nr == 3);
        let at = 1000 + nr * 500;
        assert_eq!(look(&mut unit, PageBits::ALL, at).woken, 512);
        arm(&mut unit, PageBits::ALL, PageBits::default(), at + 5);
        look(&mut unit, PageBits::default(), at + 10);
        look(&mut unit, PageBits::default(), at + 105);
    }
    // It was its turn once, and nothing was touched for 5 ms. A second saw it all.
    look(&mut unit, PageBits::default(), 2010);
    assert_eq!([0, 2].map(|nr| unit.planes().counted(nr)), [Some(0), Some(512)]);
}

#[test]
fn the_age_of_a_cell_begins_at_its_last_touch_as_far_as_is_known() {
    let mut unit = unit();
    arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::default(), 1005);
    assert_eq!(unit.steady_ns(0, Time(4000 * MS)), 3000 * MS, "idle since it was made old");
    let news = look(&mut unit, cell(0), 4000);
    assert_eq!(news.woken, 16);
    // One touch: nobody knows when the next one was, until it is made old again.
    assert_eq!(unit.steady_ns(1, Time(9000 * MS)), 8000 * MS);
    arm(&mut unit, cell(0), PageBits::default(), 9000);
    look(&mut unit, PageBits::default(), 9005);
    assert_eq!(unit.steady_ns(0, Time(10_000 * MS)), 1000 * MS);
    assert_eq!(unit.steady_ns(1, Time(10_000 * MS)), 9000 * MS);
}

#[test]
fn what_cannot_be_made_old_is_not_called_hot() {
    let mut unit = unit();
    arm(&mut unit, PageBits::ALL, cell(2), 1000);
    look(&mut unit, cell(2), 1005);
    assert!(unit.is_blind(2) && !unit.is_blind(3));
    assert!(unit.plane(0).is_empty());
}

#[test]
fn a_sentinel_that_stays_old_shows_that_hot_memory_has_gone_cold() {
    for (touched, calmed) in [(true, false), (false, true)] {
        let mut unit = unit();
        arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, PageBits::ALL, 1005);
        let page = unit.choose_sentinel(77).unwrap();
        assert_eq!(page, PageBits::page(77));
        assert_eq!(unit.choose_sentinel(78), None, "one at a time");
        let check = UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young: page,
            ..UnitCheck::new(TargetId(1), UNIT, page)
        };
        unit.was_armed(&check, Time(1600 * MS));
        assert_eq!(unit.young.count(), 511);
        let young = if touched { PageBits::ALL } else { PageBits::ALL.minus(page) };
        let news = look(&mut unit, young, 1700);
        assert_eq!((news.calmed, news.alarm), (calmed, None), "it was hot for long");
    }
}

#[test]
fn what_was_hot_for_a_moment_has_passed_by_and_is_expected_no_more() {
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    for ms in [1005, 1100, 2000] {
        look(&mut unit, PageBits::default(), ms);
    }
    assert_eq!(look(&mut unit, PageBits::ALL, 2500).woken, 512);
    arm(&mut unit, PageBits::ALL, PageBits::default(), 2510);
    look(&mut unit, PageBits::ALL, 2515);
    assert!(look(&mut unit, PageBits::ALL, 2610).risen, "whether it stays is asked");
    assert_eq!([0, 1, 2].map(|span| unit.planes().counted(span)), [Some(512); 3]);
    let page = unit.choose_sentinel(77).unwrap();
    let check = UnitCheck {
        answered: true,
        present: PageBits::ALL,
        young: page,
        ..UnitCheck::new(TargetId(1), UNIT, page)
    };
    unit.was_armed(&check, Time(2700 * MS));
    let news = look(&mut unit, PageBits::ALL.minus(page), 2800);
    assert_eq!((news.alarm, news.calmed, unit.rate(0)), (Some(true), false, 0.0));
    assert_eq!([0, 1, 2].map(|span| unit.planes().counted(span)), [Some(0); 3]);
}

#[test]
fn a_span_begins_when_the_pages_became_old() {
    let mut unit = unit();
    let check = UnitCheck {
        answered: true,
        present: PageBits::ALL,
        young: PageBits::ALL,
        made_old: Some(Time(1000 * MS)),
        ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
    };
    unit.was_armed(&check, Time(1005 * MS));
    let half = PageBits([0x0000_ffff_0000_ffff; 8]).and(PageBits([0x00ff_00ff_00ff_00ff; 8]));
    look(&mut unit, half, 1010);
    // Half of the pages in two samples: 29 % in one.
    assert!((unit.rate(0) - 0.29).abs() < 0.01, "{}", unit.rate(0));
}

#[test]
fn what_waits_for_others_is_as_it_was() {
    let mut unit = unit();
    arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::ALL, 1005);
    let later = UnitCheck {
        together: true,
        present: PageBits::ALL,
        young: PageBits::ALL,
        ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
    };
    assert_eq!(unit.was_armed(&later, Time(2300 * MS)), 0);
    assert!(unit.together && !unit.has_stuck());
    assert_eq!((unit.since, unit.rate(0)), (Time(1000 * MS), 1.0));
    assert_eq!(unit.choose_sentinel(3), None, "one page cannot be made old alone");
    // It was never armed: nothing is known, and the first pass goes on without it.
    let mut unit = self::unit();
    unit.was_armed(&later, Time(2300 * MS));
    look(&mut unit, PageBits::ALL, 2305);
    assert!(unit.armed && unit.is_blind(0) && unit.has_stuck());
    // When its time has come, it is known.
    arm(&mut unit, PageBits::ALL, PageBits::default(), 3300);
    look(&mut unit, PageBits::default(), 3305);
    assert!(!unit.is_blind(0) && !unit.has_stuck() && unit.rate(0) == 0.0);
}

#[test]
fn a_sentinel_has_half_a_window_to_be_touched() {
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::ALL, 1005);
    let page = unit.choose_sentinel(77).unwrap();
    let check = UnitCheck {
        answered: true,
        present: PageBits::ALL,
        young: page,
        ..UnitCheck::new(TargetId(1), UNIT, page)
    };
    unit.was_armed(&check, Time(1995 * MS));
    // Another look is due just now.
    let others = PageBits::ALL.minus(page);
    assert!(!look(&mut unit, others, 2000).calmed, "after a sample");
    assert!(unit.rate(0) > 0.9);
    assert!(look(&mut unit, others, 2095).calmed, "after a window");
    assert_eq!((unit.rate(0), unit.is_sure()), (0.0, false));
}

#[test]
fn a_level_is_sure_if_a_look_came_in_time() {
    for (first, young, sure) in [
        (1005, cell(0), true),
        // The target, or the monitor, was kept from running.
        (1060, PageBits::ALL, false),
    ] {
        let mut unit = unit();
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, young, first);
        look(&mut unit, young, 1100);
        assert_eq!(unit.is_sure(), sure, "first look at {first}");
    }
    // All is touched in a window, and nothing was in its first sample.
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::default(), 1005);
    assert!(unit.is_sure());
    look(&mut unit, PageBits::ALL, 1100);
    assert!(!unit.is_sure());
}

/// Late by nearly a sample, as where a unit is armed late in its sample.
#[test]
fn what_a_late_look_finds_is_compared_with_as_long_a_span() {
    let two_looks = |first: Option<(PageBits, u64)>, young, after_ms: u64| {
        let mut unit = unit();
        for (turn, (young, after_ms)) in (1..).zip(first.into_iter().chain([(young, after_ms)])) {
            arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), turn * 2000);
            look(&mut unit, young, turn * 2000 + after_ms);
        }
        let (_, hi) = interval(unit.rate(0), unit.times(), 16.0);
        (unit.rate(0), hi)
    };
    let half = PageBits([0x00ff_00ff_00ff_00ff; 8]);
    let (rate, hi) = two_looks(None, PageBits::ALL, 9);
    assert!(rate < 0.9 && hi == 1.0, "every sample may touch all of it: {rate}, up to {hi}");
    let (rate, hi) = two_looks(Some((PageBits::ALL, 5)), PageBits::ALL, 9);
    assert_eq!((rate, hi), (1.0, 1.0), "it is as it was");
    let (rate, hi) = two_looks(Some((PageBits::ALL, 5)), half, 9);
    assert!(rate < 0.4 && hi < 0.6, "it has changed: {rate}, up to {hi}");
    let (rate, hi) = two_looks(Some((half, 5)), half, 5);
    assert!((rate - 0.5).abs() < 0.01 && hi < 0.8, "in time: {rate}, up to {hi}");
}

#[test]
fn no_answer_changes_nothing() {
    let mut unit = unit();
    arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, cell(0), 1005);
    let before = alloc::format!("{unit:?}");
    let check = UnitCheck::new(TargetId(1), UNIT, PageBits::ALL);
    unit.was_looked_at(&check, Time(2000 * MS), &SPANS_NS, false);
    unit.was_armed(&check, Time(2000 * MS));
    assert_eq!(before, alloc::format!("{unit:?}"));
}

#[test]
fn a_unit_takes_four_ten_thousandths_of_its_memory() {
    // With what is kept beside the units, it is to be half a thousandth.
    assert!(size_of::<Unit>() as u64 * 2400 <= UNIT, "{} bytes", size_of::<Unit>());
}

#[test]
fn a_level_that_stays_is_the_mean_of_its_looks() {
    let mut unit = unit();
    // 8, 12 and then 2 of the 16 pages of each cell.
    let some = |pages: u64| PageBits([((1_u64 << pages) - 1) * 0x0001_0001_0001_0001; 8]);
    for (pages, rate) in [(8, 0.5), (12, 0.62), (12, 0.69), (0, 0.0)] {
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        assert!(look(&mut unit, some(pages), 1005).judged);
        assert!((unit.rate(5) - rate).abs() < 0.02, "{pages}: {} for {rate}", unit.rate(5));
    }
}

#[test]
fn more_pages_of_a_cell_in_use_are_no_news() {
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::page(0), 1005);
    let before = unit.rate(0);
    look(&mut unit, PageBits::page(0), 1100);
    // Another page of the first cell, and one of a cell that was quiet for a window.
    let more = PageBits::page(0).or(PageBits::page(1)).or(PageBits::page(200));
    look(&mut unit, more, 1300);
    assert_eq!(unit.rate(0), before);
    assert!(unit.rate(12) > 0.0);
}

#[test]
fn a_first_look_that_comes_too_late_is_made_up_for() {
    for (late, again) in [(5, false), (30, true)] {
        let mut unit = unit();
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        let news = look(&mut unit, PageBits::ALL, 1000 + late);
        assert_eq!((news.judged, news.again), (!again, again), "after {late} ms");
    }
}

#[test]
fn what_is_touched_at_once_all_of_a_sudden_gets_a_sentinel() {
    let mut unit = unit();
    for (at, touched, risen) in
        [(1000, PageBits::ALL, false), (2000, PageBits::default(), false), (3000, cell(0), false)]
    {
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), at);
        assert_eq!(look(&mut unit, touched, at + 5).risen, risen, "at {at}");
    }
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 4000);
    let hot = cell(0).or(cell(1)).or(cell(2));
    assert!(look(&mut unit, hot, 4005).risen);
    // It has passed by. One page cannot say so of the others.
    let page = unit.choose_sentinel(20).unwrap();
    assert!(!page.and(hot).is_empty());
    let check = UnitCheck {
        answered: true,
        present: page,
        young: page,
        ..UnitCheck::new(TargetId(1), UNIT, page)
    };
    unit.was_armed(&check, Time(4100 * MS));
    let news = look(&mut unit, PageBits::default(), 4200);
    assert!(news.again && !news.calmed);
}

#[test]
fn a_unit_of_which_no_sample_was_measured_can_have_a_sentinel() {
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    // Late for the span of a sample, and early enough to tell a rate.
    assert!(look(&mut unit, PageBits::ALL, 1015).judged);
    assert!(unit.planes().get(0).is_none());
    assert!(unit.choose_sentinel(3).is_some());
}

/// A quiet unit of which some pages are young at 11 s, and one page of them is armed alone.
fn woken(young: PageBits) -> (Unit, PageBits) {
    let mut unit = unit();
    arm(&mut unit, PageBits::default(), PageBits::default(), 1000);
    for at in [1005, 1100, 2000, 10_900] {
        look(&mut unit, PageBits::default(), at);
    }
    assert_eq!(look(&mut unit, young, 11_000).woken, young.count());
    let page = unit.choose_woken(300).unwrap();
    assert_eq!((page.and(young), page.count()), (page, 1));
    let check = UnitCheck {
        answered: true,
        present: PageBits::ALL,
        young,
        ..UnitCheck::new(TargetId(1), UNIT, page)
    };
    unit.was_armed(&check, Time(11_002 * MS));
    (unit, page)
}

#[test]
fn one_page_tells_whether_what_has_woken_up_is_touched_all_the_time() {
    let hot = cell(3).or(cell(4));
    for (is_touched, at, level) in
        [(true, 11_007, 1.0), (true, 11_012, 0.5), (true, 11_050, 0.05), (false, 11_018, 0.05)]
    {
        let (mut unit, page) = woken(hot);
        let young = if is_touched { hot } else { hot.minus(page) };
        assert_eq!(look(&mut unit, young, 11_004).lasts, None, "too early");
        assert!(unit.is_waking());
        if !is_touched {
            assert_eq!(look(&mut unit, young, 11_007).lasts, None);
            assert!(unit.is_waking(), "one sample may have missed it");
        }
        assert_eq!(look(&mut unit, young, at).lasts, Some(level > 0.1), "{is_touched} {at}");
        assert!(!unit.is_waking());
        assert!((unit.rate(3) - level).abs() < 0.01, "{is_touched} {at}: {}", unit.rate(3));
        assert_eq!(unit.rate(5), 0.0, "where nothing has woken up");
        assert!(!unit.is_sure(), "it is a guess until the unit is armed");
        // It is watched like memory that was hot before.
        let sentinel = unit.choose_sentinel(5);
        assert_eq!(sentinel.is_some(), level > 0.4, "{is_touched} {at}");
    }
}

#[test]
fn a_unit_that_became_hot_and_was_looked_at_late_can_have_a_sentinel() {
    let mut unit = unit();
    arm(&mut unit, PageBits::default(), PageBits::default(), 1000);
    look(&mut unit, PageBits::default(), 1005);
    arm(&mut unit, PageBits::ALL, PageBits::default(), 2000);
    // Too late for the plane of a sample, which keeps that nothing was touched.
    look(&mut unit, PageBits::ALL, 2010);
    assert_eq!(unit.planes().get(0), Some(PageBits::default()));
    assert!(unit.choose_sentinel(7).is_some());
}

#[test]
fn pages_that_are_mapped_within_a_span_are_told_apart_until_the_next_turn() {
    let in_second_turn = || {
        let mut unit = unit();
        let one = UnitCheck {
            answered: true,
            present: PageBits::page(7),
            ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
        };
        for at in [900, 1000] {
            unit.is_turn = true;
            unit.was_armed(&one, Time(at * MS));
        }
        unit
    };
    let mut unit = in_second_turn();
    for (at, came) in [(1005, 511), (1100, 511)] {
        look(&mut unit, PageBits::ALL, at);
        assert_eq!(unit.planes().came(usize::from(at > 1005)), came);
    }
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 2000);
    look(&mut unit, PageBits::ALL, 2005);
    assert_eq!([0, 1].map(|nr| unit.planes().came(nr)), [0, 511], "the window is not over");
    // Out of turn, the span that was measured after the start counts, and longer ones do not.
    let mut unit = in_second_turn();
    for at in [1005, 1100, 2000, 11_000] {
        look(&mut unit, PageBits::ALL, at);
    }
    arm(&mut unit, PageBits::ALL, PageBits::default(), 12_000);
    for at in [12_005, 12_100, 13_000] {
        look(&mut unit, cell(0), at);
    }
    let counted = [0, 1, 2, 3].map(|nr| unit.planes().counted(nr));
    assert_eq!(counted, [Some(16), Some(16), Some(16), None]);
}

#[test]
fn what_is_touched_at_random_is_the_same_and_what_moves_is_not() {
    // Half of the pages of each cell, others each time: a sample of random accesses.
    let random: [u64; 3] = [0x5a5a_33cc_96a5_0ff0, 0x3c5a_0f96_66a5_c3f0, 0xa5c3_5a3c_f00f_9966];
    let random = random.map(|word| PageBits([word; 8]));
    // The first half of the unit, then the second.
    let moves = [0, 4, 0].map(|from| {
        let mut half = PageBits::default();
        half.0[from..from + 4].fill(u64::MAX);
        half
    });
    for (samples, longer) in [(random, true), (moves, false)] {
        let mut unit = unit();
        for (nr, touched) in samples.into_iter().enumerate() {
            let at = 1000 + nr as u64 * 2000;
            arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), at);
            look(&mut unit, touched, at + 5);
            look(&mut unit, touched, at + 100);
        }
        assert_eq!(unit.interval_ns > INTERVAL_NS.0, longer, "{samples:?}");
    }
}

/// The program did not run for a part of the sample. The pages that it came to are the same, but
/// fewer. Nobody is to believe that for a minute.
#[test]
fn a_sample_that_found_much_less_than_the_others_is_taken_again_soon() {
    for (last, longer) in [(0x7fff, true), (0x3fff, false), (0x0fff, false)] {
        let mut unit = unit();
        for (nr, cell) in [0xffff, 0xffff, 0xffff, last].into_iter().enumerate() {
            let touched = PageBits([cell * 0x0001_0001_0001_0001; 8]);
            let at = 1000 + nr as u64 * 20_000;
            arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), at);
            look(&mut unit, touched, at + 5);
            look(&mut unit, PageBits::ALL, at + 100);
        }
        assert_eq!(unit.interval_ns > INTERVAL_NS.0, longer, "{last:#x}");
    }
}

/// One sample in twelve finds nothing of a huge page that is used 500 times a second. Those that it
/// finds are not asked again, so what a second question says is not counted.
#[test]
fn a_huge_page_that_a_sample_has_missed_counts_as_missed() {
    for (leaf_shift, begun, counted) in [(12, 512, 512), (21, 0, 0)] {
        let mut unit = unit();
        let mut seen = |young: PageBits, at_ms: u64, is_arming: bool| {
            let check = UnitCheck {
                answered: true,
                present: PageBits::ALL,
                young,
                leaf_shift,
                ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
            };
            if is_arming {
                unit.is_turn = at_ms == 1000;
                unit.was_armed(&check, Time(at_ms * MS));
                return (0, unit.expect_seen());
            }
            let before = unit.begun_within(young).count();
            unit.was_looked_at(&check, Time(at_ms * MS), &SPANS_NS, false);
            (before, unit.expect_seen())
        };
        seen(PageBits::ALL, 1000, true);
        seen(PageBits::default(), 1005, false);
        assert_eq!(seen(PageBits::ALL, 1100, false).0, begun, "{leaf_shift}");
        seen(PageBits::ALL, 1200, true);
        seen(PageBits::ALL, 1205, false);
        seen(PageBits::ALL, 1300, false);
        assert_eq!(unit.planes().counted(0), Some(counted), "{leaf_shift}");
    }
}

#[test]
fn more_pages_within_the_window_after_an_arming_are_no_news() {
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits([0x5a5a_33cc_96a5_0ff0; 8]), 1005);
    assert_eq!(look(&mut unit, PageBits::ALL, 1100).woken, 0, "a hot unit has more pages");
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 3000);
    look(&mut unit, PageBits::default(), 3005);
    look(&mut unit, PageBits::default(), 3100);
    assert_eq!(look(&mut unit, PageBits::ALL, 3200).woken, 512, "it was quiet");
}

#[test]
fn of_a_window_with_few_samples_a_sentinel_waits_for_more_than_half() {
    // As in `isotherm top`: ten samples of 100 ms.
    let spans = [100 * MS, 1000 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];
    for (after, calmed) in [(600, false), (800, false), (950, true)] {
        let mut unit = unit();
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        let check = UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young: PageBits::ALL,
            ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
        };
        unit.was_looked_at(&check, Time(1100 * MS), &spans, false);
        unit.was_looked_at(&check, Time(2000 * MS), &spans, false);
        let page = unit.choose_sentinel(7).unwrap();
        unit.was_armed(&UnitCheck { pages: page, ..check }, Time(6000 * MS));
        let missed = UnitCheck { young: PageBits::ALL.minus(page), ..check };
        let news = unit.was_looked_at(&missed, Time((6000 + after) * MS), &spans, false);
        assert_eq!(news.calmed, calmed, "after {after} ms");
    }
}

/// A look that finds no page mapped.
fn look_at_nothing(unit: &mut Unit, at: u64) {
    let check = UnitCheck { answered: true, ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL) };
    unit.was_looked_at(&check, Time(at * MS), &SPANS_NS, false);
}

#[test]
fn a_unit_that_was_measured_without_a_page_is_not_measured() {
    let mut unit = unit();
    for at in [1000, 1100, 2000] {
        look_at_nothing(&mut unit, at);
    }
    assert_eq!([0, 1].map(|nr| unit.planes().counted(nr)), [Some(0); 2]);
    assert!(!unit.has_waited(Time(2000 * MS), &SPANS_NS, u64::MAX));
    let news = look(&mut unit, PageBits::ALL, 2100);
    assert_eq!((news.woken, news.counted), (0, ALL), "what is mapped has not woken up");
    assert_eq!([0, 1, 2].map(|nr| unit.planes().counted(nr)), [None; 3]);
    assert!(unit.has_waited(Time(2100 * MS), &SPANS_NS, u64::MAX));
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 2200);
    look(&mut unit, cell(1), 2205);
    assert_eq!((unit.planes().counted(0), unit.planes().came(0)), (Some(16), 0));
}

/// A unit that was made old when `before` of its pages were mapped, in its first or second turn.
/// All are mapped and touched at the next look. Returns whether it counts as never seen then.
fn fills(before: PageBits, turns: u64) -> bool {
    let mut unit = unit();
    for turn in 1..=turns {
        unit.is_turn = true;
        let check = UnitCheck {
            answered: true,
            present: before,
            ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
        };
        unit.was_armed(&check, Time(turn * 1000 * MS));
    }
    assert!(unit.armed);
    let news = look(&mut unit, PageBits::ALL, turns * 1000 + 100);
    assert_eq!(unit.size(), 512);
    assert!(unit.armed || news.counted == ALL && unit.plane(1).is_empty());
    !unit.armed
}

#[test]
fn what_is_mapped_after_the_first_arming_was_never_seen() {
    let pages = |nr: u64| PageBits::of(0, crate::AddrRange::new(0, nr * 4096));
    assert!(fills(pages(0), 1) && fills(pages(255), 1));
    assert!(!fills(pages(256), 1), "most of it was made old");
    assert!(!fills(pages(0), 2), "memory that comes and goes has its turn as all other memory");
}

#[test]
fn what_begins_within_the_window_after_a_turn_has_woken_up() {
    let mut unit = unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::default(), 1005);
    let begun = cell(4).or(cell(5)).or(cell(6));
    assert_eq!(look(&mut unit, begun, 1100).woken, 48);
    // One page is asked, and tells of all.
    let page = unit.choose_woken(3).unwrap();
    let check = UnitCheck {
        answered: true,
        present: PageBits::ALL,
        young: page,
        ..UnitCheck::new(TargetId(1), UNIT, page)
    };
    unit.was_armed(&check, Time(1110 * MS));
    assert_eq!(look(&mut unit, begun, 1115).lasts, Some(true));
    unit.expect_woken(Lasting::ALL);
    assert_eq!((unit.planes().counted(0), unit.planes().guessed(0)), (Some(48), 0));
    // Where every page is touched now and then, none of that has begun.
    let mut unit = self::unit();
    arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
    look(&mut unit, PageBits::default(), 1005);
    assert_eq!(look(&mut unit, PageBits([0x7777_7777_7777_7777; 8]), 1100).woken, 0);
}

#[test]
fn what_was_seen_out_of_turn_counts_once_it_is_known_to_last() {
    for lasts in [true, false] {
        let mut unit = unit();
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        for at in [1005, 1100, 2000] {
            look(&mut unit, PageBits::default(), at);
        }
        let hot = cell(4).or(cell(5)).or(cell(6));
        assert_eq!(look(&mut unit, hot, 2100).woken, 48);
        arm(&mut unit, hot, PageBits::default(), 2110);
        // Of one cell nothing is touched within the first sample.
        look(&mut unit, cell(4).or(cell(5)), 2115);
        assert_eq!(unit.planes().counted(0), Some(0), "it may pass by");
        look(&mut unit, hot, 2210);
        let page = unit.choose_sentinel(3).unwrap();
        let check = UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young: page,
            ..UnitCheck::new(TargetId(1), UNIT, page)
        };
        unit.was_armed(&check, Time(2215 * MS));
        let news = look(&mut unit, if lasts { hot } else { hot.minus(page) }, 2290);
        assert_eq!(news.alarm, Some(!lasts));
        let counted = [0, 1].map(|nr| unit.planes().counted(nr));
        // Of that cell, a twentieth of its pages: it was touched in one sample of the window.
        let expected = if lasts { [33, 48] } else { [0, 0] };
        assert_eq!(counted, expected.map(Some));
    }
}
