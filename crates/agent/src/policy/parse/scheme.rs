//! Schemes: pattern, action, limits, and how the action is carried out.

use std::path::PathBuf;

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::scheme::{Action, Destination, Pattern, Rest};
use isotherm_core::{Attrs, Scheme};

use super::context::{Over, name};
use super::fields::{Entry, Errors, Fields};
use super::filter::filters;
use super::pattern::pattern;
use super::quota::{milliseconds, node, quota, watermarks};
use super::reclaim::reclaim;
use crate::policy::action::available;
use crate::policy::{SchemePolicy, defaults};
use crate::text::TextError;

pub(super) const KEYS: &[&str] = &[
    "name",
    "action",
    "size",
    "frequency",
    "age",
    "apply_interval",
    "quota",
    "brake",
    "watermarks",
    "filters",
    "evidence",
    "min_touched",
    "prove",
    "progress",
    "dry_run",
    "inject",
    "memory_reclaim",
    "refault_window",
    "destinations",
    "target_node",
    "source_node",
    "hold",
    "rest",
    "max_snapshots",
];

/// A scheme.
pub(super) fn scheme(
    fields: &Fields<'_>,
    attrs: &Attrs,
    over: Over,
    errors: &mut Errors,
) -> Option<SchemePolicy> {
    let mut settings = Settings::default();
    let by_kernel = over == Over::Memory { by_kernel: true };
    let pattern = pattern(fields, errors);
    let watermarks = watermarks(fields, errors).unwrap_or_default();
    let apply_interval = fields.maybe("apply_interval", errors, |e| e.interval("1s"));
    let max_snapshots = fields.maybe("max_snapshots", errors, |e| e.whole());
    let action =
        fields.need("action", "a scheme").map_err(|e| e.hint("action = \"stat\" only counts"));
    let action = errors.keep(action.and_then(|e| available(e.text()?, e.span(), by_kernel)))?;
    if let Some(name) = fields.maybe("name", errors, name) {
        settings.name = name.to_owned();
    } else {
        settings.name = action.name().to_owned();
    }
    let (target_nid, dests) = nodes(fields, action, errors);
    let source_nid = source(fields, action, &mut settings, errors);
    let rest = rest(fields, action, errors);
    let quota = quota(fields, action, attrs.min_region_sz, &mut settings, errors);
    let filters = filters(fields, over, &mut settings, errors);
    carrying_out(fields, action, &pattern, attrs, &mut settings, errors);
    let scheme = Scheme {
        pattern,
        action,
        apply_interval_us: apply_interval.unwrap_or(0),
        quota,
        watermarks,
        filters,
        source_nid,
        rest,
        target_nid,
        dests,
        max_nr_snapshots: max_snapshots.unwrap_or(0),
        by_page: false,
    };
    Some(SchemePolicy { scheme, settings })
}

/// Evidence and what else the carrying out needs.
fn carrying_out(
    fields: &Fields<'_>,
    action: Action,
    pattern: &Pattern,
    attrs: &Attrs,
    settings: &mut Settings,
    errors: &mut Errors,
) {
    let given = fields.get("evidence").and_then(|e| evidence(e, settings, errors));
    settings.evidence = given.unwrap_or_else(|| defaults::evidence(pattern, attrs));
    if let Some(dry_run) = fields.maybe("dry_run", errors, |e| e.flag()) {
        settings.dry_run = dry_run;
    }
    if let Some(inject) = fields.maybe("inject", errors, |e| e.flag()) {
        settings.inject = inject;
    }
    if matches!(action, Action::Hugepage | Action::Nohugepage) && !settings.inject {
        let place = fields.get("action").map_or_else(|| fields.error(""), |e| e.error(""));
        let what = format!("action `{}` without `inject`", action.name());
        errors.push(TextError { what, ..place }.why(
            "only a process itself may ask for it, so it has to be stopped for a moment and made to ask",
        ).hint("inject = true allows that; `collapse` makes huge pages without it"));
    }
    if let Some(entry) = fields.get("min_touched") {
        if action == Action::Collapse {
            settings.min_touched_bp = errors.keep(entry.share("50%")).unwrap_or(0);
        } else {
            errors.push(entry.error("`min_touched` is for the action `collapse` only"));
        }
    }
    proof(fields, action, settings, errors);
    if let Some(entry) = fields.get("memory_reclaim") {
        match (reclaim(entry, errors), action, settings.evidence) {
            (Some(reclaim), Action::Pageout, Evidence::Confirm(_)) => {
                settings.memory_reclaim = Some(reclaim);
            }
            (Some(_), Action::Pageout, Evidence::Off) => errors.push(
                entry
                    .error("`memory_reclaim` without evidence")
                    .why("how much to reclaim is as much as was found idle"),
            ),
            (Some(_), ..) => {
                errors.push(entry.error("`memory_reclaim` is for the action `pageout` only"));
            }
            (None, ..) => {}
        }
    }
    let why = "nothing would count as touched again";
    let window = fields.maybe("refault_window", errors, |e| e.positive_interval("10s", why));
    settings.refault_window_us = window.unwrap_or(settings.refault_window_us);
}

/// Whether huge pages have to pay, and by what that is seen.
fn proof(fields: &Fields<'_>, action: Action, settings: &mut Settings, errors: &mut Errors) {
    let hint = "prove = \"auto\", or \"off\" to collapse whatever matches";
    if let Some(entry) = fields.get("prove") {
        match entry.as_text() {
            _ if action != Action::Collapse => errors.push(
                entry
                    .error("`prove` is for the action `collapse` only")
                    .why("what other actions do cannot be tried on a sample and be undone"),
            ),
            Some("auto") => settings.prove = true,
            Some("off") => settings.prove = false,
            _ => errors.push(entry.error("`prove` is \"auto\" or \"off\"").hint(hint)),
        }
    }
    if let Some(entry) = fields.get("progress") {
        let path = errors.keep(entry.text());
        if settings.prove {
            settings.progress = path.map(PathBuf::from);
        } else {
            let why = "only a trial of huge pages asks how the target gets on";
            errors.push(entry.error("`progress` without `prove`").why(why).hint(hint));
        }
    }
}

fn evidence(entry: Entry<'_>, settings: &mut Settings, errors: &mut Errors) -> Option<Evidence> {
    let hint = "evidence = { confirm = \"5s\" }, or \"off\" for DAMON's own behaviour";
    match entry.as_text() {
        Some("off") => return Some(Evidence::Off),
        Some(_) => {
            errors.push(entry.error("evidence is a table, or \"off\"").hint(hint));
            return None;
        }
        None => {}
    }
    let fields = entry.fields(&["confirm", "time"], errors)?;
    if let Some(us) = fields.maybe("time", errors, time_per_second) {
        settings.evidence_us_per_s = us;
    }
    let confirm = fields.need("confirm", "evidence").map_err(|e| e.hint(hint));
    let why = "pages that are watched for no time all look idle";
    let confirm = confirm.and_then(|e| e.positive_interval("5s", why).map_err(|e| e.hint(hint)));
    errors.keep(confirm).map(Evidence::Confirm)
}

/// CPU time per second that gathering evidence may take, in µs.
fn time_per_second(entry: Entry<'_>) -> Result<u64, TextError> {
    match entry.positive_interval("5ms", "without any time nothing is ever proven idle")? {
        1_000_000.. => Err(entry.error("all of a CPU's time").hint("5ms of every second is usual")),
        us => Ok(us),
    }
}

/// The node that a migration takes from, and for how long it leaves alone what was moved.
fn source(
    fields: &Fields<'_>,
    action: Action,
    settings: &mut Settings,
    errors: &mut Errors,
) -> Option<u32> {
    if let Some(entry) = fields.get("source_node")
        && !migrates(action)
    {
        errors.push(entry.error("`source_node` is for migrate_hot and migrate_cold only"));
    }
    let node = fields.maybe("source_node", errors, node);
    if let Some(entry) = fields.get("hold") {
        settings.hold_us = errors.keep(entry.interval("30s")).unwrap_or(0);
        if node.is_none() {
            errors.push(
                entry
                    .error("`hold` without `source_node`")
                    .why("what was moved is remembered for schemes that take from one node")
                    .hint("source_node = 1"),
            );
        }
    }
    node
}

/// How long a migration rests when its node has no room.
fn rest(fields: &Fields<'_>, action: Action, errors: &mut Errors) -> Option<Rest> {
    let entry = fields.get("rest")?;
    if !migrates(action) {
        errors.push(entry.error("`rest` is for migrate_hot and migrate_cold only"));
    }
    let fields = entry.fields(&["first", "most"], errors)?;
    let mut ms = |key, example| {
        let value = fields.need(key, "a rest").and_then(|e| milliseconds(e, example));
        errors.keep(value)
    };
    let (first, most) = (ms("first", "1s"), ms("most", "16s"));
    let (first_ms, most_ms) = (first?, most?);
    if first_ms == 0 || most_ms < first_ms {
        let hint = "rest = { first = \"1s\", most = \"16s\" }";
        errors.push(entry.error("a rest grows from `first` to `most`").hint(hint));
    }
    Some(Rest { first_ms, most_ms })
}

const fn migrates(action: Action) -> bool {
    matches!(action, Action::MigrateHot | Action::MigrateCold)
}

/// Where a migration goes.
fn nodes(
    fields: &Fields<'_>,
    action: Action,
    errors: &mut Errors,
) -> (Option<u32>, Vec<Destination>) {
    let migrates = migrates(action);
    let given = fields.present(&["target_node", "destinations"]);
    match given.as_slice() {
        [] if migrates => {
            let what = format!("action `{}` without a node to go to", action.name());
            let hint = "target_node = 1, or destinations = [{ node = 1, weight = 1 }]";
            errors.push(fields.error(what).hint(hint));
        }
        [first, ..] if !migrates => {
            errors.push(
                first.error(format!("`{}` is for migrate_hot and migrate_cold only", first.key)),
            );
        }
        [_, second] => {
            errors.push(
                second
                    .error("both `target_node` and `destinations`")
                    .why("with destinations the target node would not be looked at"),
            );
        }
        _ => {}
    }
    let target = fields.maybe("target_node", errors, node);
    let Some(entry) = fields.get("destinations") else { return (target, Vec::new()) };
    let list = errors.keep(entry.list("tables: { node = 1, weight = 1 }"));
    let dests: Vec<_> =
        list.into_iter().flatten().filter_map(|entry| destination(entry, errors)).collect();
    if dests.iter().all(|dest| dest.weight == 0) {
        errors
            .push(entry.error("destinations without any weight").why("nothing would be migrated"));
    }
    (target, dests)
}

fn destination(entry: Entry<'_>, errors: &mut Errors) -> Option<Destination> {
    let fields = entry.fields(&["node", "weight"], errors)?;
    let nid = fields.need("node", "a destination").and_then(node);
    let nid = errors.keep(nid);
    let weight = fields.maybe("weight", errors, |e| e.whole());
    Some(Destination { nid: nid?, weight: weight.unwrap_or(1) })
}
