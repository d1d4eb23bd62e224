//! Properties of the passes over regions.

use isotherm_core::addr::{round_down, round_up};
use isotherm_core::monitor::{enforce_min_regions, merge_all, split_all};
use isotherm_core::{AddrRange, Attrs, Region, Rng, Target, TargetId};
use proptest::prelude::*;

/// Sorted ranges in multiples of `unit`, with gaps, some of them empty gaps.
fn ranges(unit: u64, most: usize) -> impl Strategy<Value = Vec<AddrRange>> {
    prop::collection::vec((0_u64..3, 1_u64..200), 0..most).prop_map(move |steps| {
        let mut end = 0;
        steps
            .into_iter()
            .map(|(gap, len)| {
                let start = end + gap * 17 * unit;
                end = start + len * unit;
                AddrRange::new(start, end)
            })
            .collect()
    })
}

/// A target with arbitrary counts and ages.
fn target(unit: u64) -> impl Strategy<Value = Target> {
    let counts = prop::collection::vec((0_u32..=20, 0_u32..=20, 0_u32..100), 40);
    (ranges(unit, 40), counts).prop_map(|(ranges, counts)| {
        let mut t = Target::new(TargetId(0));
        t.regions.extend(ranges.into_iter().zip(counts).map(|(range, (nr, last, age))| {
            let mut r = Region::new(range);
            (r.nr_accesses, r.last_nr_accesses, r.age) = (nr, last, age);
            r
        }));
        t
    })
}

fn attrs(min_region_sz: u64) -> impl Strategy<Value = Attrs> {
    (3_u64..40, 0_u64..100).prop_map(move |(min_nr_regions, more)| Attrs {
        min_nr_regions,
        max_nr_regions: min_nr_regions + more,
        min_region_sz,
        ..Attrs::reference()
    })
}

/// What the regions cover, with neighbours joined.
fn cover(regions: &[Region]) -> Vec<AddrRange> {
    joined(regions.iter().map(|r| r.range))
}

fn joined(ranges: impl Iterator<Item = AddrRange>) -> Vec<AddrRange> {
    let mut all: Vec<AddrRange> = Vec::new();
    for range in ranges {
        assert!(!range.is_empty(), "empty {range:?}");
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            Some(last) => {
                assert!(last.end < range.start, "{last:?} overlaps {range:?}");
                all.push(range);
            }
            None => all.push(range),
        }
    }
    all
}

fn nr(targets: &[Target]) -> u64 {
    targets.iter().map(|t| t.regions.len() as u64).sum()
}

proptest! {
    #![proptest_config(crate::config(500))]

    /// The result covers exactly the rounded ranges, and no region lies in two of them.
    #[test]
    fn set_ranges_covers(mut t in target(7), new in ranges(5, 12), shift in 0_u32..7) {
        let min = 1 << shift;
        let before = t.clone();
        let rounded: Vec<_> = new
            .iter()
            .map(|r| AddrRange::new(round_down(r.start, min), round_up(r.end, min)))
            .collect();
        let disjoint = rounded.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let result = t.set_ranges(&new, min);
        prop_assert_eq!(result.is_ok(), disjoint);
        if !disjoint {
            prop_assert_eq!(t, before);
            return Ok(());
        }
        prop_assert_eq!(cover(&t.regions), joined(rounded.iter().copied()));
        for r in &t.regions {
            let inside = rounded.iter().filter(|range| range.intersects(&r.range)).count();
            prop_assert_eq!(inside, 1, "{:?} lies in {} ranges", r.range, inside);
        }
        // Doing it again does nothing.
        let fields = |t: &Target| -> Vec<_> {
            t.regions.iter().map(|r| (r.range, r.nr_accesses, r.last_nr_accesses, r.age)).collect()
        };
        let once = fields(&t);
        t.set_ranges(&new, min).unwrap();
        prop_assert_eq!(fields(&t), once);
    }

    /// A region that stays keeps its history, and none is invented.
    #[test]
    fn set_ranges_keeps_history(mut t in target(8), new in ranges(8, 12)) {
        let before = t.regions.clone();
        t.set_ranges(&new, 8).unwrap();
        for r in &t.regions {
            let history = (r.nr_accesses, r.last_nr_accesses, r.age);
            let known = |b: &&Region| {
                (b.nr_accesses, b.last_nr_accesses, b.age) == history
                    && b.range.intersects(&r.range)
            };
            prop_assert!(history == (0, 0, 0) || before.iter().any(|b| known(&b)), "{:?}", r);
        }
    }

    #[test]
    fn split_keeps_bytes(t in target(4096), attrs in attrs(4096), seed: u64, last in 0_u64..60) {
        let mut targets = [t.clone()];
        let (n, mut last) = (nr(&targets), last);
        split_all(&mut targets, &attrs, &mut last, &mut Rng::seeded(seed));
        prop_assert_eq!(cover(&targets[0].regions), cover(&t.regions));
        if n > attrs.max_nr_regions / 2 {
            prop_assert_eq!(&targets[0].regions, &t.regions);
        } else {
            prop_assert!(nr(&targets) <= attrs.max_nr_regions);
            prop_assert_eq!(last, n);
        }
        for r in &targets[0].regions {
            prop_assert!(r.range.start.is_multiple_of(4096) && r.len() >= 4096);
        }
    }

    /// Bytes are kept, and more regions than wanted are left only where nothing more can be merged.
    #[test]
    fn merge_keeps_bytes(t in target(4096), attrs in attrs(4096), threshold in 0_u32..4) {
        let mut targets = [t.clone()];
        let sz_limit = enforce_min_regions(&mut targets, &attrs);
        merge_all(&mut targets, &attrs, threshold, sz_limit);
        let regions = &targets[0].regions;
        prop_assert_eq!(cover(regions), cover(&t.regions));
        let most = t.regions.iter().map(|r| r.nr_accesses).max().unwrap_or(0);
        prop_assert!(regions.iter().all(|r| r.nr_accesses <= most));
        prop_assert!(regions.iter().all(|r| r.len() <= sz_limit));
        let mergeable = |pair: &[Region]| {
            pair[0].range.end == pair[1].range.start && pair[0].len() + pair[1].len() <= sz_limit
        };
        prop_assert!(nr(&targets) <= attrs.max_nr_regions || !regions.windows(2).any(mergeable));
    }

    #[test]
    fn enforce_keeps_bytes(t in target(4096), attrs in attrs(4096)) {
        let mut targets = [t.clone()];
        let limit = enforce_min_regions(&mut targets, &attrs);
        prop_assert_eq!(cover(&targets[0].regions), cover(&t.regions));
        prop_assert!(targets[0].regions.iter().all(|r| r.len() <= limit));
        // Within the rounding of the limit there are as many as wanted.
        prop_assert!(nr(&targets) >= t.len() / limit);
        let again = targets.clone();
        enforce_min_regions(&mut targets, &attrs);
        prop_assert_eq!(&targets[0].regions, &again[0].regions);
    }

    /// A part and what is left of it are the whole.
    #[test]
    fn split_and_merge_are_inverse(len in 2_u64..1 << 40, at: u64, nr in 0_u32..100, age: u32) {
        let mut left = Region::new(AddrRange::new(1 << 41, (1 << 41) + len));
        (left.nr_accesses, left.nr_accesses_bp, left.age) = (nr, nr * 10_000, age);
        let whole = left;
        let right = left.split_off(1 + at % (len - 1));
        prop_assert_eq!(left.len() + right.len(), len);
        left.merge(&right);
        prop_assert_eq!(
            (left.range, left.nr_accesses, left.nr_accesses_bp, left.age),
            (whole.range, whole.nr_accesses, whole.nr_accesses_bp, whole.age)
        );
    }

    /// A random number is in its range.
    #[test]
    fn rand_in_range(seed: u64, l: u64, span in 1_u64..u64::MAX) {
        let l = l.min(u64::MAX - span);
        let x = Rng::seeded(seed).range(l, l + span);
        prop_assert!(l <= x && x < l + span);
    }
}
