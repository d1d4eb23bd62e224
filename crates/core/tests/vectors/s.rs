//! S1 to S19 and the three regions (§8.2).

use isotherm_core::AddrRange;
use isotherm_core::areas::Areas;
use isotherm_core::target::RangesError;

use crate::run::{bounds, ranges, region, target};

type Pairs = &'static [(u64, u64)];

/// Fits `old` (age 7 each) to `new`; expects ranges with their ages: 7 for a region that stayed.
#[track_caller]
fn check(old: Pairs, new: Pairs, min_region_sz: u64, expected: &[(u64, u64, u32)]) {
    let mut t = target(old.iter().map(|&(s, e)| region(s, e, 0, 0, 7)).collect());
    t.set_ranges(&ranges(new), min_region_sz).unwrap();
    let seen: Vec<_> = t.regions.iter().map(|r| (r.range.start, r.range.end, r.age)).collect();
    assert_eq!(seen, expected);
}

#[track_caller]
fn refused(old: Pairs, new: Pairs, min_region_sz: u64, why: RangesError) {
    let mut t = target(old.iter().map(|&(s, e)| region(s, e, 0, 0, 7)).collect());
    assert_eq!(t.set_ranges(&ranges(new), min_region_sz), Err(why));
    assert_eq!(bounds(&t), old, "changed all the same");
}

const MANY: Pairs =
    &[(10, 20), (20, 30), (50, 55), (55, 57), (57, 59), (70, 80), (80, 90), (90, 100)];

#[test]
fn s1() {
    check(&[], &[(5, 15), (15, 25)], 1, &[(5, 15, 0), (15, 25, 0)]);
}

#[test]
fn s2() {
    // 24-32 does not meet 18-23, nor does 4-16: the new region has no history.
    check(&[(4, 16), (24, 32)], &[(18, 23)], 1, &[(18, 23, 0)]);
}

#[test]
fn s3() {
    check(&[(4, 16), (24, 32)], &[(8, 28)], 1, &[(8, 16, 7), (16, 24, 0), (24, 28, 7)]);
}

#[test]
fn s4() {
    let expected = [(0, 4, 7), (4, 15, 7), (25, 40, 0)];
    check(&[(0, 4), (4, 17)], &[(0, 15), (25, 40)], 1, &expected);
}

#[test]
fn s5() {
    let expected = [(0, 15, 7), (25, 40, 0), (44, 50, 7)];
    check(&[(0, 4), (42, 52)], &[(0, 15), (25, 40), (44, 50)], 1, &expected);
}

#[test]
fn s6() {
    let expected = [(5, 20, 7), (20, 27, 7), (45, 55, 7), (73, 80, 7), (80, 90, 7), (90, 104, 7)];
    check(MANY, &[(5, 27), (45, 55), (73, 104)], 1, &expected);
}

#[test]
fn s7() {
    let expected = [(5, 20, 7), (20, 27, 7), (56, 57, 7), (65, 80, 7), (80, 90, 7), (90, 104, 7)];
    check(MANY, &[(5, 27), (56, 57), (65, 104)], 1, &expected);
}

#[test]
fn s8() {
    let expected = [(5, 20, 7), (20, 27, 7), (61, 63, 0), (65, 80, 7), (80, 90, 7), (90, 104, 7)];
    check(MANY, &[(5, 27), (61, 63), (65, 104)], 1, &expected);
}

#[test]
fn s9() {
    check(MANY, &[(5, 7), (30, 32), (65, 68)], 1, &[(5, 7, 0), (30, 32, 0), (65, 68, 0)]);
}

#[test]
fn s10() {
    check(&[(0, 100)], &[(0, 10), (20, 30)], 1, &[(0, 10, 7), (20, 30, 0)]);
}

#[test]
fn s11() {
    let expected = [(0, 10, 7), (20, 30, 0), (150, 160, 7)];
    check(&[(0, 100), (100, 200)], &[(0, 10), (20, 30), (150, 160)], 1, &expected);
}

#[test]
fn s12() {
    let old: Pairs = &[(100, 200), (300, 400), (500, 600)];
    let expected = [
        (0, 50, 0),
        (150, 200, 7),
        (200, 300, 0),
        (300, 400, 7),
        (400, 500, 0),
        (500, 550, 7),
        (700, 800, 0),
    ];
    check(old, &[(0, 50), (150, 550), (700, 800)], 1, &expected);
}

#[test]
fn s13() {
    check(&[], &[(5, 27)], 16, &[(0, 32, 0)]);
}

#[test]
fn s14() {
    refused(&[], &[(5, 27), (30, 60)], 16, RangesError::Overlap);
}

#[test]
fn s15() {
    check(&[], &[(5, 27), (32, 60)], 16, &[(0, 32, 0), (32, 64, 0)]);
}

#[test]
fn s16() {
    refused(&[(0, 100)], &[(16, 16)], 16, RangesError::Empty);
    refused(&[(0, 100)], &[(30, 40), (10, 20)], 1, RangesError::Overlap);
}

#[test]
fn s17() {
    check(&[(0, 100)], &[(10, 10)], 16, &[(0, 16, 7)]);
}

#[test]
fn s18() {
    check(&[(0, 16), (16, 32), (32, 48)], &[(17, 31)], 16, &[(16, 32, 7)]);
}

#[test]
fn s19() {
    check(&[(0, 100)], &[], 1, &[]);
}

#[test]
fn three_regions() {
    let cases: &[(Pairs, Pairs)] = &[
        (
            &[(10, 20), (20, 25), (200, 210), (210, 220), (300, 305), (307, 330)],
            &[(10, 25), (200, 220), (300, 330)],
        ),
        // Equal gaps: the lower ones count as larger.
        (&[(0, 10), (20, 30), (40, 50), (60, 70)], &[(0, 10), (20, 30), (40, 70)]),
        (&[(0, 10), (15, 20), (30, 40)], &[(0, 10), (15, 20), (30, 40)]),
        (&[(0, 10), (11, 20), (40, 50), (52, 60), (100, 110)], &[(0, 20), (40, 60), (100, 110)]),
        (
            &[(0, 10), (110, 120), (130, 140), (300, 310), (320, 330)],
            &[(0, 10), (110, 140), (300, 330)],
        ),
        // Fewer than two gaps: nothing.
        (&[(0, 10), (20, 30)], &[]),
        (&[(0, 10)], &[]),
        (&[(0, 10), (10, 20), (30, 40)], &[]),
        (&[], &[]),
    ];
    for (maps, expected) in cases {
        let mut areas = ranges(&[(1, 2)]);
        let some = Areas::THREE.find(&ranges(maps), 1, &mut areas);
        assert_eq!((some, areas), (!expected.is_empty(), ranges(expected)), "of {maps:?}");
    }
}

/// The bounds are rounded up to the smallest region.
#[test]
fn three_regions_rounded() {
    let mut areas = Vec::new();
    assert!(Areas::THREE.find(&ranges(&[(1, 20), (100, 130), (300, 310)]), 16, &mut areas));
    assert_eq!(areas, ranges(&[(16, 32), (112, 144), (304, 320)]));
}

/// The default's rule: gaps from 64 KiB on go, the largest first, as many as there is room for.
#[test]
fn areas_by_default() {
    const K: u64 = 1 << 10;
    let maps = ranges(&[(0, 4 * K), (8 * K, 12 * K), (80 * K, 84 * K), (148 * K, 152 * K)]);
    let mut areas = Vec::new();
    assert!(Areas::for_regions(1000).find(&maps, 4096, &mut areas));
    // 12-80 is 68 KiB and 84-148 is 64 KiB; 4-8 is too small.
    assert_eq!(areas, ranges(&[(0, 12 * K), (80 * K, 84 * K), (148 * K, 152 * K)]));
    assert!(Areas::for_regions(1000).find(&maps[..1], 4096, &mut areas), "one area is enough");
    assert_eq!(areas, ranges(&[(0, 4 * K)]));
}

/// As Node.js maps its heap: blocks of 256 KiB, hundreds of GiB apart.
#[test]
fn gaps_that_hold_more_than_what_is_mapped_are_left_out_however_many() {
    let block = |nr: u64| AddrRange::new(nr << 38, (nr << 38) + (256 << 10));
    let maps: Vec<_> = (1..=640).map(block).collect();
    let mut areas = Vec::new();
    assert!(Areas::for_regions(1000).find(&maps, 4096, &mut areas));
    assert_eq!(areas, maps);
    // Of gaps that hold little, no more are left out than an eighth of the regions.
    let block = |nr: u64| AddrRange::new(nr << 20, (nr << 20) + (768 << 10));
    let maps: Vec<_> = (1..=640).map(block).collect();
    assert!(Areas::for_regions(1000).find(&maps, 4096, &mut areas));
    assert_eq!(areas.len(), 126);
    let watched: u64 = areas.iter().map(AddrRange::len).sum();
    assert!(watched < 2 * 640 * (768 << 10), "{watched}");
    // The kernel's rule stays what it is.
    assert!(Areas::THREE.find(&maps, 4096, &mut areas));
    assert_eq!(areas.len(), 3);
}
