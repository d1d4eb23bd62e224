//! Whole units of the set `pagewalk`, on real processes: what is touched, huge pages, memory that
//! cannot be made old.
//!
//! Others clear accessed bits here, too: the machine's own DAMON takes a few pages per second. So a
//! few touched pages may be missing; a page that nobody touched is never young.
#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "tests; a skipped one says why")]

#[path = "shared/target.rs"]
mod target;
#[path = "shared/walk.rs"]
mod walk;

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, Operations, PageBits, TargetId, UnitCheck};
use isotherm_ops::pagewalk::PageWalk;

use target::{ARENA, Target};

const PAGE: u64 = 4096;
const ID: TargetId = TargetId(7);
/// Pages that others may have made old.
const FEW: u64 = 16;

/// A set that watches a target with `mib` MiB of memory, or why this test cannot run here.
fn watch(mib: u64, huge: bool) -> Option<(PageWalk, Target)> {
    let mut walk = walk::open()?;
    let mut target = Target::spawn();
    target.say(&format!("map {} {}", mib << 20, if huge { "huge" } else { "small" }));
    walk.add_target(ID, target.pid()).unwrap();
    Some((walk, target))
}

fn units(nr: u64) -> Vec<UnitCheck> {
    (0..nr).map(|i| UnitCheck::new(ID, ARENA + i * UNIT, PageBits::ALL)).collect()
}

/// Makes all pages old. Pages that were touched for the first time just now may wait for their LRU
/// list, which a second try finds.
fn make_old(walk: &mut PageWalk, nr: u64) -> Vec<UnitCheck> {
    let mut batch = units(nr);
    for _ in 0..50 {
        walk.prepare_units(&mut batch);
        let mut after = units(nr);
        walk.check_units(&mut after);
        if after.iter().all(|unit| unit.young.is_empty()) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        isotherm_sys::lru::drain_lru_batches().ok();
    }
    batch
}

#[test]
fn what_was_touched_is_young_and_nothing_else() {
    let Some((mut walk, mut target)) = watch(8, false) else { return };
    let mut batch = units(4);
    walk.prepare_units(&mut batch);
    for unit in &batch {
        assert!(unit.answered && unit.present == PageBits::ALL, "{unit:?}");
        assert!(unit.young.count() >= 512 - FEW, "all were written: {unit:?}");
        assert!(unit.stuck.is_empty(), "{unit:?}");
    }
    make_old(&mut walk, 4);
    target.say(&format!("touch {} {} {}", PAGE, 500, 3 * PAGE));
    let mut batch = units(4);
    walk.check_units(&mut batch);
    let mut young = 0;
    for (nr, unit) in (0_u64..).zip(&batch) {
        assert_eq!(unit.leaf_shift, 12);
        unit.young.runs(|first, behind| {
            for page in first..behind {
                let page = nr * 512 + page;
                assert!(page < 1500 && page % 3 == 1, "page {page} was not touched");
                young += 1;
            }
        });
    }
    assert!((500 - FEW..=500).contains(&young), "{young} are young");
}

#[test]
fn only_the_pages_asked_about_are_made_old() {
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    make_old(&mut walk, 2);
    target.say(&format!("touch 0 1024 {PAGE}"));
    let page = PageBits::page(100);
    walk.prepare_units(&mut [UnitCheck::new(ID, ARENA, page)]);
    let mut after = units(2);
    walk.check_units(&mut after);
    assert!(after[0].young.and(page).is_empty());
    assert!(after[0].young.count() >= 511 - FEW && after[1].young.count() >= 512 - FEW);
}

#[test]
fn huge_pages_are_one_answer_and_stay_whole() {
    let Some((mut walk, mut target)) = watch(16, true) else { return };
    let huge_kib = target.smaps("AnonHugePages:");
    if huge_kib == 0 {
        return eprintln!("skipped: this machine gives no huge pages now");
    }
    make_old(&mut walk, 8);
    assert_eq!(target.smaps("AnonHugePages:"), huge_kib, "a huge page was split");
    // The one bit of a huge page may be cleared by others before it is read.
    let seen = (0..10).any(|_| {
        target.say(&format!("touch {} 1 1", UNIT + 77 * PAGE));
        let mut batch = units(8);
        walk.check_units(&mut batch);
        let young: Vec<_> = (0..8).filter(|nr| !batch[*nr].young.is_empty()).collect();
        assert!(young.is_empty() || young == [1], "{young:?} are young");
        young == [1] && batch[1].young == PageBits::ALL && batch[1].leaf_shift == 21
    });
    assert!(seen, "a touched huge page was never young");
}

#[test]
fn locked_memory_is_stuck_and_its_neighbours_are_not() {
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    walk.set_fallback_limit(0);
    target.say("lock");
    let mut batch = units(2);
    walk.prepare_units(&mut batch);
    for unit in &batch {
        assert!(unit.stuck.count() >= 512 - FEW, "{unit:?}");
    }
    let Some((mut walk, mut other)) = watch(4, false) else { return };
    other.say(&format!("touch 0 1024 {PAGE}"));
    assert!(make_old(&mut walk, 2).iter().all(|unit| unit.stuck.is_empty()));
}

#[test]
fn holes_and_unknown_targets() {
    let Some((mut walk, mut target)) = watch(8, false) else { return };
    target.say(&format!("keep {}", 3 << 20));
    let mut batch = units(4);
    walk.check_units(&mut batch);
    let present: Vec<_> = batch.iter().map(|unit| unit.present.count()).collect();
    assert_eq!(present, [512, 256, 0, 0]);
    assert!(batch.iter().all(|unit| unit.answered), "a hole is an answer");
    let mut unknown = [UnitCheck::new(TargetId(8), ARENA, PageBits::ALL)];
    walk.prepare_units(&mut unknown);
    walk.check_units(&mut unknown);
    assert!(!unknown[0].answered);
    // A range with a hole behind it is made old all the same.
    make_old(&mut walk, 4);
    let mut after = units(4);
    walk.check_units(&mut after);
    assert!(after.iter().all(|unit| unit.young.is_empty()), "{after:?}");
}

#[test]
fn a_target_that_ends_has_no_pages() {
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    target.kill();
    let mut batch = units(2);
    walk.check_units(&mut batch);
    walk.prepare_units(&mut batch);
    assert!(batch.iter().all(|unit| unit.young.is_empty() && unit.stuck.is_empty()), "{batch:?}");
}

#[test]
fn what_somebody_else_makes_old_still_counts_as_touched() {
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    make_old(&mut walk, 2);
    target.say(&format!("touch 0 200 {PAGE}"));
    let mut leaves = (0..200).map(|nr| ARENA + nr * PAGE);
    walk.keep_young(ID, &mut leaves);
    let mut other = PageWalk::new().unwrap();
    other.add_target(ID, target.pid()).unwrap();
    make_old(&mut other, 2);
    let mut batch = units(2);
    walk.check_units(&mut batch);
    let first = PageBits::of(0, AddrRange::new(0, 200 * PAGE));
    assert_eq!((batch[0].young, batch[1].young), (first, PageBits::default()));
    make_old(&mut walk, 2);
    walk.check_units(&mut batch);
    assert!(batch.iter().all(|unit| unit.young.is_empty()));
}
