//! Records that are empty or damaged, and filters that nothing passes.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

mod common;

use common::{T0, record, snapshot, writer};
use isotherm_core::Time;
use isotherm_record::{Exit, Record};
use isotherm_report::heatmap::{Heatmap, Options, Style};
use isotherm_report::{Error, Filter, ages, mappings, regions, wss};

/// Every report gives this error for the record.
fn complaints(record: &Record, filter: &Filter) -> Vec<String> {
    let mut sink = Vec::new();
    let results: Vec<Result<(), Error>> = vec![
        regions::text(record, filter, &mut sink),
        regions::json(record, filter, &mut sink),
        wss::Report::build(record, filter).map(drop),
        mappings::Report::build(record, filter).map(drop),
        ages::Report::build(record, filter).map(drop),
        Heatmap::build(record, filter, &Options::for_text(80)).map(drop),
    ];
    assert!(sink.is_empty());
    results.into_iter().map(|r| r.unwrap_err().to_string()).collect()
}

#[test]
fn nothing_to_report_says_why() {
    let empty = |exits: bool, ends: bool| {
        let mut w = writer();
        if exits {
            w.exit(&Exit { id: 0, status: Some(0), t_ns: T0 }).unwrap();
        }
        let (mut bytes, _) = w.finish(Time(T0), "every target exited").unwrap();
        if !ends {
            bytes.truncate(bytes.len() - 1);
        }
        Record::from_bytes(bytes).unwrap()
    };
    let nobody = Filter { targets: vec!["nobody".into()], ..Filter::default() };
    let late = Filter { time: Some((60_000_000_000, u64::MAX)), ..Filter::default() };
    for (record, filter, why, hint) in [
        (
            empty(true, true),
            Filter::default(),
            "the record holds no snapshot; recording ended with: every target exited",
            "a target must live for at least one aggregation interval; a shorter --aggr helps",
        ),
        (
            empty(false, false),
            Filter::default(),
            "the record holds no snapshot; its recorder was killed within the first second",
            "record for longer",
        ),
        (
            record(),
            nobody,
            "no target is called nobody; the record holds database (pid 4711), cat<&> (pid 4712)",
            "widen --time, --address or --target",
        ),
        (
            record(),
            late,
            "none of the 60 snapshots is inside the filter; the record holds database (pid 4711), \
             cat<&> (pid 4712)",
            "widen --time, --address or --target",
        ),
    ] {
        for got in complaints(&record, &filter) {
            assert_eq!(got, format!("there is nothing to report\n  why:   {why}\n  hint:  {hint}"));
        }
    }
}

#[test]
fn damage_is_told_and_the_rest_reported() {
    let mut w = writer();
    (0..40).for_each(|n| w.push_snapshot(&snapshot(n)).unwrap());
    let (mut bytes, _) = w.finish(Time(T0), "interrupted").unwrap();
    bytes.truncate(bytes.len() - 3);
    let record = Record::from_bytes(bytes).unwrap();
    let everything = Filter::default();
    let mut text = Vec::new();
    regions::text(&record, &everything, &mut text).unwrap();
    let heatmap = Heatmap::build(&record, &everything, &Options::for_text(80)).unwrap();
    for text in [
        String::from_utf8(text).unwrap(),
        wss::Report::build(&record, &everything).unwrap().to_text(wss::Order::Size),
        mappings::Report::build(&record, &everything).unwrap().to_text(),
        ages::Report::build(&record, &everything).unwrap().to_text(),
        heatmap.to_text(&Style::default()),
    ] {
        assert!(text.contains("note: torn tail: the last "), "{text}");
    }
}

/// A reader of a pipe that closes it is no failure, so the error has no hint.
#[test]
fn a_closed_pipe_is_known_as_such() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for result in [
        regions::json(&record(), &Filter::default(), Closed),
        regions::text(&record(), &Filter::default(), Closed),
    ] {
        assert!(matches!(result, Err(Error::Record(e)) if e.is_broken_pipe()));
    }
}
