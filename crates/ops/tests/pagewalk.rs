//! The operations set `pagewalk` on real processes: what it says is held against the kernel's own
//! `pagemap` and `smaps`, and against what the process was told to do.
//!
//! A target is this test binary once more, told by lines on its standard input to touch memory. The
//! tests run where BPF is allowed; elsewhere they say why they did not.
#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "tests; a skipped one says why")]

#[path = "shared/target.rs"]
mod target;
#[path = "shared/walk.rs"]
mod walk;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId};
use isotherm_host::error::{SetError, SetKind};
use isotherm_ops::pagewalk::PageWalk;
use isotherm_pages::tables::Entry;

use target::{ARENA, Target};

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
const ID: TargetId = TargetId(7);

/// One at a time: their targets are to be idle when they should be.
static ONE: Mutex<()> = Mutex::new(());

/// A set that watches a target with `mib` MiB of memory.
fn watch(mib: u64, huge: bool) -> Option<(PageWalk, Target)> {
    let mut walk = walk::open()?;
    let mut target = Target::spawn();
    target.say(&format!("map {} {}", mib << 20, if huge { "huge" } else { "small" }));
    walk.add_target(ID, target.pid()).unwrap();
    walk.set_max_clears(usize::MAX);
    Some((walk, target))
}

fn checks(addrs: impl IntoIterator<Item = u64>) -> Vec<Check> {
    addrs.into_iter().map(|addr| Check::new(ID, addr, 0)).collect()
}

fn pages(range: AddrRange) -> Vec<Check> {
    checks((range.start..range.end).step_by(4096))
}

fn arena(mib: u64) -> AddrRange {
    AddrRange::new(ARENA, ARENA + (mib << 20))
}

fn count(batch: &[Check], state: PageState) -> usize {
    batch.iter().filter(|c| c.state == state).count()
}

/// So many pages of a test's memory others may make old between two looks: the machine's own DAMON
/// clears the accessed bits of a few pages per second and 16 MiB, reclaim those of more. Never the
/// other way round: nobody but its process makes a page young.
const FEW: usize = 16;

/// All but [`FEW`] pages are in this state, and these are old.
fn assert_all(batch: &[Check], state: PageState) {
    assert_all_but(FEW, batch, state);
}

/// All but `few` pages are in this state, and these are old.
fn assert_all_but(few: usize, batch: &[Check], state: PageState) {
    let (is, old) = (count(batch, state), count(batch, PageState::Old));
    assert!(is + old == batch.len() && old <= few, "{is} {state:?}, {old} old: {batch:?}");
}

/// Two looks at memory that nobody touches: the later one may have lost a few bits.
fn assert_same(what: &str, before: &[(u64, bool)], after: &[(u64, bool)]) {
    let addrs = |pages: &[(u64, bool)]| pages.iter().map(|(addr, _)| *addr).collect::<Vec<_>>();
    assert_eq!(addrs(before), addrs(after), "{what}");
    let both = || before.iter().zip(after);
    assert_eq!(both().find(|(was, is)| !was.1 && is.1), None, "{what}: young by itself");
    assert!(both().filter(|(was, is)| was.1 && !is.1).count() <= FEW, "{what}: bits are lost");
}

/// Waits until a process and its child, if it has one, have slept for a while: both wait for input.
fn until_waiting(pid: u32) {
    let waits = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    };
    let children = format!("/proc/{pid}/task/{pid}/children");
    let mut quiet = 0;
    while quiet < 10 {
        std::thread::sleep(Duration::from_millis(20));
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        let all = children.split_whitespace().map(|pid| pid.parse().unwrap()).chain([pid]);
        quiet = if all.into_iter().all(waits) { quiet + 1 } else { 0 };
    }
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
    // All were written, so all were young; also those that waited for their LRU list.
    assert_all(&batch, PageState::Cleared);
    walk.check(&mut batch);
    assert_eq!(count(&batch, PageState::Old), batch.len());

    target.say(&format!("touch {} {} {}", PAGE, 500, 3 * PAGE));
    walk.check(&mut batch);
    assert!(batch.iter().all(|c| c.leaf_shift == 12), "{batch:?}");
    let is_touched = |c: &&Check| {
        let nr = (c.addr - ARENA) / PAGE;
        nr < 1500 && nr % 3 == 1
    };
    let (touched, rest): (Vec<_>, Vec<_>) = batch.iter().partition(is_touched);
    let [touched, rest] = [touched, rest].map(|part| part.into_iter().copied().collect::<Vec<_>>());
    assert_all(&touched, PageState::Young);
    assert_eq!(count(&rest, PageState::Old), rest.len());
    walk.prepare(&mut batch);
    let cleared: Vec<_> = batch.iter().filter(|c| c.state == PageState::Cleared).collect();
    assert!(cleared.iter().all(is_touched), "only the young are cleared: {cleared:?}");
    assert!((500 - FEW..=500).contains(&cleared.len()), "{} are cleared", cleared.len());
}

/// Every page of these mappings by single looks, which must agree with pagemap and with dense
/// looks: its address, and whether it is young.
fn every_page(walk: &mut PageWalk, pid: u32, maps: &[AddrRange]) -> Vec<(u64, bool)> {
    let mut all = Vec::new();
    for &range in maps {
        let mut batch = pages(range);
        walk.check(&mut batch);
        for check in &batch {
            let present = pagemap(pid, check.addr) >> 63 == 1;
            assert_eq!(check.state != PageState::Absent, present, "{check:?} in {range:?}");
        }
        let mut dense = Vec::new();
        walk.tables().dense(ID, range, &mut |addr, entry| dense.push((addr, entry))).unwrap();
        let found = batch.iter().filter(|c| c.state != PageState::Absent);
        let found: Vec<_> = found.map(|c| (c.addr, c.state == PageState::Young)).collect();
        let dense: Vec<_> = dense.iter().map(|(addr, e)| (*addr, e.is_young())).collect();
        assert_same(&format!("dense and single reads of {range:?}"), &found, &dense);
        all.extend(dense);
    }
    all
}

/// The whole address space in one go.
fn whole_space(walk: &mut PageWalk) -> Vec<(u64, bool)> {
    let mut whole = Vec::new();
    let everything = AddrRange::new(0, u64::MAX);
    walk.tables().dense(ID, everything, &mut |addr, e| whole.push((addr, e.is_young()))).unwrap();
    whole
}

#[test]
fn agrees_with_pagemap_and_smaps_on_every_page() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    let pid = target.pid();
    let mut maps = Vec::new();
    walk.update(ID, &mut maps).unwrap();
    assert!(maps.iter().any(|m| m.contains(ARENA)) && maps.is_sorted());
    // The target may still map pages on its way to its next line, 16 at a time. So the whole
    // address space is read before and after the single looks.
    let read = |_| {
        let (before, all) = (whole_space(&mut walk), every_page(&mut walk, pid, &maps));
        let whole = whole_space(&mut walk);
        std::thread::sleep(Duration::from_millis(if before == whole { 0 } else { 100 }));
        (before == whole).then_some((all, whole))
    };
    let (all, mut whole) = (0..50).find_map(read).expect("the target never rests");
    // The kernel's own pages (vdso) are no mapping to watch.
    assert!(whole.is_sorted() && whole.len() < all.len() + 16);
    whole.retain(|(addr, _)| maps.iter().any(|m| m.contains(*addr)));
    assert_same("in one go", &all, &whole);
    // The kernel's own count.
    let mut batch = pages(arena(4));
    walk.prepare(&mut batch);
    target.say(&format!("touch 0 100 {PAGE}"));
    walk.check(&mut batch);
    assert_all(&batch[..100], PageState::Young);
    assert_eq!(count(&batch[100..], PageState::Old), batch.len() - 100);
    // The kernel counts those as well that its DAMON made old meanwhile.
    let (young, kernel) = (count(&batch, PageState::Young), target.smaps("Referenced:") / 4);
    assert!(kernel.abs_diff(young as u64) <= FEW as u64, "{young} are young, {kernel} by smaps");
}

#[test]
fn page_frames_are_those_of_pagemap() {
    let _one = ONE.lock();
    let Some((mut walk, target)) = watch(4, false) else { return };
    let mut wrong = 0;
    let mut seen = 0;
    walk.tables()
        .dense(ID, arena(4), &mut |addr, entry: Entry| {
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
    let huge_kib = target.smaps("AnonHugePages:");
    if huge_kib == 0 {
        return eprintln!("skipped: this machine gives no huge pages now");
    }
    let mut batch = checks((0..8).map(|nr| ARENA + nr * HUGE + (nr + 3) * PAGE));
    walk.prepare(&mut batch);
    // Others take one bit for a whole huge page.
    assert_all_but(2, &batch, PageState::Cleared);
    let huge = batch.iter().filter(|c| c.leaf_shift == 21).count();
    assert_eq!(huge as u64, huge_kib >> 11);
    assert_eq!(target.smaps("AnonHugePages:"), huge_kib, "a huge page was split");

    // The one bit of a huge page may be cleared by others before it is read: then it is touched
    // again.
    let seen = (0..10).any(|_| {
        target.say(&format!("touch {} 1 1", HUGE + 77 * PAGE));
        walk.check(&mut batch);
        let mut leaves = Vec::new();
        let inside = AddrRange::new(ARENA + PAGE, ARENA + (16 << 20));
        walk.tables()
            .dense(ID, inside, &mut |addr, e| leaves.push((addr, e.leaf_shift(), e.is_young())))
            .unwrap();
        leaves.retain(|(_, shift, _)| *shift == 21);
        assert_eq!(leaves.len() as u64, huge_kib >> 11, "each huge leaf comes once");
        let young = batch.iter().filter(|c| c.state == PageState::Young);
        let young: Vec<_> = young.map(|c| c.addr / HUGE - ARENA / HUGE).collect();
        assert!(young.is_empty() || young == [1], "{young:?} are young");
        young == [1] && leaves.contains(&(ARENA + HUGE, 21, true))
    });
    assert!(seen, "a touched huge page was never young");
}

#[test]
fn large_folios_are_not_split_either() {
    let _one = ONE.lock();
    let dir = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB";
    let enabled = std::fs::read_to_string(format!("{dir}/enabled")).unwrap_or_default();
    if !enabled.contains("[always]") {
        return eprintln!(
            "skipped: this needs folios of 64 KiB enabled, and they are: {enabled:?}"
        );
    }
    let stat = |name: &str| -> u64 {
        std::fs::read_to_string(format!("{dir}/stats/{name}")).unwrap().trim().parse().unwrap()
    };
    let Some(mut walk) = walk::open() else { return };
    // The counters are the whole machine's, and others may split folios, too. Clears that split
    // folios would do so every time.
    let whole = (0..10).any(|_| {
        let before = stat("anon_fault_alloc");
        let mut target = Target::spawn();
        target.say(&format!("map {} unadvised", 4 << 20));
        walk.add_target(ID, target.pid()).unwrap();
        assert!(stat("anon_fault_alloc") >= before + 32, "the target got no large folios");
        let before = stat("split");
        let mut batch = checks((0..64).map(|nr| ARENA + nr * (64 << 10) + 5 * PAGE));
        walk.prepare(&mut batch);
        assert_all(&batch, PageState::Cleared);
        walk.remove_target(ID);
        stat("split") == before
    });
    assert!(whole, "folios were split each time");
}

#[test]
fn pages_that_two_processes_map_are_unresolved() {
    let _one = ONE.lock();
    let Some(mut walk) = walk::open() else { return };
    walk.set_fallback_limit(0);
    // The shell's child shares its heap until one of them writes; it waits for input, by another
    // number, because a shell takes number 0 away from what runs in the background.
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "exec 3<&0; read x <&3 & echo; read y"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    until_waiting(shell.id());
    walk.add_target(ID, shell.id()).unwrap();
    let mut maps = Vec::new();
    walk.update(ID, &mut maps).unwrap();
    let (mut shared, mut own, mut others) = (0_usize, 0_usize, 0_usize);
    for &range in &maps {
        let mut batch = pages(range);
        walk.check(&mut batch);
        let before = batch.clone();
        // Only its own memory: a library's other users come and go.
        let flags = |c: &Check| pagemap(shell.id(), c.addr);
        let (private, once) = (|f: u64| f >> 61 & 1 == 0, |f: u64| f >> 56 & 1 == 1);
        let flags_before: Vec<_> = before.iter().map(flags).collect();
        walk.prepare(&mut batch);
        for ((was, is), flags_before) in before.iter().zip(&batch).zip(flags_before) {
            if was.state != PageState::Young || !private(flags_before) {
                continue;
            }
            match (once(flags_before), once(flags(is))) {
                (true, true) => own += 1,
                (false, false) if is.state == PageState::Old => others += 1,
                (false, false) => {
                    shared += 1;
                    assert_eq!(is.state, PageState::Unresolved, "{was:?} became {is:?}");
                }
                _ => {}
            }
        }
        walk.check(&mut batch);
        let again = before.iter().zip(&batch).filter(|(was, _)| was.state == PageState::Old);
        again.for_each(|(_, is)| assert_eq!(is.state, PageState::Old, "nobody touched {is:?}"));
    }
    assert!(shared > 0 && own > 0, "{shared} shared pages, {own} own ones");
    assert!(others <= FEW, "{others} shared pages became old, and {shared} did not");
    shell.kill().unwrap();
    shell.wait().unwrap();
}

#[test]
fn nothing_is_called_cleared_that_is_not() {
    let _one = ONE.lock();
    // A copy of its own: so that some pages of files are the target's alone, and some (libraries)
    // are not.
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("target");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    for fallback in [0, 1 << 30] {
        let Some(mut walk) = walk::open() else { return };
        walk.set_fallback_limit(fallback);
        let target = Target::spawn_from(&copy);
        walk.add_target(ID, target.pid()).unwrap();
        let mut maps = Vec::new();
        walk.update(ID, &mut maps).unwrap();
        let (mut cleared, mut unresolved, mut others) = (0, 0, 0);
        for range in maps {
            let mut batch = pages(range);
            // Three failures in a row are needed to give a page of a file up.
            for _ in 0..3 {
                walk.prepare(&mut batch);
            }
            let promised = batch.clone();
            walk.check(&mut batch);
            unresolved += count(&batch, PageState::Unresolved);
            cleared += count(&batch, PageState::Old);
            for (was, is) in promised.iter().zip(&batch) {
                let old = matches!(was.state, PageState::Old | PageState::Cleared);
                assert!(!old || is.state == PageState::Old, "was {was:x?}, is {is:x?}");
                others += usize::from(!old && is.state == PageState::Old);
            }
        }
        assert!(others <= FEW, "{others} became old that were not");
        let whole = walk.counters().whole_clears;
        assert!(cleared > 50 && (unresolved > 0 || whole > 0), "{cleared}, {unresolved}, {whole}");
    }
}

#[test]
fn locked_pages_are_unresolved() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    walk.set_fallback_limit(0);
    target.say("lock");
    let mut batch = pages(arena(4));
    walk.prepare(&mut batch);
    assert_all(&batch, PageState::Unresolved);
    walk.check(&mut batch);
    // They are remembered.
    assert_all(&batch, PageState::Unresolved);
}

#[test]
fn the_fallback_clears_all_and_keeps_what_others_watch() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    let mut watched = pages(arena(4));
    watched.truncate(256);
    walk.prepare(&mut watched);
    walk.prepare(&mut watched);
    walk.check(&mut watched);
    let before = watched.clone();
    target.say(&format!("touch 0 100 {PAGE}"));
    target.say("lock");
    let mut rest = pages(AddrRange::new(ARENA + (2 << 20), ARENA + (4 << 20)));
    walk.prepare(&mut rest);
    assert_all(&rest, PageState::Cleared);
    assert_eq!(walk.counters().whole_clears, 1);
    walk.check(&mut rest);
    assert_eq!(count(&rest, PageState::Old), 512);

    // What was young and not asked for still is, and everything else is not.
    walk.check(&mut watched);
    assert_all(&watched[..100], PageState::Young);
    for (was, is) in before.iter().zip(&watched).skip(100) {
        assert_eq!(is.state, was.state, "{is:?}");
    }
    let flushes = walk.counters().flushes;
    walk.prepare(&mut watched);
    walk.check(&mut watched);
    assert_eq!(count(&watched, PageState::Old), 256);

    // Not again at once, whoever asks.
    target.say(&format!("touch {} 512 {PAGE}", 2 << 20));
    walk.prepare(&mut rest);
    assert!(count(&rest, PageState::Unresolved) > 0);
    assert_eq!(walk.counters().whole_clears, 1);
    assert!(walk.counters().flushes > flushes);
}

#[test]
fn what_somebody_else_makes_old_still_counts_as_touched() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    let mut batch = pages(arena(4));
    walk.prepare(&mut batch);
    target.say(&format!("touch 0 200 {PAGE}"));
    // A second set stands for whoever arms the same memory.
    let mut other = PageWalk::new().unwrap();
    other.set_max_clears(usize::MAX);
    other.add_target(ID, target.pid()).unwrap();
    let mut same = pages(arena(4));
    other.check(&mut same);
    let young = same.iter().filter(|c| c.state == PageState::Young).map(|c| c.addr);
    walk.keep_young(ID, &mut young.collect::<Vec<_>>().into_iter());
    other.prepare(&mut same);
    walk.check(&mut batch);
    let (touched, rest) = batch.split_at_mut(200);
    assert_all(touched, PageState::Young);
    assert_eq!(count(rest, PageState::Old), rest.len());
    // Made old by the set itself, they are.
    walk.prepare(&mut batch);
    walk.check(&mut batch);
    assert_eq!(count(&batch, PageState::Old), batch.len());
}

#[test]
fn the_limit_of_clears_holds_and_prefers_nobody() {
    let _one = ONE.lock();
    let Some((mut walk, _target)) = watch(4, false) else { return };
    walk.set_max_clears(64);
    let mut batch = pages(arena(4));
    walk.prepare(&mut batch);
    // Others may take a few of the young pages, among them some that were chosen.
    let cleared = count(&batch, PageState::Cleared);
    assert!((64 - FEW..=64).contains(&cleared), "{cleared} of 64 are cleared");
    assert!(count(&batch, PageState::Young) >= batch.len() - 64 - FEW);
    for quarter in batch.chunks(256) {
        let cleared = count(quarter, PageState::Cleared);
        assert!((8..=24).contains(&cleared), "{cleared} of a quarter, where 16 are its share");
    }
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
    assert_all(&batch[..1024], PageState::Young);
    assert_eq!(count(&batch[1024..], PageState::Absent), batch.len() - 1024);
    walk.prepare(&mut batch);
    assert_all(&batch[..1024], PageState::Cleared);
}

#[test]
fn more_pages_than_the_map_holds_in_any_order() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(64, false) else { return };
    let mut batch = pages(arena(64));
    batch.reverse();
    walk.prepare(&mut batch);
    target.say(&format!("touch 0 8192 {}", 2 * PAGE));
    walk.check(&mut batch);
    let (touched, untouched): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|c| (c.addr / PAGE).is_multiple_of(2));
    assert_all_but(4 * FEW, &touched, PageState::Young);
    assert_eq!(untouched.iter().find(|c| c.state != PageState::Old), None);
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
    walk.check(&mut batch);
    assert_eq!(count(&batch, PageState::Young), 0);
    first.say(&format!("touch 0 100 {PAGE}"));
    second.say(&format!("touch {} 200 {PAGE}", 200 * PAGE));
    walk.check(&mut batch);
    let young = |id, from: u64, nr: u64| {
        let range = AddrRange::new(ARENA + from * PAGE, ARENA + (from + nr) * PAGE);
        let of = batch.iter().filter(|c| c.target == id && range.contains(c.addr));
        of.filter(|c| c.state == PageState::Young).count() as u64
    };
    assert_eq!((young(other, 0, 200), young(ID, 200, 200)), (0, 0), "the other's accesses");
    let (of_first, of_second) = (young(ID, 0, 100), young(other, 200, 200));
    assert!((84..=100).contains(&of_first), "{of_first} of 100 are young");
    assert!((184..=200).contains(&of_second), "{of_second} of 200 are young");
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
        // On a crowded machine it may have to wait for its turn.
        for _ in 0..1500 {
            std::thread::sleep(Duration::from_millis(20));
            walk.check(&mut hot);
            if hot[0].state == PageState::Young {
                break;
            }
        }
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
    assert_eq!(walk.add_target(ID, target.pid()).unwrap_err().kind(), SetKind::Gone);
}

#[test]
fn ends_in_the_middle_of_a_clear_do_no_harm() {
    let _one = ONE.lock();
    for delay_us in [0, 50, 100, 200, 400, 800] {
        let Some((mut walk, mut target)) = watch(8, false) else { return };
        let mut batch = pages(arena(8));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(delay_us));
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
    target.say("exec");
    let mut batch = pages(arena(4));
    walk.check(&mut batch);
    assert_eq!(count(&batch, PageState::Absent), batch.len(), "the old memory is gone");
    target.say(&format!("map {} small", 2 << 20));
    let mut maps = Vec::new();
    walk.update(ID, &mut maps).unwrap();
    assert!(maps.contains(&arena(2)), "{maps:x?}");
    walk.check(&mut batch);
    assert_all(&batch[..512], PageState::Young);
    assert_eq!(count(&batch[512..], PageState::Absent), batch.len() - 512);
}

#[test]
fn mappings_rest_while_the_size_is_the_same() {
    let _one = ONE.lock();
    let Some((mut walk, mut target)) = watch(4, false) else { return };
    walk.set_same_size_rest(3_600_000_000_000);
    let mut maps = Vec::new();
    walk.update(ID, &mut maps).unwrap();
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(walk.update(ID, &mut maps), Err(UpdateError::NotNow));
    }
    // A reading rests for a hundred times of what it took, so the next one may have to wait.
    let mut read = |walk: &mut PageWalk| {
        while let Err(why) = walk.update(ID, &mut maps) {
            assert_eq!(why, UpdateError::NotNow);
            std::thread::sleep(Duration::from_millis(10));
        }
        maps.clone()
    };
    let more = AddrRange::new(ARENA + (64 << 20), ARENA + (65 << 20));
    target.say(&format!("more {} {}", 64 << 20, 1 << 20));
    assert!(read(&mut walk).contains(&more));
    target.say("exec");
    assert!(!read(&mut walk).contains(&more), "the program has replaced itself");
    walk.set_same_size_rest(0);
    read(&mut walk);
}

#[test]
fn refuses_what_has_no_memory() {
    let Some(mut walk) = walk::open() else { return };
    for pid in [0, 2, i32::MAX.unsigned_abs(), u32::MAX] {
        // 2 is a kernel thread on the machine itself; in a container it may not exist.
        let kernel_thread =
            std::fs::read_to_string("/proc/2/comm").is_ok_and(|n| n == "kthreadd\n");
        if pid != 2 || kernel_thread {
            let error = walk.add_target(ID, pid).unwrap_err();
            assert!(matches!(error.kind(), SetKind::Gone | SetKind::Io), "{pid}: {error}");
        }
    }
}

/// The capabilities that a part of the set needs, one by one, as a user that owns nothing.
#[test]
fn each_missing_capability_is_named() {
    let Some(_) = walk::open() else { return };
    let root_owned = Target::spawn();
    let (load, clear) = ("new: needs CAP_BPF and CAP_PERFMON", "own: needs CAP_SYS_NICE");
    let open = "other: needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";
    for (caps, expected) in [
        ("", [load; 2]),
        // Linux 6.1 does not ask for the second one.
        ("bpf", [load, clear]),
        ("bpf,perfmon", [clear; 2]),
        ("bpf,perfmon,sys_nice", [open; 2]),
        ("bpf,perfmon,sys_nice,sys_ptrace", [open; 2]),
        ("bpf,perfmon,sys_nice,sys_ptrace,dac_read_search", ["all works"; 2]),
    ] {
        let list: String =
            caps.split(',').filter(|c| !c.is_empty()).map(|c| format!(",+{c}")).collect();
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=+all"])
            .args([format!("--inh-caps=-all{list}"), format!("--ambient-caps=-all{list}")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "with_few_capabilities", "--nocapture", "--test-threads=1"])
            .env(OTHER, root_owned.pid().to_string())
            .output();
        let Ok(output) = output else { return eprintln!("skipped: no setpriv here") };
        let text = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(101), "with `{caps}`: {stderr}");
        if !output.status.success() {
            // Not root, or the test binary lies where nobody else may read.
            return eprintln!("skipped: {stderr}");
        }
        let said = text.lines().find_map(|line| line.split("@result ").nth(1));
        let right = |said: &str| expected.iter().any(|e| said.starts_with(e));
        assert!(said.is_some_and(right), "with `{caps}`: {said:?}");
    }
}

const OTHER: &str = "ISOTHERM_TEST_OTHER";

/// Not a test of its own: what `each_missing_capability_is_named` starts.
#[test]
fn with_few_capabilities() {
    let Ok(other) = std::env::var(OTHER) else { return };
    let result = few_capabilities(other.parse().unwrap());
    std::io::Write::write_all(&mut std::io::stdout(), format!("@result {result}\n").as_bytes())
        .unwrap();
}

fn few_capabilities(other: u32) -> String {
    let why = |part: &str, e: &SetError| {
        assert_eq!(e.kind(), SetKind::Permission, "{e}");
        assert!(e.to_string().contains("setcap cap_bpf,cap_perfmon"), "{e}");
        let why = e.why();
        format!("{part}: {}", why.find("needs").map_or(why, |at| &why[at..]))
    };
    let mut walk = match PageWalk::new() {
        Ok(walk) => walk,
        Err(e) => return why("new", &e),
    };
    let mut own = Target::spawn();
    own.say(&format!("map {} small", 1 << 20));
    if let Err(e) = walk.add_target(ID, own.pid()) {
        return why("own", &e);
    }
    let mut batch = pages(arena(1));
    walk.prepare(&mut batch);
    assert!(count(&batch, PageState::Cleared) > 200, "{batch:?}");
    match walk.add_target(ID, other) {
        Ok(()) => "all works".to_owned(),
        Err(e) => why("other", &e),
    }
}
