//! A small record of two processes, one of which uses its heap first and a file later.

use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
use isotherm_record::{Exit, Header, Mapping, Record, Target, Writer};

/// The monotonic clock at the start.
pub(crate) const T0: u64 = 5_000_000_000;
const WINDOW: u64 = 100_000_000;
const MIB: u64 = 1 << 20;
pub(crate) const HEAP: u64 = 0x5555_5000_0000;
pub(crate) const FILE: u64 = 0x7f00_0000_0000;
pub(crate) const STACK: u64 = 0x7fff_0000_0000;

fn region(start: u64, mib: u64, nr: u32, age: u32) -> RegionInfo {
    let bar = if nr == 0 { (0.0, 1.0) } else { (18.0, 20.0) };
    RegionInfo {
        range: AddrRange::new(start, start + mib * MIB),
        nr_accesses: nr,
        age,
        lo: bar.0,
        hi: bar.1,
        resolved: true,
        ..RegionInfo::default()
    }
}

/// Window number `n` of 60: 8 MiB of the heap are hot for 3 s, then 16 MiB of the file.
pub(crate) fn snapshot(n: u32) -> Snapshot {
    let early = n < 30;
    let age = if early { n } else { n - 30 };
    let (heap, file) = if early { (20, 0) } else { (0, 20) };
    let locked = RegionInfo { resolved: false, lo: 0.0, hi: 20.0, ..region(STACK, 1, 0, 0) };
    let first = vec![
        region(HEAP, 8, heap, age),
        region(HEAP + 8 * MIB, 24, 0, n),
        region(FILE, 16, file, age),
        region(FILE + 16 * MIB, 48, 0, n),
        locked,
    ];
    let second = vec![region(HEAP, 4, 5, n)];
    let mut targets = vec![TargetInfo { id: TargetId(0), regions: first, ..TargetInfo::default() }];
    if n < 20 {
        targets.push(TargetInfo { id: TargetId(1), regions: second, ..TargetInfo::default() });
    }
    Snapshot {
        seq: u64::from(n),
        start: Time(T0 + u64::from(n) * WINDOW),
        end: Time(T0 + u64::from(n + 1) * WINDOW),
        sample_us: 5_000,
        aggr_us: 100_000,
        max_nr_accesses: 20,
        targets,
        ..Snapshot::default()
    }
}

fn target(id: u32, pid: u32, name: &str) -> Target {
    Target { id, pid, ppid: 1, name: name.into(), t_ns: T0, memory: None }
}

/// A record without snapshots.
pub(crate) fn writer() -> Writer<Vec<u8>> {
    let header = Header { host: "node-17".into(), started_ns: T0, ..Header::default() };
    let mut w = Writer::new(Vec::new(), &header).unwrap();
    w.target(&target(0, 4711, "database")).unwrap();
    w
}

/// The whole record.
pub(crate) fn record() -> Record {
    let mut w = writer();
    w.target(&target(1, 4712, "cat<&>")).unwrap();
    let map = |start, mib, perms, name| Mapping::new(start, start + mib * MIB, perms, name);
    let maps = [
        map(HEAP, 32, "rw-p", "[heap]"),
        map(FILE, 64, "r--s", "/var/lib/data.mdb"),
        map(STACK, 1, "rw-p", "[stack]"),
    ];
    w.mappings(Time(T0), TargetId(0), &maps).unwrap();
    for n in 0..60 {
        if n == 20 {
            let t_ns = T0 + 20 * WINDOW;
            w.exit(&Exit { id: 1, status: Some(0), t_ns }).unwrap();
        }
        w.push_snapshot(&snapshot(n)).unwrap();
    }
    let (bytes, _) = w.finish(Time(T0 + 60 * WINDOW), "interrupted").unwrap();
    Record::from_bytes(bytes).unwrap()
}
