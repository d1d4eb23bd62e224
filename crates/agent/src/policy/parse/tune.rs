//! The table `[tune]`: ranges, and what tuning has to keep to.

use super::fields::{Entry, Errors, Fields};
use crate::gauge::{Counter, Source};
use crate::policy::{OnlineTuning, Policy, Range, Tuning, online_ranges};
use crate::text::TextError;

const KEYS: &[&str] = &[
    "range",
    "max_slowdown",
    "weight",
    "online",
    "every",
    "phase",
    "progress",
    "progress_cmd",
    "latency_cmd",
    "psi",
    "state",
];
/// Those of online tuning alone.
const ONLINE: &[&str] =
    &["every", "phase", "progress", "progress_cmd", "latency_cmd", "psi", "state"];
/// Those that say what tells how the targets get on.
const MEASURES: &[&str] = &["progress", "progress_cmd", "latency_cmd", "psi"];

/// The table, checked against the rest of the policy.
pub(super) fn tune(entry: &Entry<'_>, policy: &Policy, errors: &mut Errors) -> Tuning {
    let mut tuning = Tuning::default();
    let Some(fields) = entry.fields(KEYS, errors) else { return tuning };
    let list = fields.maybe("range", errors, |e| e.list("strings: \"cold.age=1s..60s\""));
    let (mut places, before) = (Vec::new(), errors.0.len());
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
            places.push(entry);
        }
    }
    tuning.max_slowdown_bp = fields.maybe("max_slowdown", errors, |e| e.share("2%"));
    tuning.weight = fields.maybe("weight", errors, |e| e.whole());
    let online = online(&fields, errors);
    if !fields.maybe("online", errors, |e| e.flag()).unwrap_or(false) {
        return tuning;
    }
    tuning.online = online;
    if errors.0.len() == before {
        let tuned = Policy { tuning: tuning.clone(), ..policy.clone() };
        if let Err((at, unfit)) = online_ranges(&tuned) {
            let place = at.and_then(|at| places.get(at)).copied().or_else(|| fields.get("online"));
            let error = place.map_or_else(|| fields.error(&unfit.what), |e| e.error(&unfit.what));
            errors.push(error.why(unfit.why).hint(unfit.hint));
        }
    }
    tuning
}

/// The keys of online tuning. They are checked even if it is switched off.
fn online(fields: &Fields<'_>, errors: &mut Errors) -> Option<OnlineTuning> {
    if fields.get("online").is_none()
        && let Some(entry) = fields.present(ONLINE).first()
    {
        let error = entry.error(format!("`{}` without `online`", entry.key));
        errors.push(
            error
                .why("only tuning while the policy runs uses it")
                .hint("online = true; `isotherm tune` has options for it"),
        );
    }
    let mut tuning = OnlineTuning::default();
    let every = |e: Entry<'_>| e.positive_interval("5m", "targets would never be left alone");
    if let Some(us) = fields.maybe("every", errors, every) {
        tuning.every_us = us;
    }
    let phase = |e: Entry<'_>| e.positive_interval("10s", "nothing can be measured in no time");
    if let Some(us) = fields.maybe("phase", errors, phase) {
        tuning.phase_us = us;
    }
    if let [first, second, ..] = fields.present(MEASURES)[..] {
        let what = format!("`{}` beside `{}`", second.key, first.key);
        let error: TextError = second.error(what).why("slowdown is told by one measure");
        errors.push(error.hint("leave one of them out"));
    }
    let text = |e: Entry<'_>| match e.text()? {
        "" => Err(e.error(format!("`{}` is empty", e.key))),
        text => Ok(text.to_owned()),
    };
    if let Some(path) = fields.maybe("progress", errors, text) {
        tuning.source = Source::Work(Counter::File(path.into()));
    }
    if let Some(line) = fields.maybe("progress_cmd", errors, text) {
        tuning.source = Source::Work(Counter::Command(line));
    }
    if let Some(line) = fields.maybe("latency_cmd", errors, text) {
        tuning.source = Source::Latency(line);
    }
    if fields.maybe("psi", errors, |e| e.flag()) == Some(true) {
        tuning.source = Source::Pressure;
    }
    tuning.state = fields.maybe("state", errors, text).map(Into::into);
    Some(tuning)
}
