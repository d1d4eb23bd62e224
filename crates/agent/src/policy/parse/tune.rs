//! The table `[tune]`: ranges, and what tuning has to keep to.

use super::fields::{Entry, Errors};
use crate::policy::{Policy, Range, Tuning};

const KEYS: &[&str] = &["range", "max_slowdown", "weight"];

/// The table, checked against the rest of the policy.
pub(super) fn tune(entry: &Entry<'_>, policy: &Policy, errors: &mut Errors) -> Tuning {
    let mut tuning = Tuning::default();
    let Some(fields) = entry.fields(KEYS, errors) else { return tuning };
    let list = fields.maybe("range", errors, |e| e.list("strings: \"cold.age=1s..60s\""));
    for entry in list.into_iter().flatten() {
        let range = entry.text().and_then(|text| {
            let range = Range::parse(text).map_err(|what| entry.error(what))?;
            range.check(policy).map_err(|what| entry.error(what))?;
            Ok(range)
        });
        let Some(range) = errors.keep(range) else { continue };
        let is_same = |r: &Range| r.scheme == range.scheme && r.key == range.key;
        if tuning.ranges.iter().any(is_same) {
            errors.push(entry.error(format!("a second range of what `{range}` is about")));
        } else {
            tuning.ranges.push(range);
        }
    }
    tuning.max_slowdown_bp = fields.maybe("max_slowdown", errors, |e| e.share("2%"));
    tuning.weight = fields.maybe("weight", errors, |e| e.whole());
    tuning
}
