//! Physical memory by node, cgroup, owner and kind.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

mod common;

use expect_test::expect;
use isotherm_core::units::MIB;
use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
use isotherm_record::{
    Frame, Frames, Header, NodeRanges, Owner, Ram, Record, Target, Touch, Writer,
};
use isotherm_report::heatmap::{Color, Heatmap, Options, Style};
use isotherm_report::memory::By;
use isotherm_report::{Filter, memory};

/// A sample of ten frames of 10 MiB on two nodes: two processes, a cgroup, free memory.
fn physical(touch: impl Fn(u64) -> Touch) -> Record {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    let target =
        Target { id: 0, name: "memory".into(), memory: Some("all".into()), ..Target::default() };
    w.target(&target).unwrap();
    let node = |node, from: u64, to: u64| NodeRanges { node, ranges: vec![(from << 20, to << 20)] };
    w.ram(&Ram { t_ns: 0, nodes: vec![node(0, 0, 5), node(1, 5, 10)] }).unwrap();
    let frame = |n: u64| {
        let (kind, owners, cgroup) = match n {
            0..=3 => (0, vec![0], Some(0)),
            4..=5 => (0, vec![0, 1], None),
            6..=7 => (1, vec![], Some(1)),
            _ => (2, vec![], None),
        };
        let touch = if n < 8 { touch(n) } else { Touch::Unknown };
        Frame { addr: n << 20, kind, cgroup, owners, touch }
    };
    let look = |t_ns: u64| Frames {
        t_ns,
        target: 0,
        bytes: 10 << 20,
        unread: 1,
        kinds: vec!["anon".into(), "file, unmapped".into(), "free".into()],
        cgroups: vec!["/app".into(), "/".into()],
        owners: vec![Owner { pid: 7, name: "db".into() }, Owner { pid: 8, name: "web".into() }],
        frames: (0..10).map(frame).collect(),
    };
    let region = |from: u64, to: u64, nr_accesses, age| RegionInfo {
        range: AddrRange::new(from << 20, to << 20),
        nr_accesses,
        age,
        resolved: true,
        hi: 20.0,
        ..RegionInfo::default()
    };
    let snapshot = |t: u64| Snapshot {
        start: Time(t),
        end: Time(t + 100_000_000),
        aggr_us: 100_000,
        sample_us: 5000,
        max_nr_accesses: 20,
        targets: vec![TargetInfo {
            id: TargetId(0),
            regions: vec![region(0, 2, 20, 3), region(2, 4, 5, 3), region(4, 10, 0, 300)],
            ..TargetInfo::default()
        }],
        ..Snapshot::default()
    };
    w.push_snapshot(&snapshot(0)).unwrap();
    w.frames(&look(5_000_000_000)).unwrap();
    w.push_snapshot(&snapshot(5_000_000_000)).unwrap();
    // Behind the last snapshot, as a recorder ends.
    w.frames(&look(10_000_000_000)).unwrap();
    Record::from_bytes(w.finish(Time(11_000_000_000), "over").unwrap().0).unwrap()
}

/// Name, and MiB: all, hot, cold, idle for 10 s and 30 s, unknown.
fn groups(record: &Record, by: By) -> Vec<(String, [f64; 6])> {
    let report = memory::Report::build(record, &Filter::default(), by).unwrap();
    assert_eq!((report.looks, report.frames, report.unread), (2, 10, 1));
    let mib = |l: &memory::Line| {
        let s = l.sums;
        [s.bytes, s.hot, s.cold, s.idle[0], s.idle[1], s.unknown].map(|b| b / MIB)
    };
    report.lines.iter().map(|l| (l.name.clone(), mib(l))).collect()
}

fn line(name: &str, mib: [f64; 6]) -> (String, [f64; 6]) {
    (name.to_owned(), mib)
}

#[test]
fn memory_by_single_frames() {
    let record = physical(|n| if n % 2 == 0 { Touch::Touched } else { Touch::Idle(n * 5_000) });
    let owners = [
        line("db", [5.0, 2.5, 2.5, 1.5, 0.0, 0.0]),
        line("[file, unmapped]", [2.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
        line("web", [1.0, 0.5, 0.5, 0.5, 0.0, 0.0]),
        line("[free]", [2.0, 0.0, 0.0, 0.0, 0.0, 2.0]),
    ];
    assert_eq!(groups(&record, By::Owner), owners);
    let nodes = [
        line("node 0", [5.0, 3.0, 2.0, 1.0, 0.0, 0.0]),
        line("node 1", [5.0, 1.0, 2.0, 2.0, 1.0, 2.0]),
    ];
    assert_eq!(groups(&record, By::Node), nodes);
    let cgroups = [
        line("/app", [4.0, 2.0, 2.0, 1.0, 0.0, 0.0]),
        line("/", [2.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
        line("[anon]", [2.0, 1.0, 1.0, 1.0, 0.0, 0.0]),
        line("[free]", [2.0, 0.0, 0.0, 0.0, 0.0, 2.0]),
    ];
    assert_eq!(groups(&record, By::Cgroup), cgroups);
    let report = memory::Report::build(&record, &Filter::default(), By::Owner).unwrap();
    let text = report.to_text();
    for part in
        ["10.0 MiB", "2 look(s) at 10 frames", "db (pid 7)", "since the look before (5.00 s)"]
    {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!((json["by"].as_str(), json["lines"][0]["pid"].as_u64()), (Some("owner"), Some(7)));
}

#[test]
fn memory_by_regions_where_single_frames_are_not_seen() {
    let record = physical(|_| Touch::Unknown);
    let kinds = [
        line("anon", [6.0, 2.5, 3.5, 2.0, 2.0, 0.0]),
        line("file, unmapped", [2.0, 0.0, 2.0, 2.0, 2.0, 0.0]),
        line("free", [2.0, 0.0, 0.0, 0.0, 0.0, 2.0]),
    ];
    assert_eq!(groups(&record, By::Kind), kinds);
    let report = memory::Report::build(&record, &Filter::default(), By::Kind).unwrap();
    assert!(!report.by_frame && report.to_text().contains("by the rate of the region"));
}

#[test]
fn memory_of_a_record_of_processes_is_refused() {
    let err = memory::Report::build(&common::record(), &Filter::default(), By::Node).unwrap_err();
    assert!(err.to_string().contains("about processes"), "{err}");
}

#[test]
fn the_heatmap_shows_where_a_node_ends() {
    let all = Some(AddrRange::new(0, 10 << 20));
    let filter = Filter { address: all, ..Filter::default() };
    let options = Options { columns: 24, rows: 10, ..Options::for_text(60) };
    let record = physical(|_| Touch::Touched);
    let map = Heatmap::build(&record, &filter, &options).unwrap();
    assert_eq!(
        map.panels[0].areas,
        [AddrRange::new(0, 5 << 20), AddrRange::new(5 << 20, 10 << 20)]
    );
    expect![[r#"
        physical memory (all): 10.0 MiB in 2 areas; at the end 10.0
          MiB mapped
               0x900000|.                      .| node 1
               0x800000|.                      .|
               0x700000|.                      .|
               0x600000|.                      .|
               0x500000|.                      .|
                       ~ another node
               0x400000|.                      .| node 0
               0x300000|-                      -|
               0x200000|-                      -|
               0x100000|@                      @|
                    0x0|@                      @|
                       ++----------------------++
                        0 s                    5 s
        accessed in 0 % . : - = + * # % @ 100 % of samples; blank:
          not mapped; ?: unresolved
        a row is up to 1.00 MiB, a column 212 ms
    "#]]
    .assert_eq(&map.to_text(&Style { color: Color::None }));
}
