//! The whole library over a simulated workload: the same calls as over a real process.

use std::time::Duration;

use isotherm::record::{Event as Recorded, Record, Recorder};
use isotherm::scheme::{Filter, Goal, Quota, Watermarks};
use isotherm::sim::Workload;
use isotherm::{Bytes, ErrorKind, Event, Monitor, Scheme};

const S: fn(u64) -> Duration = Duration::from_secs;

/// 64 MiB of which 16 stay in use; after 10 s the last 8 MiB as well, for 5 s.
const TEXT: &str = "\
heap, 48M\nlate, 16M\n
quiet\n10000\nheap, 1, 64, 1, length=16M, rate=100000\n
busy\n5000\nheap, 1, 64, 1, length=16M, rate=100000\nlate, 1, 64, 1, offset=8M, rate=100000\n";

fn monitor() -> Monitor {
    let workload = Workload::parse(TEXT).expect("a workload");
    Monitor::builder().sim(workload).seed(3).build().expect("a monitor")
}

fn run(monitor: &mut Monitor) -> u64 {
    let mut windows = 0;
    while monitor.next_snapshot().expect("a simulation cannot fail").is_some() {
        windows += 1;
    }
    windows
}

#[test]
fn the_working_set_has_its_truth_in_the_error_bar() {
    let mut monitor = monitor();
    let (mut sure, mut windows) = (0, 0);
    while let Some(snapshot) = monitor.next_snapshot().unwrap() {
        if S(4) < snapshot.start() && snapshot.end() < S(10) {
            let set = snapshot.working_set_by_regions();
            windows += 1;
            sure += u32::from(set.low <= Bytes::mib(16) && Bytes::mib(16) <= set.high);
            assert!(set.mapped <= Bytes::mib(65), "{set}");
            let by_region: Bytes = snapshot
                .targets()
                .flat_map(|t| t.regions())
                .filter(|r| r.access().is_some_and(|a| a.share > 0.0))
                .map(|r| r.size())
                .sum();
            assert_eq!(by_region, set.size);
        }
    }
    assert!(sure * 10 >= windows * 8, "{sure} of {windows} windows");
}

#[test]
fn a_scheme_counts_what_it_asked_for_and_what_came_back() {
    let mut monitor = monitor();
    let idle = Scheme::pageout().idle_for(S(2)).without_brake();
    monitor.add_scheme(idle.quota(Quota::unlimited())).unwrap();
    monitor.add_scheme(Scheme::stat()).unwrap();
    run(&mut monitor);
    let accounts = monitor.schemes();
    let pageout = &accounts[0];
    assert!(pageout.dry_run, "a simulation takes nothing away");
    assert!(pageout.done >= Bytes::mib(44) && pageout.done <= Bytes::mib(52), "{pageout}");
    assert_eq!(pageout.done, pageout.asked);
    let (low, high) = (Bytes::mib(7), Bytes::mib(9));
    assert!(low < pageout.refaulted && pageout.refaulted < high, "{pageout}");
    assert!(accounts[1].tried > Bytes::mib(64), "{}", accounts[1]);
}

#[test]
fn a_quota_and_a_filter_hold() {
    let mut monitor = monitor();
    let quota = Quota::per(S(1)).bytes(Bytes::kib(512));
    let late = Scheme::pageout().idle_for(S(2)).reject(!Filter::mapping("late")).quota(quota);
    monitor.add_scheme(late.name("late only")).unwrap();
    monitor.add_scheme(Scheme::pageout().idle_for(S(2)).reject(Filter::anonymous())).unwrap();
    run(&mut monitor);
    let accounts = monitor.schemes();
    let late = &accounts[0];
    assert!(late.done > Bytes::mib(2) && late.done <= Bytes::mib(7), "{late}");
    assert!(late.quota_exceeded > 0);
    assert_eq!((accounts[1].name.as_str(), accounts[1].done), ("pageout", Bytes(0)));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let accounts = || {
        let mut monitor = monitor();
        monitor.add_scheme(Scheme::cold().idle_for(S(1))).unwrap();
        let windows = run(&mut monitor);
        (windows, monitor.schemes())
    };
    assert_eq!(accounts(), accounts());
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut monitor = monitor();
    monitor.add_scheme(Scheme::stat().name("mine")).unwrap();
    for (scheme, what) in [
        (Scheme::cold().name("mine"), "there is a scheme `mine` already"),
        (Scheme::cold().size(Bytes(9)..Bytes(9)), "scheme `cold` makes no sense"),
        (Scheme::migrate_cold([]), "scheme `migrate_cold` makes no sense"),
        (
            Scheme::cold().watermarks(Watermarks::free_memory(0.1, 0.2, 0.3)),
            "scheme `cold` makes no sense",
        ),
    ] {
        let error = monitor.add_scheme(scheme).unwrap_err();
        assert_eq!((error.kind(), error.what()), (ErrorKind::Invalid, what));
        assert!(!error.why().is_empty(), "{error}");
    }
    let goal = Quota::per(S(1)).goal(Goal::node_free(0, 0.1));
    monitor.add_scheme(Scheme::cold().quota(goal)).unwrap();
    monitor.add_scheme(Scheme::cold()).unwrap();
    let names: Vec<_> = monitor.schemes().into_iter().map(|a| a.name).collect();
    assert_eq!(names, ["mine", "cold", "cold 2"]);
}

#[test]
fn targets_come_and_go() {
    let workload = Workload::shipped("fork-tree").unwrap().lasting(S(8));
    let mut monitor = Monitor::builder().sim(workload).build().unwrap();
    let mut most = 0;
    while let Some(snapshot) = monitor.next_snapshot().unwrap() {
        most = most.max(snapshot.targets().count());
    }
    let events = monitor.take_events();
    let added = events.iter().filter(|e| matches!(e, Event::Added(_))).count();
    assert!(most > 1 && most <= added, "{most} at once of {added}");
    assert_eq!(monitor.take_events(), []);
}

#[test]
fn a_record_holds_what_was_pushed() {
    let mut monitor = monitor();
    let mut recorder = Recorder::new(Vec::new(), &monitor).unwrap();
    let mut sets = Vec::new();
    while let Some(snapshot) = monitor.next_snapshot().unwrap() {
        recorder.push(&snapshot).unwrap();
        sets.push(snapshot.raw().working_set());
    }
    let (bytes, written) = recorder.finish("over").unwrap();
    assert_eq!(written.snapshots, 150);
    let record = Record::from_bytes(bytes).unwrap();
    assert_eq!((record.header().ops.as_str(), record.header().attrs.sample_us), ("sim", 5_000));
    let mut reader = record.reader().unwrap();
    let (mut read, mut targets, mut mappings) = (Vec::new(), 0, 0);
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Recorded::Snapshot(snapshot) => read.push(snapshot.working_set()),
            Recorded::Target(_) => targets += 1,
            Recorded::Mappings { .. } => mappings += 1,
            _ => {}
        }
    }
    assert_eq!(read, sets);
    assert_eq!((targets, mappings, reader.ended()), (1, 1, true));
}

#[test]
fn a_stopper_ends_the_run() {
    let mut monitor = monitor();
    let stopper = monitor.stopper();
    assert!(monitor.next_snapshot().unwrap().is_some());
    stopper.stop();
    assert!(monitor.next_snapshot().unwrap().is_none());
}
