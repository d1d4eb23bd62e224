//! What census makes old while the kernel reclaims memory of its target, and while the rest of the
//! program uses up the budget.
#![expect(clippy::unwrap_used, reason = "in a test")]

use isotherm_core::unit::{PageBits, UNIT};
use isotherm_core::{AddrRange, Attrs, Context, Method, Reclaimed, TargetId, Time, Wish};

const ID: TargetId = TargetId(7);
const S: u64 = 1_000_000_000;
const UNITS: u64 = 128;

/// Memory that is touched all the time, and reclaimed in some seconds. Returns the whole units that
/// were made old, by second. An answer takes so much CPU time.
fn armed(is_reclaimed: impl Fn(u64) -> bool, seconds: usize, answer_ns: u64) -> Vec<u64> {
    let reclaimed = |s| if is_reclaimed(s) { Reclaimed::All } else { Reclaimed::Nothing };
    armed_of(reclaimed, |_| true, seconds, answer_ns)
}

/// The same, for any part that is reclaimed, and of the units that count.
fn armed_of<'a>(
    reclaimed: impl Fn(u64) -> Reclaimed<'a>,
    counts: impl Fn(u64) -> bool,
    seconds: usize,
    answer_ns: u64,
) -> Vec<u64> {
    let attrs = Attrs { method: Method::Census, budget_bp: 1000, ..Attrs::default() };
    let mut context = Context::new(attrs, 1).unwrap();
    context.add_target(ID);
    let (mut now, mut cpu, mut armed) = (Time(0), 0, vec![0; seconds + 1]);
    while now.0 < seconds as u64 * S {
        match context.poll(now) {
            Wish::Update => {
                let area = AddrRange::new(UNIT, (UNITS + 1) * UNIT);
                context.set_ranges(ID, &[area]).unwrap();
                context.set_reclaimed(ID, reclaimed(now.0 / S));
            }
            wish @ (Wish::PrepareUnits | Wish::CheckUnits) => {
                for unit in context.units_mut() {
                    (unit.answered, unit.present, unit.young) =
                        (true, PageBits::ALL, PageBits::ALL);
                    let is_whole = wish == Wish::PrepareUnits && unit.pages.count() > 1;
                    armed[usize::try_from(now.0 / S).unwrap()] +=
                        u64::from(is_whole && counts(unit.start));
                }
                context.set_units_cpu(Some((cpu, cpu + answer_ns)));
                cpu += answer_ns;
            }
            Wish::Sleep(until) => now = until,
            Wish::Snapshot => {}
            wish => panic!("{wish:?}"),
        }
    }
    armed
}

#[test]
fn what_is_reclaimed_is_spared_and_seen_again_afterwards() {
    let spared = armed(|s| (20..60).contains(&s), 90, 50_000);
    let count = |armed: &[u64], from: usize, to: usize| armed[from..to].iter().sum::<u64>();
    assert!(count(&spared, 0, 5) >= UNITS, "{spared:?}: all of it is seen at first");
    // One every 12 s, and the first of them at once.
    let in_time = count(&spared, 21, 60);
    assert!((1..=5).contains(&in_time), "{spared:?}: {in_time} while it is reclaimed");
    assert!(count(&spared, 70, 90) >= UNITS / 2, "{spared:?}: ten seconds later");
    let free = armed(|_| false, 60, 50_000);
    assert!(count(&free, 21, 60) > 4 * in_time, "{free:?}: otherwise");
}

#[test]
fn of_new_memory_that_is_reclaimed_a_sample_is_seen_and_all_when_there_is_room() {
    let reclaimed = |s| if s < 40 { Reclaimed::All } else { Reclaimed::Over };
    let armed = armed_of(reclaimed, |_| true, 60, 50_000);
    let count = |from: usize, to: usize| armed[from..to].iter().sum::<u64>();
    assert_eq!(count(0, 5), UNITS / 16, "{armed:?}");
    assert!(count(5, 40) <= 4, "{armed:?}: one every 12 s");
    assert!(count(40, 45) >= UNITS - UNITS / 16 - 4, "{armed:?}: at once");
}

#[test]
fn a_part_is_spared_and_the_rest_is_seen_as_ever() {
    let half = AddrRange::new(UNIT, (UNITS / 2 + 1) * UNIT);
    let part = [half];
    let reclaimed = |s| if s < 60 { Reclaimed::Part(&part) } else { Reclaimed::Nothing };
    let of = |inside: bool| {
        let armed = armed_of(reclaimed, |start| half.contains(start) == inside, 90, 50_000);
        move |from: usize, to: usize| armed[from..to].iter().sum::<u64>()
    };
    let (inside, outside) = (of(true), of(false));
    // The first picture is begun before a set can know.
    assert!(inside(2, 60) <= 7, "{} of what is reclaimed", inside(2, 60));
    assert!(inside(70, 90) >= UNITS / 2, "{}: ten seconds later", inside(70, 90));
    assert!(outside(0, 5) >= UNITS / 2, "{} of the rest at first", outside(0, 5));
    assert!(outside(21, 60) > UNITS, "{} of the rest later", outside(21, 60));
}

#[test]
fn a_budget_that_is_always_used_up_makes_the_first_picture_late_and_not_empty() {
    // An answer costs all that a second earns.
    let late = armed(|_| false, 60, 100_000_000);
    assert!(late.iter().sum::<u64>() >= UNITS, "{late:?}");
    // What is advanced and overdrawn goes in the first second.
    assert!(late[0] < UNITS && late[1..].iter().all(|nr| *nr <= 24), "{late:?}");
}

#[test]
fn a_large_target_in_which_nothing_is_due_wakes_nobody_up_for_every_sample() {
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let mut context = Context::new(attrs, 1).unwrap();
    context.add_target(ID);
    let (mut now, mut cpu, mut wakes) = (Time(0), 0, 0);
    while now.0 < 60 * S {
        match context.poll(now) {
            Wish::Update => {
                let area = AddrRange::new(UNIT, 1025 * UNIT);
                context.set_ranges(ID, &[area]).unwrap();
            }
            Wish::PrepareUnits | Wish::CheckUnits => {
                for unit in context.units_mut() {
                    (unit.answered, unit.present) = (true, PageBits::ALL);
                }
                context.set_units_cpu(Some((cpu, cpu + 1000)));
                cpu += 1000;
            }
            Wish::Sleep(until) => {
                now = until;
                wakes += u64::from(now.0 >= 50 * S);
            }
            _ => {}
        }
    }
    // A window has 20 samples, and one of them ends it.
    assert!(wakes < 10 * 100, "{wakes} in ten seconds");
}
