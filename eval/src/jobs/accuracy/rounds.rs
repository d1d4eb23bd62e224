//! Several runs of each case (`--pairs N`), in turns: what two methods differ by is compared under
//! the same load. Of the scores the medians count.
//!
//! Delays that a score leaves out are those of changes that were never seen, so they count as later
//! than all others. Numbers of changes are added up.

use serde_json::{Map, Value};

use crate::stats::to_f64;

/// The scores of all rounds as one. `None` without any.
pub(super) fn middle(scores: &[Value]) -> Option<Value> {
    match scores {
        [] => None,
        [one] => Some(one.clone()),
        _ if scores.iter().all(Value::is_object) => {
            // A key that one score lacks may be in another.
            let mut keys: Vec<&String> = Vec::new();
            for key in scores.iter().filter_map(Value::as_object).flat_map(Map::keys) {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            let of = |key: &String| {
                let values: Vec<Value> = scores.iter().map(|s| s[key.as_str()].clone()).collect();
                (key.clone(), number_of(key, &values))
            };
            Some(Value::Object(keys.into_iter().map(of).collect()))
        }
        _ => Some(number_of("", scores)),
    }
}

/// One value of all rounds.
fn number_of(key: &str, values: &[Value]) -> Value {
    let is_delay = key.contains("delay");
    if let Some(first) = values.iter().find(|v| v.is_array() || v.is_object()) {
        let same: Vec<Value> = values.iter().filter(|v| !v.is_null()).cloned().collect();
        return match first {
            Value::Array(items) => {
                let nth = |i: usize| {
                    let all: Vec<Value> = same.iter().filter_map(|v| v.get(i).cloned()).collect();
                    middle(&all).unwrap_or_default()
                };
                Value::Array((0..items.len()).map(nth).collect())
            }
            _ => middle(&same).unwrap_or_default(),
        };
    }
    let number = |v: &Value| v.as_f64().or_else(|| is_delay.then_some(f64::INFINITY));
    let mut numbers: Vec<f64> = values.iter().filter_map(number).collect();
    if numbers.is_empty() {
        return values.first().cloned().unwrap_or_default();
    }
    let sum: Option<u64> = values.iter().map(Value::as_u64).sum();
    if let (true, Some(sum)) = (key.starts_with("changes"), sum) {
        return sum.into();
    }
    numbers.sort_unstable_by(f64::total_cmp);
    let middle = numbers[(numbers.len() - 1) / 2];
    // Infinity becomes null.
    if values.iter().all(|v| v.is_u64() || v.is_null()) {
        values.iter().find(|v| v.as_u64().map(to_f64) == Some(middle)).cloned().unwrap_or_default()
    } else {
        middle.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn medians_count_and_what_was_never_seen_is_the_latest() {
        let round = |delay: Option<f64>, recall: f64, missed: u64| {
            json!({
                "recall": recall, "delay_to_hot_ms": delay, "changes": 3, "changes_missed": missed,
                "rss_bytes": 7 + missed, "precision": null,
                "spans": [{"span_us": 5000, "error_p50": recall / 10.0}],
            })
        };
        let of = |rounds: &[Value]| middle(rounds).unwrap();
        let three =
            of(&[round(Some(100.0), 1.0, 0), round(None, 0.5, 3), round(Some(300.0), 0.9, 1)]);
        assert_eq!(
            three,
            json!({
                "recall": 0.9, "delay_to_hot_ms": 300.0, "changes": 9, "changes_missed": 4,
                "rss_bytes": 8, "precision": null,
                "spans": [{"span_us": 5000, "error_p50": 0.09}],
            })
        );
        let mostly = of(&[round(None, 1.0, 3), round(None, 1.0, 3), round(Some(1.0), 1.0, 0)]);
        assert_eq!(mostly["delay_to_hot_ms"], Value::Null);
        let one = round(Some(1.0), 0.25, 0);
        assert_eq!(middle(std::slice::from_ref(&one)), Some(one));
        assert_eq!(middle(&[]), None);
    }
}
