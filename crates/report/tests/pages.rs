//! Reports on records with page maps.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use expect_test::expect;
use isotherm_core::unit::UNIT;
use isotherm_core::{
    AddrRange, PageBits, RegionInfo, Snapshot, TargetId, TargetInfo, Time, Touched, TouchedBytes,
    UnitInfo,
};
use isotherm_record::{Exec, Header, Mapping, Record, Target, Writer};
use isotherm_report::heatmap::{Cell, Heatmap, Options};
use isotherm_report::{Filter, mappings, pages, wss};

const T0: u64 = 5_000_000_000;
const WINDOW: u64 = 100_000_000;
const PAGE: u64 = 4096;
const HEAP: u64 = 0x5555_5540_0000;
const STACK: u64 = 0x7ffd_0000_0000;

/// The first pages of a unit.
fn first(nr: u64) -> PageBits {
    PageBits::of(0, AddrRange::new(0, nr * PAGE))
}

/// Units that change in window `n`: the first one of the heap is measured up to 100 ms at once and
/// up to 1 s in window 10, the second one is not touched. Of the stack nothing is told.
fn units(n: u64) -> Vec<UnitInfo> {
    let hot = UnitInfo {
        start: HEAP,
        since: Time(T0),
        present: PageBits::ALL,
        touched: [Some(first(10)), Some(first(64)), None, None, None],
        leaf_shift: 12,
        ..UnitInfo::default()
    };
    let quiet = UnitInfo {
        start: HEAP + UNIT,
        present: first(256),
        unresolved: first(256).minus(first(255)),
        touched: [Some(first(0)), Some(first(0)), Some(first(0)), None, None],
        ..hot
    };
    match n {
        1 => vec![hot],
        5 => vec![quiet],
        10 => {
            let [sample, window, ..] = hot.touched;
            vec![UnitInfo { touched: [sample, window, Some(first(128)), None, None], ..hot }]
        }
        _ => vec![],
    }
}

/// The working set within 5 ms and 100 ms, and from window 10 on within 1 s.
fn touched(n: u64) -> Touched {
    let span = |pages: u64, measured| {
        let (bytes, hi) = (pages * PAGE, (pages + 8) * PAGE);
        Some(TouchedBytes { bytes, lo: (pages - 8) * PAGE, hi, measured })
    };
    let second = if n < 10 { None } else { span(128 + n, 2 * UNIT) };
    let spans = [span(10, 2 * UNIT), span(64 + n, 2 * UNIT), second, None, None];
    Touched { spans, watched: 2 * UNIT + 33 * PAGE }
}

fn snapshot(n: u64) -> Snapshot {
    let region = |start, len, nr_accesses| RegionInfo {
        range: AddrRange::new(start, start + len),
        nr_accesses,
        hi: 20.0,
        resolved: true,
        ..RegionInfo::default()
    };
    let regions = vec![region(HEAP, 2 * UNIT, 1), region(STACK, 33 * PAGE, 20)];
    let touched = (n > 0).then(|| touched(n));
    Snapshot {
        seq: n,
        start: Time(T0 + n * WINDOW),
        end: Time(T0 + (n + 1) * WINDOW),
        sample_us: 5_000,
        aggr_us: 100_000,
        max_nr_accesses: 20,
        targets: vec![TargetInfo { id: TargetId(0), regions, touched, units: units(n) }],
        ..Snapshot::default()
    }
}

/// Twenty windows. `at`: what else to write before which window.
fn record(at: u64, write: impl Fn(&mut Writer<Vec<u8>>)) -> Record {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    w.target(&Target { id: 0, pid: 4711, name: "blocks".into(), ..Target::default() }).unwrap();
    let maps = [
        Mapping::new(HEAP, HEAP + 2 * UNIT, "rw-p", "[heap]"),
        Mapping::new(STACK, STACK + 33 * PAGE, "rw-p", "[stack]"),
    ];
    w.mappings(Time(T0), TargetId(0), &maps).unwrap();
    for n in 0..20 {
        if n == at {
            write(&mut w);
        }
        w.push_snapshot(&snapshot(n)).unwrap();
    }
    Record::from_bytes(w.finish(Time(T0 + 20 * WINDOW), "over").unwrap().0).unwrap()
}

fn plain() -> Record {
    record(0, |_| {})
}

#[test]
fn the_working_set_profile() {
    let report = wss::Report::build(&plain(), &Filter::default()).unwrap();
    expect![[""]].assert_eq(&report.profile_text(wss::Order::Size).unwrap());
    let by_time = report.profile_text(wss::Order::Time).unwrap();
    assert!(by_time.contains("percentiles over windows, by time"), "{by_time}");
    let v: serde_json::Value = serde_json::from_str(&report.to_json(wss::Order::Size)).unwrap();
    let spans = v["pages"]["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 3, "no look has come after 10 s: {v}");
    assert_eq!(spans[1]["span_us"], 100_000);
    assert_eq!(spans[1]["series"].as_array().unwrap().len(), 19);
    assert_eq!(spans[2]["series"].as_array().unwrap().len(), 10);
    assert_eq!(spans[1]["percentiles"][4]["bytes"], (64 + 19) * PAGE);
    assert_eq!(spans[2]["mean"]["watched"], 2 * UNIT + 33 * PAGE);
    // The other definition is there as before.
    assert_eq!(v["percentiles"][2]["bytes"], 2 * UNIT + 33 * PAGE);
}

#[test]
fn a_working_set_of_pages_is_that_of_whole_targets() {
    let address = Some(AddrRange::new(HEAP, HEAP + UNIT));
    let filter = Filter { address, ..Filter::default() };
    let report = wss::Report::build(&plain(), &filter).unwrap();
    assert_eq!(report.profile_text(wss::Order::Size), None);
    assert!(!report.to_json(wss::Order::Size).contains("pages"));
}

#[test]
fn pages_by_mapping() {
    let report = pages::Report::build(&plain(), &Filter::default()).unwrap();
    expect![[""]].assert_eq(&report.to_text());
    expect![[""]].assert_eq(&report.units_text());
    expect![[""]].assert_eq(&report.to_json(true));
    assert!(!report.to_json(false).contains("units"));
}

#[test]
fn a_filter_shows_an_earlier_time_or_some_addresses() {
    let early = Filter { time: Some((0, 10 * WINDOW)), ..Filter::default() };
    let report = pages::Report::build(&plain(), &early).unwrap();
    assert_eq!(report.total.touched[2].bytes, 0, "a second is measured in window 10");
    assert_eq!(report.total.touched[2].measured, 255 * PAGE);
    assert_eq!(report.t_ns, T0 + 10 * WINDOW);
    let address = Some(AddrRange::new(HEAP + 32 * PAGE, HEAP + UNIT));
    let some = Filter { address, ..Filter::default() };
    let report = pages::Report::build(&plain(), &some).unwrap();
    assert_eq!((report.lines.len(), report.units.len()), (1, 1));
    assert_eq!(report.total.mapped, 480 * PAGE);
    assert_eq!(report.total.hot(), 32 * PAGE);
    assert_eq!(report.units[0].unit.touched[1].map(PageBits::count), Some(32));
}

#[test]
fn another_program_has_other_pages() {
    let exec = record(15, |w| w.exec(&Exec { id: 0, name: "sh".into(), t_ns: 0 }).unwrap());
    let before = Filter { time: Some((0, 12 * WINDOW)), ..Filter::default() };
    assert_eq!(pages::Report::build(&exec, &before).unwrap().units.len(), 2);
    let error = pages::Report::build(&exec, &Filter::default());
    // The working sets that follow are those of the new program.
    assert_eq!(error.unwrap().units.len(), 0);
}

#[test]
fn hot_and_cold_pages_of_mappings() {
    let report = mappings::Report::build(&plain(), &Filter::default()).unwrap();
    expect![[""]].assert_eq(&report.to_text());
    let v: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    // Looks came in windows 1 and 11.
    let heap = v["mappings"].as_array().unwrap().iter().find(|m| m["name"] == "[heap]").unwrap();
    assert_eq!(heap["pages"]["hot"], 64 * PAGE);
    assert_eq!(heap["pages"]["cold"], (512 - 128 + 255) * PAGE / 2);
    assert_eq!(heap["pages"]["present"], (512 + 256 / 2) * PAGE);
}

#[test]
fn a_record_without_page_maps_says_so() {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    let targets = vec![TargetInfo::default()];
    w.push_snapshot(&Snapshot { targets, ..Snapshot::default() }).unwrap();
    let record = Record::from_bytes(w.finish(Time(T0), "over").unwrap().0).unwrap();
    let error = pages::Report::build(&record, &Filter::default()).unwrap_err().to_string();
    assert!(error.contains("no page maps") && error.contains("--method census"), "{error}");
}

#[test]
fn a_zoomed_heatmap_shows_pages() {
    let rates = |pages: u64, rows: usize| {
        let address = Some(AddrRange::new(HEAP, HEAP + pages * PAGE));
        let filter = Filter { time: Some((WINDOW, 20 * WINDOW)), address, ..Filter::default() };
        let options = Options { columns: 1, rows, min_rows: 1, all_targets: false };
        let map = Heatmap::build(&plain(), &filter, &options).unwrap();
        let rate = |cell: &Cell| if let Cell::Rate(rate) = cell { *rate } else { -1.0 };
        map.panels[0].rows.iter().map(|row| rate(&row.cells[0])).collect::<Vec<_>>()
    };
    let close = |got: &[f32], want: &[f32]| {
        got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-4)
    };
    // Ten pages are touched in every sample, and up to page 64 those touched once per window.
    let once = 1.0 / 20.0;
    let second = (2.0 + 6.0 * once) / 8.0;
    let got = rates(64, 8);
    assert!(close(&got, &[1.0, second, once, once, once, once, once, once]), "{got:?}");
    // Rows of 2 MiB and more are those of the regions.
    let got = rates(2 * 512, 2);
    assert!(close(&got, &[once; 2]), "{got:?}");
}
