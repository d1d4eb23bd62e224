//! Memory of several processes, and memory that is seen before or after its mapping is known.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use isotherm_core::{
    AddrRange, PageBits, RegionInfo, Snapshot, TargetId, TargetInfo, Time, Touched, TouchedBytes,
    UnitInfo,
};
use isotherm_record::{Header, Mapping, Object, Record, Target, Writer};
use isotherm_report::{Filter, ages, heatmap, mappings, pages, wss};

const MIB: u64 = 1 << 20;
const WINDOW: u64 = 100_000_000;
const SHARED: u64 = 0x7f00_0000_0000;
const OWN: u64 = 0x5555_0000_0000;

fn region(start: u64, mib: u64, nr_accesses: u32) -> RegionInfo {
    RegionInfo {
        range: AddrRange::new(start, start + mib * MIB),
        nr_accesses,
        lo: 0.0,
        hi: 20.0,
        resolved: true,
        ..RegionInfo::default()
    }
}

/// A window of targets 0 to 9: each has 1 MiB of its own and 64 MiB that all share. Target `n` uses
/// the first `n` MiB of these.
fn window(n: u64, nr_targets: u32) -> Snapshot {
    let target = |id: u32| {
        let used = u64::from(id);
        let mut regions = vec![region(OWN, 1, 20)];
        regions.extend((used > 0).then(|| region(SHARED, used, 20)));
        regions.push(region(SHARED + used * MIB, 64 - used, 0));
        let pages = PageBits::of(0, AddrRange::new(0, 10 * 4096));
        let unit = |start| UnitInfo {
            start,
            present: PageBits::ALL,
            touched: [None, Some(pages), None, None, None],
            leaf_shift: 12,
            ..UnitInfo::default()
        };
        let bytes = 20 * 4096;
        let within = TouchedBytes { bytes, lo: bytes, hi: bytes, measured: 65 * MIB };
        let spans = [None, Some(within), None, None, None];
        TargetInfo {
            id: TargetId(id),
            regions,
            touched: Some(Touched { spans, watched: 65 * MIB }),
            units: vec![unit(OWN), unit(SHARED)],
        }
    };
    Snapshot {
        seq: n,
        start: Time(n * WINDOW),
        end: Time((n + 1) * WINDOW),
        sample_us: 5_000,
        aggr_us: 100_000,
        max_nr_accesses: 20,
        targets: (0..nr_targets).map(target).collect(),
        ..Snapshot::default()
    }
}

/// Whether it is so, but for the ten pages that target 0 touches in what its regions call idle.
fn is_about(bytes: u64, want: u64) -> bool {
    bytes.abs_diff(want) <= 10 * 4096
}

fn maps(object: Option<Object>) -> Vec<Mapping> {
    let shared = Mapping::new(SHARED, SHARED + 64 * MIB, "rw-s", "/dev/zero (deleted)");
    let shared = object.into_iter().fold(shared, Mapping::of_object);
    vec![Mapping::new(OWN, OWN + MIB, "rw-p", ""), shared]
}

fn writer(nr_targets: u32) -> Writer<Vec<u8>> {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    for id in 0..nr_targets {
        let target = Target { id, pid: 100 + id, name: "postgres".into(), ..Target::default() };
        w.target(&target).unwrap();
    }
    w
}

fn record(object: Option<Object>) -> Record {
    let mut w = writer(10);
    (0..10).for_each(|id| w.mappings(Time(0), TargetId(id), &maps(object)).unwrap());
    (0..20).for_each(|n| w.push_snapshot(&window(n, 10)).unwrap());
    Record::from_bytes(w.finish(Time(20 * WINDOW), "enough").unwrap().0).unwrap()
}

const OBJECT: Object = Object { device: 1, inode: 77, offset: 0 };

#[test]
fn memory_that_processes_share_counts_once_and_the_sum_is_told() {
    let all = Filter::default();
    let report = wss::Report::build(&record(Some(OBJECT)), &all).unwrap();
    // 10 MiB of their own, and the 9 MiB of the busiest.
    assert_eq!(report.mean().bytes, 19 * MIB);
    assert_eq!(report.mean().mapped, 74 * MIB);
    let text = report.to_text(wss::Order::Size);
    assert!(
        text.contains("the sum over processes is 55.0 MiB on average, mapped 650 MiB"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&report.to_json(wss::Order::Size)).unwrap();
    assert_eq!(json["sum_over_processes"]["bytes"], 55 * MIB);
    // By pages: ten of their own in each, and ten that all touch.
    let profile = report.profile.as_ref().unwrap();
    assert_eq!(profile.spans[1].mean().touched.bytes, 110 * 4096);
    let text = report.profile_text(wss::Order::Size).unwrap();
    assert!(text.contains("on average 100ms: 0.781 MiB"), "{text}");

    let report = mappings::Report::build(&record(Some(OBJECT)), &all).unwrap();
    let bytes: f64 = report.kinds.iter().map(|(_, heat, _)| heat.bytes()).sum();
    assert_eq!(bytes / MIB as f64, 74.0);
    assert_eq!(report.apart.unwrap().bytes() / MIB as f64, 650.0);
    let text = report.to_text();
    assert!(text.contains("74.0 MiB in all; the sum over processes is 650 MiB"), "{text}");
}

#[test]
fn the_hottest_mappings_are_merged_by_file_across_processes() {
    let mut w = writer(10);
    for id in 0..10 {
        let start = OWN + u64::from(id) * 4096;
        let mut maps = maps(Some(OBJECT));
        // An address of its own in each process.
        maps[0] = Mapping::new(start, OWN + MIB, "rw-p", "");
        w.mappings(Time(0), TargetId(id), &maps).unwrap();
    }
    (0..20).for_each(|n| w.push_snapshot(&window(n, 10)).unwrap());
    let record = Record::from_bytes(w.finish(Time(20 * WINDOW), "enough").unwrap().0).unwrap();
    let report = mappings::Report::build(&record, &Filter::default()).unwrap();
    let text = report.top_text(1);
    let lines: Vec<_> = text.lines().collect();
    // The 45 pages in front of the nine higher mappings belong to no mapping.
    assert_eq!(
        lines[0],
        "hottest mappings of postgres (pid 100) and 9 more: 1 of 3, means over the whole time"
    );
    assert!(lines[2].ends_with("10  anonymous [anon] of postgres"), "{text}");
    assert_eq!(lines.len(), 4, "{text}");
    let json: serde_json::Value = serde_json::from_str(&report.top_json(9)).unwrap();
    let shared = &json["merged"][1];
    assert_eq!(shared["name"], "/dev/zero (deleted)");
    assert_eq!(shared["hot"], 9 * MIB);
    assert!(is_about(shared["cold"].as_u64().unwrap(), 55 * MIB), "{shared}");
    assert_eq!(shared["sum_over_processes"], 640 * MIB);
    assert_eq!(shared["processes"], 10);

    // One process keeps the addresses of its anonymous mappings.
    let one = Filter { targets: vec!["103".into()], ..Filter::default() };
    let report = mappings::Report::build(&record, &one).unwrap();
    assert!(report.top_text(9).contains("[anon] 0x55550000"), "{}", report.top_text(9));
}

#[test]
fn ages_count_shared_memory_once_and_tell_the_sum() {
    let report = ages::Report::build(&record(Some(OBJECT)), &Filter::default()).unwrap();
    let total: u64 = report.classes.iter().map(|c| c.bytes).sum();
    let mean: u64 = report.classes.iter().map(|c| c.mean_bytes).sum();
    // The pages of ten units of their own, and of one that all share.
    assert_eq!([total, mean, report.bytes, report.mean_bytes], [22 * MIB; 4]);
    // Ten pages of their own in each, and ten that all touch.
    let used = &report.classes[0];
    assert_eq!((used.bytes, used.mean_bytes), (110 * 4096, 110 * 4096));
    let text = report.to_text();
    assert!(text.contains("the sum over processes is 40.0 MiB and 40.0 MiB"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["sum_over_processes"]["bytes"], 40 * MIB);

    // Nothing is known to be shared.
    let report = ages::Report::build(&record(None), &Filter::default()).unwrap();
    assert_eq!((report.bytes, report.apart), (40 * MIB, None));
    assert!(!report.to_text().contains("the sum over"));
}

#[test]
fn nothing_is_said_of_sharing_where_none_is_known() {
    let one = Filter { targets: vec!["103".into()], ..Filter::default() };
    for (record, filter, bytes) in
        [(record(None), Filter::default(), 55 * MIB), (record(Some(OBJECT)), one, 4 * MIB)]
    {
        let report = wss::Report::build(&record, &filter).unwrap();
        assert_eq!(report.mean().bytes, bytes);
        let text =
            report.to_text(wss::Order::Size) + &report.profile_text(wss::Order::Size).unwrap();
        let mappings = mappings::Report::build(&record, &filter).unwrap();
        assert!(!(text + &mappings.to_text()).contains("the sum over"));
    }
}

/// Old recorders read the mappings after the first snapshot. What is unmapped between two reads is
/// still in snapshots.
#[test]
fn memory_has_a_name_before_its_mapping_is_read_and_after_it_is_gone() {
    let mut w = writer(1);
    w.push_snapshot(&window(0, 1)).unwrap();
    w.mappings(Time(WINDOW), TargetId(0), &maps(None)).unwrap();
    w.push_snapshot(&window(1, 1)).unwrap();
    w.mappings(Time(2 * WINDOW), TargetId(0), &maps(None)[..1]).unwrap();
    w.push_snapshot(&window(2, 1)).unwrap();
    let record = Record::from_bytes(w.finish(Time(3 * WINDOW), "enough").unwrap().0).unwrap();
    let report = mappings::Report::build(&record, &Filter::default()).unwrap();
    assert!(report.lines.iter().all(|line| line.kind.is_some()), "{}", report.to_text());
    let bytes: f64 = report.lines.iter().map(|line| line.heat.bytes()).sum();
    assert_eq!(bytes / MIB as f64, 65.0);

    // All mappings come after the only snapshot.
    let mut w = writer(1);
    w.push_snapshot(&window(0, 1)).unwrap();
    w.mappings(Time(WINDOW), TargetId(0), &maps(None)).unwrap();
    let record = Record::from_bytes(w.finish(Time(3 * WINDOW), "enough").unwrap().0).unwrap();
    let all = Filter::default();
    let report = mappings::Report::build(&record, &all).unwrap();
    assert!(report.lines.iter().all(|line| line.kind.is_some()), "{}", report.to_text());
    let report = pages::Report::build(&record, &all).unwrap();
    assert!(report.lines.iter().all(|line| line.kind.is_some()), "{}", report.to_text());
    let options = heatmap::Options::for_text(100);
    let map = heatmap::Heatmap::build(&record, &all, &options).unwrap();
    assert!(map.panels[0].rows.iter().all(|row| row.mapping == "[anon]"), "{map:?}");
}
