//! How often others clear accessed bits, measured on memory of our own.
//!
//! On a machine whose own DAMON is on, the rate is not zero: what is found is compared with what
//! happens to another process's memory meanwhile.
#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "tests; a skipped one says why")]

#[expect(dead_code, reason = "not every test asks a target for everything")]
#[path = "shared/target.rs"]
mod target;
#[path = "shared/walk.rs"]
mod walk;

use std::time::Duration;

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, ClearRate, Operations, PageBits, TargetId, UnitCheck};
use isotherm_ops::pagewalk::PageWalk;
use isotherm_sys::{clock, lru, madvise};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::os::fd::AsFd;

use target::{ARENA, Target};

const PAGE: u64 = 4096;
const ID: TargetId = TargetId(7);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(950);

/// The canary of this process, found by its place.
fn canary() -> Vec<AddrRange> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(AddrRange::new(hex(start)?, hex(end)?))
    });
    let here = AddrRange::new(0x1500_0000_0000, 0x1600_0000_0000);
    ranges.filter(|range| here.intersects(range)).collect()
}

/// Pages of the target that were young and are not any more. `young`: those that were.
fn lost(walk: &mut PageWalk, young: &mut [PageBits; 2]) -> u64 {
    let mut batch = [0, 1].map(|nr| UnitCheck::new(ID, ARENA + nr * UNIT, PageBits::ALL));
    walk.check_units(&mut batch);
    let mut lost = 0;
    for (young, unit) in young.iter_mut().zip(&batch) {
        lost += young.minus(unit.young).count();
        *young = unit.young;
    }
    lost
}

/// One test: two at a time would each be another process's clearer to the other.
#[test]
fn clears_by_others_raise_the_rate_and_nothing_else_does() {
    let Some(mut walk) = walk::open() else { return };
    let mut target = Target::spawn();
    target.say(&format!("map {} small", 2 * UNIT));
    walk.add_target(ID, target.pid()).unwrap();
    assert!(canary().is_empty(), "nobody has asked yet");
    assert_eq!(walk.others_clear(), ClearRate::default());
    let range = canary()[0];
    assert_eq!(range.len(), 2 * UNIT);
    lru::drain_lru_batches().unwrap();

    // Nobody clears on purpose. The same amount of another process's memory tells what happens
    // here by itself. Both see few clears, so that chance matters.
    let (mut beside, mut young) = (0, [PageBits::default(); 2]);
    let (mut quiet, mut cpu_ns) = (ClearRate::default(), 0);
    for nr in 0..8 {
        target.say(&format!("touch 0 1024 {PAGE}"));
        std::thread::sleep(LOOK);
        let before = clock::thread_cpu_ns();
        quiet = walk.others_clear();
        cpu_ns += clock::thread_cpu_ns() - before;
        let lost = lost(&mut walk, &mut young);
        beside += if nr > 0 { lost } else { 0 };
    }
    // 7 looks at 1024 pages.
    let bound = (3.0 * beside as f64 + 12.0) / 7000.0;
    // What it costs is measured by the job `overhead`: this machine may be busy.
    eprintln!("a look costs {} µs", cpu_ns / 8000);
    eprintln!("by itself {quiet:?}; {beside} pages beside it, so at most {bound:.5}");
    assert!(quiet.hi > 0.0 && quiet.hi < 0.01 + bound, "{quiet:?}");
    assert!(quiet.mean <= bound, "{quiet:?} and {beside} clears beside it");

    // A sixteenth of the pages is cleared before every other look. In between they are seen young
    // again: 4 times 64 clears in 1024 pages and about 15 s.
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let part = AddrRange::new(range.start + 100 * PAGE, range.start + 164 * PAGE);
    let mut rate = quiet;
    for nr in 0..8 {
        if nr % 2 == 0 {
            madvise::process_madvise_cold(own.as_fd(), &[part], &mut Vec::new()).unwrap();
        }
        std::thread::sleep(LOOK);
        rate = walk.others_clear();
    }
    eprintln!("with clears {rate:?}");
    assert!(rate.lo > quiet.hi, "{rate:?} after {quiet:?}");
    assert!((0.01..0.03).contains(&rate.mean), "{rate:?}");

    // What we clear ourselves is not told from what others clear.
    walk.add_target(TargetId(8), std::process::id()).unwrap();
    assert_eq!((walk.others_clear(), canary()), (ClearRate::default(), Vec::new()));
}
