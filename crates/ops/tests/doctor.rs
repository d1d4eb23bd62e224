//! The doctor on this very machine.

use isotherm_ops::doctor::{Granularity, choose, run};
use isotherm_ops::support::{SetName, Support};

#[test]
fn examines_every_set_and_proves_what_it_claims() {
    let report = run();
    println!("{report}");
    assert_eq!(report.sets.iter().map(|s| s.name).collect::<Vec<_>>(), SetName::ALL);
    assert!(!report.machine.kernel.is_empty());
    assert!(report.machine.memory_bytes > 0);
    for set in &report.sets {
        assert_eq!(set.usable, set.reason.is_empty(), "{set:?}");
        if set.usable {
            assert!(set.built && set.support.is_yes());
            let test = set.self_test.as_ref().expect("nothing is usable without a test");
            assert_eq!(test.failure, None);
            assert!(test.missed_reads.of > 100 && test.missed_writes.of > 100, "{test:?}");
        }
        if let Support::No { why, .. } = &set.support {
            assert!(!why.is_empty());
        }
    }
    assert_eq!(report.best, report.sets.iter().find(|s| s.usable).map(|s| s.name));
}

#[test]
fn the_report_is_json() {
    let json = serde_json::to_value(run()).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["sets"][0]["name"], "pagewalk");
    assert!(json["machine"]["page_bytes"].as_u64().unwrap() >= 4096);
    let answers = ["yes", "no", "unknown"];
    for set in json["sets"].as_array().unwrap() {
        assert!(answers.contains(&set["support"]["answer"].as_str().unwrap()), "{set}");
    }
}

/// Needs nothing but the right to look at one's own children.
#[test]
fn smaps_works_per_mapping() {
    let choice = choose(Some(SetName::Smaps)).unwrap();
    assert_eq!(choice.ops.name(), "smaps");
    assert_eq!(choice.self_test.granularity, Granularity::Mapping);
    assert!(choice.refused.is_empty());
}

#[test]
fn a_set_that_is_not_there_is_refused_with_a_reason() {
    let err = choose(Some(SetName::Written)).unwrap_err();
    let text = err.to_string();
    assert!(
        text.contains("`written`") && text.contains("why:") && text.contains("hint:"),
        "{text}"
    );
    assert!([3, 4].contains(&err.exit_code()));
}
