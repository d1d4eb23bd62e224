//! Writes a record of invented snapshots, which are realistic in size and churn, for measurements.
//!
//! ```text
//! cargo run --release -p isotherm-record --example synthetic -- FILE [SECONDS] [REGIONS]
//! ```
//!
//! The target has a few mappings far apart. A hot set in a mapping of 2 GiB moves every ten
//! minutes. In every window random regions split and similar neighbours merge, so that about one
//! border in ten is new. The counts of hot regions and the bounds of all regions jitter, as sampled
//! numbers do.
use std::path::Path;
use std::time::Instant;

use isotherm_core::{AddrRange, Cost, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
use isotherm_record::{AttrsInfo, Event, Header, Mapping, Record, Target, Writer};

const MAX: u32 = 20;
const WINDOW_NS: u64 = 100_000_000;

/// Xorshift, which is good enough for invented numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }
}

fn mappings() -> Vec<Mapping> {
    let m =
        |start: u64, mib: u64, perms, name| Mapping::new(start, start + (mib << 20), perms, name);
    vec![
        m(0x5555_0000_0000, 8, "r-xp", "/usr/bin/synthetic"),
        m(0x5555_1000_0000, 200, "rw-p", "[heap]"),
        m(0x7f00_0000_0000, 2048, "rw-p", ""),
        m(0x7f10_0000_0000, 64, "r--s", "/var/lib/index.dat"),
        m(0x7fff_ff00_0000, 1, "rw-p", "[stack]"),
    ]
}

/// The true rate at an address, out of [`MAX`].
fn rate(addr: u64, t_s: u64, random: &mut Random) -> u32 {
    let hot = 0x7f00_0000_0000 + ((((t_s / 600) % 5) * 400) << 20);
    let sure = if (hot..hot + (200 << 20)).contains(&addr) {
        18
    } else if (0x5555_1000_0000..0x5555_1400_0000).contains(&addr) || addr > 0x7fff_0000_0000 {
        9
    } else {
        return 0;
    };
    u32::try_from(sure + random.below(3)).unwrap_or(MAX).min(MAX)
}

fn windows(seconds: u64, nr_regions: usize, mut f: impl FnMut(&Snapshot)) {
    let mut random = Random(0x1234_5678_9abc_def1);
    let fresh = |m: &Mapping| RegionInfo {
        range: AddrRange::new(m.start, m.end),
        resolved: true,
        ..RegionInfo::default()
    };
    let maps = mappings();
    let mut s = Snapshot {
        sample_us: 5_000,
        aggr_us: 100_000,
        max_nr_accesses: MAX,
        targets: vec![TargetInfo {
            id: TargetId(0),
            regions: maps.iter().map(fresh).collect(),
            ..TargetInfo::default()
        }],
        ..Snapshot::default()
    };
    for seq in 0..seconds * 10 {
        s.seq = seq;
        s.start = Time(5_000_000_000 + seq * WINDOW_NS);
        s.end = s.start + WINDOW_NS;
        s.cost =
            Cost { checks: 20 * nr_regions as u64, clears: 40, cpu_ns: 900_000, target_ns: None };
        let regions = &mut s.targets[0].regions;
        churn(regions, nr_regions, &maps, &mut random);
        for r in regions.iter_mut() {
            let nr = rate(r.range.start, seq / 10, &mut random);
            let steady = nr.abs_diff(r.nr_accesses) <= 2;
            r.age = if steady { r.age + 1 } else { 0 };
            r.nr_accesses = nr;
            let bar = if nr == 0 { 0.4 } else { 3.0 };
            #[expect(clippy::cast_precision_loss, reason = "made-up numbers")]
            let (mid, jitter) = (nr as f32, random.below(20) as f32 / 40.0);
            r.lo = (mid - bar - jitter).max(0.0);
            r.hi = (mid + bar + jitter).min(20.0);
        }
        f(&s);
    }
}

/// Splits some regions at random pages, merges as many similar neighbours.
fn churn(regions: &mut Vec<RegionInfo>, wanted: usize, maps: &[Mapping], random: &mut Random) {
    let turns = (regions.len() / 20).max(4);
    for _ in 0..turns {
        if regions.len() < wanted {
            let at = usize::try_from(random.below(regions.len() as u64)).unwrap_or(0);
            let r = regions[at];
            if r.range.len() > 8192 {
                let middle = r.range.start + ((1 + random.below((r.range.len() >> 12) - 1)) << 12);
                regions[at].range.end = middle;
                regions
                    .insert(at + 1, RegionInfo { range: AddrRange::new(middle, r.range.end), ..r });
            }
        }
    }
    let mut merges = regions.len().saturating_sub(wanted.saturating_sub(turns));
    while merges > 0 {
        merges -= 1;
        let at = usize::try_from(random.below(regions.len() as u64 - 1)).unwrap_or(0);
        let (a, b) = (regions[at], regions[at + 1]);
        let border = maps.iter().any(|m| m.start == b.range.start);
        if !border && a.range.end == b.range.start && a.nr_accesses.abs_diff(b.nr_accesses) <= 2 {
            regions[at].range.end = b.range.end;
            regions[at].age = a.age.midpoint(b.age);
            regions.remove(at + 1);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "isotherm.data".into());
    let seconds = args.next().map_or(Ok(3600), |s| s.parse())?;
    let nr_regions = args.next().map_or(Ok(105), |s| s.parse())?;
    let header = Header {
        isotherm: env!("CARGO_PKG_VERSION").into(),
        host: "synthetic".into(),
        attrs: AttrsInfo::from(&isotherm_core::Attrs::default()),
        ops: "sim".into(),
        ..Header::default()
    };
    let began = Instant::now();
    let mut w = Writer::create(Path::new(&path), &header)?;
    w.target(&Target { id: 0, pid: 4711, name: "synthetic".into(), ..Target::default() })?;
    w.mappings(Time(0), TargetId(0), &mappings())?;
    let mut failed = None;
    windows(seconds, nr_regions, |s| {
        if let Err(e) = w.push_snapshot(s) {
            failed.get_or_insert(e);
        }
    });
    if let Some(e) = failed {
        return Err(e.into());
    }
    let (_, written) = w.finish(Time(0), "made up")?;
    report("wrote", began, written.regions, written.bytes);

    let began = Instant::now();
    let mut reader = Record::open(&path)?.reader()?;
    let mut regions = 0;
    while let Some(event) = reader.next_event()? {
        if let Event::Snapshot(s) = event {
            regions += s.nr_regions() as u64;
        }
    }
    report("read", began, regions, written.bytes);
    Ok(())
}

#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "an example")]
fn report(what: &str, began: Instant, regions: u64, bytes: u64) {
    let per_region = bytes as f64 / regions.max(1) as f64;
    println!(
        "{what} {regions} regions, {bytes} bytes ({per_region:.2} per region) in {:.3} s",
        began.elapsed().as_secs_f64()
    );
}
