//! A record as a view: what was recorded shows at its time, forwards and backwards.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use std::time::Duration;

use isotherm::Monitor;
use isotherm::doctor::Method;
use isotherm::raw::record::Record;
use isotherm::record::Recorder;
use isotherm::sim::Workload;
use isotherm_top::{Feed, Replay, Start, Travel, batch};

/// A simulated workload that moves its hot memory every few seconds, as a record.
fn record(method: Method) -> Record {
    let workload = Workload::shipped("phase-change").unwrap().lasting(Duration::from_secs(30));
    let mut monitor = Monitor::builder().sim(workload).method(method).seed(3).build().unwrap();
    let mut recorder = Recorder::new(Vec::new(), &monitor).unwrap();
    while let Some(snapshot) = monitor.next_snapshot().unwrap() {
        recorder.push(&snapshot).unwrap();
    }
    let (bytes, _) = recorder.finish("the end").unwrap();
    Record::from_bytes(bytes).unwrap()
}

/// The table at this time, as text.
fn at(replay: &mut Replay, s: u64) -> String {
    replay.travel(Travel::Pause);
    replay.travel(Travel::To(Duration::from_secs(s)));
    let world = replay.next(Duration::ZERO).unwrap().expect("a traveller arrives somewhere");
    let mut out = Vec::new();
    batch(world, &Start::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn going_back_shows_what_was_there_before() {
    let mut replay = Replay::open(record(Method::Census)).unwrap();
    let [early, late] = [5, 25].map(|s| at(&mut replay, s));
    assert!(early.contains("at 0:05.0 of 0:30") && late.contains("at 0:25.0"), "{early}{late}");
    assert!(late.contains("record of"), "{late}");
    let rows = |text: &str| text.lines().skip(4).map(str::to_owned).collect::<Vec<_>>();
    assert!(!rows(&early).is_empty() && rows(&early) != rows(&late), "{early}{late}");
    assert_eq!(at(&mut replay, 5), early, "the past does not change");
    assert_eq!(at(&mut replay, 25), late);
    // Beyond the end is the end.
    assert!(at(&mut replay, 9999).contains("at 0:30.0"));
}

#[test]
fn working_sets_are_those_of_the_record() {
    let mut replay = Replay::open(record(Method::Census)).unwrap();
    let text = at(&mut replay, 25);
    let row = text.lines().nth(4).unwrap();
    // RSS, 1s, 10s and 1m: what was not measured for a minute is not told.
    let fields: Vec<_> = row.split_whitespace().collect();
    assert!(fields[3].ends_with('M') && fields[4].ends_with('M'), "{text}");
    assert_eq!(fields[5], "-", "{text}");
}

#[test]
fn a_record_of_regions_has_bars_and_no_working_sets() {
    let mut replay = Replay::open(record(Method::FirstTouch)).unwrap();
    let text = at(&mut replay, 20);
    let row = text.lines().nth(4).unwrap();
    assert!(row.contains('#') && row.contains('+'), "{text}");
    assert!(row.contains(" - "), "{text}");
}

#[test]
fn a_record_without_a_snapshot_says_so() {
    let workload = Workload::shipped("stairs").unwrap().lasting(Duration::from_secs(1));
    let monitor = Monitor::builder().sim(workload).build().unwrap();
    let (bytes, _) = Recorder::new(Vec::new(), &monitor).unwrap().finish("nothing").unwrap();
    let why = Replay::open(Record::from_bytes(bytes).unwrap()).err().unwrap();
    assert!(why.to_string().contains("no snapshot"), "{why}");
}
