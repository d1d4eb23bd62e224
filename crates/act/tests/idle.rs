//! The operations set `idle` on a kernel that has idle page tracking: its answers are compared with
//! what processes were told to do. On other kernels each test says why it did not run. The lab's
//! kernel `full` runs all of them.
//!
//! Every test runs twice: with frames from the page tables (BPF), and from `pagemap`.
#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "tests; a skipped one says why")]

#[path = "../../ops/tests/shared/marks.rs"]
mod marks;
#[expect(dead_code, reason = "not every test asks a target for everything")]
#[path = "../../ops/tests/shared/odd.rs"]
mod odd;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use PageState::{Absent, Cleared, Old, Unknown, Young};
use isotherm_act::Process;
use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId};
use isotherm_host::error::SetKind;
use isotherm_host::nodes::Nodes;
use isotherm_ops::doctor::{Granularity, choose};
use isotherm_ops::idle::IdleOps;
use isotherm_ops::pagewalk::{PageWalk, SharedMarks};
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Memory;
use isotherm_pages::idle::{BITMAP, Bitmap};

use marks::{BASE, PAGE, range, sets, target, touch};
use odd::Odd;

const HUGE: u64 = 2 << 20;
const ID: TargetId = TargetId(7);
const PHYSICAL: TargetId = TargetId(8);

fn pages(range: AddrRange) -> Vec<Check> {
    (range.start..range.end).step_by(4096).map(|addr| Check::new(ID, addr, 0)).collect()
}

fn count(batch: &[Check], state: PageState) -> usize {
    batch.iter().filter(|c| c.state == state).count()
}

/// Makes all pages old. Pages that are not on their LRU list yet get further tries, because the set
/// makes the kernel put them there every five seconds at most. The few whose frames lie in the last
/// word of memory are left out, if that is not whole.
fn make_old(set: &mut IdleOps, batch: &mut Vec<Check>) {
    for turn in 0.. {
        set.prepare(batch);
        if turn == 20 {
            let before = batch.len();
            batch.retain(|c| c.state != PageState::Unresolved);
            assert!(before - batch.len() < 64, "{} of {before}", before - batch.len());
        }
        let odd: Vec<_> = batch.iter().filter(|c| !matches!(c.state, Cleared | Old)).collect();
        if odd.is_empty() {
            break;
        }
        let first = odd[0];
        assert!(turn < 60, "{} of {}, as {first:?} {:?}", odd.len(), batch.len(), set);
        std::thread::sleep(Duration::from_millis(500));
    }
    set.check(batch);
    if count(batch, PageState::Unresolved) > 0 {
        // Met for the first time.
        return make_old(set, batch);
    }
    assert_eq!(count(batch, Old), batch.len(), "nobody touches them");
}

#[test]
fn touched_pages_are_young_and_the_others_old() {
    let Some((_one, sets)) = sets() else { return };
    for open in sets {
        let memory = range(0, 8 << 20);
        let Some(mut odd) = target(memory, "nohuge") else { return };
        let mut set = open();
        set.add_target(ID, odd.pid()).unwrap();
        let mut batch = pages(memory);
        make_old(&mut set, &mut batch);
        for nr in [3, 100, 101, 2047] {
            touch(&mut odd, &[range(nr * PAGE, (nr + 1) * PAGE)]);
        }
        touch(&mut odd, &[range(500 * PAGE, 510 * PAGE)]);
        for _ in 0..2 {
            set.check(&mut batch);
            for (nr, check) in (0..).zip(&batch) {
                let touched = [3, 100, 101, 2047].contains(&nr) || (500..510).contains(&nr);
                assert_eq!(check.state, if touched { Young } else { Old }, "page {nr}");
            }
        }
        set.prepare(&mut batch);
        assert_eq!((count(&batch, Cleared), count(&batch, Old)), (14, 2048 - 14));
        // In any order, and twice the same.
        batch.reverse();
        batch.extend_from_within(..100);
        touch(&mut odd, &[range(0, PAGE)]);
        set.check(&mut batch);
        assert_eq!(count(&batch, Young), 1);
        assert_eq!(batch.iter().find(|c| c.state == Young).unwrap().addr, BASE);
        assert_eq!((set.counters().moved, set.counters().unresolved), (0, 0));
    }
}

#[test]
fn huge_pages_are_one_folio_and_stay_whole() {
    let Some((_one, sets)) = sets() else { return };
    for open in sets {
        let memory = range(0, 16 << 20);
        let Some(mut odd) = target(memory, "huge") else { return };
        if odd.smaps(memory, "AnonHugePages:") != memory.len() {
            return eprintln!("skipped: this machine gives no huge pages now");
        }
        let mut set = open();
        set.add_target(ID, odd.pid()).unwrap();
        let mut batch = pages(memory);
        make_old(&mut set, &mut batch);
        touch(&mut odd, &[range(HUGE + 77 * PAGE, HUGE + 78 * PAGE)]);
        set.check(&mut batch);
        for (nr, check) in batch.iter().enumerate() {
            assert_eq!(check.state, if nr / 512 == 1 { Young } else { Old }, "page {nr}");
            assert_eq!(check.leaf_shift, if set.reads_page_tables() { 21 } else { 12 });
        }
        assert_eq!(odd.smaps(memory, "AnonHugePages:"), memory.len());
        // Its page table split, but not the folio: 511 frames behind a first one, mapped one by
        // one.
        odd.tell("unmap", range(2 * HUGE, 2 * HUGE + PAGE), "");
        odd.tell("unmap", range(3 * HUGE + 9 * PAGE, 3 * HUGE + 10 * PAGE), "");
        let mut parts = pages(range(2 * HUGE, 4 * HUGE));
        set.prepare(&mut parts);
        let is_hole = |nr: usize| [0, 512 + 9].contains(&nr);
        for (nr, check) in parts.iter().enumerate() {
            let expected = if is_hole(nr) {
                check.state == Absent
            } else {
                matches!(check.state, Cleared | Old)
            };
            assert!(expected, "page {nr}: {check:?}");
        }
        touch(&mut odd, &[range(3 * HUGE + 300 * PAGE, 3 * HUGE + 301 * PAGE)]);
        set.check(&mut parts);
        for (nr, check) in parts.iter().enumerate() {
            // The mark is the folio's: one touched page makes all of it young.
            let expected = if is_hole(nr) {
                Absent
            } else if nr < 512 {
                Old
            } else {
                Young
            };
            assert_eq!(check.state, expected, "page {nr}");
        }
    }
}

#[test]
fn shared_locked_and_file_pages_are_seen_through_every_mapping() {
    let Some((_one, sets)) = sets() else { return };
    let file = tempfile::Builder::new().tempfile_in("/dev/shm").unwrap();
    file.as_file().set_len(4 << 20).unwrap();
    let path = file.path().to_str().unwrap();
    for open in sets {
        let memory = range(0, 4 << 20);
        let (Some(mut one), Some(mut other)) = (Odd::start(), Odd::start()) else { return };
        one.tell("shared", memory, path);
        one.tell("fill", memory, "");
        other.tell("shared", memory, path);
        touch(&mut other, &[memory]);
        let locked = range(16 << 20, 18 << 20);
        one.tell("anon", locked, "");
        one.tell("nohuge", locked, "");
        one.tell("fill", locked, "");
        one.tell("lock", locked, "");
        let mut set = open();
        set.add_target(ID, one.pid()).unwrap();
        let mut batch = pages(memory);
        batch.extend(pages(locked));
        make_old(&mut set, &mut batch);
        touch(&mut other, &[range(64 << 10, 128 << 10)]);
        touch(&mut one, &[AddrRange::new(locked.start, locked.start + PAGE)]);
        set.check(&mut batch);
        // The file may lie in large folios: at least what was touched is young, and not everything.
        let young = batch[16..32].iter().filter(|c| c.state == Young).count();
        assert_eq!(young, 16, "touched by the process that is not watched");
        assert_eq!(count(&batch[1024..], Young), 1);
        assert_eq!(count(&batch, Young) + count(&batch, Old), batch.len());
    }
}

/// With the bitmap, `pagewalk` makes pages old that it cannot clear itself, and still tells the two
/// processes apart.
#[test]
fn pagewalk_makes_shared_and_locked_pages_old_by_marks() {
    let Some((_one, sets)) = sets() else { return };
    let file = tempfile::Builder::new().tempfile_in("/dev/shm").unwrap();
    file.as_file().set_len(4 << 20).unwrap();
    let path = file.path().to_str().unwrap();
    let memory = range(0, 4 << 20);
    let (Some(mut one), Some(mut other)) = (Odd::start(), Odd::start()) else { return };
    one.tell("shared", memory, path);
    one.tell("fill", memory, "");
    other.tell("shared", memory, path);
    touch(&mut other, &[memory]);
    let locked = range(16 << 20, 18 << 20);
    one.tell("anon", locked, "");
    one.tell("nohuge", locked, "");
    one.tell("fill", locked, "");
    one.tell("lock", locked, "");
    let mut walk = PageWalk::new().unwrap();
    walk.set_fallback_limit(0);
    walk.set_max_clears(usize::MAX);
    walk.add_target(ID, one.pid()).unwrap();
    let mut batch = pages(memory);
    batch.extend(pages(locked));
    let resolved = |walk: &mut PageWalk, batch: &mut [Check]| {
        walk.prepare(batch);
        count(batch, Cleared) + count(batch, Old)
    };
    assert_eq!(resolved(&mut walk, &mut batch), 0, "without marks");
    // While another program holds the bitmap, the set works as without it.
    let holder = sets[0]();
    walk.set_marker(Some(Box::new(SharedMarks::default())));
    assert_eq!(resolved(&mut walk, &mut batch), 0, "the lock is another's");
    drop(holder);
    walk.set_marker(Some(Box::new(SharedMarks::default())));
    assert_eq!(resolved(&mut walk, &mut batch), batch.len());
    assert_eq!(walk.counters().whole_clears, 0);
    assert!(walk.counters().marks >= 1000, "{:?}", walk.counters());
    touch(&mut other, &[range(64 << 10, 128 << 10)]);
    walk.check(&mut batch);
    assert_eq!(count(&batch, Young), 0, "another's accesses are not the target's");
    touch(&mut one, &[range(128 << 10, 192 << 10)]);
    touch(&mut one, &[AddrRange::new(locked.start, locked.start + PAGE)]);
    walk.check(&mut batch);
    assert_eq!(count(&batch[32..48], Young), 16);
    assert_eq!(count(&batch, Young), 17);
    assert_eq!(count(&batch, Old), batch.len() - 17);
}

#[test]
fn pages_that_get_other_frames_are_never_judged_wrongly() {
    let Some((_one, sets)) = sets() else { return };
    for open in sets {
        let memory = range(0, 4 << 20);
        let Some(mut odd) = target(memory, "nohuge") else { return };
        let mut set = open();
        set.add_target(ID, odd.pid()).unwrap();
        let mut batch = pages(memory);
        let process = Process::open(odd.pid()).unwrap();
        let nodes = Nodes::read().unwrap();
        for &node in nodes.with_memory().iter().rev() {
            make_old(&mut set, &mut batch);
            let touched = range(0, 100 * PAGE);
            touch(&mut odd, &[touched]);
            let whole = [memory];
            let done =
                process.migrate(&nodes, &whole, &mut |_| Some(node), false, &mut || false).unwrap();
            set.check(&mut batch);
            let of = |batch: &[Check], state, touched| {
                let is = |c: &&Check| c.state == state && (c.addr < BASE + 100 * PAGE) == touched;
                batch.iter().filter(is).count()
            };
            assert_eq!((of(&batch, Old, true), of(&batch, Young, false)), (0, 0), "never wrong");
            let answered = of(&batch, Young, true) + of(&batch, Old, false);
            eprintln!(
                "node {node}: {} moved, {answered} of {} answered, {:?}",
                done.outcome.accepted_bytes / PAGE,
                batch.len(),
                set.counters()
            );
            assert!(answered * 10 >= batch.len() * 9, "most keep their marks when they move");
            // Made old anew, nothing of before matters.
            touch(&mut odd, &[memory]);
            batch = pages(memory);
            make_old(&mut set, &mut batch);
        }
        if batch.len() < 1024 {
            return eprintln!("skipped the rest: these frames lie at the end of memory");
        }
        // Gone, and there again: a new page was touched to be there.
        odd.tell("unmap", range(0, 10 * PAGE), "");
        set.check(&mut batch);
        assert_eq!(count(&batch[..10], Absent), 10);
        odd.tell("anon", range(0, 10 * PAGE), "");
        set.check(&mut batch);
        assert_eq!(count(&batch[..10], Absent), 10, "mapped, but no page yet");
        odd.tell("fill", range(0, 5 * PAGE), "");
        set.check(&mut batch);
        let new = batch[..5].iter().filter(|c| c.state != Old && c.state != Absent).count();
        assert_eq!((new, count(&batch[5..10], Absent), count(&batch[10..], Old)), (5, 5, 1014));
    }
}

#[test]
fn targets_that_end_or_exec_in_between_are_not_answered() {
    let Some((_one, sets)) = sets() else { return };
    for open in sets {
        let memory = range(0, 2 << 20);
        let Some(mut odd) = target(memory, "nohuge") else { return };
        let mut set = open();
        set.add_target(ID, odd.pid()).unwrap();
        let mut batch = pages(memory);
        let mut maps = Vec::new();
        set.update(ID, &mut maps).unwrap();
        assert!(maps.contains(&memory) && maps.is_sorted());
        make_old(&mut set, &mut batch);
        odd.tell("exec", range(0, 0), "");
        set.check(&mut batch);
        assert_eq!(count(&batch, Absent) + count(&batch, Unknown), batch.len());
        set.update(ID, &mut maps).unwrap();
        assert!(!maps.iter().any(|m| m.intersects(&memory)), "{maps:x?}");
        assert!(set.target_valid(ID));
        odd.tell("anon", memory, "");
        odd.tell("nohuge", memory, "");
        odd.tell("fill", memory, "");
        make_old(&mut set, &mut batch);
        odd.kill();
        for _ in 0..2 {
            set.check(&mut batch);
            assert_eq!(count(&batch, Absent) + count(&batch, Unknown), batch.len());
            set.prepare(&mut batch);
            assert_eq!(count(&batch, Absent) + count(&batch, Unknown), batch.len());
        }
        assert!(!set.target_valid(ID));
        assert_eq!(set.update(ID, &mut maps), Err(UpdateError::Gone));
        let error = set.add_target(ID, odd.pid()).unwrap_err();
        assert_eq!(error.kind(), SetKind::Gone, "{error}");
        // Addresses that no process has, and targets that nobody knows.
        let mut strange = [0, 1 << 47, 1 << 56, u64::MAX].map(|a| Check::new(ID, a, 0)).to_vec();
        strange.push(Check::new(TargetId(99), BASE, 0));
        set.prepare(&mut strange);
        set.check(&mut strange);
        assert!(strange.iter().all(|c| matches!(c.state, Absent | Unknown)), "{strange:?}");
    }
}

#[test]
fn physical_memory_is_watched_by_frame() {
    let Some((_one, sets)) = sets() else { return };
    let memory = range(0, 2 << 20);
    let Some(mut odd) = target(memory, "nohuge") else { return };
    let mut set = sets[0]();
    let pagemap = File::open(format!("/proc/{}/pagemap", odd.pid())).unwrap();
    let mut entries = vec![0; 512 * 8];
    pagemap.read_exact_at(&mut entries, memory.start / PAGE * 8).unwrap();
    let frames =
        entries.as_chunks::<8>().0.iter().map(|e| u64::from_ne_bytes(*e) & ((1 << 55) - 1));
    let mut batch: Vec<_> = frames.map(|f| Check::new(PHYSICAL, f * PAGE + 5, 0)).collect();
    assert!(batch.iter().all(|c| c.addr > PAGE));
    set.add_memory(PHYSICAL, Memory::All);
    let mut ranges = Vec::new();
    set.update(PHYSICAL, &mut ranges).unwrap();
    assert!(set.target_valid(PHYSICAL));
    assert!(batch.iter().all(|c| ranges.iter().any(|r| r.contains(c.addr))), "{ranges:x?}");
    // Together with a process, some of whose pages are the same.
    set.add_target(ID, odd.pid()).unwrap();
    batch.extend(pages(range(0, 64 * PAGE)));
    make_old(&mut set, &mut batch);
    touch(&mut odd, &[range(32 * PAGE, 96 * PAGE)]);
    set.check(&mut batch);
    for (nr, check) in batch.iter().enumerate() {
        let page = nr % 512;
        assert_eq!(check.state, if (32..96).contains(&page) { Young } else { Old }, "page {nr}");
    }
    // Every frame of the machine has an answer; the end of memory is an end.
    let end = ranges.last().unwrap().end;
    let step = end / PAGE / 20_000 + 1;
    let mut all: Vec<_> = (0..end / PAGE + 100_000)
        .step_by(usize::try_from(step).unwrap())
        .map(|frame| Check::new(PHYSICAL, frame * PAGE, 0))
        .collect();
    set.prepare(&mut all);
    assert_eq!(count(&all, Unknown), 0);
    assert!(count(&all, Cleared) > 100, "page cache at least");
    assert!(
        all.iter().all(|c| c.addr < end || !matches!(c.state, Old | Cleared)),
        "behind the end"
    );
    set.check(&mut all);
    assert!(count(&all, Old) > 100 && count(&all, Unknown) * 100 < all.len());
    set.remove_target(PHYSICAL);
    set.check(&mut all);
    assert_eq!(count(&all, Unknown), all.len());
}

#[test]
fn the_bitmap_has_the_kernels_own_rules() {
    let Some((_one, _)) = sets() else { return };
    let memory = range(0, 4 << 20);
    let Some(mut odd) = target(memory, "nohuge") else { return };
    let mut set = IdleOps::new().unwrap();
    set.add_target(ID, odd.pid()).unwrap();
    let mut batch = pages(memory);
    make_old(&mut set, &mut batch);
    touch(&mut odd, &[memory]);
    let mut bitmap = Bitmap::open(Path::new(BITMAP)).unwrap();
    let end = bitmap.mark_range(0..u64::MAX).unwrap();
    let total = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 = total.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(end * 4 >= kib && end.is_multiple_of(64), "{end} frames, {kib} KiB");
    let mut idle = 0;
    let reached =
        bitmap.read_range(0..u64::MAX, &mut |_, word| idle += u64::from(word.count_ones()));
    assert_eq!(reached.unwrap(), end);
    assert!(idle > 1024, "at least the target's: {idle}");
    // The kernel itself, not our manners.
    let file = bitmap.file();
    let raw = |e: std::io::Result<usize>| e.map_err(|e| e.raw_os_error().unwrap());
    assert_eq!(raw(FileExt::read_at(file, &mut [0; 8], 4)), Err(22));
    assert_eq!(raw(FileExt::read_at(file, &mut [0; 7], 0)), Err(22));
    assert_eq!(raw(FileExt::write_at(file, &[0; 8], 4)), Err(22));
    assert_eq!(raw(FileExt::write_at(file, &[0; 12], 0)), Err(22));
    assert_eq!(raw(FileExt::read_at(file, &mut vec![0; 65536], 0)), Ok(4096));
    let behind = (end + 64) / 8;
    assert_eq!(raw(FileExt::read_at(file, &mut [0; 8], behind)), Ok(0));
    assert_eq!(raw(FileExt::write_at(file, &[0xff; 8], behind)), Err(6));
    assert_eq!(bitmap.mark_range(end + 64..end + 128).unwrap(), end + 64);
    // Zeros take no mark away, and a read does not either.
    let mut first = vec![0; 4096];
    assert_eq!(
        bitmap.write(0, &first).unwrap(),
        first.len().min(usize::try_from(end / 64).unwrap())
    );
    bitmap.read(0, &mut first).unwrap();
    touch(&mut odd, &[range(0, 10 * PAGE)]);
    set.check(&mut batch);
    assert_eq!(count(&batch[10..], Old), 1014, "marked by the whole, found one by one");
    assert_eq!(count(&batch[..10], Young), 10);
}

#[test]
fn one_user_at_a_time() {
    let Some((_one, sets)) = sets() else { return };
    let first = sets[0]();
    let error = IdleOps::new().unwrap_err();
    assert_eq!(error.kind(), SetKind::Busy);
    let pid = std::process::id();
    assert!(error.why().starts_with(&format!("process {pid} makes memory of")), "{error}");
    let refused = choose(Some(SetName::Idle)).unwrap_err().to_string();
    assert!(refused.contains("process ") && refused.contains("hint:"), "{refused}");
    drop(first);
    let choice = choose(Some(SetName::Idle)).unwrap();
    assert_eq!(choice.ops.name(), "idle");
    assert_eq!(choice.self_test.granularity, Granularity::Page);
    eprintln!("{:?}", choice.self_test);
}

/// A measurement rather than a test: the cost per page for neighbouring and scattered pages,
/// touched or not, compared with `pagewalk`.
#[test]
#[ignore = "prints costs; run it by name, with --nocapture, on an idle machine"]
fn costs() {
    let Some((_one, sets)) = sets() else { return };
    for kind in ["nohuge", "huge"] {
        let memory = range(0, 256 << 20);
        let Some(mut odd) = target(memory, kind) else { return };
        let neighbours = pages(range(0, 1000 * PAGE));
        let step = usize::try_from(memory.len() / PAGE / 1000).unwrap();
        let scattered: Vec<_> = pages(memory).into_iter().step_by(step).take(1000).collect();
        for (place, mut batch) in [("neighbours", neighbours), ("scattered", scattered)] {
            for (name, open) in [
                ("idle by page tables", Some(sets[0])),
                ("idle by pagemap", Some(sets[1])),
                ("pagewalk", None),
            ] {
                let mut idle = open.map(|open| open());
                let mut walk = open.is_none().then(|| PageWalk::new().unwrap());
                if let Some(idle) = &mut idle {
                    idle.add_target(ID, odd.pid()).unwrap();
                }
                if let Some(walk) = &mut walk {
                    walk.add_target(ID, odd.pid()).unwrap();
                    walk.set_max_clears(usize::MAX);
                }
                let [mut clear, mut check_old, mut check_young] = [0; 3];
                let turns = 10;
                for _ in 0..turns {
                    touch(&mut odd, &[memory]);
                    let set: &mut dyn Operations = match (&mut idle, &mut walk) {
                        (Some(idle), _) => idle,
                        (_, Some(walk)) => walk,
                        _ => return,
                    };
                    let mut time = |what: &mut u64, check: bool| {
                        let begin = std::time::Instant::now();
                        if check {
                            set.check(&mut batch);
                        } else {
                            set.prepare(&mut batch);
                        }
                        *what += u64::try_from(begin.elapsed().as_nanos()).unwrap();
                    };
                    time(&mut clear, false);
                    time(&mut check_old, true);
                    touch(&mut odd, &[memory]);
                    time(&mut check_young, true);
                }
                let per = |total: u64| total / turns / 1000;
                let (clear, old, young) = (per(clear), per(check_old), per(check_young));
                eprintln!(
                    "{kind} {place} {name}: make old {clear} ns, look {old} ns (old) {young} ns (young)"
                );
            }
        }
    }
}
