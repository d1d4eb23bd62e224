//! The size on disk, with more changes of borders than a monitor makes.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use isotherm_core::unit::UNIT;
use isotherm_core::{
    AddrRange, PageBits, RegionInfo, SPANS, Snapshot, TargetId, TargetInfo, Time, Touched,
    TouchedBytes, TouchedShare, UnitInfo,
};
use isotherm_record::{Header, Writer};

/// Xorshift with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Regions over 2 GiB. In every window, `moving` of 100 borders move to a random page, and
/// `changing` of 100 regions change their count and the shares of their pages that were touched, at
/// random. All bounds jitter.
fn bytes_per_region(nr_regions: u64, moving: u64, changing: u64, with_shares: bool) -> f64 {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut borders: Vec<u64> = (1..nr_regions).map(|_| random.below(1 << 19)).collect();
    let mut counts = vec![0u32; usize::try_from(nr_regions).unwrap()];
    let mut ages = vec![0u32; counts.len()];
    let mut shares = vec![TouchedShare::default(); counts.len()];
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    let header = w.written().bytes;
    for n in 0..100 {
        for b in &mut borders {
            if random.below(100) < moving {
                *b = random.below(1 << 19);
            }
        }
        borders.sort_unstable();
        let mut start = 0;
        let mut regions = Vec::new();
        for (i, end) in borders.iter().copied().chain([1 << 19]).enumerate() {
            ages[i] += 1;
            if random.below(100) < changing {
                counts[i] = u32::try_from(random.below(21)).unwrap();
                ages[i] = 0;
                let mut share = || Some(random.below(513) as f32 / 512.0);
                shares[i] = TouchedShare { window: share(), second: share(), leaf_shift: 12 };
            }
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let (mid, jitter) = (counts[i] as f32, random.below(100) as f32 / 100.0);
            let range =
                AddrRange::new(0x7f00_0000_0000 + (start << 12), 0x7f00_0000_0000 + (end << 12));
            if !range.is_empty() {
                regions.push(RegionInfo {
                    range,
                    nr_accesses: counts[i],
                    age: ages[i],
                    lo: (mid - 2.0 - jitter).max(0.0),
                    hi: (mid + 2.0 + jitter).min(20.0),
                    resolved: true,
                    touched: with_shares.then_some(shares[i]),
                });
            }
            start = end;
        }
        w.push_snapshot(&Snapshot {
            seq: n,
            start: Time(n * 100_000_000),
            end: Time((n + 1) * 100_000_000),
            sample_us: 5_000,
            aggr_us: 100_000,
            max_nr_accesses: 20,
            targets: vec![TargetInfo { id: TargetId(0), regions, ..TargetInfo::default() }],
            ..Snapshot::default()
        })
        .unwrap();
    }
    let (_, written) = w.finish(Time(0), "over").unwrap();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let per_region = (written.bytes - header) as f64 / written.regions as f64;
    per_region
}

/// The promise is 8 bytes per region, and one more where shares of its pages are known. The header
/// is left out, because it is written once.
#[test]
fn a_region_takes_at_most_eight_bytes_and_nine_with_shares() {
    for (nr_regions, moving, changing) in
        [(10, 0, 5), (10, 30, 30), (100, 10, 10), (1000, 10, 10), (1000, 30, 20), (1000, 50, 30)]
    {
        let [alone, with] = [false, true]
            .map(|with_shares| bytes_per_region(nr_regions, moving, changing, with_shares));
        let case = format!("{nr_regions} regions, {moving} % moving, {changing} % changing");
        eprintln!("{case}: {alone:.2}, with shares {with:.2}");
        assert!(alone <= 8.0 && with <= 9.0, "{case}: {alone:.2}, with shares {with:.2}");
    }
}

/// Pages that were touched within each span, each of which holds the pages of the shorter ones.
/// `percent`: how many of the pages that are left each span adds.
fn planes(random: &mut Random, percent: [u64; SPANS], at_once: u64) -> [Option<PageBits>; SPANS] {
    let mut plane = PageBits::default();
    percent.map(|percent| {
        for first in (0..512).step_by(usize::try_from(at_once).unwrap()) {
            if random.below(100) < percent {
                let pages = first..first + u16::try_from(at_once).unwrap();
                pages.for_each(|nr| plane = plane.or(PageBits::page(nr)));
            }
        }
        Some(plane)
    })
}

/// A unit of 16 GiB: a hash table under zipf keys in the first 4 GiB, of which each look sees
/// different pages; blocks of 64 KiB that come and go in 2 GiB; single hot pages in 2 GiB; the rest
/// is cold.
fn unit(random: &mut Random, nr: u64) -> UnitInfo {
    let touched = match nr {
        0..2048 => planes(random, [8, 15, 20, 15, 10], 1),
        2048..3072 => planes(random, [10, 0, 3, 3, 3], 16),
        3072..4096 => planes(random, [3, 0, 0, 0, 1], 1),
        _ => planes(random, [0; SPANS], 512),
    };
    UnitInfo {
        start: 0x7f00_0000_0000 + nr * UNIT,
        since: Time(random.below(1 << 42)),
        present: PageBits::ALL,
        unresolved: PageBits::default(),
        touched,
        found: touched[1],
        found_after: Time(0),
        young: None,
        leaf_shift: 12,
    }
}

/// A snapshot in which the working set and these units have changed.
fn with_units(seq: u64, random: &mut Random, units: Vec<UnitInfo>) -> Snapshot {
    let spans = [(); SPANS].map(|()| {
        let bytes = (1 << 30) + (random.below(1 << 12) << 12);
        let (lo, hi, measured) = (bytes - (1 << 24), bytes + (1 << 24), 15 << 30);
        Some(TouchedBytes { bytes, lo, hi, measured })
    });
    let touched = Some(Touched { spans, watched: 16 << 30 });
    Snapshot {
        seq,
        start: Time(seq * 100_000_000),
        end: Time((seq + 1) * 100_000_000),
        targets: vec![TargetInfo { units, touched, ..TargetInfo::default() }],
        ..Snapshot::default()
    }
}

/// The promise is 100 MB per hour for 16 GiB: once a map of all of it, and then what changes. At
/// 1 % of a CPU about 60 busy units are armed per second (each costs 40 us to arm and 0.5 us per
/// touched page), and change twice: after a window, and after a second.
#[test]
fn an_hour_of_page_maps_of_16_gib_takes_at_most_100_mb() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    let all = (0..8192).map(|nr| unit(&mut random, nr)).collect();
    w.push_snapshot(&with_units(0, &mut random, all)).unwrap();
    w.flush().unwrap();
    let once = w.written().bytes;
    for seq in 1..=100 {
        let mut changed: Vec<u64> = (0..12).map(|_| random.below(4096)).collect();
        changed.sort_unstable();
        changed.dedup();
        let units = changed.iter().map(|nr| unit(&mut random, *nr)).collect();
        w.push_snapshot(&with_units(seq, &mut random, units)).unwrap();
    }
    w.flush().unwrap();
    let ten_seconds = w.written().bytes - once;
    let hour = once + ten_seconds * 360;
    eprintln!("{once} bytes once, {} per second", ten_seconds / 10);
    assert!(hour <= 100_000_000, "{once} bytes once, {hour} in an hour");
}
