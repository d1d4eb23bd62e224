//! Properties of a whole context.

use isotherm_core::{Attrs, Snapshot};
use proptest::prelude::*;

use crate::world::{Fact, World, attrs, facts, jittered};

/// What a snapshot promises.
fn check(snapshot: &Snapshot) -> Result<(), TestCaseError> {
    let max = snapshot.max_nr_accesses;
    prop_assert!(max >= 1);
    prop_assert!(snapshot.start <= snapshot.end);
    for target in &snapshot.targets {
        for r in &target.regions {
            prop_assert!(!r.range.is_empty());
            prop_assert!(r.nr_accesses <= max, "{:?} of at most {}", r, max);
            let (nr, most) = (f64::from(r.nr_accesses), f64::from(max as f32));
            let (lo, hi) = (f64::from(r.lo), f64::from(r.hi));
            prop_assert!(0.0 <= lo && lo <= hi && hi <= most, "{:?} of at most {}", r, max);
            let holds =
                lo <= f64::from(r.nr_accesses as f32) && f64::from(r.nr_accesses as f32) <= hi;
            prop_assert!(holds, "{} outside of {:?}", nr, r);
        }
        for pair in target.regions.windows(2) {
            prop_assert!(pair[0].range.end <= pair[1].range.start, "{:?}", pair);
        }
    }
    Ok(())
}

/// Runs a history; returns all snapshots. Each step is verified.
fn run(attrs: Attrs, seed: u64, facts: &[Fact]) -> Result<Vec<Snapshot>, TestCaseError> {
    let mut world = World::new(attrs, seed);
    for fact in facts {
        let before = world.snapshots.len();
        world.happen(fact);
        for snapshot in &world.snapshots[before..] {
            check(snapshot)?;
        }
    }
    for pair in world.snapshots.windows(2) {
        // A set that observes by itself may have lost windows.
        prop_assert!(pair[0].seq < pair[1].seq && pair[1].seq <= pair[0].seq + 4);
        prop_assert!(pair[0].end <= pair[1].start);
    }
    Ok(world.snapshots)
}

/// The kernel converts no counts when an interval is 0, so that they can be larger than the largest
/// possible count: with `strict`, only intervals that are not 0.
fn keep_strict(attrs: &mut Attrs, strict: bool) {
    attrs.strict = strict;
    if strict {
        attrs.sample_us = attrs.sample_us.max(1);
        attrs.aggr_us = attrs.aggr_us.max(attrs.sample_us);
        attrs.intervals_goal.min_sample_us = attrs.intervals_goal.min_sample_us.min(1);
    }
}

proptest! {
    #![proptest_config(crate::config(300))]

    /// Whatever happens, the regions are sound, the intervals hold their estimates, and the same
    /// seed with the same facts gives the same snapshots.
    #[test]
    fn survives_and_replays(
        strict: bool,
        mut attrs in attrs(),
        seed: u64,
        mut facts in facts(),
    ) {
        keep_strict(&mut attrs, strict);
        for fact in &mut facts {
            if let Fact::Commit(attrs) = fact {
                keep_strict(attrs, strict);
            }
        }
        let first = run(attrs, seed, &facts)?;
        let second = run(attrs, seed, &facts)?;
        prop_assert_eq!(first, second);
    }

    /// Mappings that grow and shrink over hot and cold blocks, for long enough that pages at the
    /// edges of regions end up anywhere.
    #[test]
    fn survives_resizing(
        seed: u64,
        max_nr_regions in 3_u64..100,
        clears_per_sec in 20_u32..5000,
        shift in 8_u8..12,
        steps in prop::collection::vec(jittered(), 40),
    ) {
        let attrs = Attrs {
            min_nr_regions: 3,
            max_nr_regions,
            clears_per_sec,
            update_us: 100_000,
            ..Attrs::default()
        };
        let facts: Vec<_> = std::iter::once(Fact::Pattern(shift, 2))
            .chain(steps.into_iter().flat_map(|maps| [Fact::Maps(0, maps), Fact::Ticks(20, 0)]))
            .collect();
        run(attrs, seed, &facts)?;
    }
}
