//! The promises of the file: it reads back as written, and damaged bytes are never returned as
//! events. What snapshots say of single pages is read back before the snapshots themselves.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

mod common;

use std::collections::BTreeMap;

use common::{Owned, event, expected, read, same, write};
use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time, UnitInfo};
use isotherm_record::{Error, Header, PageWindow, Reader, Record, Writer};
use proptest::prelude::*;

/// What the record should say of the windows, and of the units at its end.
type Said = (Vec<PageWindow>, BTreeMap<(TargetId, u64), UnitInfo>);

fn said_by(s: &Snapshot, (windows, units): &mut Said) {
    if s.targets.iter().all(|t| t.touched.is_none() && t.units.is_empty()) {
        return;
    }
    let touched = s.targets.iter().filter_map(|t| Some((t.id, t.touched?)));
    windows.push(PageWindow {
        seq: s.seq,
        start: s.start,
        end: s.end,
        sample_us: s.sample_us,
        aggr_us: s.aggr_us,
        touched: touched.collect(),
    });
    let all = s.targets.iter().flat_map(|t| t.units.iter().map(|u| ((t.id, u.start), *u)));
    all.for_each(|(key, unit)| learn(units, key, unit));
}

/// The last news of a unit, with all pages that were ever found.
fn learn(
    units: &mut BTreeMap<(TargetId, u64), UnitInfo>,
    key: (TargetId, u64),
    mut unit: UnitInfo,
) {
    let known = units.get(&key).copied().unwrap_or_default();
    if let Some(before) = known.found {
        unit.found = Some(unit.found.unwrap_or_default().or(before));
        if !before.is_empty() {
            unit.found_after = known.found_after;
        }
    }
    units.insert(key, unit);
}

/// Version 1 is version 3 without what was found, and what was touched since then.
#[test]
fn records_of_the_first_version_are_read_and_newer_ones_refused_by_name() {
    let mut unit = UnitInfo { start: 2 << 20, leaf_shift: 21, ..UnitInfo::default() };
    unit.touched[0] = Some(isotherm_core::PageBits::page(7));
    let target = TargetInfo { id: TargetId(3), units: vec![unit], ..TargetInfo::default() };
    let snapshot = Snapshot { targets: vec![target], ..Snapshot::default() };
    let bytes = write(&[Owned::Snapshot(snapshot)]);
    let of_version = |version: u32| {
        let mut bytes = bytes.clone();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..12]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    };
    let (events, damage) = read(&of_version(1)).unwrap();
    assert!(damage.is_none(), "{damage}");
    let units = events.iter().filter_map(|event| match event {
        Owned::Pages(pages) => Some(pages.units.iter().map(|u| (u.target, u.unit))),
        _ => None,
    });
    assert_eq!(units.flatten().collect::<Vec<_>>(), [(TargetId(3), unit)]);
    let newer = isotherm_record::VERSION + 1;
    let refused = Record::from_bytes(of_version(newer)).map(drop);
    assert!(matches!(refused, Err(Error::Newer { found }) if found == newer), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_events_round_trip(events in prop::collection::vec(event(), 0..24)) {
        let (mut got, damage) = read(&write(&events)).unwrap();
        let want = expected(&events);
        prop_assert!(damage.is_none(), "{damage}");
        got.retain(|e| !matches!(e, Owned::Pages(_)));
        prop_assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(&want) {
            prop_assert!(same(g, w), "got {g:?}\nwant {w:?}");
        }
    }

    /// Regions that are one window older and else as before are written in another way.
    #[test]
    fn what_stays_as_it_is_round_trips(events in prop::collection::vec(event(), 0..12)) {
        let mut all = Vec::new();
        for event in events {
            let Owned::Snapshot(mut s) = event else { continue };
            for _ in 0..3 {
                all.push(Owned::Snapshot(s.clone()));
                let regions = s.targets.iter_mut().flat_map(|t| &mut t.regions);
                regions.for_each(|r| r.age = r.age.saturating_add(1));
            }
        }
        let (mut got, damage) = read(&write(&all)).unwrap();
        prop_assert!(damage.is_none(), "{damage}");
        got.retain(|e| !matches!(e, Owned::Pages(_)));
        let want = expected(&all);
        prop_assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(&want) {
            prop_assert!(same(g, w), "got {g:?}\nwant {w:?}");
        }
    }

    #[test]
    fn page_maps_round_trip(events in prop::collection::vec(event(), 0..24)) {
        let (mut want, mut got) = (Said::default(), Said::default());
        for e in &events {
            if let Owned::Snapshot(s) = e {
                said_by(s, &mut want);
            }
        }
        let (read, damage) = read(&write(&events)).unwrap();
        prop_assert!(damage.is_none(), "{damage}");
        let mut to_come = 0;
        for e in &read {
            match e {
                Owned::Pages(pages) => {
                    to_come += pages.windows.len();
                    for u in &pages.units {
                        prop_assert!(usize::try_from(u.window).unwrap() < pages.windows.len());
                        learn(&mut got.1, (u.target, u.unit.start), u.unit);
                    }
                    got.0.extend(pages.windows.iter().cloned());
                }
                Owned::Snapshot(s) if got.0.iter().any(|w| (w.seq, w.end) == (s.seq, s.end)) => {
                    to_come -= 1;
                }
                _ => {}
            }
        }
        prop_assert_eq!(to_come, 0, "every window is told before its snapshot");
        prop_assert_eq!(got, want);
    }

    /// Of a damaged record, too.
    #[test]
    fn rows_of_cgroups_are_the_same_when_all_else_is_passed_over(
        events in prop::collection::vec(event(), 0..24),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
    ) {
        let mut bytes = write(&events);
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        if let Some((all, damage)) = read(&bytes) {
            let mut reader = Reader::new(bytes.as_slice(), "test").unwrap();
            let mut rows = Vec::new();
            while let Some(cgroups) = reader.next_cgroups().unwrap() {
                rows.push(Owned::Cgroups(cgroups.clone()));
            }
            let is_rows = |event: &&Owned| matches!(event, Owned::Cgroups(_));
            prop_assert_eq!(rows, all.iter().filter(is_rows).cloned().collect::<Vec<_>>());
            prop_assert_eq!(reader.damage(), damage);
        }
    }

    /// Whatever bytes are overwritten, cut out or inserted: all events that are read were written,
    /// in that order.
    #[test]
    fn damage_only_removes(
        events in prop::collection::vec(event(), 1..16),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, any::<u8>(), 0u8..3), 1..4),
    ) {
        let mut bytes = write(&events);
        let (whole, _) = read(&bytes).unwrap();
        for (at, len, with, how) in edits {
            let at = at.index(bytes.len());
            let to = (at + len).min(bytes.len());
            match how {
                0 => bytes[at..to].iter_mut().for_each(|b| *b ^= with),
                1 => drop(bytes.drain(at..to)),
                _ => drop(bytes.splice(at..at, vec![with; len])),
            }
            if bytes.is_empty() {
                break;
            }
        }
        if let Some((got, _)) = read(&bytes) {
            let mut rest = whole.iter();
            for g in &got {
                prop_assert!(rest.any(|w| w == g), "made up: {g:?}");
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some((events, _)) = read(&bytes) {
            prop_assert!(events.is_empty());
        }
    }
}

#[test]
fn truncation_at_every_byte_gives_a_prefix() {
    let events: Vec<_> = (0..30).map(|n| Owned::Snapshot(window(n, 5))).collect();
    let bytes = write(&events);
    let (whole, _) = read(&bytes).unwrap();
    let mut longest = 0;
    for len in 0..bytes.len() {
        match Reader::new(&bytes[..len], "test") {
            Err(Error::Empty) => assert_eq!(len, 0),
            Err(Error::Truncated) => assert_eq!(longest, 0),
            Err(e) => panic!("{len}: {e}"),
            Ok(_) => {
                let (got, damage) = read(&bytes[..len]).unwrap();
                assert!(whole.starts_with(&got), "{len}");
                assert!(got.len() >= longest);
                assert_eq!(damage.bad_spots, 0, "a torn tail is not a bad spot");
                longest = got.len();
            }
        }
    }
    assert_eq!(longest, 30, "only the end mark was cut off");
}

/// A window with `n` regions of which some change from window to window.
fn window(seq: u64, n: u64) -> Snapshot {
    let regions = (0..n).map(|i| RegionInfo {
        range: AddrRange::new((i * 100) << 12, (i * 100 + 50 + seq % 7) << 12),
        nr_accesses: u32::try_from((i + seq) % 21).unwrap(),
        age: u32::try_from(seq).unwrap(),
        lo: 0.0,
        hi: 20.0,
        resolved: i != 3,
        ..RegionInfo::default()
    });
    Snapshot {
        seq,
        start: Time(seq * 100_000_000),
        end: Time((seq + 1) * 100_000_000),
        sample_us: 5_000,
        aggr_us: 100_000,
        max_nr_accesses: 20,
        targets: vec![TargetInfo {
            id: TargetId(0),
            regions: regions.collect(),
            ..TargetInfo::default()
        }],
        ..Snapshot::default()
    }
}

#[test]
fn a_bad_frame_in_the_middle_costs_its_second_only() {
    let events: Vec<_> = (0..30).map(|n| Owned::Snapshot(window(n, 50))).collect();
    let mut bytes = write(&events);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    let (got, damage) = read(&bytes).unwrap();
    let seqs: Vec<_> = got
        .iter()
        .filter_map(|e| if let Owned::Snapshot(s) = e { Some(s.seq) } else { None })
        .collect();
    assert_eq!(seqs, (0..10).chain(20..30).collect::<Vec<_>>());
    assert_eq!((damage.bad_spots, damage.lost_frames, damage.torn_bytes), (1, 1, 0));
    assert!(damage.to_string().starts_with("1 damaged place(s) skipped ("), "{damage}");
}

/// An output that keeps only what was passed to the system, as a killed process would leave it.
#[test]
fn at_most_the_last_second_is_not_written_yet() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut w = Writer::create(file.path(), &Header::default()).unwrap();
    for n in 0..95 {
        w.push_snapshot(&window(n, 8)).unwrap();
        let mut r = Record::open(file.path()).unwrap().reader().unwrap();
        let mut seen = 0;
        while r.next_event().unwrap().is_some() {
            seen += 1;
        }
        assert!(n + 1 - seen < 10, "{} windows of 100 ms are missing", n + 1 - seen);
        assert!(r.damage().is_none() && !r.ended());
    }
    w.tick(Time(96 * 100_000_000)).unwrap();
    let before = w.written().bytes;
    w.flush().unwrap();
    assert!(w.written().bytes > before, "tick before a second is over writes nothing");
}

/// An output that accepts a number of bytes and then has no space, as a full disk.
struct FullDisk(Vec<u8>, usize);

impl std::io::Write for FullDisk {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let n = buf.len().min(self.1 - self.0.len());
        if n == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(&buf[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_and_leaves_a_readable_record() {
    let mut disk = FullDisk(Vec::new(), 4000);
    let mut w = Writer::new(&mut disk, &Header::default()).unwrap();
    let error = (0..1000).find_map(|n| w.push_snapshot(&window(n, 50)).err()).unwrap();
    assert!(error.is_full());
    let text = error.to_string();
    for part in ["tried: write the record", "why: ", "hint:  free some space"] {
        assert!(text.contains(part), "{text}");
    }
    drop(w);
    let (got, damage) = read(&disk.0).unwrap();
    assert!(got.len() >= 10 && damage.torn_bytes > 0 && damage.bad_spots == 0);
    assert!(damage.to_string().contains("torn tail"));
}

#[test]
fn what_is_no_record_is_refused_by_name() {
    let good = write(&[]);
    let mut newer = good.clone();
    newer[8] = 9;
    let crc = crc32fast::hash(&newer[..12]).to_le_bytes();
    newer[12..16].copy_from_slice(&crc);
    for (bytes, text) in [
        (&b""[..], "the record is empty"),
        (b"PERFILE2 and so on and on", "not a record that can be read"),
        (b"perhaps", "not a record of isotherm"),
        (b"x", "not a record of isotherm"),
        (&good[..5], "the record is cut off before its first frame"),
        (&good[..40], "the record is cut off before its first frame"),
        (&newer, "the record is of format version 9"),
    ] {
        let got = Record::from_bytes(bytes).unwrap_err().to_string();
        assert!(got.starts_with(text), "{got}");
        assert!(got.contains("\n  hint:  "), "{got}");
    }
    let missing = Record::open("no/such/file").unwrap_err().to_string();
    assert!(missing.contains("tried: open no/such/file"), "{missing}");
}

#[test]
fn a_damaged_header_costs_the_header_only() {
    let mut bytes = write(&[Owned::Snapshot(window(0, 3))]);
    bytes[60] ^= 1;
    let record = Record::from_bytes(bytes).unwrap();
    assert_eq!(record.header(), &Header::default());
    let mut reader = record.reader().unwrap();
    assert!(matches!(reader.next_event(), Ok(Some(isotherm_record::Event::Snapshot(_)))));
    assert_eq!(reader.damage().lost_frames, 1);
}

/// As agents had it before there were rows of cgroups: the kind of the event is not known.
#[test]
fn an_unknown_event_is_skipped_and_counted() {
    use isotherm_record::{CgroupUse, Cgroups};
    let note =
        |text: &str| Owned::Note(isotherm_record::Note { text: text.into(), ..Default::default() });
    let rows = Cgroups { cgroups: vec![CgroupUse::default()], ..Cgroups::default() };
    let events = [note("a"), Owned::Cgroups(rows), note("b")];
    let name = b"\"cgroups\":{";
    let mut bytes = write(&events);
    // The frame is made anew with another name of the event, of the same length.
    let at = bytes.windows(name.len()).position(|w| w == name);
    let at = at.expect("so short an event is not packed");
    bytes[at + 1] = b'k';
    let start = (0..at).rev().find(|i| bytes[*i..].starts_with(b"\xf1Iso")).unwrap();
    let len = u32::from_le_bytes(bytes[start + 8..start + 12].try_into().unwrap()) as usize;
    let payload = crc32fast::hash(&bytes[start + 32..start + 32 + len]);
    bytes[start + 24..start + 28].copy_from_slice(&payload.to_le_bytes());
    let header = crc32fast::hash(&bytes[start..start + 28]);
    bytes[start + 28..start + 32].copy_from_slice(&header.to_le_bytes());
    let (got, damage) = read(&bytes).unwrap();
    assert_eq!(got, [note("a"), note("b"), Owned::End("over".into())]);
    assert_eq!((damage.unknown_frames, damage.bad_spots), (1, 0));
}
