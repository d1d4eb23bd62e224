//! The memory of a heatmap does not depend on how often a target changes its mappings.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
use isotherm_record::{Header, Mapping, Record, Target, Writer};
use isotherm_report::Filter;
use isotherm_report::heatmap::{Heatmap, Options};

const MIB: u64 = 1 << 20;
const HEAP: u64 = 0x5555_5000_0000;
const CHURN: u64 = 0x7f00_0000_0000;
const WINDOW_NS: u64 = 100_000_000;

fn mapping(start: u64, bytes: u64, name: &str) -> Mapping {
    Mapping::new(start, start + bytes, "rw-p", name)
}

/// A heap that is always there, and 64 mappings that are at another place in every window.
fn record(windows: u64) -> Record {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    writer.target(&Target { pid: 7, name: "churn".into(), ..Target::default() }).unwrap();
    let heap = AddrRange::new(HEAP, HEAP + MIB);
    for window in 0..windows {
        let (start, end) = (Time(window * WINDOW_NS), Time((window + 1) * WINDOW_NS));
        let mut mappings = vec![mapping(HEAP, MIB, "[heap]")];
        for nr in 0..64 {
            let name = format!("/var/cache/{window}.{nr}");
            mappings.push(mapping(CHURN + (window * 64 + nr) * MIB, MIB, &name));
        }
        writer.mappings(start, TargetId(0), &mappings).unwrap();
        let resolved =
            RegionInfo { range: heap, nr_accesses: 20, resolved: true, ..Default::default() };
        writer
            .push_snapshot(&Snapshot {
                seq: window,
                start,
                end,
                max_nr_accesses: 20,
                targets: vec![TargetInfo {
                    id: TargetId(0),
                    regions: vec![resolved],
                    ..TargetInfo::default()
                }],
                ..Snapshot::default()
            })
            .unwrap();
    }
    let (bytes, _) = writer.finish(Time(windows * WINDOW_NS), "interrupted").unwrap();
    Record::from_bytes(bytes).unwrap()
}

/// Most bytes that building a heatmap held at once.
fn peak_bytes(record: &Record) -> u64 {
    let mut map = Heatmap::default();
    let measured = allocation_counter::measure(|| {
        let options = Options::for_text(100);
        map = Heatmap::build(record, &Filter::default(), &options).unwrap();
    });
    let names: Vec<_> = map.panels[0].rows.iter().map(|row| row.mapping.as_str()).collect();
    assert!(names.iter().all(|name| *name == "[heap]"), "{names:?}");
    measured.bytes_max
}

#[test]
fn memory_does_not_grow_with_the_versions_of_the_mappings() {
    // Both records are longer than what the reader buffers.
    let [few, many] = [200, 800].map(|windows| peak_bytes(&record(windows)));
    // 64 mappings of 600 more versions would be more than 4 MiB.
    assert!(many < few + 64 * 1024, "{few} bytes for 200 versions, {many} for 800");
}
