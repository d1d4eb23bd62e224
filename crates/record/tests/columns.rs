//! The binary exports hold what the text says: types, nulls, and every value.
#![cfg(all(feature = "arrow", feature = "parquet"))]
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use std::io::Cursor;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{DataType, TimeUnit};
use isotherm_core::{
    AddrRange, PageBits, RegionInfo, Snapshot, TargetId, TargetInfo, Time, Touched, TouchedBytes,
    TouchedShare, UnitInfo,
};
use isotherm_record::export::arrow::{Layout, Stream, arrow};
use isotherm_record::export::{self, Table};
use isotherm_record::{Exec, Exit, Header, Mapping, Object, Record, Target, Writer};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

/// One of everything, with and without values that may be missing.
fn record() -> Record {
    let header = Header {
        host: "node-17".into(),
        started_unix_ns: 1_700_000_000_000_000_000,
        ..Header::default()
    };
    let mut w = Writer::new(Vec::new(), &header).unwrap();
    w.target(&Target { id: 3, pid: 77, ppid: 1, name: "a,b".into(), ..Target::default() }).unwrap();
    let file = Mapping::new(0x1000, 0x9000, "r-xp", "/usr/lib/x.so");
    let file = file.of_object(Object { device: 8 << 32 | 1, inode: 42, offset: 4096 });
    let heap = Mapping::new(0x9000, 0x20000, "rw-p", "");
    w.mappings(Time(1), TargetId(3), &[file, heap]).unwrap();
    let region = |start, end, nr_accesses: u32, touched| RegionInfo {
        range: AddrRange::new(start, end),
        nr_accesses,
        age: u32::MAX,
        hi: 20.0,
        resolved: nr_accesses > 0,
        touched,
        ..RegionInfo::default()
    };
    let share = TouchedShare { window: Some(0.5), second: None, leaf_shift: 12 };
    let span = TouchedBytes { bytes: 4096, lo: 0, hi: 8192, measured: 65536 };
    let mut unit = UnitInfo { start: 1 << 21, present: PageBits::ALL, ..UnitInfo::default() };
    unit.touched[1] = Some(PageBits::page(9));
    let other = UnitInfo { start: 1 << 22, leaf_shift: 21, ..UnitInfo::default() };
    w.push_snapshot(&Snapshot {
        start: Time(100),
        end: Time(u64::MAX - 1),
        max_nr_accesses: 20,
        targets: vec![TargetInfo {
            id: TargetId(3),
            regions: vec![
                region(0x2000, 0xa000, 9, Some(share)),
                region(0xa000, 0x20000, 1, None),
                region(0x4000_0000, u64::MAX - 4095, 0, None),
            ],
            touched: Some(Touched {
                spans: [None, Some(span), None, None, None],
                watched: 1 << 20,
            }),
            units: vec![unit, other],
        }],
        ..Snapshot::default()
    })
    .unwrap();
    w.exit(&Exit { id: 3, status: Some(-9), t_ns: 7 }).unwrap();
    Record::from_bytes(w.finish(Time(8), "over").unwrap().0).unwrap()
}

fn csv(table: Table) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    export::csv(table, &mut record().reader().unwrap(), &mut out).unwrap();
    // The only quoted value is the target's name.
    let text = String::from_utf8(out).unwrap().replace("\"a,b\"", "a;b");
    text.lines().map(|line| line.split(',').map(|c| c.replace(';', ",")).collect()).collect()
}

/// A time of the CSV is checked by hand, not formatted here a second time.
fn is_time(name: &str) -> bool {
    name == "time"
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn arrow_cell(batch: &RecordBatch, column: usize, row: usize) -> String {
    let array = batch.column(column);
    if array.is_null(row) {
        return String::new();
    }
    match array.data_type() {
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::FixedSizeBinary(64) => hex(array.as_fixed_size_binary().value(row)),
        DataType::Dictionary(..) => {
            let names = array.as_dictionary::<Int32Type>();
            let key = usize::try_from(names.keys().value(row)).unwrap();
            names.values().as_string::<i32>().value(key).to_owned()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, Some(zone)) if &**zone == "UTC" => {
            array.as_primitive::<TimestampNanosecondType>().value(row).to_string()
        }
        other => panic!("{other}"),
    }
}

fn arrow_batches(table: Table, layout: Layout) -> Vec<RecordBatch> {
    let mut out = Vec::new();
    arrow(table, &mut record().reader().unwrap(), &mut out, layout).unwrap();
    let out = Cursor::new(out);
    match layout {
        Layout::File => FileReader::try_new(out, None).unwrap().map(Result::unwrap).collect(),
        Layout::Stream => StreamReader::try_new(out, None).unwrap().map(Result::unwrap).collect(),
    }
}

#[test]
fn arrow_holds_what_the_text_says() {
    for table in Table::ALL {
        let want = csv(table);
        let stream = Stream::new(table, record().reader().unwrap()).unwrap();
        for batches in [
            arrow_batches(table, Layout::File),
            arrow_batches(table, Layout::Stream),
            stream.map(Result::unwrap).collect(),
        ] {
            let [batch] = &batches[..] else { panic!("{} batches", batches.len()) };
            assert_eq!(batch.num_rows() + 1, want.len(), "{}", table.name());
            for (nr, field) in batch.schema().fields().iter().enumerate() {
                assert_eq!(*field.name(), want[0][nr]);
                let rows = 0..batch.num_rows();
                let got: Vec<_> = rows.map(|row| arrow_cell(batch, nr, row)).collect();
                let want: Vec<_> = want[1..].iter().map(|row| row[nr].clone()).collect();
                assert!(is_time(field.name()) || got == want, "{field}: {got:?} {want:?}");
            }
        }
    }
}

fn parquet_cell(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::ULong(x) => x.to_string(),
        Field::UInt(x) => x.to_string(),
        Field::Int(x) => x.to_string(),
        Field::Float(x) => x.to_string(),
        Field::Bool(x) => x.to_string(),
        Field::Str(x) => x.clone(),
        Field::Bytes(x) => hex(x.data()),
        Field::Long(ns) => ns.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn parquet_holds_what_the_text_says() {
    for table in Table::ALL {
        let want = csv(table);
        let mut out = Vec::new();
        let rows = export::parquet(table, &mut record().reader().unwrap(), &mut out).unwrap();
        assert_eq!(usize::try_from(rows).unwrap() + 1, want.len());
        let file = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
        for (row, want_row) in file.get_row_iter(None).unwrap().map(Result::unwrap).zip(&want[1..])
        {
            for (nr, (name, field)) in row.get_column_iter().enumerate() {
                assert_eq!(*name, want[0][nr]);
                assert!(is_time(name) || parquet_cell(field) == want_row[nr], "{name}: {field}");
            }
        }
    }
}

#[test]
fn values_are_what_was_recorded() {
    let batch = arrow_batches(Table::Regions, Layout::File).remove(0);
    let column = |name| batch.column_by_name(name).unwrap().clone();
    let mapping = column("mapping");
    // The mapping with most of the first region is the file; nothing is known of the last one.
    assert_eq!(mapping.as_string::<i32>().value(0), "/usr/lib/x.so");
    assert_eq!(mapping.as_string::<i32>().value(1), "[anon]");
    assert!(mapping.is_null(2) && column("kind").is_null(2));
    assert_eq!(column("window_ns").as_primitive::<UInt64Type>().value(0), u64::MAX - 101);
    // It is behind what 64 bits of nanoseconds since 1970 can say.
    assert!(column("time").is_null(0));
    let events = arrow_batches(Table::Events, Layout::File).remove(0);
    let times = events.column_by_name("time").unwrap().clone();
    let exit = times.as_primitive::<TimestampNanosecondType>().value(1);
    assert_eq!(exit, 1_700_000_000_000_000_007);
}

/// Long enough for several threads. The target executes and its mappings change on the way.
#[test]
fn a_long_stream_is_what_was_recorded_in_order() {
    const REGIONS: u64 = 1500;
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    w.target(&Target { id: 3, pid: 77, name: "first".into(), ..Target::default() }).unwrap();
    let region = |nr: u64, t: u64| RegionInfo {
        range: AddrRange::new(nr << 21, (nr + 1) << 21),
        nr_accesses: u32::try_from((nr * 7 + t) % 21).unwrap(),
        ..RegionInfo::default()
    };
    for t in 0..300 {
        let now = Time(t * 100_000_000);
        if t % 50 == 0 {
            let name = format!("/mapping-{t}");
            let all = [Mapping::new(0, (REGIONS / 2) << 21, "rw-p", &name)];
            w.mappings(now, TargetId(3), &all).unwrap();
        }
        if t == 170 {
            w.exec(&Exec { id: 3, name: "second".into(), t_ns: now.0 }).unwrap();
        }
        let regions = (0..REGIONS).map(|nr| region(nr, t)).collect();
        let targets = vec![TargetInfo { id: TargetId(3), regions, ..TargetInfo::default() }];
        let (start, end) = (now, Time(now.0 + 100_000_000));
        let max_nr_accesses = 20;
        w.push_snapshot(&Snapshot { start, end, max_nr_accesses, targets, ..Snapshot::default() })
            .unwrap();
    }
    let record = Record::from_bytes(w.finish(Time(1 << 40), "over").unwrap().0).unwrap();
    let stream = Stream::new(Table::Regions, record.reader().unwrap()).unwrap();
    let batches: Vec<_> = stream.map(Result::unwrap).collect();
    assert!(batches.len() > 2, "{} batches", batches.len());
    let column = |name: &str| batches[0].schema().index_of(name).unwrap();
    let (time, target, mapping) = (column("t_ns"), column("target"), column("mapping"));
    let (start, hits) = (column("start"), column("nr_accesses"));
    let mut row = 0;
    for batch in &batches {
        for at in 0..batch.num_rows() {
            let (t, nr) = (row / REGIONS, row % REGIONS);
            row += 1;
            if row % 97 != 0 {
                continue;
            }
            let cell = |column| arrow_cell(batch, column, at);
            assert_eq!(cell(time), ((t + 1) * 100_000_000).to_string(), "row {row}");
            assert_eq!(cell(start), (nr << 21).to_string());
            assert_eq!(cell(hits), region(nr, t).nr_accesses.to_string());
            assert_eq!(cell(target), if t < 170 { "first" } else { "second" }, "window {t}");
            let known = nr < REGIONS / 2;
            let name = if known { format!("/mapping-{}", t / 50 * 50) } else { String::new() };
            assert_eq!(cell(mapping), name, "window {t}");
        }
    }
    assert_eq!(row, 300 * REGIONS);
}
