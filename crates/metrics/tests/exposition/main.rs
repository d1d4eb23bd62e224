//! What is written, checked by the official parser; and what is shipped beside it, checked against
//! the names that are written.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

mod made_up;
mod parser;
mod shipped;

use std::collections::BTreeSet;
use std::sync::Arc;

use isotherm_metrics::families::{Family, Kind, families};
use isotherm_metrics::text::{openmetrics, plain};
use isotherm_metrics::textfile;

use made_up::reading;

#[test]
fn names_are_in_the_style_of_prometheus() {
    let mut names = BTreeSet::new();
    for family in families() {
        let name = family.sample_name();
        let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(name.chars().all(is_plain) && !name.contains("__"), "{name}");
        assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
        assert!(!family.help.is_empty() && !family.help.ends_with('.'), "{name}");
        for label in family.labels {
            assert!(!["pid", "tid", "address", "addr", "comm"].contains(label), "{name}: {label}");
        }
        assert!(names.insert(name.clone()), "{name} is there twice");
    }
}

#[test]
fn every_metric_has_samples_and_every_sample_is_of_a_metric() {
    let text = openmetrics(&Arc::new(reading(3)));
    let told: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let suffixes = |family: &Family| match family.kind {
        Kind::Histogram => vec!["_bucket", "_sum", "_count"],
        _ => vec![""],
    };
    let names: BTreeSet<String> = families()
        .flat_map(|f| suffixes(f).into_iter().map(|suffix| f.sample_name() + suffix))
        .collect();
    assert_eq!(told, names.iter().map(String::as_str).collect());
}

#[test]
fn fleet_data_that_is_not_written_is_told() {
    let text = openmetrics(&Arc::new(reading(1)));
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("isotherm_fleet_")).collect();
    let expected = [
        "isotherm_fleet_up 0",
        "isotherm_fleet_last_write_timestamp_seconds 1700000000.5",
        "isotherm_fleet_kept_bytes 1048576",
        "isotherm_fleet_rows_total 700",
        "isotherm_fleet_lost_rows_total 51",
        r#"isotherm_fleet_failures_total{kind="directory"} 2"#,
        r#"isotherm_fleet_failures_total{kind="panic"} 1"#,
    ];
    assert_eq!(lines, expected, "{text}");
    // A run without fleet data has no such samples, so no alert can be about it.
    let text = openmetrics(&Arc::default());
    assert!(!text.lines().any(|line| line.starts_with("isotherm_fleet_")), "{text}");
}

#[test]
fn labels_are_escaped() {
    let mut reading = reading(1);
    "a\"b\\c\nd".clone_into(&mut reading.cgroups[0].cgroup);
    let text = openmetrics(&Arc::new(reading));
    assert!(text.contains(r#"cgroup="a\"b\\c\nd""#), "{text}");
}

#[test]
fn the_textfile_is_replaced_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("isotherm.prom");
    for cgroups in [1, 2] {
        let reading = Arc::new(reading(cgroups));
        textfile::write(&path, &reading).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), plain(&reading));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    assert!(textfile::write(&dir.path().join("x.txt"), &Arc::default()).is_err());
    let gone = textfile::write(&dir.path().join("no/x.prom"), &Arc::default()).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
}
