//! Units of the set `pagewalk` in memory that advice does not make old, or must not: shared after a
//! fork, locked, or in mappings whose accessed bits reclaim ignores. All memory of a small process
//! is cleared for them.
//!
//! Others clear accessed bits here, too: the machine's own DAMON takes a few pages per second. So a
//! few touched pages may be missing; a page that nobody touched is never young.
#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "tests; a skipped one says why")]

#[expect(dead_code, reason = "not every test asks a target for everything")]
#[path = "shared/odd.rs"]
mod odd;
#[path = "shared/walk.rs"]
mod walk;

use std::time::{Duration, Instant};

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, AllMemory, Operations, PageBits, TargetId, UnitCheck};
use isotherm_ops::pagewalk::PageWalk;

use odd::Odd;

const PAGE: u64 = 4096;
const ID: TargetId = TargetId(7);
const AT: u64 = 0x2000_0000_0000;
/// Pages that others may have made old.
const FEW: u64 = 16;

/// A set that watches a target with so many units of memory, filled; or why this cannot run here.
fn watch(units: u64) -> Option<(PageWalk, Odd)> {
    let mut walk = walk::open()?;
    let mut target = Odd::start()?;
    target.tell("anon", all(units), "");
    target.tell("nohuge", all(units), "");
    target.tell("fill", all(units), "");
    // Until then the kernel leaves the last few pages out.
    isotherm_sys::lru::drain_lru_batches().unwrap();
    walk.add_target(ID, target.pid()).unwrap();
    Some((walk, target))
}

fn all(units: u64) -> AddrRange {
    AddrRange::new(AT, AT + units * UNIT)
}

fn pages(first: u64, behind: u64) -> AddrRange {
    AddrRange::new(AT + first * PAGE, AT + behind * PAGE)
}

fn units(nr: u64) -> Vec<UnitCheck> {
    (0..nr).map(|i| UnitCheck::new(ID, AT + i * UNIT, PageBits::ALL)).collect()
}

/// The same units, for which all memory may be made old.
fn stuck_units(nr: u64) -> Vec<UnitCheck> {
    units(nr).into_iter().map(|unit| unit.with(AllMemory::IfStuck)).collect()
}

fn look(walk: &mut PageWalk, nr: u64) -> Vec<UnitCheck> {
    let mut batch = units(nr);
    walk.check_units(&mut batch);
    batch
}

/// Makes these units old, as soon as the set thinks that it may.
fn prepare(walk: &mut PageWalk, nr: u64) -> Vec<UnitCheck> {
    let begin = Instant::now();
    loop {
        let mut batch = stuck_units(nr);
        walk.prepare_units(&mut batch);
        if batch.iter().all(|unit| unit.answered && unit.stuck.is_empty()) {
            return batch;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "never made old: {batch:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Pages 5 to 44 of the first unit were touched, and no other.
fn assert_forty(batch: &[UnitCheck]) {
    let forty = PageBits::of(AT, pages(5, 45));
    assert!(batch[0].young.minus(forty).is_empty(), "not touched: {:?}", batch[0].young);
    assert!(batch[0].young.count() >= 40 - FEW, "touched: {:?}", batch[0].young);
    assert!(batch[1..].iter().all(|unit| unit.young.is_empty()), "{batch:?}");
}

#[test]
fn memory_shared_after_a_fork_is_made_old_with_all_others() {
    // So much that seconds pass until all may be cleared again.
    let Some((mut walk, mut target)) = watch(16) else { return };
    target.tell("fork", all(16), "");
    let mut first = units(1);
    walk.prepare_units(&mut first);
    // That it is so is found out now. Others may want to be cleared with it, so who asks says when.
    assert!(first[0].answered && first[0].together, "{first:?}");
    assert!(first[0].stuck.count() >= 512 - FEW, "{first:?}");
    assert_eq!(walk.counters().whole_clears, 0);
    let mut first = stuck_units(1);
    walk.prepare_units(&mut first);
    assert!(first[0].answered && first[0].together, "{first:?}");
    assert!(first[0].young.count() >= 512 - FEW && first[0].stuck.is_empty(), "{first:?}");
    assert_eq!(walk.counters().whole_clears, 1);

    // Nobody has asked about the other units, so they are as they were.
    target.tell("touch", pages(5, 45), "");
    let batch = look(&mut walk, 4);
    assert_forty(&batch[..1]);
    assert!(batch[1..].iter().all(|unit| unit.young.count() >= 512 - FEW), "{batch:?}");

    // The other units are old, so they cost nothing now. The first one has to wait.
    let mut rest = stuck_units(4);
    walk.prepare_units(&mut rest);
    assert!(!rest[0].answered && rest[0].together, "{:?}", rest[0]);
    assert!(rest[1..].iter().all(|unit| unit.answered && unit.stuck.is_empty()), "{rest:?}");
    assert_forty(&look(&mut walk, 4));

    // What is found to be stuck now is told so; later it is left as it was.
    target.tell("touch", pages(512, 2048), "");
    walk.prepare_units(&mut rest);
    assert!(!rest[0].answered && rest.iter().all(|unit| unit.together), "{rest:?}");
    assert!(rest[1..].iter().all(|unit| unit.stuck.count() >= 512 - FEW), "{rest:?}");
    let mut again = stuck_units(4);
    walk.prepare_units(&mut again);
    assert!(again.iter().all(|unit| !unit.answered && unit.together), "{again:?}");
    assert_forty(&look(&mut walk, 1));
    assert_eq!(walk.counters().whole_clears, 1);

    // All of them together, when it is time.
    let batch = prepare(&mut walk, 4);
    assert!(batch[1].young.count() >= 512 - FEW, "touched before: {:?}", batch[1]);
    assert_eq!(walk.counters().whole_clears, 2);
    target.tell("touch", pages(5, 45), "");
    assert_forty(&look(&mut walk, 4));
}

#[test]
fn what_can_wait_is_made_old_with_memory_that_is_shared() {
    // So much that it takes a while until all may be cleared again.
    let Some((mut walk, mut target)) = watch(16) else { return };
    target.tell("fork", all(16), "");
    // What is written becomes the target's own.
    target.tell("fill", pages(1024, 2048), "");
    isotherm_sys::lru::drain_lru_batches().unwrap();
    let mut first = units(1);
    walk.prepare_units(&mut first);
    assert!(first[0].together, "{first:?}");
    let flushes = walk.counters().flushes;
    let ask = |walk: &mut PageWalk| {
        let mut batch = stuck_units(4);
        batch[1..].iter_mut().for_each(|unit| unit.all_memory = AllMemory::Only);
        walk.prepare_units(&mut batch);
        batch
    };
    let batch = ask(&mut walk);
    assert!(batch.iter().all(|unit| unit.answered && unit.made_old.is_some()), "{batch:?}");
    assert!(batch.iter().all(|unit| unit.young.count() >= 512 - FEW), "{batch:?}");
    let is_shared: Vec<_> = batch.iter().map(|unit| unit.together).collect();
    assert_eq!(is_shared, [true, true, false, false]);
    let counters = walk.counters();
    assert_eq!((counters.whole_clears, counters.flushes), (1, flushes), "no advice");
    target.tell("touch", pages(5, 45), "");
    assert_forty(&look(&mut walk, 4));
    // Now it is too soon, and nothing changes.
    target.tell("touch", all(4), "");
    let batch = ask(&mut walk);
    assert!(batch.iter().all(|unit| !unit.answered), "{batch:?}");
    let young: Vec<_> = look(&mut walk, 4).iter().map(|unit| unit.young.count()).collect();
    assert!(young.iter().all(|nr| *nr >= 512 - FEW), "{young:?}");
    assert_eq!(walk.counters().whole_clears, 1);
}

#[test]
fn beside_a_clearing_of_all_memory_there_is_no_advice() {
    let Some((mut walk, mut target)) = watch(16) else { return };
    target.tell("fork", all(16), "");
    target.tell("fill", pages(1024, 2048), "");
    isotherm_sys::lru::drain_lru_batches().unwrap();
    // Without leave nothing but advice is tried.
    walk.prepare_units(&mut units(1));
    walk.prepare_units(&mut units(1));
    let before = walk.counters();
    assert_eq!(before.whole_clears, 0);
    let mut batch = stuck_units(4);
    walk.prepare_units(&mut batch);
    assert!(batch.iter().all(|unit| unit.answered && unit.stuck.is_empty()), "{batch:?}");
    assert!(batch[2..].iter().all(|unit| !unit.together && unit.made_old.is_some()), "{batch:?}");
    assert!(batch.iter().all(|unit| unit.young.count() >= 512 - FEW), "{batch:?}");
    let after = walk.counters();
    assert_eq!((after.whole_clears, after.flushes), (1, before.flushes));
    target.tell("touch", pages(5, 45), "");
    assert_forty(&look(&mut walk, 4));
}

#[test]
fn what_is_known_to_be_stuck_costs_nothing() {
    let Some((mut walk, mut target)) = watch(2) else { return };
    walk.set_fallback_limit(0);
    target.tell("fork", all(2), "");
    let mut batch = units(2);
    walk.prepare_units(&mut batch);
    let flushes = walk.counters().flushes;
    for _ in 0..3 {
        for unit in &batch {
            assert!(unit.answered && !unit.together, "{unit:?}");
            assert!(unit.stuck == unit.young && unit.stuck.count() >= 512 - FEW, "{unit:?}");
        }
        walk.prepare_units(&mut batch);
    }
    assert_eq!(walk.counters().flushes, flushes);
}

#[test]
fn shared_pages_among_private_ones_are_told_apart() {
    let Some((mut walk, mut target)) = watch(2) else { return };
    walk.set_fallback_limit(0);
    target.tell("fork", all(2), "");
    // Those that are written become the target's own.
    target.tell("fill", pages(0, 300), "");
    target.tell("fill", pages(512, 1024), "");
    isotherm_sys::lru::drain_lru_batches().unwrap();
    let mut batch = units(2);
    walk.prepare_units(&mut batch);
    let shared = PageBits::of(AT, pages(300, 512));
    assert!(batch[0].stuck.minus(shared).is_empty(), "{:?}", batch[0]);
    assert!(batch[0].stuck.count() >= 212 - FEW, "{:?}", batch[0]);
    assert!(batch[1].stuck.is_empty(), "{:?}", batch[1]);
    let after = look(&mut walk, 2);
    assert!(after[0].young.minus(shared).is_empty() && after[1].young.is_empty(), "{after:?}");
}

#[test]
fn locked_pages_are_cut_out_or_made_old_with_all_others() {
    let Some((mut walk, mut target)) = watch(2) else { return };
    walk.set_fallback_limit(0);
    target.tell("lock", pages(100, 200), "");
    let locked = PageBits::of(AT, pages(100, 200));
    let mut batch = units(2);
    walk.prepare_units(&mut batch);
    assert!(batch[0].stuck.count() >= 100 - FEW, "{:?}", batch[0]);
    let after = look(&mut walk, 2);
    let own: Vec<_> = after.iter().map(|unit| unit.young).collect();
    assert!(own[1].is_empty() && own[0].minus(locked).is_empty(), "{own:?}");
    // They are known now.
    target.tell("touch", all(2), "");
    let flushes = walk.counters().flushes;
    walk.prepare_units(&mut units(2));
    assert_eq!(walk.counters().flushes, flushes + 2);

    walk.set_fallback_limit(1 << 30);
    prepare(&mut walk, 2);
    assert_eq!(walk.counters().whole_clears, 1);
    target.tell("touch", pages(5, 45), "");
    assert_forty(&look(&mut walk, 2));
}

#[test]
fn where_reclaim_ignores_accessed_bits_there_is_no_advice() {
    let Some((mut walk, mut target)) = watch(2) else { return };
    target.tell("random", pages(256, 512), "");
    let mut maps = Vec::new();
    let slot = walk.tables().slot(ID).unwrap();
    if !walk.tables().barred_from_cold(slot, &mut maps) {
        return eprintln!("skipped: this kernel has no iterator over mappings");
    }
    maps.retain(|range| all(2).intersects(range));
    assert_eq!(maps, [pages(256, 512)]);
    walk.update(ID, &mut maps).unwrap();
    walk.set_fallback_limit(0);
    let mut batch = units(2);
    walk.prepare_units(&mut batch);
    let random = PageBits::of(AT, pages(256, 512));
    assert!(batch[0].stuck.minus(random).is_empty(), "{:?}", batch[0]);
    assert!(batch[0].stuck.count() >= 256 - FEW, "{:?}", batch[0]);
    let after = look(&mut walk, 2);
    let young: Vec<_> = after.iter().map(|unit| unit.young).collect();
    assert!(young[0] == batch[0].stuck && young[1].is_empty(), "{young:?}");

    // All memory can be cleared without harm.
    walk.set_fallback_limit(1 << 30);
    prepare(&mut walk, 2);
    assert_eq!(walk.counters().whole_clears, 1);
    assert!(look(&mut walk, 2).iter().all(|unit| unit.young.is_empty()));
}

#[test]
fn the_zero_page_is_no_memory() {
    let Some((mut walk, mut target)) = watch(2) else { return };
    // Half of the first unit is mapped anew, and only read.
    target.tell("unmap", pages(0, 256), "");
    target.tell("anon", pages(0, 256), "");
    target.tell("touch", pages(0, 256), "");
    let mut batch = units(2);
    walk.prepare_units(&mut batch);
    let present: Vec<_> = batch.iter().map(|unit| unit.present.count()).collect();
    assert_eq!(present, [256, 512]);
    assert!(batch.iter().all(|unit| unit.stuck.is_empty()), "{batch:?}");
    assert_eq!(walk.counters().whole_clears, 0);
    assert!(look(&mut walk, 2).iter().all(|unit| unit.young.is_empty()));
    target.tell("fill", pages(5, 45), "");
    let batch = look(&mut walk, 2);
    assert_forty(&batch);
    assert_eq!(batch[0].present.count(), 296);
}

/// No call takes accessed bits from huge pages of hugetlb.
#[test]
fn what_nothing_makes_old_is_given_up() {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    let free: u64 = free.map_or(0, |free| free.trim().parse().unwrap());
    if free < 2 {
        return eprintln!("skipped: {free} free huge pages (vm.nr_hugepages)");
    }
    let Some((mut walk, mut target)) = watch(1) else { return };
    let range = AddrRange::new(AT + 4 * UNIT, AT + 6 * UNIT);
    target.tell("hugetlb", range, "");
    target.tell("fill", range, "");
    let mut batch = stuck_units(6).split_off(4);
    let begin = Instant::now();
    while walk.counters().whole_clears < 3 {
        walk.prepare_units(&mut batch);
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", walk.counters());
        std::thread::sleep(Duration::from_millis(20));
    }
    walk.prepare_units(&mut batch);
    for unit in &batch {
        assert!(unit.answered && !unit.together, "{unit:?}");
        assert_eq!((unit.stuck, unit.leaf_shift), (PageBits::ALL, 21));
    }
}

#[test]
fn large_folios_stay_whole() {
    for kib in [64, 512, 1024] {
        let dir = format!("/sys/kernel/mm/transparent_hugepage/hugepages-{kib}kB");
        let enabled = std::fs::read_to_string(format!("{dir}/enabled")).unwrap_or_default();
        if !enabled.contains("[always]") {
            eprintln!("skipped: this needs folios of {kib} KiB enabled, and they are: {enabled:?}");
            continue;
        }
        let stat = |name: &str| -> u64 {
            std::fs::read_to_string(format!("{dir}/stats/{name}")).unwrap().trim().parse().unwrap()
        };
        // The counters are the whole machine's, and others may split folios, too. Clears that split
        // folios would do so every time.
        let whole = (0..10).any(|_| {
            let Some((mut walk, mut target)) = watch(1) else { return true };
            let range = AddrRange::new(AT + 4 * UNIT, AT + 8 * UNIT);
            let before = stat("anon_fault_alloc");
            target.tell("anon", range, "");
            target.tell("fill", range, "");
            assert!(stat("anon_fault_alloc") > before, "the target got no large folios");
            isotherm_sys::lru::drain_lru_batches().unwrap();
            let before = stat("split");
            let mut batch: Vec<_> =
                (4..8).map(|i| UnitCheck::new(ID, AT + i * UNIT, PageBits::ALL)).collect();
            walk.prepare_units(&mut batch);
            assert!(batch.iter().all(|unit| unit.stuck.is_empty()), "{batch:?}");
            walk.check_units(&mut batch);
            assert!(batch.iter().all(|unit| unit.young.is_empty()), "{batch:?}");
            stat("split") == before
        });
        assert!(whole, "folios of {kib} KiB were split each time");
    }
}

#[test]
fn one_page_of_such_a_unit_is_not_worth_it() {
    let Some((mut walk, mut target)) = watch(1) else { return };
    target.tell("fork", all(1), "");
    let unit = UnitCheck::new(ID, AT, PageBits::page(9)).with(AllMemory::IfStuck);
    let mut batch = [unit];
    walk.prepare_units(&mut batch);
    assert_eq!(batch[0].stuck, PageBits::page(9));
    assert_eq!(walk.counters().whole_clears, 0);
}

#[test]
fn shared_huge_pages_are_made_old_whole() {
    let Some((mut walk, mut target)) = watch(1) else { return };
    let range = AddrRange::new(AT + 4 * UNIT, AT + 8 * UNIT);
    target.tell("anon", range, "");
    target.tell("huge", range, "");
    target.tell("fill", range, "");
    let huge = target.smaps(range, "AnonHugePages:");
    if huge < 4 * UNIT {
        return eprintln!("skipped: this machine gives no huge pages now");
    }
    target.tell("fork", range, "");
    let mut batch: Vec<_> =
        (4..8).map(|i| UnitCheck::new(ID, AT + i * UNIT, PageBits::ALL)).collect();
    // The first time it is found out that they are shared.
    walk.prepare_units(&mut batch);
    assert_eq!(walk.counters().whole_clears, 0);
    batch.iter_mut().for_each(|unit| unit.all_memory = AllMemory::IfStuck);
    walk.prepare_units(&mut batch);
    assert!(batch.iter().all(|unit| unit.leaf_shift == 21 && unit.stuck.is_empty()), "{batch:?}");
    assert_eq!(walk.counters().whole_clears, 1);
    assert_eq!(target.smaps(range, "AnonHugePages:"), huge);
    walk.check_units(&mut batch);
    assert!(batch.iter().all(|unit| unit.young.is_empty()), "{batch:?}");
    target.tell("touch", AddrRange::new(AT + 5 * UNIT, AT + 5 * UNIT + PAGE), "");
    walk.check_units(&mut batch);
    let young: Vec<_> = batch.iter().map(|unit| unit.young.count()).collect();
    assert_eq!(young, [0, 512, 0, 0]);
}
