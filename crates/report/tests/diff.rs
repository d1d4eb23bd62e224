//! Two records beside each other.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{FILE, HEAP, T0, snapshot};
use isotherm_core::{TargetId, Time};
use isotherm_record::{AttrsInfo, Header, Mapping, Record, Target, Writer};
use isotherm_report::diff::{Report, Verdict};
use isotherm_report::{Error, Filter};

/// Thirty windows from this one on. The heap is hot in the first thirty, then the file.
fn record(first: u32, anon: u64, method: &str) -> Record {
    let attrs = AttrsInfo { method: method.into(), ..AttrsInfo::default() };
    let mut w = Writer::new(Vec::new(), &Header { attrs, ..Header::default() }).unwrap();
    w.target(&Target { id: 0, pid: 4711, name: "database".into(), ..Target::default() }).unwrap();
    let map = |start, mib: u64, name| Mapping::new(start, start + (mib << 20), "rw-p", name);
    let file = Mapping::new(FILE, FILE + (64 << 20), "r--s", "/var/lib/data.mdb");
    // The heap as an anonymous mapping at an address that differs from run to run.
    let maps = [map(HEAP, 8, ""), map(HEAP + (8 << 20) + anon, 16, ""), file];
    w.mappings(Time(T0), TargetId(0), &maps).unwrap();
    for n in first..first + 30 {
        let mut window = snapshot(n);
        window.targets.truncate(1);
        w.push_snapshot(&window).unwrap();
    }
    let (bytes, _) = w.finish(Time(T0 + 9_000_000_000), "enough").unwrap();
    Record::from_bytes(bytes).unwrap()
}

#[test]
fn before_and_after() {
    let (before, after) = (record(0, 0, "census"), record(30, 4096, "census"));
    let report = Report::build(&before, &after, &Filter::default()).unwrap();
    let [set] = &report.working_sets[..] else { panic!("{report:?}") };
    // 8 MiB of the heap, then 16 MiB of the file.
    assert_eq!((set.before.bytes >> 20, set.after.bytes >> 20), (8, 16));
    assert_eq!(set.verdict, Verdict::Larger);
    let [file, heap, ..] = &report.mappings[..] else { panic!("{report:?}") };
    assert_eq!((file.name.as_str(), file.change()), ("/var/lib/data.mdb", 16.0 * 1_048_576.0));
    assert_eq!((heap.name.as_str(), heap.change()), ("[anon]", -8.0 * 1_048_576.0));
    assert_eq!(heap.program.as_deref(), Some("database"));
    let text = report.to_text();
    for part in [
        "by regions                 8.00 MiB     16.0 MiB    +8.00 MiB",
        "larger",
        "-8.00 MiB     ",
        "file /var/lib/data.mdb",
        "anonymous [anon] of database",
        "accessed now     8.00 MiB     16.0 MiB    +8.00 MiB",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["working_sets"][0]["verdict"], "larger");
    assert_eq!(json["mappings"][0]["after"]["hot"], 16 << 20);
}

#[test]
fn the_same_twice_is_no_change() {
    let (a, b) = (record(0, 0, "census"), record(0, 0, "resample"));
    let report = Report::build(&a, &b, &Filter::default()).unwrap();
    assert!(report.working_sets.iter().all(|set| set.verdict == Verdict::WithinError));
    let text = report.to_text();
    assert!(text.contains("within the error") && text.contains("no mapping changed"), "{text}");
    assert!(text.contains("method: census before, resample after"), "{text}");
    let none = Filter { targets: vec!["nobody".into()], ..Filter::default() };
    assert!(matches!(Report::build(&a, &b, &none), Err(Error::Nothing { .. })));
}
