//! Whole units of the set `idle`, on a kernel that has idle page tracking: which pages were touched
//! in small blocks, huge pages, memory shared after a fork, physical memory. On other kernels each
//! test says why it did not run. The lab's kernel `full` runs all of them.
//!
//! Every test runs twice: with frames from the page tables (BPF), and from `pagemap`.
#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "tests; a skipped one says why")]

#[path = "shared/marks.rs"]
mod marks;
#[expect(dead_code, reason = "not every test asks a target for everything")]
#[path = "shared/odd.rs"]
mod odd;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, Check, Operations, PageBits, PageState, TargetId, UnitCheck};
use isotherm_ops::idle::IdleOps;
use isotherm_ops::targets::Memory;

use marks::{BASE, PAGE, range, sets, target, touch};
use odd::Odd;

const ID: TargetId = TargetId(7);
const PHYSICAL: TargetId = TargetId(8);

fn units(range: AddrRange) -> Vec<UnitCheck> {
    let starts = (range.start..range.end).step_by(2 << 20);
    starts.map(|start| UnitCheck::new(ID, start, PageBits::of(start, range))).collect()
}

/// Makes units old. Pages that are not on their LRU list yet get further tries. Those whose frames
/// lie in the last word of memory are not asked about, if that is not whole.
fn make_old(set: &mut IdleOps, batch: &mut [UnitCheck]) {
    for turn in 0..60 {
        set.prepare_units(batch);
        if turn >= 20 {
            for unit in batch.iter_mut() {
                assert!(unit.stuck.count() < 64, "{unit:?}");
                unit.pages = unit.pages.minus(unit.stuck);
            }
        }
        let is_ready = batch.iter().all(|unit| unit.answered && unit.stuck.is_empty());
        set.check_units(batch);
        let lost = |unit: &UnitCheck| !unit.young.or(unit.stuck).and(unit.pages).is_empty();
        if is_ready && !batch.iter().any(lost) {
            return;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    panic!("not made old: {batch:?}");
}

fn list(start: u64, bits: PageBits) -> Vec<AddrRange> {
    let mut ranges = Vec::new();
    bits.append_to(start, 0, &mut ranges);
    ranges
}

#[test]
fn units_tell_exactly_the_pages_that_were_touched() {
    let Some((_one, sets)) = sets() else { return };
    for open in sets {
        let (small, shared) = (range(0, 8 << 20), range(16 << 20, 20 << 20));
        let Some(mut odd) = target(small, "nohuge") else { return };
        for word in ["anon", "nohuge", "fill"] {
            odd.tell(word, shared, "");
        }
        odd.tell("fork", range(0, 0), "");
        // What the parent writes now is a copy of its own; the rest it shares with its child.
        odd.tell("fill", range(0, 6 << 20), "");
        let mut set = open();
        set.add_target(ID, odd.pid()).unwrap();
        let mut batch = units(small);
        batch.extend(units(shared));
        make_old(&mut set, &mut batch);
        let block = |at: u64, pages: u64| range(at * PAGE, (at + pages) * PAGE);
        // Single pages and blocks of 256 KiB, within units and across their borders.
        let hot = [
            block(3, 1),
            block(100, 64),
            block(480, 64),
            block(1023, 1),
            block(1025, 1),
            block(1600, 64),
            block(4096 + 7, 1),
            block(4096 + 200, 64),
        ];
        for upto in [3, hot.len()] {
            touch(&mut odd, &hot[..upto]);
            set.check_units(&mut batch);
            for unit in &batch {
                let whole = hot[..upto].iter().fold(PageBits::default(), |all, range| {
                    all.or(PageBits::of(unit.start, *range).and(unit.pages))
                });
                assert!(unit.answered && unit.stuck.is_empty() && unit.leaf_shift == 12);
                let found = unit.young.and(unit.pages);
                assert_eq!(list(unit.start, found), list(unit.start, whole));
            }
        }
        // One page of a unit alone.
        let mut one = [UnitCheck::new(ID, BASE, PageBits::page(110))];
        set.prepare_units(&mut one);
        assert_eq!(one[0].young.and(one[0].pages), PageBits::page(110));
        set.check_units(&mut batch);
        assert_eq!(batch[0].young.and(batch[0].pages).count(), 1 + 63 + 32);
        set.prepare_units(&mut batch);
        let young: u64 = batch.iter().map(|unit| unit.young.and(unit.pages).count()).sum();
        assert_eq!(young, 4 + 64 * 4 - 1, "as it was before");
        assert_eq!(set.counters().moved, 0);
    }
}

#[test]
fn huge_pages_are_one_answer_and_stay_whole() {
    let Some((_one, sets)) = sets() else { return };
    for open in sets {
        let memory = range(0, 16 << 20);
        let Some(mut odd) = target(memory, "huge") else { return };
        if odd.smaps(memory, "AnonHugePages:") != memory.len() {
            return eprintln!("skipped: this machine gives no huge pages now");
        }
        let mut set = open();
        set.add_target(ID, odd.pid()).unwrap();
        let mut batch = units(memory);
        make_old(&mut set, &mut batch);
        touch(&mut odd, &[range(UNIT + 77 * PAGE, UNIT + 78 * PAGE)]);
        set.check_units(&mut batch);
        for (nr, unit) in batch.iter().enumerate() {
            let young = if nr == 1 { PageBits::ALL } else { PageBits::default() };
            assert_eq!((unit.young, unit.leaf_shift), (young, 21), "unit {nr}");
        }
        assert_eq!(odd.smaps(memory, "AnonHugePages:"), memory.len());
        // Its page table split, but not the folio: one mark for what single entries map.
        odd.tell("unmap", range(2 * UNIT, 2 * UNIT + PAGE), "");
        touch(&mut odd, &[range(2 * UNIT + 9 * PAGE, 2 * UNIT + 10 * PAGE)]);
        set.check_units(&mut batch);
        let rest = PageBits::ALL.minus(PageBits::page(0));
        assert_eq!((batch[2].present, batch[2].young), (rest, rest));
        assert!(batch[3].young.is_empty());
    }
}

#[test]
fn units_and_single_pages_agree() {
    let Some((_one, sets)) = sets() else { return };
    for open in sets {
        let memory = range(0, 4 << 20);
        let Some(mut odd) = target(memory, "nohuge") else { return };
        let mut set = open();
        set.add_target(ID, odd.pid()).unwrap();
        let mut batch = units(memory);
        make_old(&mut set, &mut batch);
        touch(&mut odd, &[range(40 * PAGE, 300 * PAGE), range(UNIT, UNIT + PAGE)]);
        odd.tell("unmap", range(290 * PAGE, 310 * PAGE), "");
        set.check_units(&mut batch);
        for unit in &batch {
            for nr in 0..512_u16 {
                let page = PageBits::page(nr).and(unit.pages);
                let mut check = [Check::new(ID, unit.start + u64::from(nr) * PAGE, 0)];
                set.check(&mut check);
                let expected = match check[0].state {
                    _ if page.is_empty() => continue,
                    PageState::Young => (true, true),
                    PageState::Old => (true, false),
                    PageState::Absent => (false, false),
                    other => panic!("{other:?}"),
                };
                let is = |bits: PageBits| !bits.and(page).is_empty();
                assert_eq!((is(unit.present), is(unit.young)), expected, "page {nr}");
            }
        }
    }
}

#[test]
fn new_pages_are_young_and_targets_that_end_have_none() {
    let Some((_one, sets)) = sets() else { return };
    for open in sets {
        let memory = range(0, 4 << 20);
        let Some(mut odd) = target(memory, "nohuge") else { return };
        let mut set = open();
        set.add_target(ID, odd.pid()).unwrap();
        let mut batch = units(memory);
        make_old(&mut set, &mut batch);
        let asked = batch[0].pages;
        odd.tell("unmap", range(0, 10 * PAGE), "");
        set.check_units(&mut batch);
        let first = PageBits::of(BASE, range(0, 10 * PAGE));
        assert!(batch[0].answered && batch[0].present.and(first).is_empty());
        odd.tell("anon", range(0, 10 * PAGE), "");
        odd.tell("fill", range(0, 5 * PAGE), "");
        set.check_units(&mut batch);
        let new = PageBits::of(BASE, range(0, 5 * PAGE)).and(asked);
        assert_eq!((batch[0].present.and(first), batch[0].young.and(asked)), (new, new));
        odd.tell("exec", range(0, 0), "");
        set.check_units(&mut batch);
        assert!(batch.iter().all(|unit| unit.young.is_empty()), "{batch:?}");
        odd.kill();
        for _ in 0..2 {
            set.check_units(&mut batch);
            set.prepare_units(&mut batch);
            assert!(batch.iter().all(|unit| unit.young.or(unit.stuck).is_empty()), "{batch:?}");
        }
        set.remove_target(ID);
        set.check_units(&mut batch);
        assert!(batch.iter().all(|unit| !unit.answered));
    }
}

/// The frames of the target's pages.
fn frames(odd: &Odd, memory: AddrRange) -> Vec<u64> {
    let pagemap = File::open(format!("/proc/{}/pagemap", odd.pid())).unwrap();
    let mut entries = vec![0; usize::try_from(memory.len() / PAGE * 8).unwrap()];
    pagemap.read_exact_at(&mut entries, memory.start / PAGE * 8).unwrap();
    let entries = entries.as_chunks::<8>().0.iter().map(|e| u64::from_ne_bytes(*e));
    entries.map(|entry| entry & ((1 << 55) - 1)).collect()
}

fn physical_units(frames: &[u64]) -> Vec<UnitCheck> {
    let mut starts: Vec<_> = frames.iter().map(|frame| (frame * PAGE) & !(UNIT - 1)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts.into_iter().map(|at| UnitCheck::new(PHYSICAL, at, PageBits::ALL)).collect()
}

#[test]
fn physical_units_are_those_of_the_frames() {
    let Some((_one, sets)) = sets() else { return };
    let memory = range(0, 8 << 20);
    let Some(mut odd) = target(memory, "nohuge") else { return };
    let mut set = sets[0]();
    set.add_memory(PHYSICAL, Memory::All);
    let frames = frames(&odd, memory);
    let mut batch = physical_units(&frames);
    for _ in 0..12 {
        set.prepare_units(&mut batch);
        std::thread::sleep(Duration::from_millis(500));
    }
    let find = |batch: &[UnitCheck], nr: usize| {
        let addr = frames[nr] * PAGE;
        let unit = batch.iter().find(|unit| unit.range().contains(addr)).unwrap();
        let page = PageBits::of(unit.start, AddrRange::new(addr, addr + PAGE));
        let is = |bits: PageBits| !bits.and(page).is_empty();
        (unit.answered && is(unit.present), is(unit.young), is(unit.stuck))
    };
    let lost = (0..frames.len()).filter(|nr| find(&batch, *nr).2).count();
    assert!(lost < 64, "{lost} frames cannot be tracked");
    set.prepare_units(&mut batch);
    touch(&mut odd, &[range(0, PAGE), range(500 * PAGE, 600 * PAGE)]);
    set.check_units(&mut batch);
    for nr in 0..frames.len() {
        let (present, young, stuck) = find(&batch, nr);
        let touched = nr == 0 || (500..600).contains(&nr);
        assert!(present && (stuck || young == touched), "page {nr}: {young} {stuck}");
    }
    // All of the machine's memory has an answer, in both steps.
    let mut ranges = Vec::new();
    set.update(PHYSICAL, &mut ranges).unwrap();
    let mut all: Vec<_> = ranges
        .iter()
        .flat_map(|range| {
            let starts = (range.start & !(UNIT - 1)..range.end).step_by(2 << 20);
            starts.map(|at| UnitCheck::new(PHYSICAL, at, PageBits::of(at, *range)))
        })
        .collect();
    all.dedup_by_key(|unit| unit.start);
    let begin = Instant::now();
    set.prepare_units(&mut all);
    let marked = begin.elapsed();
    set.check_units(&mut all);
    assert!(all.iter().all(|unit| unit.answered));
    let sum = |of: fn(&UnitCheck) -> PageBits| all.iter().map(|u| of(u).count()).sum::<u64>();
    let (present, young, stuck) = (sum(|u| u.present), sum(|u| u.young), sum(|u| u.stuck));
    eprintln!(
        "{} units: marked in {marked:?}, looked at in {:?}: {present} present, {young} young, \
         {stuck} stuck",
        all.len(),
        begin.elapsed() - marked
    );
    assert!(young - stuck < present / 4 && stuck < present);
}

/// A measurement rather than a test: the cost of a unit, and of its pages one by one.
#[test]
#[ignore = "prints costs; run it by name, with --nocapture, on an idle machine"]
fn costs() {
    let Some((_one, sets)) = sets() else { return };
    const TURNS: u64 = 5;
    for kind in ["nohuge", "huge"] {
        let memory = range(0, 64 << 20);
        let Some(mut odd) = target(memory, kind) else { return };
        let physical = physical_units(&frames(&odd, memory));
        let pages: Vec<_> = (memory.start..memory.end).step_by(4096).collect();
        for name in ["units by page tables", "units by pagemap", "physical units", "single pages"] {
            let mut set = if name == "units by pagemap" { sets[1]() } else { sets[0]() };
            set.add_target(ID, odd.pid()).unwrap();
            set.add_memory(PHYSICAL, Memory::All);
            let mut batch = if name == "physical units" { physical.clone() } else { units(memory) };
            let mut singles: Vec<_> = pages.iter().map(|at| Check::new(ID, *at, 0)).collect();
            let nr = if name == "physical units" { batch.len() as u128 } else { 32 };
            let mut ask = |set: &mut IdleOps, marking: bool| {
                let begin = Instant::now();
                match (name, marking) {
                    ("single pages", true) => set.prepare(&mut singles),
                    ("single pages", false) => set.check(&mut singles),
                    (_, true) => set.prepare_units(&mut batch),
                    (_, false) => set.check_units(&mut batch),
                }
                u64::try_from(begin.elapsed().as_micros() / nr).unwrap()
            };
            let mut costs = [0; 5];
            for _ in 0..TURNS {
                touch(&mut odd, &[memory]);
                costs[0] += ask(&mut set, true);
                costs[1] += ask(&mut set, true);
                costs[2] += ask(&mut set, false);
                touch(&mut odd, &[memory]);
                costs[3] += ask(&mut set, false);
                costs[4] += ask(&mut set, false);
            }
            let [mark, again, old, young, known] = costs.map(|us| us / TURNS);
            eprintln!(
                "{kind}, {name}, us per unit: mark {mark}, again {again}, look {old} (old) \
                 {young} (young) {known} (known to be)"
            );
        }
    }
}
