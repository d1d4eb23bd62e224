//! The operations set `pagewalk` on real processes: what it says is held against the kernel's own
//! `pagemap` and `smaps`, and against what the process was told to do.
//!
//! A target is this test binary once more, told by lines on its standard input to touch memory. The
//! tests run where BPF is allowed; elsewhere they say why they did not.
#![expect(clippy::print_stderr, reason = "a skipped test says why")]

#[path = "pagewalk/target.rs"]
mod target;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId};
use isotherm_linux::pagewalk::{Entry, ErrorKind, PageWalk};
use target::{ARENA, Target};

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
const ID: TargetId = TargetId(7);

/// One at a time: their targets are to be idle when they should be.
static ONE: Mutex<()> = Mutex::new(());

/// The set, or why this test cannot run here.
fn set() -> Option<PageWalk> {
    match PageWalk::new() {
        Ok(walk) => Some(walk),
        Err(e) if e.kind() == ErrorKind::Permission => {
            eprintln!("skipped, no permission: {e}");
            None
        }
        // Not supported here would mean that a kernel we promise to support does not work.
        Err(e) => panic!("{e}"),
    }
}

/// A set that watches a target with `mib` MiB of memory.
fn watch(mib: u64, huge: bool) -> Option<(PageWalk, Target)> {
    let mut walk = set()?;
    let mut target = Target::spawn();
    target.say(&format!("map {} {}", mib << 20, if huge { "huge" } else { "small" }));
    walk.add_target(ID, target.pid()).unwrap();
    Some((walk, target))
}

fn checks(addrs: impl IntoIterator<Item = u64>) -> Vec<Check> {
    addrs.into_iter().map(|addr| Check::new(ID, addr, 0)).collect()
}

fn pages(range: AddrRange) -> Vec<Check> {
    checks((range.start..range.end).step_by(PAGE as usize))
}

fn arena(mib: u64) -> AddrRange {
    AddrRange::new(ARENA, ARENA + (mib << 20))
}

fn count(batch: &[Check], state: PageState) -> usize {
    batch.iter().filter(|c| c.state == state).count()
}

fn pagemap(pid: u32, addr: u64) -> u64 {
    let file = std::fs::File::open(format!("/proc/{pid}/pagemap")).unwrap();
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, addr / PAGE * 8).unwrap();
    u64::from_ne_bytes(bytes)
}

#[test]
fn touched_pages_are_young_after_a_clear_and_the_others_old() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(8, false) else { return };
    let mut batch = pages(arena(8));
    walk.prepare(&mut batch);
    // All were written, so all were young. The last few may still wait for their LRU list, where
    // the kernel cannot clear them yet; a second try is as good as the first.
    assert!(count(&batch, PageState::Cleared) + count(&batch, PageState::Young) == batch.len());
    walk.prepare(&mut batch);
    walk.check(&mut batch);
    let stubborn = count(&batch, PageState::Young);
    assert!(stubborn <= 64, "{stubborn} pages of an idle target stay young");

    let before = batch.clone();
    target.say(&format!("touch {} {} {}", PAGE, 5, 3 * PAGE));
    walk.check(&mut batch);
    for (nr, (was, is)) in before.iter().zip(&batch).enumerate() {
        let touched = nr < 15 && nr % 3 == 1;
        let expected = if touched { PageState::Young } else { was.state };
        assert_eq!((is.state, is.leaf_shift), (expected, 12), "page {nr}");
    }
    walk.prepare(&mut batch);
    assert_eq!(count(&batch, PageState::Cleared), 5 + stubborn, "only the young are cleared");
}

#[test]
fn agrees_with_pagemap_and_smaps_on_every_page() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    let pid = target.pid();
    let mut maps = Vec::new();
    walk.update(ID, &mut maps).unwrap();
    assert!(maps.iter().any(|m| m.contains(ARENA)) && maps.is_sorted());
    for &range in maps.iter().filter(|m| m.len() < 64 << 20) {
        let mut batch = pages(range);
        walk.check(&mut batch);
        for check in &batch {
            let present = pagemap(pid, check.addr) >> 63 == 1;
            assert_eq!(check.state != PageState::Absent, present, "{check:?} in {range:?}");
        }
        let mut dense = Vec::new();
        walk.dense(ID, range, &mut |addr, entry| dense.push((addr, entry))).unwrap();
        let found = batch.iter().filter(|c| c.state != PageState::Absent);
        let found: Vec<_> = found.map(|c| (c.addr, c.state == PageState::Young)).collect();
        let dense: Vec<_> = dense.iter().map(|(addr, e)| (*addr, e.is_young())).collect();
        assert_eq!(dense, found, "dense and single reads of {range:?}");
    }
    // The kernel's own count.
    let mut batch = pages(arena(4));
    walk.prepare(&mut batch);
    walk.prepare(&mut batch);
    walk.check(&mut batch);
    let stubborn = count(&batch[100..], PageState::Young);
    target.say(&format!("touch 0 100 {PAGE}"));
    walk.check(&mut batch);
    assert_eq!(count(&batch, PageState::Young), 100 + stubborn);
    assert_eq!(target.smaps("Referenced"), 4 * (100 + stubborn as u64));
}

#[test]
fn page_frames_are_those_of_pagemap() {
    let _one = ONE.lock();
    let Some((mut walk, target)) = watch(4, false) else { return };
    let mut wrong = 0;
    let mut seen = 0;
    walk.dense(ID, arena(4), &mut |addr, entry: Entry| {
        let frame = pagemap(target.pid(), addr) & ((1 << 55) - 1);
        // Without CAP_SYS_ADMIN the kernel shows 0.
        wrong += u32::from(frame != 0 && entry.0 >> 12 & ((1 << 40) - 1) != frame);
        seen += 1;
    })
    .unwrap();
    assert_eq!((seen, wrong), (1024, 0));
}

#[test]
fn huge_pages_are_cleared_whole_and_never_split() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(16, true) else { return };
    let huge_kib = target.smaps("AnonHugePages");
    if huge_kib == 0 {
        return eprintln!("skipped: this machine gives no huge pages now");
    }
    let mut batch = checks((0..8).map(|nr| ARENA + nr * HUGE + (nr + 3) * PAGE));
    walk.prepare(&mut batch);
    walk.prepare(&mut batch);
    let mut huge = batch.clone();
    huge.retain(|c| c.leaf_shift == 21);
    assert_eq!(huge.len() as u64, huge_kib >> 11);
    assert_eq!(count(&huge, PageState::Old), huge.len(), "{huge:?}");
    assert_eq!(target.smaps("AnonHugePages"), huge_kib, "a huge page was split");

    target.say(&format!("touch {} 1 1", HUGE + 77 * PAGE));
    walk.check(&mut batch);
    let young: Vec<_> =
        batch.iter().filter(|c| c.state == PageState::Young).map(|c| c.addr / HUGE).collect();
    assert_eq!(young, [ARENA / HUGE + 1]);

    let mut leaves = Vec::new();
    let inside = AddrRange::new(ARENA + PAGE, ARENA + (16 << 20));
    walk.dense(ID, inside, &mut |addr, e| leaves.push((addr, e.leaf_shift(), e.is_young())))
        .unwrap();
    leaves.retain(|(_, shift, _)| *shift == 21);
    assert_eq!(leaves.len() as u64, huge_kib >> 11, "each huge leaf comes once");
    assert!(leaves.contains(&(ARENA + HUGE, 21, true)));
}

#[test]
fn pages_that_two_processes_map_are_unresolved() {
    let _one = ONE.lock();
    let Some(mut walk) = set() else { return };
    // The shell's child shares its heap until one of them writes.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "read x & echo; read y"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    walk.add_target(ID, shell.id()).unwrap();
    let mut maps = Vec::new();
    walk.update(ID, &mut maps).unwrap();
    let (mut shared, mut own) = (0, 0);
    for &range in &maps {
        let mut batch = pages(range);
        walk.check(&mut batch);
        let before = batch.clone();
        walk.prepare(&mut batch);
        for (was, is) in before.iter().zip(&batch).filter(|(was, _)| was.state == PageState::Young)
        {
            let exclusive = pagemap(shell.id(), is.addr) >> 56 & 1 == 1;
            if exclusive {
                own += 1;
            } else {
                shared += 1;
                assert_eq!(is.state, PageState::Unresolved, "{was:?} became {is:?}");
            }
        }
        walk.check(&mut batch);
        let again = before.iter().zip(&batch).filter(|(was, _)| was.state == PageState::Old);
        again.for_each(|(_, is)| assert_eq!(is.state, PageState::Old, "nobody touched {is:?}"));
    }
    assert!(shared > 20 && own > 0, "{shared} shared pages, {own} own ones");
    shell.kill().unwrap();
    shell.wait().unwrap();
}

#[test]
fn nothing_is_called_cleared_that_is_not() {
    let _one = ONE.lock();
    let Some((mut walk, target)) = watch(4, false) else { return };
    let mut maps = Vec::new();
    walk.update(ID, &mut maps).unwrap();
    let mut lies = Vec::new();
    for range in maps {
        let mut batch = pages(range);
        for _ in 0..3 {
            walk.prepare(&mut batch);
        }
        let promised = batch.clone();
        walk.check(&mut batch);
        let pairs = promised.iter().zip(&batch);
        let old = |s| matches!(s, PageState::Old | PageState::Cleared);
        lies.extend(
            pairs
                .filter(|(was, is)| old(was.state) && is.state != PageState::Old)
                .map(|(_, is)| *is),
        );
    }
    // Exclusive anonymous pages that wait for their LRU list look like pages in use.
    assert!(lies.len() <= 64, "target {}: {lies:x?}", target.pid());
}

#[test]
fn locked_pages_are_unresolved() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    target.say("lock");
    let mut batch = pages(arena(4));
    walk.prepare(&mut batch);
    assert_eq!(count(&batch, PageState::Unresolved), batch.len());
}

#[test]
fn holes_are_absent_and_do_not_stop_the_rest() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(8, false) else { return };
    let mut batch = pages(arena(8));
    walk.prepare(&mut batch);
    target.say(&format!("touch 0 1024 {PAGE}"));
    target.say(&format!("keep {}", 4 << 20));
    // Above the arena, in no address space, and past all of them.
    batch.extend(checks([ARENA + (1 << 40), (1 << 47) - PAGE, 1 << 47, u64::MAX]));
    walk.check(&mut batch);
    assert_eq!(count(&batch[..1024], PageState::Young), 1024);
    assert_eq!(count(&batch[1024..], PageState::Absent), batch.len() - 1024);
    walk.prepare(&mut batch);
    assert_eq!(count(&batch[..1024], PageState::Cleared), 1024);
}

#[test]
fn more_pages_than_the_map_holds_in_any_order() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(64, false) else { return };
    walk.set_max_clears(usize::MAX);
    let mut batch = pages(arena(64));
    batch.reverse();
    walk.prepare(&mut batch);
    walk.prepare(&mut batch);
    target.say(&format!("touch 0 8192 {}", 2 * PAGE));
    walk.check(&mut batch);
    let wrong = |c: &&Check| (c.state == PageState::Young) != (c.addr / PAGE).is_multiple_of(2);
    let wrong = batch.iter().filter(wrong).count();
    assert!(wrong <= 64, "{wrong} of {} pages", batch.len());
}

#[test]
fn several_targets_in_one_batch_do_not_mix() {
    let _one = ONE.lock();
    let Some((mut walk, mut first)) = watch(4, false) else { return };
    let mut second = Target::spawn();
    second.say(&format!("map {} small", 4 << 20));
    let other = TargetId(3);
    walk.add_target(other, second.pid()).unwrap();
    // The same addresses in both, alternating; and a target that nobody knows.
    let mut batch = pages(arena(4));
    batch.extend(pages(arena(4)).iter().map(|c| Check { target: other, ..*c }));
    batch.sort_by_key(|c| c.addr);
    batch.push(Check::new(TargetId(99), ARENA, 0));
    walk.prepare(&mut batch);
    walk.prepare(&mut batch);
    first.say(&format!("touch 0 10 {PAGE}"));
    second.say(&format!("touch {} 20 {PAGE}", 100 * PAGE));
    walk.check(&mut batch);
    let young = |id, from: u64, nr: u64| {
        let range = AddrRange::new(ARENA + from * PAGE, ARENA + (from + nr) * PAGE);
        let of = batch.iter().filter(|c| c.target == id && range.contains(c.addr));
        of.filter(|c| c.state == PageState::Young).count() as u64
    };
    assert_eq!((young(ID, 0, 10), young(other, 0, 10)), (10, 0));
    assert_eq!((young(ID, 100, 20), young(other, 100, 20)), (0, 20));
    assert_eq!(batch.last().unwrap().state, PageState::Unknown);
}

#[test]
fn a_busy_page_is_cleared_and_seen_young_again() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    target.say("spin 0");
    let mut hot = checks([ARENA]);
    for _ in 0..20 {
        walk.prepare(&mut hot);
        assert!(matches!(hot[0].state, PageState::Cleared | PageState::Old), "{hot:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
        walk.check(&mut hot);
        assert_eq!(hot[0].state, PageState::Young);
    }
}

#[test]
fn a_target_that_ends_is_absent_and_then_gone() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    assert!(walk.target_valid(ID));
    target.kill();
    let mut batch = pages(arena(4));
    walk.check(&mut batch);
    assert_eq!(count(&batch, PageState::Absent), batch.len());
    walk.prepare(&mut batch);
    assert_eq!(count(&batch, PageState::Absent), batch.len());
    assert!(!walk.target_valid(ID));
    assert_eq!(walk.update(ID, &mut Vec::new()), Err(UpdateError::Gone));
    assert_eq!(walk.add_target(ID, target.pid()).unwrap_err().kind(), ErrorKind::Gone);
}

#[test]
fn ends_in_the_middle_of_a_clear_do_no_harm() {
    let _one = ONE.lock();
    for delay_us in [0, 50, 100, 200, 400, 800] {
        let Some((mut walk, mut target)) = watch(8, false) else { return };
        let mut batch = pages(arena(8));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(delay_us));
            target.kill();
        });
        for _ in 0..10 {
            walk.prepare(&mut batch);
            let strange = batch.iter().find(|c| c.state == PageState::Unresolved);
            assert_eq!(strange, None, "ended after {delay_us} us");
        }
        killer.join().unwrap();
        walk.check(&mut batch);
        assert_eq!(count(&batch, PageState::Absent), batch.len());
    }
}

#[test]
fn follows_a_target_through_exec() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    assert!(!walk.reopen(ID).unwrap(), "nothing has changed yet");
    target.exec();
    let mut batch = pages(arena(4));
    walk.check(&mut batch);
    assert_eq!(count(&batch, PageState::Absent), batch.len(), "the old memory is gone");
    target.say(&format!("map {} small", 2 << 20));
    let mut maps = Vec::new();
    walk.update(ID, &mut maps).unwrap();
    assert!(maps.contains(&arena(2)), "{maps:x?}");
    walk.check(&mut batch);
    assert_eq!(count(&batch, PageState::Young), 512);
}

#[test]
fn refuses_what_has_no_memory() {
    let Some(mut walk) = set() else { return };
    for pid in [0, 2, i32::MAX.unsigned_abs(), u32::MAX] {
        // 2 is a kernel thread on the machine itself; in a container it may not exist.
        let kernel_thread =
            std::fs::read_to_string("/proc/2/comm").is_ok_and(|n| n == "kthreadd\n");
        if pid != 2 || kernel_thread {
            let error = walk.add_target(ID, pid).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Gone | ErrorKind::Io), "{pid}: {error}");
        }
    }
}
