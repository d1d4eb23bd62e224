//! The text exports: names are quoted where they must be, and follow the target.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use isotherm_core::{
    AddrRange, PageBits, RegionInfo, Snapshot, TargetId, TargetInfo, Time, Touched, TouchedBytes,
    TouchedShare, UnitInfo,
};
use isotherm_record::export::{self, Table};
use isotherm_record::{Exec, Header, Mapping, Record, Target, Writer};

fn record() -> Record {
    let header = Header {
        host: "node-17".into(),
        started_ns: 50,
        started_unix_ns: 1_700_000_000_000_000_000,
        ..Header::default()
    };
    let mut w = Writer::new(Vec::new(), &header).unwrap();
    w.target(&Target { id: 0, pid: 12, name: "a \"b\", c".into(), ..Target::default() }).unwrap();
    let mappings = [
        Mapping::new(0x1000, 0x2000, "r-xp", "/usr/bin/a"),
        Mapping::new(0x2000, 0x9000, "rw-p", "[heap]"),
    ];
    w.mappings(Time(60), TargetId(0), &mappings).unwrap();
    let snapshot = |end, nr_accesses| Snapshot {
        start: Time(end - 40),
        end: Time(end),
        aggr_us: 1,
        sample_us: 1,
        max_nr_accesses: 20,
        targets: vec![TargetInfo {
            id: TargetId(0),
            regions: vec![RegionInfo {
                range: AddrRange::new(0x1000, 0x7fff_ffff_f000),
                nr_accesses,
                age: 7,
                lo: 0.0,
                hi: 20.0,
                resolved: nr_accesses > 0,
                ..RegionInfo::default()
            }],
            ..TargetInfo::default()
        }],
        ..Snapshot::default()
    };
    w.push_snapshot(&snapshot(100, 3)).unwrap();
    w.exec(&Exec { id: 0, name: "sh".into(), t_ns: 150 }).unwrap();
    w.push_snapshot(&snapshot(200, 0)).unwrap();
    Record::from_bytes(w.finish(Time(200), "over").unwrap().0).unwrap()
}

#[test]
fn csv() {
    let mut out = Vec::new();
    export::csv(Table::Regions, &mut record().reader().unwrap(), &mut out).unwrap();
    expect_test::expect![[r#"
        host,t_ns,time,pid,target,window_ns,start,end,mapping,kind,nr_accesses,max_nr_accesses,age,lo,hi,resolved,touched_window,touched_1s
        node-17,100,2023-11-14T22:13:20.000000050Z,12,"a ""b"", c",40,4096,140737488351232,[heap],heap,3,20,7,0,20,true,,
        node-17,200,2023-11-14T22:13:20.000000150Z,12,sh,40,4096,140737488351232,[heap],heap,0,20,7,0,20,false,,
    "#]]
    .assert_eq(&String::from_utf8(out).unwrap());
}

#[test]
fn jsonl() {
    let mut out = Vec::new();
    export::jsonl(Table::Regions, &mut record().reader().unwrap(), &mut out).unwrap();
    expect_test::expect![[r#"
        {"host":"node-17","t_ns":100,"time":"2023-11-14T22:13:20.000000050Z","pid":12,"target":"a \"b\", c","window_ns":40,"start":4096,"end":140737488351232,"mapping":"[heap]","kind":"heap","nr_accesses":3,"max_nr_accesses":20,"age":7,"lo":0.0,"hi":20.0,"resolved":true,"touched_window":null,"touched_1s":null}
        {"host":"node-17","t_ns":200,"time":"2023-11-14T22:13:20.000000150Z","pid":12,"target":"sh","window_ns":40,"start":4096,"end":140737488351232,"mapping":"[heap]","kind":"heap","nr_accesses":0,"max_nr_accesses":20,"age":7,"lo":0.0,"hi":20.0,"resolved":false,"touched_window":null,"touched_1s":null}
    "#]]
    .assert_eq(&String::from_utf8(out).unwrap());
}

/// Of a region the share within a window is known, of another one nothing.
#[test]
fn regions_have_the_shares_of_pages_that_were_recorded() {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    let region = |start: u64, touched: Option<TouchedShare>| RegionInfo {
        range: AddrRange::new(start, start + 0x1000),
        resolved: touched.is_some(),
        touched,
        ..RegionInfo::default()
    };
    let share = |window| TouchedShare { window, second: Some(0.25), leaf_shift: 12 };
    let regions = vec![
        region(0x1000, Some(share(None))),
        region(0x2000, None),
        region(0x3000, Some(share(Some(1.0)))),
    ];
    let targets = vec![TargetInfo { regions, ..TargetInfo::default() }];
    for end in [100, 200] {
        let targets = targets.clone();
        w.push_snapshot(&Snapshot { end: Time(end), targets, ..Snapshot::default() }).unwrap();
    }
    let record = Record::from_bytes(w.finish(Time(200), "over").unwrap().0).unwrap();
    let mut out = Vec::new();
    export::csv(Table::Regions, &mut record.reader().unwrap(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let ends: Vec<_> = text.lines().skip(1).map(|l| l.split_once("e,").unwrap().1).collect();
    assert_eq!(ends, [",0.25", ",", "1,0.25"].repeat(2));
}

/// A unit of which two pages were touched within a window, and one since then.
fn record_of_pages() -> Record {
    let mut w = Writer::new(Vec::new(), &Header { host: "h".into(), ..Header::default() }).unwrap();
    w.target(&Target { id: 0, pid: 12, name: "a, b".into(), ..Target::default() }).unwrap();
    let mut unit = UnitInfo {
        start: 1 << 21,
        since: Time(50),
        present: PageBits([u64::MAX, 0, 0, 0, 0, 0, 0, 0]),
        young: Some(PageBits::page(0)),
        leaf_shift: 12,
        ..UnitInfo::default()
    };
    unit.touched[1] = Some(PageBits([1 << 63, 0, 0, 0, 0, 0, 0, 1]));
    let within = TouchedBytes { bytes: 8192, lo: 4096, hi: 12288, measured: 1 << 21 };
    let spans = [None, Some(within), None, None, None];
    let touched = Some(Touched { spans, watched: 1 << 22 });
    let targets = vec![TargetInfo { units: vec![unit], touched, ..TargetInfo::default() }];
    w.push_snapshot(&Snapshot { end: Time(100), targets, ..Snapshot::default() }).unwrap();
    Record::from_bytes(w.finish(Time(200), "over").unwrap().0).unwrap()
}

#[test]
fn csv_of_pages() {
    let mut out = Vec::new();
    assert_eq!(
        export::csv(Table::Pages, &mut record_of_pages().reader().unwrap(), &mut out).unwrap(),
        1
    );
    expect_test::expect![[r#"
        host,t_ns,time,pid,target,start,mapping,since_ns,leaf_sz,nr_present,nr_unresolved,nr_touched_sample,nr_touched_window,nr_touched_1s,nr_touched_10s,nr_touched_1min,present,unresolved,touched_sample,touched_window,touched_1s,touched_10s,touched_1min,found,found_after_ns,young
        h,100,,12,"a, b",2097152,,50,4096,64,0,,2,,,,ffffffffffffffff0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000,00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000,,00000000000000800000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000100000000000000,,,,,,01000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
    "#]].assert_eq(&String::from_utf8(out).unwrap());
}

#[test]
fn jsonl_of_pages() {
    let mut out = Vec::new();
    export::jsonl(Table::Pages, &mut record_of_pages().reader().unwrap(), &mut out).unwrap();
    expect_test::expect![[r#"
        {"host":"h","t_ns":100,"time":null,"pid":12,"target":"a, b","start":2097152,"mapping":null,"since_ns":50,"leaf_sz":4096,"nr_present":64,"nr_unresolved":0,"nr_touched_sample":null,"nr_touched_window":2,"nr_touched_1s":null,"nr_touched_10s":null,"nr_touched_1min":null,"present":"ffffffffffffffff0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000","unresolved":"00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000","touched_sample":null,"touched_window":"00000000000000800000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000100000000000000","touched_1s":null,"touched_10s":null,"touched_1min":null,"found":null,"found_after_ns":null,"young":"01000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"}
    "#]].assert_eq(&String::from_utf8(out).unwrap());
    let rows = export::csv(Table::Pages, &mut record().reader().unwrap(), &mut Vec::new());
    assert_eq!(rows.unwrap(), 0);
}

fn text(table: Table) -> String {
    let mut out = Vec::new();
    export::csv(table, &mut record().reader().unwrap(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A record keeps them with the page maps.
#[test]
fn snapshots_have_the_working_sets_that_page_maps_tell() {
    let mut out = Vec::new();
    export::csv(Table::Snapshots, &mut record_of_pages().reader().unwrap(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let mut lines = text.lines();
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap().replace("a, b", "a b"));
    let of = |name| {
        let at = names.split(',').position(|n| n == name);
        values.split(',').nth(at.unwrap()).unwrap()
    };
    let names = ["watched", "touched_window", "touched_window_lo", "touched_window_hi"];
    assert_eq!(names.map(of), ["4194304", "8192", "4096", "12288"]);
    assert_eq!([of("touched_window_measured"), of("touched_1s")], ["2097152", ""]);
}

#[test]
fn the_other_tables() {
    expect_test::expect![[r#"
        host,t_ns,time,pid,target,seq,window_ns,missing_ns,sample_us,aggr_us,nr_regions,mapped,unresolved,wss,wss_lo,wss_hi,watched,touched_sample,touched_sample_lo,touched_sample_hi,touched_sample_measured,touched_window,touched_window_lo,touched_window_hi,touched_window_measured,touched_1s,touched_1s_lo,touched_1s_hi,touched_1s_measured,touched_10s,touched_10s_lo,touched_10s_hi,touched_10s_measured,touched_1min,touched_1min_lo,touched_1min_hi,touched_1min_measured,checks,clears,cpu_ns,target_ns
        node-17,100,2023-11-14T22:13:20.000000050Z,12,"a ""b"", c",0,40,0,1,1,1,140737488347136,0,140737488347136,0,140737488347136,,,,,,,,,,,,,,,,,,,,,,0,0,0,
        node-17,200,2023-11-14T22:13:20.000000150Z,12,sh,0,40,0,1,1,1,140737488347136,140737488347136,0,0,0,,,,,,,,,,,,,,,,,,,,,,0,0,0,
    "#]].assert_eq(&text(Table::Snapshots));
    expect_test::expect![[r#"
        host,t_ns,time,pid,target,start,end,perms,kind,mapping,device,inode,offset
        node-17,60,2023-11-14T22:13:20.000000010Z,12,"a ""b"", c",4096,8192,r-xp,file,/usr/bin/a,,,
        node-17,60,2023-11-14T22:13:20.000000010Z,12,"a ""b"", c",8192,36864,rw-p,heap,[heap],,,
    "#]]
    .assert_eq(&text(Table::Mappings));
    expect_test::expect![[r#"
        host,t_ns,time,pid,target,event,ppid,status,text
        node-17,0,2023-11-14T22:13:19.999999950Z,12,"a ""b"", c",target,,,
        node-17,150,2023-11-14T22:13:20.000000100Z,12,sh,exec,,,
        node-17,200,2023-11-14T22:13:20.000000150Z,0,,end,,,over
    "#]]
    .assert_eq(&text(Table::Events));
}
