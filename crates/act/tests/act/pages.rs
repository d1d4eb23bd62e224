//! What became of pages, read in two ways that must agree.

use isotherm_act::{Advice, Process};
use isotherm_core::AddrRange;

use crate::target::{ARENA, Target};
use crate::zram::swap;

const PAGE: u64 = 4096;

#[test]
fn runs_and_entries_agree() {
    let mut target = Target::spawn();
    target.say(&format!("map {} small", 512 * PAGE));
    target.say(&format!("more {} {}", 600 * PAGE, 8 * PAGE));
    let process = Process::open(target.pid()).unwrap();
    let zram = swap(16);
    let whole = AddrRange::new(ARENA - PAGE, ARENA + 700 * PAGE);
    let part = |from: u64, to: u64| AddrRange::new(ARENA + from * PAGE, ARENA + to * PAGE);
    if zram.is_some() {
        let every_second: Vec<_> = (10..20).map(|nr| part(2 * nr, 2 * nr + 1)).collect();
        // New pages may wait for their LRU list, and are skipped; so some of them will do.
        let mut count = process.count_pages(whole).unwrap();
        for _ in 0..1000 {
            process.advise(Advice::Pageout, &every_second, 1 << 20, &mut || false);
            count = process.count_pages(whole).unwrap();
            if count.swapped_bytes >= 5 * PAGE {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(count.swapped_bytes >= 5 * PAGE && count.swapped_bytes <= 10 * PAGE, "{count:?}");
        assert_eq!(count.present_bytes + count.swapped_bytes, 520 * PAGE);
        assert_eq!((count.file_bytes, count.huge_bytes), (0, 0));
    }
    let mut runs = Vec::new();
    process.page_runs(whole, &mut |run, kind| runs.push((run, kind))).unwrap();
    assert!(runs.is_sorted_by_key(|(run, _)| run.start));
    let mut old = Vec::new();
    process.page_runs_by_entries(whole, &mut |run, kind| old.push((run, kind))).unwrap();
    assert_eq!(runs, old);
    let mut from_runs = Vec::new();
    for (run, kind) in runs {
        let pages = (run.start..run.end).step_by(4096);
        from_runs.extend(pages.map(|addr| (addr, kind.is_present(), kind.is_swapped())));
    }
    let mut from_entries = Vec::new();
    let mut nr = 0;
    process
        .page_entries(whole, &mut |addr, entry| {
            assert_eq!(addr, whole.start + nr * PAGE);
            nr += 1;
            if entry.is_present() || entry.is_swapped() {
                from_entries.push((addr, entry.is_present(), entry.is_swapped()));
                assert!(!entry.is_present() || entry.is_exclusive() && !entry.is_file());
            }
        })
        .unwrap();
    assert_eq!(nr, 701);
    assert_eq!(from_runs, from_entries);
}

#[test]
fn the_whole_address_space_in_one_go() {
    let mut target = Target::spawn();
    target.say(&format!("map {} small", 64 * PAGE));
    let process = Process::open(target.pid()).unwrap();
    let count = process.count_pages(AddrRange::new(0, u64::MAX)).unwrap();
    assert!(count.present_bytes > 64 * PAGE && count.file_bytes > 0, "{count:?}");
    let empty = process.count_pages(AddrRange::new(ARENA, ARENA)).unwrap();
    assert_eq!(empty, isotherm_act::PageCount::default());
}

/// Memory that only page tables of five levels reach is counted, and goes when it is told to.
#[test]
fn five_levels_are_reached() {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    if !cpuinfo.lines().any(|l| l.starts_with("flags") && l.split(' ').any(|f| f == "la57")) {
        eprintln!("skipped: the page tables of this machine have no fifth level");
        return;
    }
    const ABOVE: u64 = 1 << 47;
    let mut target = Target::spawn();
    target.say(&format!("more {} {}", ABOVE - ARENA, 512 * PAGE));
    let process = Process::open(target.pid()).unwrap();
    let range = AddrRange::new(ABOVE, ABOVE + 512 * PAGE);
    assert_eq!(process.count_pages(range).unwrap().present_bytes, 512 * PAGE);
    // Everything from there on, as for a whole process.
    let rest = AddrRange::new(ABOVE, u64::MAX);
    assert_eq!(process.count_pages(rest).unwrap().present_bytes, 512 * PAGE);
    let Some(_zram) = swap(16) else { return };
    let mut count = process.count_pages(range).unwrap();
    for _ in 0..1000 {
        process.advise(Advice::Pageout, &[range], 1 << 20, &mut || false);
        count = process.count_pages(range).unwrap();
        if count.swapped_bytes >= 256 * PAGE {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(count.swapped_bytes >= 256 * PAGE, "{count:?}");
}
