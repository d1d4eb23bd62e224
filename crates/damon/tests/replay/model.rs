//! The search accepts what our own strict loop does: otherwise a refusal would say nothing about
//! the kernel.

use isotherm_core::monitor::{Context, Wish};
use isotherm_core::{AddrRange, Attrs, PageState, Region, TargetId, Time};
use proptest::prelude::*;

use super::explain::{Rules, Story, explain};
use super::trace_file::{TraceFile, region};

/// A memory of 4096 pages, of which a part is touched always and a part by chance.
fn simulate(
    min: u64,
    max: u64,
    seed: u64,
    hot: (u64, u64),
    warm: (u64, u64),
    windows: usize,
) -> TraceFile {
    let attrs = Attrs { min_nr_regions: min, max_nr_regions: max, ..Attrs::reference() };
    let mut ctx = Context::new(attrs, seed).unwrap();
    ctx.add_target(TargetId(0));
    let (mut now, mut chance) = (Time(0), isotherm_core::Rng::seeded(seed ^ 0x5eed));
    let mut out = Vec::new();
    while out.len() < windows {
        match ctx.poll(now) {
            Wish::Update => {
                let ranges = [(0x1000, 0x100_1000), (0x200_0000, 0x204_0000)];
                let ranges = ranges.map(|(start, end)| AddrRange::new(start, end));
                ctx.set_ranges(TargetId(0), &ranges).unwrap();
            }
            Wish::Sleep(until) => now = until,
            Wish::Prepare => {}
            Wish::Check => {
                for check in ctx.batch_mut() {
                    let page = check.addr >> 12;
                    let touched = (hot.0..hot.0 + hot.1).contains(&page)
                        || ((warm.0..warm.0 + warm.1).contains(&page) && chance.range(0, 4) == 0);
                    check.state = if touched { PageState::Young } else { PageState::Old };
                }
            }
            Wish::Snapshot => {
                let seen = &ctx.snapshot().targets[0].regions;
                let seen = seen.iter().map(|r| region(r.range, r.nr_accesses, r.age));
                out.push(seen.collect::<Vec<Region>>());
            }
            Wish::PrepareUnits
            | Wish::CheckUnits
            | Wish::Observe
            | Wish::Eligible
            | Wish::Measure
            | Wish::Apply
            | Wish::Stop => {
                unreachable!("no scheme, and a target")
            }
        }
    }
    TraceFile { kernel: "7.2".to_owned(), attrs, windows: out }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn our_own_loop_is_explained(
        (min, max) in prop::sample::select(vec![(10, 1000), (3, 12), (20, 60)]),
        seed: u64,
        hot in (0_u64..4096, 1_u64..1500),
        warm in (0_u64..4096, 1_u64..1500),
    ) {
        let trace = simulate(min, max, seed, hot, warm, 12);
        let story = explain(&trace, Rules::of((7, 2)));
        prop_assert!(story.is_ok(), "{}", story.unwrap_err());
    }
}

/// The simulated traces have everything in them that a trace can have.
#[test]
fn every_kind_of_transition_is_explained() {
    let mut all = Story::default();
    for (min, max, windows) in [(10, 1000, 20), (3, 12, 30)] {
        let trace = simulate(min, max, 7, (100, 900), (2000, 500), windows);
        all.add(&explain(&trace, Rules::of((7, 2))).unwrap());
    }
    let Story {
        transitions: 48,
        new_boundaries,
        merged_boundaries,
        young,
        older,
        unsplit,
        in_three,
        some: 0,
    } = all
    else {
        panic!("{all:?}")
    };
    for n in [new_boundaries, merged_boundaries, young, older, unsplit, in_three] {
        assert!(n > 0, "{all:?}");
    }
}
