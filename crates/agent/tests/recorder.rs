//! The recorder as a library, over a real process and the set that needs no privileges.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use isotherm_agent::monitor::Monitor;
use isotherm_agent::recorder::{Event, Recorder, Step};
use isotherm_core::Attrs;
use isotherm_ops::doctor;
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Tracker;
use isotherm_record::{Event as Recorded, Record};

/// A monitor of a process that sleeps; both end with the monitor.
fn monitor() -> Monitor {
    let tracker = Tracker::spawn("sleep", &["300".into()], true).unwrap();
    let set = doctor::choose(Some(SetName::Smaps)).unwrap().ops;
    let attrs = Attrs { sample_us: 100_000, aggr_us: 200_000, ..Attrs::default() };
    let mut monitor = Monitor::new(tracker, set, attrs, 7).unwrap();
    monitor.tracker().start().unwrap();
    monitor
}

/// Records until this many windows are over.
fn windows(recorder: &mut Recorder, monitor: &mut Monitor, wanted: usize) {
    let mut seen = 0;
    while seen < wanted {
        match recorder.step(monitor) {
            Step::Window => seen += 1,
            Step::Quiet => {}
            step => panic!("{step:?} after {seen} windows"),
        }
    }
}

fn end(mut monitor: Monitor) {
    isotherm_agent::run::end_command(&mut monitor).unwrap();
}

#[test]
fn what_was_seen_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.data");
    fs::write(&path, "old").unwrap();
    let mut monitor = monitor();
    let mut recorder =
        Recorder::builder(&path).command(["a", "test"]).create(&mut monitor).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old", "until it is kept");
    recorder.keep().unwrap();
    recorder.note("from the test");
    windows(&mut recorder, &mut monitor, 3);
    let summary = recorder.finish(&mut monitor, "enough").unwrap();
    end(monitor);
    assert!(summary.events.is_empty() && summary.failed_writes == 0, "{summary:?}");
    assert_eq!(fs::read(dir.path().join("r.data.old")).unwrap(), b"old");
    let record = Record::open(&path).unwrap();
    assert_eq!(record.header().command, ["a", "test"]);
    assert_eq!(record.header().ops, "smaps");
    let (mut snapshots, mut mappings, mut notes, mut end) = (0, 0, Vec::new(), String::new());
    let mut objects = 0;
    let mut reader = record.reader().unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Recorded::Snapshot(_) => snapshots += 1,
            Recorded::Mappings { mappings: all, .. } => {
                assert!(mappings > 0 || snapshots == 0, "memory has a name from the beginning");
                mappings += 1;
                objects += all.iter().filter(|m| m.shared_object().is_some()).count();
            }
            Recorded::Note(note) => notes.push(note.text.clone()),
            Recorded::End(said) => end.clone_from(&said.reason),
            _ => {}
        }
    }
    assert_eq!((snapshots, end.as_str()), (summary.written.snapshots, "enough"));
    assert!(snapshots >= 3 && mappings > 0, "{snapshots} snapshots, {mappings} mappings");
    assert!(objects > 0, "a program's text is shared with others that run it");
    assert!(notes.iter().any(|note| note == "from the test"), "{notes:?}");
}

#[test]
fn a_record_that_is_not_kept_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.data");
    let mut monitor = monitor();
    for old in [None, Some("old")] {
        if let Some(text) = old {
            fs::write(&path, text).unwrap();
        }
        drop(Recorder::builder(&path).create(&mut monitor).unwrap());
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), old);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), usize::from(old.is_some()));
    }
    end(monitor);
}

/// A pipe whose reader goes away takes nothing more.
#[test]
fn writes_that_fail_are_counted_and_told_once_and_the_monitor_runs_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let open = |path: &Path| {
        let path = path.to_owned();
        std::thread::spawn(move || File::open(path).unwrap())
    };
    let reader = open(&path);
    let mut monitor = monitor();
    let mut recorder = Recorder::builder(&path).create(&mut monitor).unwrap();
    recorder.keep().unwrap();
    drop(reader.join().unwrap());
    // Snapshots are written once a second, which is five windows.
    windows(&mut recorder, &mut monitor, 12);
    assert!(recorder.failed_writes() > 1, "{}", recorder.failed_writes());
    let events = recorder.take_events();
    let lost = events.iter().filter(|event| matches!(event, Event::Lost(_))).count();
    assert_eq!(lost, 1, "{events:?}");
    assert!(recorder.finish(&mut monitor, "enough").is_err(), "the end is lost, too");
    end(monitor);
}
