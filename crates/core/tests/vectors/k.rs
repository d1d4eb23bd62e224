//! K1 to K28: the kernel's unit tests of its core (§8.1).
//!
//! Absent: K7 (the registry of operations sets; here the driver is given one set). K8 is in `s.rs`.
//! K13 to K20, K23 and K25, which are about schemes, are in `schemes/k.rs`.

use isotherm_core::math::{Divisor, feed, moving_sum};
use isotherm_core::monitor::{Conversion, enforce_min_regions};
use isotherm_core::{AddrRange, Attrs, AttrsError, Context, Region, Rng, TargetId};

use crate::run::{Run, T0, bounds, ranges, region, target};

/// The reference's default attributes with two intervals.
fn attrs(sample_us: u64, aggr_us: u64) -> Attrs {
    Attrs { sample_us, aggr_us, ..Attrs::reference() }
}

#[test]
fn k1_lists() {
    let r = Region::new(AddrRange::new(1, 2));
    assert_eq!((r.range.start, r.range.end, r.nr_accesses), (1, 2, 0));
    let mut t = target(Vec::new());
    assert!(t.is_empty());
    t.regions.push(r);
    assert_eq!(t.regions.len(), 1);
    t.regions.clear();
    assert!(t.is_empty());

    let mut ctx = Context::new(Attrs::reference(), 0).unwrap();
    assert_eq!(ctx.targets().len(), 0);
    ctx.add_target(T0);
    assert_eq!(ctx.targets().len(), 1);
    ctx.remove_target(T0);
    assert_eq!(ctx.targets().len(), 0);
}

#[test]
fn k2_reset() {
    for nrs in [[42, 95, 84], [10, 20, 30], [0, 1, 2]] {
        let regions = (0..).zip(nrs).map(|(i, nr)| region(i, i + 1, nr, 7, 3)).collect();
        let mut t = target(regions);
        t.regions.iter_mut().for_each(Region::reset_aggregated);
        let seen: Vec<_> = t.regions.iter().map(|r| (r.nr_accesses, r.last_nr_accesses)).collect();
        assert_eq!(seen, nrs.map(|nr| (0, nr)));
        // What is left of the window is its count times 10,000.
        assert!(t.regions.iter().all(|r| r.nr_accesses_bp == r.last_nr_accesses * 10_000));
    }
}

#[test]
fn k3_split_at() {
    let mut left = region(0, 100, 42, 15, 10);
    let right = left.split_off(25);
    assert_eq!((left.range, right.range), (AddrRange::new(0, 25), AddrRange::new(25, 100)));
    for r in [left, right] {
        let fields = (r.nr_accesses_bp, r.nr_accesses, r.last_nr_accesses, r.age);
        assert_eq!(fields, (420_000, 42, 15, 10));
    }
}

#[test]
fn k4_merge_two() {
    let mut left = region(0, 100, 10, 3, 9);
    left.merge(&region(100, 300, 20, 8, 21));
    let fields = (left.nr_accesses, left.nr_accesses_bp, left.age, left.last_nr_accesses);
    assert_eq!((left.range, fields), (AddrRange::new(0, 300), (16, 160_000, 17, 3)));
}

#[test]
fn k5_merge_pass() {
    let pairs = [
        (0, 100),
        (100, 112),
        (114, 122),
        (122, 130),
        (130, 156),
        (156, 170),
        (170, 184),
        (184, 230),
        (230, 10170),
    ];
    let nrs = [0, 0, 10, 10, 20, 30, 1, 2, 5];
    let mut t = target(pairs.iter().zip(nrs).map(|(&(s, e), nr)| region(s, e, nr, 0, 0)).collect());
    t.merge(9, 9999, true);
    let expected = [(0, 112), (114, 130), (130, 156), (156, 170), (170, 230), (230, 10170)];
    assert_eq!(bounds(&t), expected);
    let seen: Vec<_> = t.regions.iter().map(|r| (r.nr_accesses, r.age)).collect();
    assert_eq!(seen, [(0, 1), (10, 0), (20, 0), (30, 0), (1, 0), (5, 0)]);
}

#[test]
fn k6_split_pass() {
    type Pairs = &'static [(u64, u64)];
    let cases: [(Pairs, u32, u64, usize); 3] = [
        (&[(0, 22)], 2, 1, 2),
        (&[(0, 220)], 4, 1, 4),
        (&[(0, 220), (300, 400), (500, 700)], 4, 5, 12),
    ];
    for (pairs, nr_pieces, min_region_sz, most) in cases {
        for seed in 0..100 {
            let mut t = target(pairs.iter().map(|&(s, e)| region(s, e, 0, 0, 0)).collect());
            t.split_randomly(nr_pieces, min_region_sz, &mut Rng::seeded(seed));
            let n = t.regions.len();
            assert!(pairs.len() < n && n <= most, "seed {seed}: {n} regions of {pairs:?}");
        }
    }
}

#[test]
fn k9_nr_to_bp() {
    let huge = attrs(10, 10 << 32);
    assert_eq!(huge.max_nr_accesses(), u32::MAX);
    // A count of 123 of 2^32 - 1 is 0 bp, so it is converted to 0 for any maximum.
    let to = attrs(10, 10 * 10_000);
    assert_eq!(Conversion::between(&huge, &to).unwrap().count(123), 0);
}

#[test]
fn k10_result_conversion() {
    let mut r = region(0, 1, 15, 0, 20);
    let old = attrs(10, 1000);
    for (new, nr, age) in
        [(attrs(100, 10_000), 15, 2), (attrs(1, 1000), 150, 2), (attrs(1, 100), 150, 20)]
    {
        Conversion::between(&old, &new).unwrap().region(&mut r, false);
        assert_eq!((r.nr_accesses, r.nr_accesses_bp, r.age), (nr, nr * 10_000, age));
    }
}

#[test]
fn k11_set_attributes() {
    let good = Attrs::reference();
    let cases = [
        (good, Ok(())),
        (Attrs { min_nr_regions: 1, ..good }, Err(AttrsError::MinNrRegions)),
        (Attrs { max_nr_regions: 9, ..good }, Err(AttrsError::NrRegions)),
        (Attrs { aggr_us: 4999, ..good }, Err(AttrsError::Intervals)),
    ];
    for (attrs, expected) in cases {
        assert_eq!(attrs.validate(), expected);
        assert_eq!(Context::new(attrs, 0).map(|_| ()), expected);
        assert_eq!(Context::new(good, 0).unwrap().commit(attrs), expected);
    }
}

#[test]
fn k12_moving_sum() {
    let new = [10_000, 0, 10_000, 0, 0, 0, 10_000, 0, 0, 0];
    let expected = [55_000, 50_000, 55_000, 50_000, 45_000, 40_000, 45_000, 40_000, 35_000, 30_000];
    let mut sum = 50_000;
    for (new, expected) in new.into_iter().zip(expected) {
        sum = moving_sum(sum, 50_000, Divisor::new(10), new);
        assert_eq!(sum, expected);
    }
}

#[test]
fn k21_commit_target_regions() {
    let mut t = target(vec![region(3, 8, 0, 0, 0), region(8, 10, 0, 0, 0)]);
    t.set_ranges(&ranges(&[(4, 6)]), 1).unwrap();
    assert_eq!(bounds(&t), [(4, 6)]);

    // The kernel's case of no given regions is here a target without mappings. The regions stay.
    let attrs = Attrs { min_region_sz: 1, min_nr_regions: 3, ..Attrs::reference() };
    let mut run = Run::new(attrs, &[(3, 8), (8, 10)], (0, 0));
    run.go_to_sleep();
    let before = bounds(&run.ctx.targets()[0]);
    assert!(!run.ctx.update_target(T0, &[]));
    assert_eq!(bounds(&run.ctx.targets()[0]), before);
}

#[test]
fn k22_commit_context() {
    let attrs = Attrs { min_region_sz: 4096, ..Attrs::reference() };
    let mut ctx = Context::new(attrs, 0).unwrap();
    assert_eq!(ctx.commit(attrs), Ok(()));
    let odd = Attrs { min_region_sz: 4095, ..attrs };
    assert_eq!(ctx.commit(odd), Err(AttrsError::MinRegionSize));
    assert_eq!(ctx.attrs().min_region_sz, 4096);
    assert_eq!(ctx.commit(attrs), Ok(()));
    // That a paused context is paused is shown by `commit::pause_freezes`.
    ctx.pause(true);
}

#[test]
fn k24_feed() {
    assert!(feed(900_000, 200) > 900_000);
    assert!(feed(900_000, 250_000_000) < 900_000);
    assert!(feed(900_000, 200) > feed(900_000, 2000));
}

#[test]
fn k26_enforce_min_regions() {
    for (min_region_sz, min_nr_regions, limit, nr) in
        [(1, 10, 1, 10), (1, 15, 1, 10), (2, 2, 6, 2), (2, 10, 2, 5)]
    {
        let attrs = Attrs { min_region_sz, min_nr_regions, ..Attrs::reference() };
        let mut targets = [target(vec![region(0, 10, 0, 0, 0)])];
        assert_eq!(enforce_min_regions(&mut targets, &attrs), limit);
        assert_eq!(targets[0].regions.len(), nr);
    }
}

#[test]
fn k27_is_last() {
    let mut t = target(Vec::new());
    for start in [0, 2, 4, 6] {
        t.regions.push(region(start, start + 2, 0, 0, 0));
        assert_eq!(t.regions.last().unwrap().range, AddrRange::new(start, start + 2));
    }
}

/// The kernel adds one target twice; a name is unique here.
#[test]
fn k28_add_targets() {
    let mut ctx = Context::new(Attrs::reference(), 0).unwrap();
    for (id, nr) in [(T0, 1), (TargetId(1), 2), (T0, 2)] {
        ctx.add_target(id);
        assert_eq!(ctx.targets().len(), nr);
    }
}
