//! The dashboard and the alerts ask only for metrics and labels that there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use isotherm_metrics::families::families;
use serde_json::Value;

fn file(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (path, text)
}

/// The words of a query that are names of ours.
fn names(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("isotherm_"))
}

/// The labels that a query selects or sums by.
fn labels(query: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for part in query.split('{').skip(1) {
        let inside = part.split('}').next().unwrap_or_default();
        let pairs = inside.split(',').filter_map(|pair| pair.split(['=', '!']).next());
        out.extend(pairs.map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()));
    }
    for by in ["by (", "on (", "without ("] {
        for part in query.split(by).skip(1) {
            let inside = part.split(')').next().unwrap_or_default();
            out.extend(inside.split(',').map(|label| label.trim().to_owned()));
        }
    }
    out
}

/// Checks a query: its names, and that each label is one of the metrics in it.
fn check(place: &str, query: &str, used: &mut BTreeSet<String>) {
    // Prometheus adds these two to every sample.
    let mut known: BTreeSet<&str> = ["job", "instance"].into();
    let mut found = 0;
    for name in names(query) {
        let family = families().find(|family| family.sample_name() == name);
        let family = family.unwrap_or_else(|| panic!("{place}: there is no metric {name}"));
        known.extend(family.labels);
        used.insert(name.to_owned());
        found += 1;
    }
    assert!(found > 0, "{place}: asks for nothing of ours: {query}");
    for label in labels(query) {
        assert!(known.contains(label.as_str()), "{place}: no label {label}: {query}");
    }
    let [open, close] = ['(', ')'].map(|c| query.matches(c).count());
    assert_eq!(open, close, "{place}: {query}");
}

/// All texts behind this key, anywhere in a document.
fn texts<'a>(value: &'a Value, key: &str, out: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            out.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| texts(value, key, out));
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, key, out)),
        _ => {}
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let (path, text) = file("grafana/isotherm.json");
    let board: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (mut queries, mut used) = (Vec::new(), BTreeSet::new());
    texts(&board, "expr", &mut queries);
    assert!(queries.len() >= 12, "{}", queries.len());
    for query in queries {
        check("isotherm.json", query, &mut used);
    }
    for variable in board["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["query"].as_str().filter(|_| variable["type"] == "query") else {
            continue;
        };
        let inside = query.strip_prefix("label_values(").unwrap().trim_end_matches(')');
        let (metric, label) = inside.rsplit_once(',').unwrap();
        check("a variable", metric, &mut used);
        let of = names(metric).next().unwrap();
        let family = families().find(|family| family.sample_name() == of).unwrap();
        assert!(family.labels.contains(&label.trim()) || label.trim() == "instance", "{query}");
    }
    let mut ids: Vec<_> =
        board["panels"].as_array().unwrap().iter().map(|p| p["id"].as_u64()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "every panel has a number of its own");
}

#[test]
fn the_alerts_ask_for_metrics_that_there_are() {
    let (_, text) = file("prometheus/isotherm.rules.yml");
    let mut used = BTreeSet::new();
    let (mut alerts, mut queries) = (0, 0);
    for (nr, line) in text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches("- ");
        alerts += usize::from(line.starts_with("alert:") || line.starts_with("record:"));
        if let Some(query) = line.strip_prefix("expr:") {
            queries += 1;
            check(&format!("line {}", nr + 1), query, &mut used);
        }
    }
    assert!(alerts >= 8 && alerts == queries, "{alerts} rules, {queries} queries on one line each");
    for name in
        ["isotherm_scheme_refaulted_bytes_total", "isotherm_actions_blocked", "isotherm_fleet_up"]
    {
        assert!(used.contains(name), "nobody is told of {name}");
    }
}
