//! The guard over a real process that runs, while a made-up set says that nothing is touched.

use std::process::{Command, Stdio};
use std::time::Duration;

use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo};
use isotherm_host::proc::Proc;
use isotherm_ops::guard::{Facts, Guard, Verdict, young_pages};
use isotherm_pages::tables::PageTables;
use isotherm_sys::clock;

const ID: TargetId = TargetId(3);

/// Windows of 100 ms in which the set answers zero for all, until the guard suspects; `None` if it
/// does not within `windows`.
fn suspects(guard: &mut Guard, facts: &mut Facts, pid: u32, windows: u64) -> Option<u64> {
    let region = RegionInfo {
        range: AddrRange::new(0x1000, 0x9000),
        resolved: true,
        ..RegionInfo::default()
    };
    let mut start = clock::now();
    (1..=windows).find(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let targets = vec![TargetInfo { id: ID, regions: vec![region], ..TargetInfo::default() }];
        let end = clock::now();
        let snapshot = Snapshot { start, end, targets, ..Snapshot::default() };
        start = end;
        guard.window(&snapshot, facts.gather([(ID, pid)])) == Verdict::Suspicious
    })
}

#[test]
fn a_process_that_spins_is_not_cold() {
    let spin = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
    let mut child = spin.unwrap();
    let mut facts = Facts::new(Proc::default());
    let mut guard = Guard::after(500_000_000);
    facts.gather([(ID, child.id())]);
    let first = suspects(&mut guard, &mut facts, child.id(), 50);
    // Real page tables say that it runs: the samples have only missed it.
    let young = PageTables::new().map(|mut walk| {
        walk.add_target(ID, child.id()).unwrap();
        young_pages(&mut walk, &[ID]).unwrap()
    });
    let by_page_tables = young.as_ref().map(|&young| guard.control(young));
    if by_page_tables.is_err() {
        guard.passed_self_test();
    }
    let second = suspects(&mut guard, &mut facts, child.id(), 80);
    // A set whose reads are silent has none.
    let silent = guard.control(0);
    let later = suspects(&mut guard, &mut facts, child.id(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(first.is_some() && second.is_some(), "{first:?} {second:?}");
    match by_page_tables {
        Ok(verdict) => assert_eq!(verdict, Verdict::Fine, "{young:?}"),
        Err(err) => eprintln!("skipped the control by page tables: {err}"),
    }
    assert!(matches!(silent, Verdict::Silent(s) if s.cpu_ns > 0 && !silent.may_act()));
    assert_eq!((later, guard.control(100)), (None, silent), "silent until a self-test");
}

#[test]
fn a_process_that_sleeps_may_be_cold() {
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let mut facts = Facts::new(Proc::default());
    // Until it sleeps: starting it takes CPU time, on a slow machine more than the guard lets pass.
    let cpu_ns =
        |facts: &mut Facts| facts.gather([(ID, child.id())]).iter().map(|f| f.cpu_ns).sum();
    let mut quiet = 0;
    while quiet < 10 {
        std::thread::sleep(Duration::from_millis(20));
        let ran: u64 = cpu_ns(&mut facts);
        quiet = if ran == 0 { quiet + 1 } else { 0 };
    }
    let found = suspects(&mut Guard::after(500_000_000), &mut facts, child.id(), 15);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, None);
    assert!(facts.gather([(ID, child.id())]).is_empty(), "it is gone");
}

#[test]
fn what_was_done_while_nobody_asked_is_no_fact() {
    let mut facts = Facts::new(Proc::default());
    let id = std::process::id();
    let work = || {
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
    };
    // The tests of this process run side by side, so there may be more than this work.
    let mut did = |forgets: bool| -> u64 {
        work();
        if forgets {
            facts.forget();
        }
        facts.gather([(ID, id)]).iter().map(|f| f.cpu_ns).sum()
    };
    assert_eq!([did(false), did(true)], [0; 2], "the first look, and what was forgotten");
    assert!(did(false) > 0, "from then on it counts");
}
