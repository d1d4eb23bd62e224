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
use isotherm_report::{Filter, ages, mappings, pages, summary, wss};

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
    expect![[r#"
        working set of blocks (pid 4711) by pages: 20 snapshots
        touched within             p0          p25          p50          p75         p100         mean   90 % interval of the mean  measured
        5ms                0.0391 MiB   0.0391 MiB   0.0391 MiB   0.0391 MiB   0.0391 MiB   0.0391 MiB   0.00781 MiB .. 0.0703 MiB    96.9 %
        100ms               0.254 MiB    0.273 MiB    0.289 MiB    0.309 MiB    0.324 MiB    0.289 MiB   0.258 MiB .. 0.320 MiB       96.9 %
        1s                  0.539 MiB    0.547 MiB    0.559 MiB    0.566 MiB    0.574 MiB    0.557 MiB   0.525 MiB .. 0.588 MiB       96.9 %
        percentiles over windows, by size; a page counts as touched within a span if it was accessed at least once in it
        at the end, half of the pages had been made old in the last 2.00 s, and the oldest 2.00 s ago
    "#]].assert_eq(&report.profile_text(wss::Order::Size).unwrap());
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
fn what_others_hide_is_told_with_the_working_set() {
    let report = |text: &str| {
        let record = record(3, |w| w.note(Time(T0), text).unwrap());
        let report = wss::Report::build(&record, &Filter::default()).unwrap();
        report.profile_text(wss::Order::Size).unwrap()
    };
    let told = report("others clear accessed bits here: 9 per GiB and second (reclaim?)");
    let note = "note: others clear accessed bits here: 9 per GiB and second (reclaim?)\n";
    assert!(told.ends_with(note), "{told}");
    assert!(!report("peak rss 5 bytes").contains("note"));
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
    expect![[r#"
        pages of blocks (pid 4711) at 2.00 s: bytes that were touched within each span
              mapped      present          5ms         100ms            1s           10s          1min    unresolved not measured          made old  mapping
            4.00 MiB     3.00 MiB   0.0391 MiB     0.250 MiB     0.500 MiB             -             -   0.00391 MiB        0 MiB    2.00 s, 2.00 s  heap [heap]
           0.129 MiB        0 MiB            -             -             -             -             -         0 MiB    0.129 MiB                 -  stack [stack]
            4.13 MiB     3.00 MiB   0.0391 MiB     0.250 MiB     0.500 MiB             -             -   0.00391 MiB    0.129 MiB    2.00 s, 2.00 s  all
        made old: how long ago, of half of the pages at most, and of the oldest; spans begin then
    "#]].assert_eq(&report.to_text());
    expect![[r#"
        pages of blocks (pid 4711) at 2.00 s: pages of each 2 MiB that were touched within each span
                     start  present      5ms    100ms       1s      10s     1min unresolved                 idle  mapping
            0x555555400000      512       10       64      128        -        -          0          0 .. 2.00 s  [heap]
            0x555555600000      256        0        0        0        -        -          1               2.00 s  [heap]
        idle: for how long the 64 KiB that were touched last, and those untouched for longest, are idle (JSON has all)
    "#]]
    .assert_eq(&report.units_text());
    expect![[r#"{"schema_version":1,"target":"blocks (pid 4711)","t_ns":7000000000,"mappings":[{"target":"blocks","pid":4711,"kind":"heap","name":"[heap]","mapped":4194304,"present":3145728,"unresolved":4096,"not_measured":0,"cold":2617344,"age_median_ns":2000000000,"age_oldest_ns":2000000000,"touched":[{"span_us":5000,"bytes":40960,"measured":3141632},{"span_us":100000,"bytes":262144,"measured":3141632},{"span_us":1000000,"bytes":524288,"measured":3141632},{"span_us":10000000,"bytes":0,"measured":0},{"span_us":60000000,"bytes":0,"measured":0}]},{"target":"blocks","pid":4711,"kind":"stack","name":"[stack]","mapped":135168,"present":0,"unresolved":0,"not_measured":135168,"cold":0,"age_median_ns":null,"age_oldest_ns":null,"touched":[{"span_us":5000,"bytes":0,"measured":0},{"span_us":100000,"bytes":0,"measured":0},{"span_us":1000000,"bytes":0,"measured":0},{"span_us":10000000,"bytes":0,"measured":0},{"span_us":60000000,"bytes":0,"measured":0}]}],"total":{"mapped":4329472,"present":3145728,"unresolved":4096,"not_measured":135168,"cold":2617344,"age_median_ns":2000000000,"age_oldest_ns":2000000000,"touched":[{"span_us":5000,"bytes":40960,"measured":3141632},{"span_us":100000,"bytes":262144,"measured":3141632},{"span_us":1000000,"bytes":524288,"measured":3141632},{"span_us":10000000,"bytes":0,"measured":0},{"span_us":60000000,"bytes":0,"measured":0}]},"units":[{"target":"blocks","pid":4711,"mapping":"[heap]","start":93824990838784,"since_ns":5000000000,"leaf_shift":12,"nr_present":512,"nr_unresolved":0,"touched":[{"span_us":5000,"nr_pages":10},{"span_us":100000,"nr_pages":64},{"span_us":1000000,"nr_pages":128},{"span_us":10000000,"nr_pages":null},{"span_us":60000000,"nr_pages":null}],"idle_ms":[0,0,0,0,316,316,316,316,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000]},{"target":"blocks","pid":4711,"mapping":"[heap]","start":93824992935936,"since_ns":5000000000,"leaf_shift":12,"nr_present":256,"nr_unresolved":1,"touched":[{"span_us":5000,"nr_pages":0},{"span_us":100000,"nr_pages":0},{"span_us":1000000,"nr_pages":0},{"span_us":10000000,"nr_pages":null},{"span_us":60000000,"nr_pages":null}],"idle_ms":[2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null]}]}"#]].assert_eq(&report.to_json(true));
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
    expect![[r#"
        mappings of blocks (pid 4711): means over time
                 hot         warm         cold   unresolved     rate     hot pages   cold pages  mapping
               0 MiB    0.562 MiB     3.44 MiB        0 MiB    5.1 %     0.250 MiB     1.25 MiB  heap [heap]
           0.129 MiB        0 MiB        0 MiB        0 MiB  100.0 %         0 MiB        0 MiB  stack [stack]
        by kind:
               0 MiB    0.562 MiB     3.44 MiB        0 MiB    5.1 %     0.250 MiB     1.25 MiB  heap
           0.129 MiB        0 MiB        0 MiB        0 MiB  100.0 %         0 MiB        0 MiB  stack
    "#]].assert_eq(&report.to_text());
    let v: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    // Looks came in windows 1 and 11.
    let heap = v["mappings"].as_array().unwrap().iter().find(|m| m["name"] == "[heap]").unwrap();
    assert_eq!(heap["pages"]["hot"], 64 * PAGE);
    assert_eq!(heap["pages"]["cold"], (512 - 128 + 255) * PAGE / 2);
    assert_eq!(heap["pages"]["present"], (512 + 256 / 2) * PAGE);
}

/// Two processes map 8 MiB of which the first unit is full in one, the second half full in the
/// other, and the third empty in both; of the fourth no page map tells. Nothing is touched.
#[test]
fn what_was_never_filled_is_absent_and_never_cold() {
    const SHARED: u64 = 0x7f00_0000_0000;
    let object = isotherm_record::Object { device: 1, inode: 9, offset: 0 };
    let range = AddrRange::new(SHARED, SHARED + 4 * UNIT);
    let lines = |perms: &str, nr: u32, nr_accesses: u32| {
        let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
        let unit = |nr, pages| UnitInfo {
            start: SHARED + nr * UNIT,
            present: first(pages),
            ..UnitInfo::default()
        };
        let of = |id| {
            let filled = if id == 0 { [512, 0, 0] } else { [0, 256, 0] };
            let units = (0..).zip(filled).map(|(nr, pages)| unit(nr, pages)).collect();
            let region = RegionInfo { range, nr_accesses, resolved: true, ..RegionInfo::default() };
            TargetInfo { id: TargetId(id), regions: vec![region], touched: None, units }
        };
        for id in 0..nr {
            let target = Target { id, pid: 100 + id, name: "p".into(), ..Target::default() };
            w.target(&target).unwrap();
            let map = Mapping::new(range.start, range.end, perms, "/x").of_object(object);
            w.mappings(Time(T0), TargetId(id), &[map]).unwrap();
        }
        let targets = (0..nr).map(of).collect();
        w.push_snapshot(&Snapshot { targets, ..snapshot(0) }).unwrap();
        let record = w.finish(Time(T0 + WINDOW), "over").unwrap().0;
        mappings::Report::build(&Record::from_bytes(record).unwrap(), &Filter::default()).unwrap()
    };
    let bytes = |report: &mappings::Report| -> Vec<_> {
        let heats = report.lines.iter().map(|l| l.heat);
        let heats = heats.chain(report.kinds.iter().map(|(_, heat, _)| *heat));
        heats.map(|h| (h.cold / UNIT as f64, h.absent / UNIT as f64, h.hot + h.warm)).collect()
    };
    let shared = lines("rw-s", 2, 0);
    let one = (2.5, 1.5, 0.0);
    assert_eq!(bytes(&shared), [one, one, one], "filled in any of them");
    assert_eq!(bytes(&lines("rw-s", 1, 0)), [(2.0, 2.0, 0.0); 2], "there is no other");
    let own = lines("rw-p", 2, 0);
    assert_eq!(bytes(&own)[..2], [(2.0, 2.0, 0.0), (1.5, 2.5, 0.0)], "each has its own");
    let touched = (0.0, 0.0, 4.0 * UNIT as f64);
    assert_eq!(bytes(&lines("rw-s", 1, 1)), [touched; 2], "the map is older than the access");

    let text = shared.to_text();
    assert!(
        text.contains("unresolved       absent     rate") && text.contains("absent: address space"),
        "{text}"
    );
    assert!(shared.top_text(1).contains("absent: address space"));
    let json: serde_json::Value = serde_json::from_str(&shared.to_json()).unwrap();
    assert_eq!(json["mappings"][0]["absent"], UNIT * 3 / 2);
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
    // Rows of 2 MiB and more are those of the regions: one sample in 20 saw all of it, and 64 of
    // 1024 pages were touched within the window.
    let got = rates(2 * 512, 2);
    assert!(close(&got, &[once + (64.0 / 1024.0 - once) / 20.0; 2]), "{got:?}");
}

/// Two mappings with a gap of four pages in the one region over both, of which no page was touched
/// within the last sample, and half of them within the window.
fn seldom() -> Record {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    w.target(&Target { id: 0, pid: 7, name: "seldom".into(), ..Target::default() }).unwrap();
    let gap = HEAP + 512 * PAGE;
    let maps = [
        Mapping::new(HEAP, gap, "rw-p", "[heap]"),
        Mapping::new(gap + 4 * PAGE, HEAP + 1024 * PAGE, "rw-p", ""),
    ];
    w.mappings(Time(T0), TargetId(0), &maps).unwrap();
    for n in 0..10 {
        let touched = [Some(first(0)), Some(first(256)), None, None, None];
        let unit =
            |start| UnitInfo { start, touched, present: PageBits::ALL, ..UnitInfo::default() };
        let units = if n == 0 { vec![unit(HEAP), unit(HEAP + UNIT)] } else { vec![] };
        let regions = vec![RegionInfo {
            range: AddrRange::new(HEAP, HEAP + 1024 * PAGE),
            hi: 20.0,
            resolved: true,
            ..RegionInfo::default()
        }];
        let target = TargetInfo { id: TargetId(0), regions, units, ..TargetInfo::default() };
        w.push_snapshot(&Snapshot { targets: vec![target], ..snapshot(n) }).unwrap();
    }
    Record::from_bytes(w.finish(Time(T0 + 10 * WINDOW), "over").unwrap().0).unwrap()
}

#[test]
fn what_the_sample_missed_is_in_use_if_it_was_touched_within_the_window() {
    let (record, all) = (seldom(), Filter::default());
    let map = Heatmap::build(&record, &all, &Options::for_text(80)).unwrap();
    // Half of the pages, each in one sample of 20.
    let shown = |cell: &Cell| matches!(cell, Cell::Rate(rate) if (rate - 0.025).abs() < 1e-4);
    assert!(map.panels[0].rows.iter().all(|row| row.cells.iter().all(shown)), "{map:?}");

    let report = mappings::Report::build(&record, &all).unwrap();
    let text = report.to_text();
    let pages = |bytes: f64| (bytes / 4096.0).round();
    let lines = report.lines.iter().map(|l| (pages(l.heat.warm), pages(l.heat.cold)));
    let mut lines: Vec<_> = lines.collect();
    lines.sort_by(|a, b| b.partial_cmp(a).unwrap());
    // The gap is nobody's.
    assert_eq!(lines, [(256.0, 256.0), (254.0, 254.0)], "{text}");
    assert!(!text.contains("unknown"), "{text}");

    let report = ages::Report::build(&record, &all).unwrap();
    assert_eq!(report.classes[0].bytes, 512 * PAGE, "{report:?}");
}

#[test]
fn the_page_of_a_record_begins_with_the_working_set_by_pages() {
    let report = summary::Report::build(&plain(), &Filter::default()).unwrap();
    expect![[r#"
        record of 2.00 s: 20 snapshots
        targets      blocks (pid 4711)
        working set  touched within 100ms: 0.289 MiB on average (90 %: 0.258 MiB .. 0.320 MiB) of 4.13 MiB mapped
                     touched within 5ms: 0.0391 MiB on average (90 %: 0.00781 MiB .. 0.0703 MiB)
                     touched within 1s: 0.557 MiB on average (90 %: 0.525 MiB .. 0.588 MiB)
                     by regions, as DAMON counts: 4.13 MiB on average (90 %: 0.127 MiB .. 4.13 MiB)
        hottest       0.562 MiB of   4.00 MiB  [heap] of blocks (4711)
                      0.129 MiB of  0.129 MiB  [stack] of blocks (4711)
        coldest        3.44 MiB of   4.00 MiB  [heap] of blocks (4711)
        cost         0.0 % of one CPU; 0 looks and 0 clears per second
        more         isotherm report html | heatmap | wss | mappings | ages | pages | diff
    "#]].assert_eq(&report.to_text());
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let spans = json["touched"].as_array().unwrap().iter().map(|span| &span["span_us"]);
    assert_eq!(spans.collect::<Vec<_>>(), [100_000, 5_000, 1_000_000]);
}
