//! The size on disk, with more changes of borders than a monitor makes.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
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
/// `changing` of 100 regions change their count at random. All bounds jitter.
fn bytes_per_region(nr_regions: u64, moving: u64, changing: u64) -> f64 {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut borders: Vec<u64> = (1..nr_regions).map(|_| random.below(1 << 19)).collect();
    let mut counts = vec![0u32; usize::try_from(nr_regions).unwrap()];
    let mut ages = vec![0u32; counts.len()];
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

/// The promise is 8 bytes per region. The header is left out, because it is written once.
#[test]
fn a_region_takes_at_most_eight_bytes() {
    for (nr_regions, moving, changing) in
        [(10, 0, 5), (10, 30, 30), (100, 10, 10), (1000, 10, 10), (1000, 30, 20), (1000, 50, 30)]
    {
        let got = bytes_per_region(nr_regions, moving, changing);
        assert!(
            got <= 8.0,
            "{nr_regions} regions, {moving} % moving, {changing} % changing: {got:.2}"
        );
    }
}
