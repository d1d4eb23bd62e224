//! The text exports: names are quoted where they must be, and follow the target.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use isotherm_core::{
    AddrRange, PageBits, RegionInfo, Snapshot, TargetId, TargetInfo, Time, UnitInfo,
};
use isotherm_record::{Exec, Header, Record, Target, Writer, export};

fn record() -> Record {
    let header = Header { host: "node-17".into(), ..Header::default() };
    let mut w = Writer::new(Vec::new(), &header).unwrap();
    w.target(&Target { id: 0, pid: 12, name: "a \"b\", c".into(), ..Target::default() }).unwrap();
    let snapshot = |end, nr_accesses| Snapshot {
        end: Time(end),
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
    export::csv(&mut record().reader().unwrap(), &mut out).unwrap();
    expect_test::expect![[r#"
        host,t_ns,pid,target,start,end,nr_accesses,max_nr_accesses,age,lo,hi,resolved
        node-17,100,12,"a ""b"", c",4096,140737488351232,3,20,7,0,20,true
        node-17,200,12,sh,4096,140737488351232,0,20,7,0,20,false
    "#]]
    .assert_eq(&String::from_utf8(out).unwrap());
}

#[test]
fn jsonl() {
    let mut out = Vec::new();
    export::jsonl(&mut record().reader().unwrap(), &mut out).unwrap();
    expect_test::expect![[r#"
        {"host":"node-17","t_ns":100,"pid":12,"target":"a \"b\", c","start":4096,"end":140737488351232,"nr_accesses":3,"max_nr_accesses":20,"age":7,"lo":0.0,"hi":20.0,"resolved":true}
        {"host":"node-17","t_ns":200,"pid":12,"target":"sh","start":4096,"end":140737488351232,"nr_accesses":0,"max_nr_accesses":20,"age":7,"lo":0.0,"hi":20.0,"resolved":false}
    "#]]
    .assert_eq(&String::from_utf8(out).unwrap());
}

/// A unit of which two pages were touched within a window, and nothing else is known.
fn record_of_pages() -> Record {
    let mut w = Writer::new(Vec::new(), &Header { host: "h".into(), ..Header::default() }).unwrap();
    w.target(&Target { id: 0, pid: 12, name: "a, b".into(), ..Target::default() }).unwrap();
    let mut unit = UnitInfo {
        start: 1 << 21,
        since: Time(50),
        present: PageBits([u64::MAX, 0, 0, 0, 0, 0, 0, 0]),
        leaf_shift: 12,
        ..UnitInfo::default()
    };
    unit.touched[1] = Some(PageBits([1 << 63, 0, 0, 0, 0, 0, 0, 1]));
    let targets = vec![TargetInfo { units: vec![unit], ..TargetInfo::default() }];
    w.push_snapshot(&Snapshot { end: Time(100), targets, ..Snapshot::default() }).unwrap();
    Record::from_bytes(w.finish(Time(200), "over").unwrap().0).unwrap()
}

#[test]
fn csv_of_pages() {
    let mut out = Vec::new();
    assert_eq!(export::pages::csv(&mut record_of_pages().reader().unwrap(), &mut out).unwrap(), 1);
    expect_test::expect![[r#"
        host,t_ns,pid,target,start,since_ns,leaf_sz,nr_present,nr_unresolved,nr_touched_sample,nr_touched_window,nr_touched_1s,nr_touched_10s,nr_touched_1min,present,unresolved,touched_sample,touched_window,touched_1s,touched_10s,touched_1min
        h,100,12,"a, b",2097152,50,4096,64,0,,2,,,,ffffffffffffffff0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000,00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000,,00000000000000800000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000100000000000000,,,
    "#]].assert_eq(&String::from_utf8(out).unwrap());
}

#[test]
fn jsonl_of_pages() {
    let mut out = Vec::new();
    export::pages::jsonl(&mut record_of_pages().reader().unwrap(), &mut out).unwrap();
    expect_test::expect![[r#"
        {"host":"h","t_ns":100,"pid":12,"target":"a, b","start":2097152,"since_ns":50,"leaf_sz":4096,"nr_present":64,"nr_unresolved":0,"nr_touched_sample":null,"nr_touched_window":2,"nr_touched_1s":null,"nr_touched_10s":null,"nr_touched_1min":null,"present":"ffffffffffffffff0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000","unresolved":"00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000","touched_sample":null,"touched_window":"00000000000000800000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000100000000000000","touched_1s":null,"touched_10s":null,"touched_1min":null}
    "#]].assert_eq(&String::from_utf8(out).unwrap());
    assert_eq!(export::pages::csv(&mut record().reader().unwrap(), &mut Vec::new()).unwrap(), 0);
}
