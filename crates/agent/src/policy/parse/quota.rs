//! Quotas with goals, brakes, watermarks.

use isotherm_act::apply::Settings;
use isotherm_core::scheme::{
    Action, Brake, CgroupId, FailCharge, Follow, Goal, Metric, Quota, Room, Tuner, WatermarkMetric,
    Watermarks, Weights,
};

use super::context::cgroup;
use super::fields::{Entry, Errors, Fields};
use crate::policy::metric::{self, Unit, WORDS};
use crate::policy::{defaults, number_of};
use crate::text::{TextError, unknown};

const NOTHING: &str = "it means that nothing could be done";

/// The quota of a scheme, with safe defaults for fields that are left out.
pub(super) fn quota(
    fields: &Fields<'_>,
    action: Action,
    min_region: u64,
    settings: &mut Settings,
    errors: &mut Errors,
) -> Quota {
    let brake = brake(fields, action, errors);
    let quota = match fields.get("quota") {
        None => defaults::quota(action),
        Some(entry) if entry.as_text() == Some("none") => Quota::default(),
        Some(entry) if entry.as_text().is_some() => {
            errors.push(
                entry
                    .error("a quota is a table, or \"none\"")
                    .hint("quota = { size = \"128M\", time = \"10ms\", interval = \"1s\" }"),
            );
            Quota::default()
        }
        Some(entry) => table(entry, action, min_region, settings, errors),
    };
    Quota { brake, ..quota }
}

fn table(
    entry: Entry<'_>,
    action: Action,
    min_region: u64,
    settings: &mut Settings,
    errors: &mut Errors,
) -> Quota {
    let usual = defaults::quota(action);
    let mut quota = Quota {
        reset_interval_ms: defaults::QUOTA_INTERVAL_MS,
        weights: defaults::weights(action),
        ..Quota::default()
    };
    let Some(fields) = entry.fields(QUOTA, errors) else { return quota };
    if let Some(ms) = fields.maybe("interval", errors, |e| milliseconds(e, "1s")) {
        quota.reset_interval_ms = ms;
    }
    (quota.sz, quota.ms) = match (fields.get("size"), fields.get("time")) {
        (None, None) => (usual.sz, usual.ms),
        (size, time) => (
            size.and_then(|e| errors.keep(size_limit(e, min_region))).unwrap_or(0),
            time.and_then(|e| errors.keep(time_limit(e, quota.reset_interval_ms))).unwrap_or(0),
        ),
    };
    if let Some(weights) = fields.get("weights").and_then(|e| weights(e, errors)) {
        quota.weights = weights;
    }
    let goals = fields.maybe("goals", errors, |e| e.list("tables: { metric = ..., target = ... }"));
    for entry in goals.into_iter().flatten() {
        quota.goals.extend(goal(entry, quota.reset_interval_ms, settings, errors));
    }
    if let Some(tuner) = fields.maybe("tuner", errors, tuner) {
        quota.tuner = tuner;
        let is_node = |goal: &Goal| metric::is_of_node(goal.metric);
        let fits = quota.goals.iter().all(is_node) && !quota.goals.is_empty();
        if tuner == Tuner::Exact && !fits {
            let at = fields.get("tuner").map_or_else(|| fields.error(""), |e| e.error(""));
            let what = "tuner `exact` with other goals than on a node's memory".to_owned();
            errors.push(
                TextError { what, ..at }
                    .why("it does what the goal lacks in bytes, and others are no bytes")
                    .hint("metric node_mem_used_bp or node_mem_free_bp, or another tuner"),
            );
        }
    }
    if let Some(charge) = fields.maybe("fail_charge", errors, fail_charge) {
        quota.fail_charge = charge;
    }
    quota
}

fn size_limit(entry: Entry<'_>, min_region: u64) -> Result<u64, TextError> {
    if entry.as_text() == Some("none") {
        return Ok(0);
    }
    match entry.size("128M")? {
        0 => Err(entry.error("a quota of 0 bytes").why(NOTHING).hint("\"none\" is no limit")),
        size if size < min_region => Err(entry
            .error("a quota of less than one region")
            .why(format!("{NOTHING}: the smallest region has {min_region} bytes"))),
        size => Ok(size),
    }
}

fn time_limit(entry: Entry<'_>, interval_ms: u64) -> Result<u64, TextError> {
    if entry.as_text() == Some("none") {
        return Ok(0);
    }
    match milliseconds(entry, "10ms")? {
        0 => Err(entry.error("a quota of no time").why(NOTHING).hint("\"none\" is no limit")),
        ms if interval_ms != 0 && ms > interval_ms => Err(entry
            .error("a quota of more time than its window has")
            .why(format!("a window is {interval_ms} ms; it would limit nothing"))
            .hint("\"none\" is no limit")),
        ms => Ok(ms),
    }
}

pub(super) fn milliseconds(entry: Entry<'_>, example: &str) -> Result<u64, TextError> {
    match entry.interval(example)? {
        us if us.is_multiple_of(1000) => Ok(us / 1000),
        _ => Err(entry.error(format!("`{}` is not a whole number of ms", entry.key))),
    }
}

fn weights(entry: Entry<'_>, errors: &mut Errors) -> Option<Weights> {
    let fields = entry.fields(&["size", "frequency", "age"], errors)?;
    let mut weight = |key| fields.maybe(key, errors, |e| e.whole()).unwrap_or(0);
    Some(Weights { sz: weight("size"), nr_accesses: weight("frequency"), age: weight("age") })
}

fn tuner(entry: Entry<'_>) -> Result<Tuner, TextError> {
    match entry.text()? {
        "consist" => Ok(Tuner::Consist),
        "temporal" => Ok(Tuner::Temporal),
        "exact" => Ok(Tuner::Exact),
        other => Err(unknown(entry.span(), "tuner", other, &["consist", "temporal", "exact"])),
    }
}

fn fail_charge(entry: Entry<'_>) -> Result<FailCharge, TextError> {
    let parts = entry.text()?.split_once('/');
    let parts = parts.and_then(|(n, d)| Some((n.trim().parse().ok()?, d.trim().parse().ok()?)));
    let hint = "\"1/4\" charges a quarter of the bytes that could not be acted on";
    match parts {
        Some((_, 0)) => Err(entry.error("a share divided by 0").hint(hint)),
        Some((num, denom)) => Ok(FailCharge { num, denom }),
        None => Err(entry.error("`fail_charge` is not a fraction").hint(hint)),
    }
}

fn goal(
    entry: Entry<'_>,
    interval_ms: u64,
    settings: &mut Settings,
    errors: &mut Errors,
) -> Option<Goal> {
    let fields = entry.fields(GOAL, errors)?;
    let place = errors.keep(fields.need("metric", "a goal"))?;
    let metric = metric(place, &fields, settings, errors);
    let target = errors.keep(fields.need("target", "a goal"));
    let (metric, target) = (metric?, target?);
    let word = WORDS.iter().find(|word| word.name == metric.name())?;
    let value = errors.keep(target_value(target, word.unit, interval_ms))?;
    let mut goal = Goal::new(metric, value);
    if let Some(entry) = fields.get("current") {
        if metric == Metric::UserInput {
            goal.current = errors.keep(entry.whole())?;
        } else {
            errors.push(entry.error("`current` is for the metric `user_input` only"));
        }
    }
    goal.follow = follow(&fields, metric, errors);
    Some(goal)
}

/// Reads what moves a goal's target while it runs. The scheme whose memory waits for room is looked
/// up when all schemes are read ([`waits`]).
fn follow(fields: &Fields<'_>, metric: Metric, errors: &mut Errors) -> Follow {
    let mut follow = Follow::default();
    let given = fields.present(&["above_watermark", "coming", "room"]);
    if let Some(first) = given.first()
        && !metric::is_of_node(metric)
    {
        let what = format!("`{}` is for goals on a node's memory", first.key);
        errors.push(first.error(what).hint("metric node_mem_used_bp or node_mem_free_bp"));
    }
    follow.watermark_bp = fields.maybe("above_watermark", errors, |e| e.share("0.2%"));
    let is_free = matches!(metric, Metric::NodeMemFreeBp(_));
    for key in ["coming", "room"] {
        if let Some(entry) = fields.get(key)
            && !is_free
        {
            errors.push(entry.error(format!("`{key}` is for the metric `node_mem_free_bp` only")));
        }
    }
    follow.counts_coming = fields.maybe("coming", errors, |e| e.flag()).unwrap_or(false);
    if let Some(fields) = fields.get("room").and_then(|e| e.fields(ROOM, errors)) {
        let name = fields.need("for", "room").and_then(|e| e.text());
        errors.keep(name);
        let most = fields.need("most", "room").and_then(|e| e.share("0.25%"));
        let most = errors.keep(most);
        let urgent = fields.maybe("urgent", errors, |e| e.share("1%"));
        let (most_bp, urgent_bp) = (most.unwrap_or(0), urgent.unwrap_or(10_000));
        follow.room = Some(Room { scheme: 0, most_bp, urgent_bp });
    }
    follow
}

/// For each goal of a scheme, the name of the scheme that the goal keeps room for; none if it keeps
/// no room.
pub(super) fn waits<'a>(fields: &Fields<'a>) -> Vec<Option<Entry<'a>>> {
    let mut unread = Errors::default();
    // The goals were read before, and their errors were reported then.
    let goals = fields.get("quota").filter(Entry::is_table).and_then(|quota| {
        let fields = quota.fields(QUOTA, &mut unread)?;
        fields.get("goals")?.list("tables").ok()
    });
    let name = |goal: Entry<'a>| {
        let room = goal.fields(GOAL, &mut Errors::default())?.get("room")?;
        room.fields(ROOM, &mut Errors::default())?.get("for")
    };
    goals.into_iter().flatten().map(name).collect()
}

const QUOTA: &[&str] = &["size", "time", "interval", "weights", "goals", "tuner", "fail_charge"];
const GOAL: &[&str] =
    &["metric", "target", "node", "cgroup", "current", "above_watermark", "coming", "room"];
const ROOM: &[&str] = &["for", "most", "urgent"];

fn metric(
    place: Entry<'_>,
    fields: &Fields<'_>,
    settings: &mut Settings,
    errors: &mut Errors,
) -> Option<Metric> {
    let name = errors.keep(place.text())?;
    let Some(word) = WORDS.iter().find(|word| word.name == name) else {
        let known: Vec<_> = WORDS.iter().map(|word| word.name).collect();
        errors.push(unknown(place.span(), "metric", name, &known));
        return None;
    };
    if name == "node_eligible_mem_bp" {
        errors.push(place.error("`node_eligible_mem_bp` cannot be measured").why(
            "it is about the physical address space, and the operations sets look at processes",
        ));
        return None;
    }
    let mut needed = |key: &str, needs: bool, example: &str| match (fields.get(key), needs) {
        (Some(entry), true) => Ok(Some(entry)),
        (None, false) => Ok(None),
        (None, true) => {
            errors.push(place.error(format!("metric `{name}` without `{key}`")).hint(example));
            Err(())
        }
        (Some(entry), false) => {
            errors.push(entry.error(format!("metric `{name}` has no `{key}`")));
            Err(())
        }
    };
    let node = needed("node", word.node, "node = 0");
    let path = needed("cgroup", word.cgroup, "cgroup = \"/app\"");
    let (node, path) = (node.ok()?, path.ok()?);
    let node = node.map(|e| errors.keep(self::node(e)));
    let path = path.map(|e| errors.keep(cgroup(e)));
    let number = match path {
        Some(path) => number_of(&mut settings.cgroups, path?),
        None => 0,
    };
    let node = match node {
        Some(node) => i32::try_from(node?).ok()?,
        None => 0,
    };
    metric::from_parts(name, node, CgroupId(number))
}

/// A node's number.
pub(super) fn node(entry: Entry<'_>) -> Result<u32, TextError> {
    match entry.whole()? {
        node @ 0..1024 => Ok(node),
        _ => Err(entry.error("no node has so large a number").why("Linux has at most 1024")),
    }
}

fn target_value(entry: Entry<'_>, unit: Unit, interval_ms: u64) -> Result<u64, TextError> {
    let value = match unit {
        Unit::Input => entry.whole()?,
        Unit::Stall => match entry.interval("0.5ms")? {
            us if interval_ms != 0 && us > interval_ms * 1000 => {
                return Err(entry.error("a goal that cannot be reached").why(format!(
                    "a quota window is {interval_ms} ms: no wait in it can be longer"
                )));
            }
            us => us,
        },
        Unit::Bytes => entry.size("1M")?,
        Unit::Share => entry.share("0.5%")?.into(),
        Unit::Permil => permil(entry, "5%")?,
    };
    if value == 0 {
        return Err(entry
            .error("a goal of 0")
            .why("how far it is reached is a ratio to the goal, and 0 has none"));
    }
    Ok(value)
}

fn permil(entry: Entry<'_>, example: &str) -> Result<u64, TextError> {
    match entry.share(example)? {
        bp if bp.is_multiple_of(10) => Ok(u64::from(bp) / 10),
        _ => Err(entry.error(format!("`{}` is finer than a permil (0.1%)", entry.key))),
    }
}

fn brake(fields: &Fields<'_>, action: Action, errors: &mut Errors) -> Option<Brake> {
    let usual = defaults::brake(action);
    let Some(entry) = fields.get("brake") else { return usual };
    if entry.as_text() == Some("off") {
        return None;
    }
    if usual.is_none() {
        errors.push(entry.error(format!("`{}` has no brake", action.name())).why(
            "a brake goes by how much is touched again after it was taken away, and this takes nothing away",
        ));
        return None;
    }
    if entry.as_text().is_some() {
        errors.push(
            entry.error("a brake is a table, or \"off\"").hint("brake = { refaults = \"2%\" }"),
        );
        return None;
    }
    let fields = entry.fields(&["refaults"], errors)?;
    let share = fields.need("refaults", "a brake").and_then(|e| e.share("2%"));
    Some(Brake { max_refault_bp: errors.keep(share)?, ..Brake::default() })
}

/// The watermarks of a scheme.
pub(super) fn watermarks(fields: &Fields<'_>, errors: &mut Errors) -> Option<Watermarks> {
    let entry = fields.get("watermarks")?;
    if entry.as_text() == Some("none") {
        return None;
    }
    let fields = entry.fields(&["metric", "interval", "high", "mid", "low"], errors)?;
    if let Some(name) = fields.get("metric")
        && let Some(text) = errors.keep(name.text())
        && text != "free_mem_rate"
    {
        errors.push(unknown(name.span(), "watermark metric", text, &["free_mem_rate"]));
    }
    let why = "the agent would do nothing else than look";
    let interval = fields.maybe("interval", errors, |e| e.positive_interval("5s", why));
    let mut mark = |key| {
        let mark = fields.need(key, "watermarks").and_then(|e| permil(e, "40%"));
        errors.keep(mark)
    };
    let (high, mid, low) = (mark("high"), mark("mid"), mark("low"));
    let (high, mid, low) = (high?, mid?, low?);
    if high < mid || mid < low {
        errors.push(entry.error("watermarks out of order").why("high >= mid >= low is needed"));
    } else if mid == low {
        errors.push(
            entry
                .error("watermarks that never let the scheme start")
                .why("it starts below mid and at or above low, and these are the same"),
        );
    }
    let metric = WatermarkMetric::FreeMemRate;
    Some(Watermarks { metric, interval_us: interval.unwrap_or(5_000_000), high, mid, low })
}
