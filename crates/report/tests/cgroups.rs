//! Rows of many cgroups: how much room they take in an agent's history, and how they are read.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use std::time::Instant;

use isotherm_core::{Rng, Time};
use isotherm_record::{CgroupUse, Cgroups, Header, Record, Writer};
use isotherm_report::cgroups::{Build, Report};

const S: u64 = 1_000_000_000;
/// An agent writes five rows per second and context at most.
const ROWS_PER_S: u64 = 5;
/// The frames that an agent writes least often are so far from each other.
const LEAST_S: u64 = 10;

/// Bytes of whole pages, up to 1 GiB.
fn bytes(rng: &mut Rng) -> u64 {
    rng.range(0, 1 << 18) << 12
}

/// A row of which every size is another one than in the row before.
fn row(nr: u64, watched_s: u64, rng: &mut Rng) -> CgroupUse {
    let long = |s| watched_s >= s;
    CgroupUse {
        cgroup: format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{nr:08x}.slice"
        ),
        processes: 1 + rng.range(0, 8),
        watched_ns: watched_s * S + rng.range(0, S),
        hot: bytes(rng),
        warm: bytes(rng),
        cold: bytes(rng),
        unresolved: rng.range(0, 1 << 8) << 12,
        working_set: bytes(rng),
        touched: (0..5).map(|_| Some(bytes(rng))).collect(),
        idle: [60, 600, 3600].map(|s| long(s).then(|| bytes(rng))).to_vec(),
        ..CgroupUse::default()
    }
}

/// A record of so many seconds, as an agent writes it.
fn record(cgroups: u64, seconds: u64) -> Vec<u8> {
    let header = Header { started_ns: 100 * S, ..Header::default() };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let mut rng = Rng::seeded(cgroups);
    let every = LEAST_S.max(cgroups / ROWS_PER_S);
    for at in (every..=seconds).step_by(usize::try_from(every).unwrap()) {
        let rows = Cgroups {
            t_ns: (100 + at) * S,
            seen_ns: every * S,
            spans_us: vec![5_000, 100_000, 1_000_000, 10_000_000, 60_000_000],
            idle_ms: vec![60_000, 600_000, 3_600_000],
            cgroups: (0..cgroups).map(|nr| row(nr, at, &mut rng)).collect(),
        };
        writer.cgroups(rows).unwrap();
    }
    writer.finish(Time(0), "over").unwrap().0
}

/// What is told of it, and how many ms it took.
fn read(bytes: Vec<u8>, matches: impl Fn(&str) -> bool) -> (Report, f64) {
    let record = Record::from_bytes(bytes).unwrap();
    let began = Instant::now();
    let mut build = Build::default();
    build.add("p/c", &record, Time(0), matches).unwrap();
    let report = build.report(None);
    (report, began.elapsed().as_secs_f64() * 1000.0)
}

/// However many cgroups there are, an hour has a bound: more of them have rows less often.
#[test]
fn an_hour_of_many_cgroups_is_no_more_than_one_of_fifty() {
    let sizes = [50, 500, 2000].map(|cgroups| (cgroups, record(cgroups, 3600).len()));
    eprintln!("bytes per hour by cgroups: {sizes:?}");
    assert!(sizes.iter().all(|(_, size)| *size <= 4 << 20), "{sizes:?}");
}

#[test]
fn hours_of_many_cgroups_are_read_and_one_of_them_is_found() {
    let (cgroups, hours) = (500, 8);
    let bytes = record(cgroups, hours * 3600);
    let (report, all_ms) = read(bytes.clone(), |_| true);
    let (one, one_ms) = read(bytes, |cgroup| cgroup.ends_with("pod00000007.slice"));
    eprintln!("{hours} hours of {cgroups} cgroups: read in {all_ms:.0} ms, one in {one_ms:.0} ms");
    assert_eq!((report.cgroups.len() as u64, one.cgroups.len()), (cgroups, 1));
    let every = LEAST_S.max(cgroups / ROWS_PER_S);
    assert!(report.cgroups.iter().all(|line| line.rows == hours * 3600 / every));
    let found = report.cgroups.iter().find(|line| line.cgroup == one.cgroups[0].cgroup);
    assert_eq!(found, one.cgroups.first(), "the same, whoever is left out");
    assert_eq!(report.to_text().matches("watched for ").count() as u64, cgroups);
}
