//! Windows that came late, because the recorder was stopped or not scheduled.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{HEAP, T0, snapshot, writer};
use isotherm_core::Time;
use isotherm_record::Record;
use isotherm_report::heatmap::{Cell, Color, Heatmap, Options, Style};
use isotherm_report::{Filter, ages, wss};

const MS: u64 = 1_000_000;

/// Twenty windows of 100 ms, of which the eleventh took `took_ms`.
fn record(took_ms: u64) -> Record {
    record_with_note(took_ms, None)
}

/// The same, and what its recorder said at the end.
fn record_with_note(took_ms: u64, note: Option<&str>) -> Record {
    let mut w = writer();
    let later = (took_ms - 100) * MS;
    for n in 0..20 {
        let mut window = snapshot(n);
        window.targets.truncate(1);
        if n > 10 {
            window.start = Time(window.start.0 + later);
        }
        if n >= 10 {
            window.end = Time(window.end.0 + later);
        }
        w.push_snapshot(&window).unwrap();
    }
    let end = Time(T0 + 2_000 * MS + later);
    note.into_iter().for_each(|text| w.note(end, text).unwrap());
    let (bytes, _) = w.finish(end, "interrupted").unwrap();
    Record::from_bytes(bytes).unwrap()
}

fn heatmap(record: &Record) -> Heatmap {
    let options = Options { columns: 24, ..Options::for_text(100) };
    Heatmap::build(record, &Filter::default(), &options).unwrap()
}

#[test]
fn a_gap_is_drawn_as_a_gap() {
    // 1 s, then a window of 10 s, then 0.9 s: half a second per column.
    let heatmap = heatmap(&record(10_000));
    let row = heatmap.panels[0].rows.iter().find(|row| row.range.start == HEAP).unwrap();
    let is_hot = |cell: &Cell| matches!(cell, Cell::Rate(rate) if *rate > 0.9);
    assert!(row.cells[..2].iter().all(is_hot), "before: {:?}", row.cells);
    assert!(row.cells[3..21].iter().all(|c| *c == Cell::Unresolved), "in it: {:?}", row.cells);
    assert!(row.cells[23..].iter().all(is_hot), "after: {:?}", row.cells);
    let text = heatmap.to_text(&Style { color: Color::None });
    assert!(text.contains("note: 1 of 20 windows took at least twice as long"), "{text}");
}

#[test]
fn what_the_recorder_said_as_well_is_a_warning_once() {
    let warnings = |record: &Record| {
        isotherm_report::summary::Report::build(record, &Filter::default()).unwrap().warnings()
    };
    let alone = warnings(&record(10_000));
    let late = alone.iter().find(|w| w.contains("1 of 20 windows")).unwrap();
    assert_eq!(warnings(&record_with_note(10_000, Some(late))), alone);
    let other = warnings(&record_with_note(10_000, Some("something else")));
    assert_eq!(other.len(), alone.len() + 1, "{other:?}");
}

#[test]
fn windows_in_time_have_no_gap() {
    let heatmap = heatmap(&record(150));
    let cells = heatmap.panels[0].rows.iter().flat_map(|row| &row.cells);
    assert_eq!(cells.filter(|cell| **cell == Cell::Unresolved).count(), 0);
    assert!(heatmap.damage.is_empty(), "{}", heatmap.damage);
}

#[test]
fn ages_are_as_long_as_the_windows_were() {
    let report = ages::Report::build(&record(10_000), &Filter::default()).unwrap();
    let bytes = |idle_ms| report.classes.iter().find(|c| c.idle_ms == idle_ms).unwrap().bytes;
    // 72 MiB were idle for 19 windows, which took 11.8 s, and the file for as long.
    assert_eq!((bytes(1_000), bytes(10_000)), (0, (24 + 16 + 48) << 20), "{report:#?}");
    assert!(report.to_text().contains("note: 1 of 20 windows"), "{}", report.to_text());
    let report = wss::Report::build(&record(10_000), &Filter::default());
    assert!(report.unwrap().damage.contains("were not watched"));
}

#[test]
fn a_suspend_is_told_though_no_window_shows_it() {
    let mut w = writer();
    for n in 0..20 {
        let mut window = snapshot(n);
        window.targets.truncate(1);
        w.push_snapshot(&window).unwrap();
        if n == 10 {
            w.suspended(window.end, 3_600_000 * MS).unwrap();
        }
    }
    let (bytes, _) = w.finish(Time(T0 + 2_000 * MS), "interrupted").unwrap();
    let record = Record::from_bytes(bytes).unwrap();
    let report = ages::Report::build(&record, &Filter::default()).unwrap();
    let bytes = |idle_ms| report.classes.iter().find(|c| c.idle_ms == idle_ms).unwrap().bytes;
    // The machine was suspended for an hour, and nothing was touched meanwhile.
    assert_eq!((bytes(1_000), bytes(3_600_000)), (0, (24 + 16 + 48) << 20), "{report:#?}");
    let text = report.to_text();
    assert!(text.contains("1 of 20 windows") && text.contains("suspended for 60.0 min"), "{text}");
    let page = isotherm_report::summary::Report::build(&record, &Filter::default()).unwrap();
    assert!(page.warnings().iter().any(|w| w.contains("suspended for 60.0 min")), "{page:?}");
    // Only what is shown counts.
    let filter = Filter { time: Some((0, 500 * MS)), ..Filter::default() };
    let report = ages::Report::build(&record, &filter).unwrap();
    assert!(!report.to_text().contains("suspended"), "{}", report.to_text());
}
