//! Records of damo. The files in `damo/` were written by damo 3.4.3 itself; `damo/README.md` says
//! how.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use std::path::PathBuf;

use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
use isotherm_record::export::damo;
use isotherm_record::{Error, Event, Header, Record, Target, Writer};

fn fixture(name: &str) -> Record {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/damo").join(name);
    Record::open(path).unwrap()
}

/// What damo has of a region.
type Row = (u32, u64, u64, u64, u64, u32, u32);

/// All windows: target, start and end of the window, start and end of the region, count, age.
fn rows(record: &Record) -> Vec<Row> {
    let mut reader = record.reader().unwrap();
    let mut rows = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let Event::Snapshot(s) = event else { continue };
        for t in &s.targets {
            rows.extend(t.regions.iter().map(|r| {
                let (start, end) = (s.start.as_ns(), s.end.as_ns());
                (t.id.0, start, end, r.range.start, r.range.end, r.nr_accesses, r.age)
            }));
        }
    }
    assert!(reader.damage().is_none() && reader.ended());
    rows.sort_unstable();
    rows
}

fn notes(record: &Record) -> Vec<String> {
    let mut reader = record.reader().unwrap();
    let mut notes = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Note(note) = event {
            notes.push(note.text.clone());
        }
    }
    notes
}

fn names(record: &Record) -> Vec<String> {
    let mut reader = record.reader().unwrap();
    let mut names = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Target(target) = event {
            names.push(target.name.clone());
        }
    }
    names
}

/// Two targets, three windows; one region cannot be looked at, and the intervals change.
fn ours() -> Record {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    for id in [0, 1] {
        w.target(&Target { id, pid: 70 + id, name: "a".into(), ..Target::default() }).unwrap();
    }
    let region = |start: u64, end: u64, nr_accesses, age, resolved| RegionInfo {
        range: AddrRange::new(start << 12, end << 12),
        nr_accesses,
        age,
        resolved,
        ..RegionInfo::default()
    };
    for (seq, ms) in [(0, 100), (1, 200), (2, 400)] {
        let (sample_us, max) = if seq < 2 { (5000, 20) } else { (10_000, 10) };
        let (mut both, hot) = (Vec::new(), u32::try_from(seq).unwrap() * 5);
        for (id, base) in [(0, 0x10), (1, 0x7f00_0000_0000)] {
            let regions = vec![
                region(base, base + 8, hot, 3, true),
                region(base + 8, base + 9, 0, 9, false),
                region(base + 9, base + 999, 0, 12_345, true),
            ];
            both.push(TargetInfo { id: TargetId(id), regions, ..TargetInfo::default() });
        }
        w.push_snapshot(&Snapshot {
            seq,
            start: Time((ms - 100) * 1_000_000),
            end: Time(ms * 1_000_000),
            sample_us,
            aggr_us: 100_000,
            max_nr_accesses: max,
            targets: both,
            ..Snapshot::default()
        })
        .unwrap();
    }
    Record::from_bytes(w.finish(Time(400_000_000), "over").unwrap().0).unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    let ours = ours();
    let mut out = Vec::new();
    let exported = damo::json_compressed(&ours, &mut out).unwrap();
    assert_eq!((exported.regions, exported.unresolved), (12, 6));
    let back = Record::from_bytes(out).unwrap();
    assert!(back.is_of_damo() && !ours.is_of_damo());
    // What could not be looked at is not there; everything else is exact.
    let mut want = rows(&ours);
    want.retain(|row| row.6 != 9);
    assert_eq!(rows(&back), want);
    assert_eq!(names(&back), ["target 0", "target 1"]);
    let attrs = &back.header().attrs;
    assert_eq!((attrs.sample_us, attrs.aggr_us), (5000, 100_000));

    let mut out = Vec::new();
    damo::perf_script(&ours, &mut out).unwrap();
    let back = Record::from_bytes(out).unwrap();
    // A text tells only when windows end, so one begins where the last one ended.
    let ends = |rows: Vec<Row>| -> Vec<_> {
        rows.into_iter().map(|(id, _, end, a, b, nr, age)| (id, end, a, b, nr, age)).collect()
    };
    assert_eq!(ends(rows(&back)), ends(want));
    assert!(notes(&back).iter().any(|note| note.contains("does not say its intervals")));
}

#[test]
fn a_text_of_one_window_says_how_long_it_was() {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    let range = AddrRange::new(0, 4096);
    let regions = vec![RegionInfo { range, resolved: true, ..RegionInfo::default() }];
    w.push_snapshot(&Snapshot {
        start: Time(1_000_000),
        end: Time(31_000_000),
        targets: vec![TargetInfo { regions, ..TargetInfo::default() }],
        ..Snapshot::default()
    })
    .unwrap();
    let ours = Record::from_bytes(w.finish(Time(2), "over").unwrap().0).unwrap();
    let mut out = Vec::new();
    damo::perf_script(&ours, &mut out).unwrap();
    let back = Record::from_bytes(out).unwrap();
    assert_eq!(rows(&back), [(0, 1_000_000, 31_000_000, 0, 4096, 0, 0)]);
}

#[test]
fn files_of_damo_itself() {
    // damo made all of them from one record, so they say the same.
    let packed = fixture("intervals.damo");
    assert_eq!(rows(&packed), rows(&fixture("intervals.json")));
    let attrs = &packed.header().attrs;
    assert_eq!((attrs.sample_us, attrs.aggr_us, attrs.update_us), (5000, 100_000, 1_000_000));
    assert_eq!(packed.header().ops, "kdamond");
    assert!(rows(&packed).len() > 20, "{}", rows(&packed).len());

    let text = fixture("perf-script.txt");
    let json = fixture("no-intervals.damo");
    let (of_text, of_json) = (rows(&text), rows(&json));
    assert_eq!(of_text.len(), of_json.len());
    for (a, b) in of_text.iter().zip(&of_json) {
        // damo counts seconds in floats, so its ns are a little off.
        assert!(a.2.abs_diff(b.2) < 1000 && a.3 == b.3 && a.5 == b.5 && a.6 == b.6, "{a:?} {b:?}");
    }
    for record in [&text, &json] {
        assert!(notes(record)[0].contains("no names"));
        assert!(notes(record)[1].contains("does not say its intervals"), "{:?}", notes(record));
        let attrs = &record.header().attrs;
        assert_eq!((attrs.sample_us, attrs.aggr_us), (5000, 100_000));
    }
}

#[test]
fn error_bars_are_those_of_a_sample() {
    let mut reader = fixture("intervals.damo").reader().unwrap();
    let mut seen = 0;
    while let Some(event) = reader.next_event().unwrap() {
        let Event::Snapshot(s) = event else { continue };
        assert_eq!(s.max_nr_accesses, 20);
        for r in s.targets.iter().flat_map(|t| &t.regions) {
            #[expect(clippy::cast_precision_loss, reason = "a small count")]
            let nr = r.nr_accesses as f32;
            assert!(r.resolved && r.lo <= nr && nr <= r.hi && r.hi <= 20.0, "{r:?}");
            assert!(r.hi - r.lo > 1.0, "20 looks leave doubt: {r:?}");
            seen += 1;
        }
    }
    assert!(seen > 20);
}

#[test]
fn what_cannot_be_read_is_told() {
    for (bytes, why) in [
        (&b"[{\"snapshots\": 7}]"[..], "invalid type"),
        (b"[{\"snapshots\": []}]", "no window"),
        (b"[{", "EOF"),
        (b"\x78\x9cnonsense", "not understood"),
        (b"PERFILE2....", "only perf can read"),
        (b"k 1 [0] x: damon:damon_aggregated: what", "no window"),
    ] {
        let err = Record::from_bytes(bytes).unwrap_err();
        assert!(matches!(err, Error::Damo { .. }) && err.is_bad_input());
        let text = err.to_string();
        assert!(text.contains(why) && text.contains("\n  hint:  "), "{text}");
    }
}
