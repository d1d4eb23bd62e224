//! Numbers as damo writes them: JSON numbers, or texts such as `140,731,667,070,976`, `5 ms`,
//! `1 s 20 ms` and `max`. The unit is the caller's unless the text has one.

use serde_json::Value;

/// Units of time, in ns.
const TIMES: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

/// A whole number without a unit. `None` if the value is none, or negative.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64().or_else(|| n.as_f64().and_then(to_u64)),
        Value::String(text) => digits(text),
        _ => None,
    }
}

/// A time in units of `unit_ns`, rounded to whole ones. A text with units of its own is converted.
pub(super) fn time(value: &Value, unit_ns: f64) -> Option<u64> {
    if let Some(plain) = whole(value) {
        return Some(plain);
    }
    let Value::String(text) = value else { return None };
    let mut ns = 0.0;
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let at = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (number, unit) = word.split_at(at);
        let unit = if unit.is_empty() { words.next()? } else { unit };
        let (_, scale) = TIMES.iter().find(|(name, _)| *name == unit)?;
        ns += number.replace(',', "").parse::<f64>().ok()? * scale;
    }
    to_u64(ns / unit_ns)
}

/// A share from 0 to 1, which damo gives in percent.
pub(super) fn percent(value: &Value) -> Option<f64> {
    let percent = match value {
        Value::Number(n) => n.as_f64()?,
        Value::String(text) => text.trim().trim_end_matches('%').trim().parse().ok()?,
        _ => return None,
    };
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// Digits, with or without commas between them.
pub(super) fn digits(text: &str) -> Option<u64> {
    let text = text.trim();
    if text == "max" {
        return Some(u64::MAX);
    }
    if text.contains(',') { text.replace(',', "").parse().ok() } else { text.parse().ok() }
}

/// A count that is not negative, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was checked, and saturates"
)]
pub(super) fn to_u64(x: f64) -> Option<u64> {
    (x.is_finite() && x >= 0.0).then(|| x.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers() {
        for (value, want) in [
            (json!(7), Some(7)),
            (json!("140,731,667,070,976"), Some(140_731_667_070_976)),
            (json!("82877315633000"), Some(82_877_315_633_000)),
            (json!("max"), Some(u64::MAX)),
            (json!(2.0), Some(2)),
            (json!(-1), None),
            (json!("-1"), None),
            (json!(null), None),
            (json!("x"), None),
        ] {
            assert_eq!(whole(&value), want, "{value}");
        }
        for (value, want) in [
            (json!("5000"), Some(5000)),
            (json!("5 ms"), Some(5000)),
            (json!("5ms"), Some(5000)),
            (json!("1 s 20 ms"), Some(1_020_000)),
            (json!("1.5 s"), Some(1_500_000)),
            (json!("1,000 us"), Some(1000)),
            (json!("5 parsec"), None),
            (json!("5 "), Some(5)),
            (json!("-5 ms"), None),
        ] {
            assert_eq!(time(&value, 1e3), want, "{value}");
        }
        assert_eq!(percent(&json!("5 %")), Some(0.05));
        assert_eq!(percent(&json!(100)), Some(1.0));
        assert_eq!(percent(&json!(101)), None);
    }
}
