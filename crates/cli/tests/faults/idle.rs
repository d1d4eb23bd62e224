//! `isotherm idle`: its messages where it cannot run, and a real run where it can.
//!
//! One scanner may run per machine, so these tests take turns, and wait for others.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{ISOTHERM, Public, Running, Said, command, isotherm, scratch, wait_until};

static TURN: Mutex<()> = Mutex::new(());

/// Runs `isotherm idle`, again if another scanner runs on this machine. `None` if this machine does
/// not allow it.
fn idle(args: &str) -> Option<Said> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch();
    let begin = Instant::now();
    loop {
        let said = isotherm(dir.path(), &format!("idle {args}"));
        if said.err.contains("isotherm-idle.lock") && begin.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(200));
            continue;
        }
        if [Some(3), Some(4)].contains(&said.code) {
            // At least the message has to say how to fix it.
            said.expect(said.code.unwrap(), &["tried:", "why:"]);
            eprintln!("skipped: {}", said.err);
            return None;
        }
        return Some(said);
    }
}

#[test]
fn arguments_that_cannot_be() {
    let dir = scratch();
    for (args, parts) in [
        ("--interval 10ms", &["too short", "hint:"][..]),
        ("--interval soon", &["soon"]),
        ("--cpu 0", &["above 0"]),
        ("--cpu 101", &["up to 100"]),
        ("--ops smaps", &["smaps", "pagewalk"]),
        ("--frobnicate", &["--frobnicate", "Usage"]),
    ] {
        isotherm(dir.path(), &format!("idle {args}")).expect(2, parts);
    }
}

#[test]
fn a_pattern_that_matches_nothing_says_what_there_is() {
    let Some(said) = idle("--once --interval 200ms --cgroup no/such/*") else { return };
    said.expect(2, &["no cgroup matches `no/such/*`", "there are: /", "hint:"]);
}

#[test]
fn one_report_of_the_whole_machine() {
    let Some(said) = idle("--once --interval 500ms --json --cpu 5") else { return };
    said.expect(0, &[]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert!(["idle", "pagewalk"].contains(&report["method"].as_str().unwrap()), "{report}");
    assert_eq!(report["round"], 1);
    // This is the time from the end of a piece's marking to the begin of the look at it. It is
    // shorter than the interval by the time that marking takes.
    assert!(report["longest_ns"].as_u64() >= Some(250_000_000), "{report}");
    let cgroups = report["cgroups"].as_array().unwrap();
    let of = |row: &Value, field: &str| row["all"][field].as_u64().unwrap();
    for pair in cgroups.windows(2) {
        assert!(of(&pair[0], "idle_bytes") >= of(&pair[1], "idle_bytes"), "sorted by idle bytes");
    }
    let root = cgroups.iter().find(|row| row["cgroup"] == "/").expect("the root");
    assert!(
        of(root, "idle_bytes") > 0,
        "nothing on this machine is idle for half a second: {root}"
    );
    for row in cgroups {
        let parts: u64 =
            ["anon_bytes", "mapped_bytes", "unmapped_bytes"].map(|f| of(row, f)).iter().sum();
        assert!(of(row, "idle_bytes").abs_diff(parts) <= 3, "{row}");
        let inside = row["cgroup"].as_str().is_some_and(|path| path.starts_with('/'));
        let own = row["own"]["idle_bytes"].as_u64().unwrap();
        assert!(own <= of(row, "idle_bytes") + 3, "{row}");
        assert!(!inside || of(row, "idle_bytes") <= of(root, "idle_bytes") + 3, "{row} and {root}");
    }
    if report["method"] == "pagewalk" {
        said.expect(0, &["unmapped page cache is not seen"]);
        assert_eq!(report["unmapped_seen"], false);
        assert!(report["unknown"]["processes"].as_u64() > Some(0));
    }
}

#[test]
fn the_table_has_a_row_per_cgroup_and_says_how() {
    let Some(said) = idle("--once --interval 200ms --cgroup / --cpu 5") else { return };
    said.expect(0, &[]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("idle for 0.2s and longer"), "{said:#?}");
    assert!(lines.iter().any(|l| l.ends_with("  cgroup")), "{said:#?}");
    assert!(lines.last().is_some_and(|l| l.contains("  /")), "{said:#?}");
}

#[test]
fn a_second_scanner_is_refused_and_the_first_goes_on() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch();
    let first_report = dir.path().join("first");
    let mut first = command(ISOTHERM, dir.path(), &["idle", "--interval", "300ms", "--json"]);
    first.stdout(std::fs::File::create(&first_report).unwrap());
    let mut first = Running::start(first);
    let reports = || std::fs::read_to_string(&first_report).unwrap().lines().count();
    let mut ended = false;
    wait_until("a report, or the end", || {
        ended = first.child().try_wait().unwrap().is_some();
        ended || reports() > 0
    });
    if ended {
        let said = first.finish();
        // Another test program scans, or this machine has no means to scan.
        assert!(
            [3, 4, 5].contains(&said.code.unwrap_or(0)) || said.err.contains("lock"),
            "{said:?}"
        );
        eprintln!("skipped: {}", said.err);
        return;
    }
    let second = isotherm(dir.path(), "idle --once --interval 200ms");
    assert!(second.code.is_some_and(|code| code != 0), "{second:#?}");
    second.expect(second.code.unwrap(), &["tried:", "isotherm-idle.lock", "why:", "hint:"]);
    assert_eq!(second.out, "", "no report of marks that are another's");
    let before = reports();
    wait_until("the first one's next report", || reports() > before);
    first.signal("TERM");
    first.finish().expect(0, &[]);
}

#[test]
fn without_privileges_it_says_which_are_missing() {
    let public = Public::new();
    let said = public.isotherm("idle --once --interval 200ms");
    said.expect(4, &["tried:", "why:", "hint:"]);
    assert_eq!(said.out, "");
}

/// Memory of a cgroup that is removed while the scan waits counts for its parent from then on.
#[test]
fn a_cgroup_that_is_removed_during_a_scan_is_its_parents() {
    const MIB: u64 = 1 << 20;
    if std::env::var("ISOTHERM_LAB").as_deref() != Ok("1") {
        eprintln!("skipped: makes and removes cgroups of the machine (ISOTHERM_LAB=1)");
        return;
    }
    let above = std::path::Path::new("/sys/fs/cgroup");
    let (parent, child) = (above.join("isotherm-going"), above.join("isotherm-going/away"));
    std::fs::create_dir_all(&parent).unwrap();
    if std::fs::write(parent.join("cgroup.subtree_control"), "+memory").is_err() {
        eprintln!("skipped: no memory controller of cgroup v2");
        std::fs::remove_dir(&parent).unwrap();
        return;
    }
    std::fs::create_dir_all(&child).unwrap();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch();
    let ready = dir.path().join("ready");
    // 96 MiB in the inner cgroup, touched once; then it goes outside, and its memory stays behind.
    let line = format!(
        "echo $$ >{}/cgroup.procs && exec perl -e '$b = chr(1) x (96 << 20); open(F, \">{}\"); close F; sleep 600'",
        child.display(),
        ready.display()
    );
    let target = Running::start(command("sh", dir.path(), &["-c", &line]));
    wait_until("the memory to be there", || ready.exists());
    let stat = std::fs::read_to_string(child.join("memory.stat")).unwrap();
    let anon = stat.lines().find_map(|line| line.strip_prefix("anon ")).unwrap();
    let anon: u64 = anon.parse().unwrap();
    assert!(anon > 90 * MIB, "{anon}");
    let scan = command(
        ISOTHERM,
        dir.path(),
        &["idle", "--once", "--interval", "8s", "--json", "--cpu", "100"],
    );
    let scan = Running::start(scan);
    // The process moves between the first look at its memory and the second. The scan rests then,
    // but for a glance at the clock now and then, which takes some ms on a slow machine.
    let mut before = 0;
    wait_until("the first look to be over", || {
        std::thread::sleep(Duration::from_millis(300));
        let (state, cpu_ns) = (scan.state(), scan.cpu_ns());
        let rests = state == 'S' && before > 0 && cpu_ns.abs_diff(before) < 30_000_000;
        before = cpu_ns;
        rests
    });
    std::fs::write(above.join("cgroup.procs"), target.pid().to_string()).unwrap();
    wait_until("the cgroup to be removable", || std::fs::remove_dir(&child).is_ok());
    let said = scan.finish();
    drop(target);
    std::fs::remove_dir(&parent).ok();
    if [Some(3), Some(4)].contains(&said.code) {
        eprintln!("skipped: {}", said.err);
        return;
    }
    said.expect(0, &[]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let rows = report["cgroups"].as_array().unwrap();
    let row = |path: &str| rows.iter().find(|row| row["cgroup"] == path);
    assert!(row("/isotherm-going/away").is_none(), "{report:#}");
    let parents = row("/isotherm-going").expect("the parent");
    let idle = parents["all"]["anon_bytes"].as_u64().unwrap();
    // A sample of 4 KiB pages, where page tables are read; so far the process had touched all of it
    // once.
    assert!((anon * 8 / 10..anon * 12 / 10).contains(&idle), "{anon} were there: {parents:#}");
}

#[test]
fn a_second_scanner_is_told_the_truth_and_nothing_stays_behind() {
    let lock = std::path::Path::new("/run/isotherm-idle.lock");
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch();
    let first = Running::start(command(ISOTHERM, dir.path(), &["idle", "--interval", "1m"]));
    let holder = || std::fs::read_to_string(lock).is_ok_and(|text| text == first.pid().to_string());
    let begin = Instant::now();
    while !holder() {
        if !std::path::Path::new(&format!("/proc/{}/fd", first.pid())).exists()
            || first.state() == 'Z'
            || begin.elapsed() > Duration::from_secs(20)
        {
            eprintln!("skipped: `isotherm idle` does not run here, or another one runs");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let who = format!("process {}", first.pid());
    let said = isotherm(dir.path(), "idle --once --interval 200ms");
    said.expect(1, &[&who, "touched memory would look idle", "wait until it has ended"]);
    // It need not use idle page tracking, and no other set would help.
    assert!(!said.err.contains("uses idle page tracking"), "{said:#?}");
    assert!(!said.err.contains("another operations set"), "{said:#?}");
    first.signal("TERM");
    first.finish().expect(0, &[]);
    let left = std::fs::read_to_string(lock).unwrap_or_default();
    assert!(!who.ends_with(&format!(" {left}")), "{left}");
}
