//! The operations set `kdamond` over the kernel's own DAMON: in the lab only, since it starts
//! kdamonds.
//!
//! `ISOTHERM_LAB=1` says that the machine is a VM of the lab. The set's logic over a made-up kernel
//! is tested beside the set.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "in a test")]

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use isotherm_agent::monitor::{Happened, Monitor};
use isotherm_core::{Attrs, Method, Observed, Operations, TargetId};
use isotherm_ops::doctor::{Granularity, choose};
use isotherm_ops::kdamond::{Kdamond, Prefer};
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Tracker;

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";

fn in_lab(test: &str) -> bool {
    let lab = std::env::var("ISOTHERM_LAB").is_ok_and(|v| v == "1");
    if !lab {
        eprintln!("skipped: starts kdamonds, so it runs in the lab only (ISOTHERM_LAB=1): {test}");
        return false;
    }
    // Some distributions' newest kernels run one of their own, alone.
    std::fs::write("/sys/module/damon_stat/parameters/enabled", "N").ok();
    std::path::Path::new(ADMIN).exists()
}

fn nr_kdamonds() -> u32 {
    std::fs::read_to_string(format!("{ADMIN}/nr_kdamonds")).unwrap().trim().parse().unwrap()
}

/// A program that writes to 8 of its 64 MiB all the time.
struct Program(Child);

impl Program {
    fn start() -> Self {
        let text = "import sys\nm = bytearray(64 << 20)\nsys.stdout.write('r')\nsys.stdout.flush()\n\
                    while True:\n    for i in range(0, 8 << 20, 4096): m[i] = 1\n";
        let mut child =
            Command::new("python3").args(["-c", text]).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Self(child)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Waits for windows until one of them satisfies `good`.
fn until(set: &mut Kdamond, what: &str, mut good: impl FnMut(&mut Kdamond) -> bool) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if set.next_window().is_some() && good(set) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let troubles = set.take_troubles();
    panic!("{what}: not within 60 s; {:?} {troubles:?}", set.failure());
}

fn regions(set: &mut Kdamond, id: u32) -> Vec<Observed> {
    let mut regions = Vec::new();
    set.observe(TargetId(id), &mut regions);
    regions
}

#[test]
fn the_set_proves_itself() {
    if !in_lab("the_set_proves_itself") {
        return;
    }
    let before = nr_kdamonds();
    let choice = choose(Some(SetName::Kdamond)).unwrap();
    assert_eq!(choice.self_test.granularity, Granularity::Region);
    assert_eq!(choice.self_test.failure, None);
    drop(choice);
    assert_eq!(nr_kdamonds(), before, "the files are as they were");
}

#[test]
fn targets_come_and_go_while_it_runs() {
    if !in_lab("targets_come_and_go_while_it_runs") {
        return;
    }
    let programs: Vec<_> = (0..3).map(|_| Program::start()).collect();
    for prefer in [Prefer::Best, Prefer::Walk] {
        let mut set = Kdamond::open(prefer).unwrap();
        set.begin_with(&Attrs { method: Method::Observed, ..Attrs::default() });
        for (id, program) in (0..).zip(&programs) {
            set.add_target(TargetId(id), program.0.id()).unwrap();
            until(&mut set, "a new target", |set| !regions(set, id).is_empty());
        }
        until(&mut set, "something hot", |set| regions(set, 2).iter().any(|r| r.nr_accesses > 0));
        let ranges: Vec<_> = regions(&mut set, 2).iter().map(|r| r.range).collect();
        set.remove_target(TargetId(0));
        until(&mut set, "one less", |set| {
            regions(set, 0).is_empty() && !regions(set, 2).is_empty()
        });
        let (first, last) = (ranges[0].start, ranges[ranges.len() - 1].end);
        let now = regions(&mut set, 2);
        assert!(now.iter().all(|r| first <= r.range.start && r.range.end <= last), "{prefer:?}");
        assert_eq!(set.take_troubles().join("; "), "", "{prefer:?}");
        assert!(set.share().seen > 0);
    }
}

/// Somebody turns it off: it is started again, and that is said.
#[test]
fn survives_being_turned_off() {
    if !in_lab("survives_being_turned_off") {
        return;
    }
    let program = Program::start();
    let mut set = Kdamond::open(Prefer::Best).unwrap();
    set.add_target(TargetId(0), program.0.id()).unwrap();
    until(&mut set, "a window", |set| !regions(set, 0).is_empty());
    let ours = (0..nr_kdamonds()).find(|i| {
        std::fs::read_to_string(format!("{ADMIN}/{i}/state")).is_ok_and(|s| s.trim() == "on")
    });
    std::fs::write(format!("{ADMIN}/{}/state", ours.unwrap()), "off").unwrap();
    let mut said = Vec::new();
    until(&mut set, "another start", |set| {
        said.extend(set.take_troubles());
        said.iter().any(|t| t.contains("started again"))
    });
    until(&mut set, "a window again", |set| !regions(set, 0).is_empty());
}

/// The whole monitor over it: snapshots with hot and cold memory, until the target ends.
#[test]
fn a_monitor_runs_on_it() {
    if !in_lab("a_monitor_runs_on_it") {
        return;
    }
    let mut program = Some(Program::start());
    let pid = program.as_ref().map(|p| p.0.id()).unwrap();
    let tracker = Tracker::attach(&[pid], true).unwrap();
    let ops = choose(Some(SetName::Kdamond)).unwrap().ops;
    let mut monitor = Monitor::new(tracker, ops, Attrs::default(), 1).unwrap();
    let (start, mut hot, mut cold) = (Instant::now(), false, false);
    while start.elapsed() < Duration::from_secs(90) {
        match monitor.next() {
            Happened::Snapshot => {
                let regions = monitor.snapshot().targets.iter().flat_map(|t| &t.regions);
                for r in regions {
                    hot |= r.nr_accesses > monitor.snapshot().max_nr_accesses / 4;
                    cold |= r.nr_accesses == 0 && r.age > 3;
                }
                if hot && cold {
                    program = None;
                }
            }
            Happened::Failed(why) => panic!("{why}"),
            Happened::Stopped => break,
            _ => {}
        }
    }
    assert!(hot && cold && program.is_none(), "hot {hot}, cold {cold}");
    drop(monitor);
    let states = (0..nr_kdamonds()).map(|i| std::fs::read_to_string(format!("{ADMIN}/{i}/state")));
    assert!(states.flatten().all(|s| s.trim() == "off"));
}
