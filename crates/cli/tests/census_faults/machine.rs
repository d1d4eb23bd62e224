//! `isotherm idle` by page tables over real processes: what it finds of a known one, and how it
//! gets on with an Isotherm that watches one of them.
//!
//! One scanner may run per machine, so these tests take turns, and wait for others.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use isotherm::raw::host::metrics::Cgroups;
use isotherm::raw::host::proc::Proc;
use serde_json::Value;

use crate::program::{ISOTHERM, Running, command, isotherm, scratch, snapshots, wait_until};
use crate::target::{MIB, Target};

static TURN: Mutex<()> = Mutex::new(());

/// A scan that runs, with all reports so far. `None` if this machine does not allow it.
fn scan(dir: &Path, args: &str) -> Option<Running> {
    let begin = Instant::now();
    loop {
        let line = format!("idle --ops pagewalk --json {args}");
        let mut scan = command(ISOTHERM, dir, &line.split(' ').collect::<Vec<_>>());
        scan.stdout(std::fs::File::create(dir.join("reports")).unwrap());
        let mut scan = Running::start(scan);
        let mut ended = false;
        wait_until("a report, or the end", || {
            ended = scan.child().try_wait().unwrap().is_some();
            ended || !reports(dir).is_empty()
        });
        if !ended {
            return Some(scan);
        }
        let said = scan.finish();
        if said.err.contains("isotherm-idle.lock") && begin.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(200));
            continue;
        }
        assert!([Some(3), Some(4)].contains(&said.code), "{said:#?}");
        eprintln!("skipped: {}", said.err);
        return None;
    }
}

fn reports(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("reports")).unwrap();
    // The last line may not be whole yet.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits until so many more reports are there, and returns the last.
fn next(dir: &Path, more: usize) -> Value {
    let before = reports(dir).len();
    wait_until("more reports", || reports(dir).len() >= before + more);
    reports(dir).pop().unwrap()
}

/// A memory cgroup, which goes with the test.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Self {
        let cgroups = Cgroups::mounted(&Proc::default());
        let mount = cgroups.v1_of("memory").map(Path::to_owned).or_else(|| {
            let v2 = cgroups.v2.clone()?;
            std::fs::write(v2.join("cgroup.subtree_control"), "+memory").ok();
            Some(v2)
        });
        let path = mount.expect("cgroups").join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel needs a moment after the last process.
        let gone = || std::fs::remove_dir(&self.0).is_ok();
        for _ in 0..100 {
            if gone() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What is not touched is idle, whoever maps it. What one of two processes touches is not, and
/// counts once.
#[test]
fn a_process_of_known_use_alone_and_with_a_child_that_shares_its_memory() {
    if std::env::var("ISOTHERM_LAB").as_deref() != Ok("1") {
        eprintln!("skipped: makes a cgroup of the machine (ISOTHERM_LAB=1)");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch();
    let group = Group::new("isotherm-known-use");
    let enter = |pid: u32| {
        std::fs::write(group.0.join("cgroup.procs"), pid.to_string()).unwrap();
    };
    // The second case has a budget of next to nothing, so that few units are drawn. But what was
    // drawn and is idle stays known.
    for (name, child, args, rounds) in [
        ("alone", false, "--interval 2s --cpu 100", 2),
        ("a small sample", false, "--interval 300ms --cpu 0.1", 50),
        ("shared", true, "--interval 2s --cpu 100", 2),
    ] {
        let Some(mut target) = Target::start_after(96 * MIB, enter) else { return };
        target.heat(16 * MIB, 32 * MIB);
        if child {
            target.tell("child", 0, 0);
        }
        let Some(scan) = scan(dir.path(), args) else { return };
        let report = next(dir.path(), rounds);
        scan.signal("TERM");
        scan.finish().expect(0, &[]);
        let rows = report["cgroups"].as_array().unwrap();
        let row = rows.iter().find(|row| row["cgroup"] == "/isotherm-known-use").unwrap();
        let bytes = |key: &str| row["all"][key].as_u64().unwrap();
        let (idle, deviation) = (bytes("anon_bytes"), bytes("deviation_bytes"));
        eprintln!(
            "{name}: {} KiB of {} idle, +- {} KiB; share {}; {}",
            idle >> 10,
            64 << 10,
            (2 * deviation) >> 10,
            report["share"],
            report["unknown"]
        );
        // The program itself has some pages; and on a busy machine a hot page may wait long.
        let off = 2 * MIB + 4 * deviation;
        assert!(idle.abs_diff(64 * MIB) <= off, "{name}: {row:#}");
    }
}

#[test]
fn a_process_that_another_watches_is_left_alone_and_said_to_be_unknown() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch();
    let Some(target) = Target::start(64 * MIB) else { return };
    let Some(scan) = scan(dir.path(), "--interval 500ms --cpu 20") else { return };
    let watched = |report: &Value| report["unknown"]["watched_bytes"].as_u64().unwrap();
    // Other tests watch their own processes for a while.
    wait_until("nobody is watched", || watched(&next(dir.path(), 1)) < MIB);
    let pid = target.pid().to_string();
    // The scan claims it again and again, but only for a moment.
    let args = ["record", "--method", "census", "-o", "watched", "-p", &pid];
    let recorder = Running::start(command(ISOTHERM, dir.path(), &args));
    wait_until("snapshots", || snapshots(dir.path(), "watched") > 1);
    let report = next(dir.path(), 2);
    let during = watched(&report);
    assert!(during >= 60 * MIB, "{}", report["unknown"]);
    assert!(report["unknown"]["watched_processes"].as_u64() > Some(0));
    recorder.signal("TERM");
    recorder.finish().expect(0, &[]);
    wait_until("it is not watched any more", || watched(&next(dir.path(), 1)) + 60 * MIB <= during);
    scan.signal("TERM");
    scan.finish().expect(0, &[]);
}

#[test]
fn a_short_look_at_one_process_is_never_refused_because_of_a_scan() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch();
    let Some(mut target) = Target::start(64 * MIB) else { return };
    // Enough to do: claimed four times in each scan.
    target.heat(0, 64 * MIB);
    let Some(scan) = scan(dir.path(), "--interval 100ms --cpu 100") else { return };
    for _ in 0..10 {
        let args = format!("wss --duration 300ms -p {}", target.pid());
        isotherm(dir.path(), &args).expect(0, &[]);
    }
    scan.signal("TERM");
    scan.finish().expect(0, &[]);
}
