//! Traces of real kernels, as `traces/make` took them.

use super::explain::{Rules, Story, explain};
use super::trace_file::TraceFile;

pub(crate) const TRACES: [(&str, &str); 6] = [
    ("6.12 default", include_str!("traces/6.12-default.trace")),
    ("6.12 few", include_str!("traces/6.12-few.trace")),
    ("7.2 default", include_str!("traces/7.2-default.trace")),
    ("7.2 few", include_str!("traces/7.2-few.trace")),
    ("7.3 default", include_str!("traces/7.3-default.trace")),
    ("7.3 few", include_str!("traces/7.3-few.trace")),
];

#[test]
fn every_transition_is_explained() {
    let mut all = Story::default();
    for (name, text) in TRACES {
        let trace = TraceFile::parse(text).unwrap();
        let story = explain(&trace, Rules::of(trace.version()));
        let story = story.unwrap_or_else(|why| panic!("{name}: {why}"));
        eprintln!("{name}: {story:?}");
        all.add(&story);
    }
    // They have in them what there is to explain.
    let Story { transitions, new_boundaries, merged_boundaries, young, older, .. } = all;
    assert_eq!(transitions, 3 * (39 + 59));
    for n in [new_boundaries, merged_boundaries, young, older] {
        assert!(n > 100, "{all:?}");
    }
    assert!(all.unsplit > 10 && all.in_three > 10 && all.some > 10, "{all:?}");
}

/// Ages across zero: 6.12 counts on where 7.2 starts again, and each kernel's trace has cases of
/// it. Above half of the maximum of regions 7.3 splits some, where others split none.
#[test]
fn kernels_differ_where_the_rules_say() {
    let (mut by_ages, mut by_splits) = (Vec::new(), Vec::new());
    for (name, text) in TRACES {
        let trace = TraceFile::parse(text).unwrap();
        let rules = Rules::of(trace.version());
        let ages = Rules { zero_resets_age: !rules.zero_resets_age, ..rules };
        let splits = Rules { splits_some: !rules.splits_some, ..rules };
        for (other, refused) in [(ages, &mut by_ages), (splits, &mut by_splits)] {
            let told = explain(&trace, other);
            eprintln!("{name} by {other:?}: {told:?}");
            if told.is_err() {
                refused.push(name);
            }
        }
    }
    assert!(by_ages.len() >= 2, "the traces do not tell the rules about ages apart: {by_ages:?}");
    assert!(by_splits.contains(&"7.3 few"), "nor those about splits: {by_splits:?}");
}
