//! Advice on real memory. The result is compared with the page tables and with the content that the
//! target sees.

use std::time::{Duration, Instant};

use isotherm_act::{Advice, Outcome, Process, Refused};
use isotherm_core::AddrRange;
use isotherm_host::zram::keep_off;

use crate::target::{ARENA, Target};
use crate::zram::swap;

const MIB: u64 = 1 << 20;
const EINVAL: i32 = 22;
const ENOMEM: i32 = 12;

fn at(from_mib: u64, to_mib: u64) -> AddrRange {
    AddrRange::new(ARENA + from_mib * MIB, ARENA + to_mib * MIB)
}

/// A target with so many MiB, ready to be advised; or why that is not possible here, printed.
fn target(mib: u64, huge: &str) -> Option<(Target, Process)> {
    let mut target = Target::spawn();
    target.say(&format!("map {} {huge}", mib << 20));
    let process = Process::open(target.pid()).unwrap();
    if let Err(e) = process.may_advise() {
        eprintln!("skipped: {e}");
        return None;
    }
    Some((target, process))
}

fn advise(process: &Process, advice: Advice, ranges: &[AddrRange]) -> Outcome {
    process.advise(advice, ranges, advice.default_batch_bytes(), &mut || false)
}

fn swapped(process: &Process, range: AddrRange) -> u64 {
    process.count_pages(range).unwrap().swapped_bytes
}

/// The most bytes whose pages may still wait on other CPUs to be put on their LRU list. Paging out
/// skips such pages.
const WAITING: u64 = 64 * 4096;

/// Pages out until all memory is in swap, except for pages that wait for their LRU list. The limit
/// only ends a test that would never pass.
fn all_out(process: &Process, range: AddrRange) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        if swapped(process, range) + WAITING >= range.len() {
            return;
        }
        advise(process, Advice::Pageout, &[range]);
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", process.count_pages(range));
}

#[test]
fn pageout_swaps_all_and_loses_nothing() {
    let Some((mut target, process)) = target(32, "small") else { return };
    let Some(_zram) = swap(64) else { return };
    let out = advise(&process, Advice::Pageout, &[at(0, 32)]);
    assert_eq!((out.asked_bytes, out.accepted_bytes), (32 * MIB, 32 * MIB), "{out:?}");
    assert!(out.refused.is_empty() && !out.is_cut_short() && out.cpu_ns <= out.elapsed_ns);
    all_out(&process, at(0, 32));
    assert_eq!(target.smaps("Swap:"), swapped(&process, at(0, 32)) >> 10);
    assert_eq!(target.say("wrong"), "0");
    assert_eq!(swapped(&process, at(0, 32)), 0, "all were touched");
}

#[test]
fn a_locked_part_and_a_hole_do_not_fail_the_rest() {
    let Some((mut target, process)) = target(8, "small") else { return };
    target.say(&format!("treat {} {} lock", 2 * MIB, MIB));
    target.say(&format!("more {} {}", 10 * MIB, 2 * MIB));
    let Some(_zram) = swap(32) else { return };
    // One range over everything: mapped, locked, mapped, a hole, mapped, a hole.
    let out = advise(&process, Advice::Pageout, &[at(0, 16)]);
    let refused = [
        Refused { range: at(2, 3), errno: EINVAL },
        Refused { range: at(8, 10), errno: ENOMEM },
        Refused { range: at(12, 16), errno: ENOMEM },
    ];
    assert_eq!(out.refused, refused);
    assert_eq!((out.accepted_bytes, out.refused_bytes), (9 * MIB, 7 * MIB));
    assert_eq!(out.asked_bytes, 16 * MIB);
    for range in [at(0, 2), at(3, 8), at(10, 12)] {
        all_out(&process, range);
    }
    assert_eq!(swapped(&process, at(2, 3)), 0);
    assert_eq!(target.say("wrong"), "0");
    // The same, one range each, among 2000 small ones.
    let pages = (0..16 * 256).map(|nr| ARENA + nr * 4096);
    let pages: Vec<_> = pages.map(|addr| AddrRange::new(addr, addr + 4096)).collect();
    let out = advise(&process, Advice::Pageout, &pages);
    assert_eq!((out.accepted_bytes, out.refused_bytes), (9 * MIB, 7 * MIB));
    assert_eq!(out.refused.len(), isotherm_act::MAX_REFUSED);
}

#[test]
fn pageout_of_huge_pages_keeps_to_the_range() {
    let Some((mut target, process)) = target(8, "huge") else { return };
    if process.count_pages(at(0, 8)).unwrap().huge_bytes != 8 * MIB {
        eprintln!("skipped: the kernel gave no huge pages");
        return;
    }
    let Some(_zram) = swap(32) else { return };
    let out = advise(&process, Advice::Pageout, &[at(2, 6)]);
    assert_eq!(out.accepted_bytes, 4 * MIB);
    all_out(&process, at(2, 6));
    let rest = process.count_pages(at(0, 8)).unwrap();
    assert_eq!(rest.huge_bytes, 4 * MIB, "neighbours stay huge");
    assert_eq!(rest.present_bytes + rest.swapped_bytes, 8 * MIB);
    assert_eq!(target.say("wrong"), "0");
}

#[test]
fn without_swap_nothing_is_lost_nor_done() {
    // The tests beside this one set up swap for themselves.
    let _no_zram = keep_off().unwrap();
    let Some((mut target, process)) = target(4, "small") else { return };
    let out = advise(&process, Advice::Pageout, &[at(0, 4)]);
    // The call succeeds all the same.
    assert_eq!(out.accepted_bytes, 4 * MIB);
    let count = process.count_pages(at(0, 4)).unwrap();
    assert_eq!(count.present_bytes + count.swapped_bytes, 4 * MIB);
    assert_eq!(target.say("wrong"), "0");
}

#[test]
fn willneed_brings_swap_into_the_cache() {
    let Some((mut target, process)) = target(8, "small") else { return };
    let Some(_zram) = swap(32) else { return };
    all_out(&process, at(0, 8));
    let out = advise(&process, Advice::Willneed, &[at(0, 8)]);
    assert_eq!(out.accepted_bytes, 8 * MIB);
    let before = major_faults(target.pid());
    assert_eq!(target.say("wrong"), "0");
    let faults = major_faults(target.pid()) - before;
    assert!(faults < 200, "{faults} of 2048 pages were not there");
}

fn major_faults(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    fields.split_whitespace().nth(9).unwrap().parse().unwrap()
}

#[test]
fn collapse_makes_huge_pages_where_it_may() {
    let Some((mut target, process)) = target(12, "any") else { return };
    // 2 to 4 locked, which is no obstacle; 6 to 8 forbidden; 4.5 MiB is inside of a huge page.
    target.say(&format!("treat {} {} lock", 2 * MIB, 2 * MIB));
    target.say(&format!("treat {} {} nohuge", 6 * MIB, 2 * MIB));
    let before = target.smaps("AnonHugePages:");
    if before != 0 {
        eprintln!("skipped: transparent huge pages are always on here");
        return;
    }
    let out = advise(&process, Advice::Collapse, &[AddrRange::new(ARENA + 4096, ARENA + 11 * MIB)]);
    // The first and last huge page are not all inside.
    assert_eq!(out.asked_bytes, 8 * MIB);
    assert_eq!(out.refused, [Refused { range: at(6, 8), errno: EINVAL }], "{out:?}");
    assert_eq!(out.accepted_bytes, 6 * MIB);
    assert_eq!(target.smaps("AnonHugePages:"), 6 << 10);
    assert_eq!(process.count_pages(at(0, 12)).unwrap().huge_bytes, 6 * MIB);
    assert_eq!(target.say("wrong"), "0");
}

#[test]
fn stops_between_batches() {
    let Some((_target, process)) = target(16, "small") else { return };
    let mut asked = 0;
    let mut stop = || {
        asked += 1;
        asked > 2
    };
    let out = process.advise(Advice::Cold, &[at(0, 16)], 4 * MIB, &mut stop);
    assert!(out.stopped && out.is_cut_short());
    assert_eq!((out.asked_bytes, out.accepted_bytes), (8 * MIB, 8 * MIB));
}

#[test]
fn says_that_the_process_has_gone() {
    for how in ["kill", "exec"] {
        let Some((mut target, process)) = target(16, "small") else { return };
        let mut batches = 0;
        let mut stop = || {
            batches += 1;
            match (batches, how) {
                (3, "kill") => target.kill(),
                (3, _) => drop(target.say("exec")),
                _ => {}
            }
            false
        };
        let out = process.advise(Advice::Cold, &[at(0, 16)], 4 * MIB, &mut stop);
        assert!(out.gone && !out.denied && !out.stopped, "{how}: {out:?}");
        assert_eq!(out.asked_bytes, 8 * MIB, "{how}");
        assert!(process.count_pages(at(0, 16)).is_err(), "{how}");
    }
}

#[test]
fn libraries_may_be_paged_out_too() {
    let Some((mut target, process)) = target(1, "small") else { return };
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.pid())).unwrap();
    let range = |line: &str| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        AddrRange::new(hex(start), hex(end))
    };
    let shared: Vec<_> = maps.lines().filter(|l| l.contains(" r-xp ")).map(range).collect();
    let bytes: u64 = shared.iter().map(AddrRange::len).sum();
    let out = advise(&process, Advice::Pageout, &shared);
    // The kernel's own vdso is no memory to reclaim.
    assert!(out.accepted_bytes > 0 && out.accepted_bytes + out.refused_bytes == bytes, "{out:?}");
    assert_eq!(target.say("wrong"), "0", "it still runs");
}
