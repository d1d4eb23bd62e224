//! Contexts: targets, intervals, regions.

use std::ops::Range;

use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::{Attrs, AttrsError, Method};
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Memory;

use super::Seen;
use super::fields::{Entry, Errors, Fields};
use super::quota;
use super::scheme::{self, scheme};
use crate::policy::{ContextPolicy, Engine, SchemePolicy, TargetSpec, defaults, spelled};
use crate::text::{TextError, unknown};

pub(super) const KEYS: &[&str] = &[
    "name",
    "targets",
    "children",
    "ops",
    "engine",
    "method",
    "strict",
    "clears",
    "budget",
    "intervals",
    "regions",
    "scheme",
];

/// How physical memory is written.
const MEMORY: &str = "\"all\", \"node:1\", or \"4G-6G\" in physical addresses";

/// Why an interval may not be 0.
const ONLY_LOOKS: &str = "the monitor would do nothing else than look";

/// What the schemes of a context act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Processes,
    /// Physical memory; maybe by the kernel's DAMON.
    Memory {
        by_kernel: bool,
    },
}

/// A context, and where its targets stand.
pub(super) fn context(
    fields: &Fields<'_>,
    number: usize,
    text: &str,
    errors: &mut Errors,
) -> (ContextPolicy, Vec<Range<usize>>) {
    let mut context = ContextPolicy::default();
    let name = fields.maybe("name", errors, name);
    context.name = name.map_or_else(|| format!("context{number}"), str::to_owned);
    let mut places = Vec::new();
    let list = fields.maybe("targets", errors, |e| e.list("tables: { pid = 4711 }"));
    for entry in list.into_iter().flatten() {
        if let Some(target) = target(entry, errors) {
            context.targets.push(target);
            places.push(entry.span());
        }
    }
    if context.memory().is_some() && context.targets.len() > 1 {
        let at = fields.get("targets").map_or(0..0, |e| e.span());
        errors.push(
            TextError::new(at, "physical memory beside another target")
                .why("a context has one address space of numbers: physical, or those of processes")
                .hint("give physical memory a context of its own"),
        );
    }
    if let Some(children) = fields.maybe("children", errors, |e| e.flag()) {
        context.children = children;
    }
    context.ops = fields.maybe("ops", errors, ops).flatten();
    context.engine = fields.maybe("engine", errors, engine).unwrap_or_default();
    context.attrs = attrs(fields, errors);
    context.attrs.method = match fields.maybe("method", errors, method) {
        Some(method) => method,
        None => defaults::method(&context),
    };
    let by_kernel = context.ops == Some(SetName::Kdamond) && context.engine != Engine::Isotherm;
    let over = match context.memory() {
        None => Over::Processes,
        Some(_) => Over::Memory { by_kernel },
    };
    let mut names = Seen::new(text, "scheme");
    let mut waits = Vec::new();
    let list = fields.maybe("scheme", errors, |e| e.list("tables: [[context.scheme]]"));
    for entry in list.into_iter().flatten() {
        let Some(fields) = entry.fields(scheme::KEYS, errors) else { continue };
        let Some(scheme) = scheme(&fields, &context.attrs, over, errors) else {
            continue;
        };
        let place = fields.get("name").map_or_else(|| entry.span(), |name| name.span());
        names.see(&scheme.settings.name, place, errors);
        context.schemes.push(scheme);
        waits.push(quota::waits(&fields));
    }
    if errors.0.is_empty() {
        resolve_rooms(&mut context.schemes, &waits, errors);
    }
    (context, places)
}

/// Finds the schemes that goals keep room for, by their names.
fn resolve_rooms(
    schemes: &mut [SchemePolicy],
    waits: &[Vec<Option<Entry<'_>>>],
    errors: &mut Errors,
) {
    let names: Vec<String> = schemes.iter().map(|s| s.settings.name.clone()).collect();
    for (scheme, waits) in schemes.iter_mut().zip(waits) {
        for (goal, name) in scheme.scheme.quota.goals.iter_mut().zip(waits) {
            let (Some(room), Some(entry)) = (&mut goal.follow.room, name) else { continue };
            let text = entry.as_text().unwrap_or_default();
            match names.iter().position(|name| name == text) {
                Some(at) => room.scheme = at,
                None => {
                    let known: Vec<_> = names.iter().map(String::as_str).collect();
                    errors.push(unknown(entry.span(), "scheme", text, &known));
                }
            }
        }
    }
}

/// A name: something that can be printed, on one line.
pub(super) fn name(entry: Entry<'_>) -> Result<&str, TextError> {
    let name = entry.text()?;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(entry.error("a name that is empty, or cannot be printed"));
    }
    Ok(name)
}

fn target(entry: Entry<'_>, errors: &mut Errors) -> Option<TargetSpec> {
    if let Some(text) = entry.as_text() {
        return errors.keep(TargetSpec::parse(text).map_err(|why| {
            entry.error(format!("`{text}` is no target: {why}")).hint(spelled::HINT)
        }));
    }
    let keys: &'static [&'static str] =
        &["pid", "name", "cgroup", "unit", "pod", "container", "user", "rss", "paddr"];
    let before = errors.0.len();
    let fields = entry.fields(keys, errors)?;
    if errors.0.len() > before {
        return None;
    }
    let present = fields.present(keys);
    let [one] = present.as_slice() else {
        let hint = "one of { pid = 4711 }, { name = \"postgres\" }, { cgroup = \"/app\" }, { unit = \"redis\" }, \
                    { pod = \"shop/web-*\" }, { container = \"nginx\" }, { user = \"postgres\" } and { paddr = \"all\" }";
        errors.push(entry.error("a target is one thing").hint(hint));
        return None;
    };
    let target = match one.key {
        "pid" => one.whole().and_then(|pid: u32| match pid {
            0 => Err(one.error("pid 0 is not a process")),
            1.. if i32::try_from(pid).is_err() => Err(one.error("no pid is so large")),
            pid => Ok(TargetSpec::Pid(pid)),
        }),
        "name" => name(*one).and_then(|name| match name.len() {
            16.. if !name.contains('*') => {
                let short: String = name.chars().scan(0, within_15).collect();
                Err(one
                    .error(format!("no command is called `{name}`"))
                    .why("the kernel keeps the first 15 bytes of a command's name (/proc/PID/comm)")
                    .hint(format!("\"{short}\"")))
            }
            _ => Ok(TargetSpec::Name(name.to_owned())),
        }),
        "unit" => name(*one).map(|name| TargetSpec::Unit(name.to_owned())),
        "pod" => name(*one).map(|name| TargetSpec::Pod(name.to_owned())),
        "container" => name(*one).map(|name| TargetSpec::Container(name.to_owned())),
        "user" => name(*one).map(|name| TargetSpec::User(name.to_owned())),
        "rss" => one.size("64M").and_then(|bytes| match bytes {
            0 => Err(one.error("`rss` is 0").hint("{ name = \"*\" } is every process")),
            bytes => Ok(TargetSpec::Rss(bytes)),
        }),
        "paddr" => one.text().and_then(|text| {
            Memory::parse(text).map(TargetSpec::Memory).map_err(|err| {
                one.error(format!("`{text}` is no physical memory: {}", err.why())).hint(MEMORY)
            })
        }),
        _ => cgroup(*one).map(|path| TargetSpec::Cgroup(path.to_owned())),
    };
    errors.keep(target)
}

/// For `scan`: characters as long as they fit into 15 bytes.
fn within_15(used: &mut usize, c: char) -> Option<char> {
    *used += c.len_utf8();
    (*used <= 15).then_some(c)
}

/// A cgroup's path.
pub(super) fn cgroup(entry: Entry<'_>) -> Result<&str, TextError> {
    let path = entry.text()?;
    cgroup_path(path).map_err(|what| {
        entry.error(what).hint("a path from the root of the cgroup v2 hierarchy, such as \"/app\"")
    })
}

/// Checks a cgroup's path.
pub(crate) fn cgroup_path(path: &str) -> Result<&str, String> {
    let rest = path.strip_prefix('/').ok_or_else(|| format!("`{path}` does not begin with /"))?;
    let wrong = |part: &str| matches!(part, "" | "." | "..") || part.contains(char::is_control);
    if !rest.is_empty() && rest.split('/').any(wrong) {
        return Err(format!("`{path}` is not the path of a cgroup"));
    }
    Ok(path)
}

fn engine(entry: Entry<'_>) -> Result<Engine, TextError> {
    let name = entry.text()?;
    Engine::from_name(name)
        .ok_or_else(|| unknown(entry.span(), "engine", name, &Engine::ALL.map(Engine::name)))
}

fn ops(entry: Entry<'_>) -> Result<Option<SetName>, TextError> {
    let name = entry.text()?;
    if name == "auto" {
        return Ok(None);
    }
    let mut known: Vec<_> =
        SetName::ALL.iter().filter(|set| set.is_built()).map(|set| set.name()).collect();
    match SetName::parse(name) {
        Some(set) if set.is_built() => Ok(Some(set)),
        Some(_) => Err(entry
            .error(format!("operations set `{name}` is not available"))
            .why("this version of Isotherm can only look whether the kernel has it")
            .hint(format!("leave it out, or one of {}", known.join(", ")))),
        None => {
            known.insert(0, "auto");
            Err(unknown(entry.span(), "operations set", name, &known))
        }
    }
}

fn attrs(fields: &Fields<'_>, errors: &mut Errors) -> Attrs {
    let before = errors.0.len();
    let mut attrs = defaults::attrs();
    if let Some(strict) = fields.maybe("strict", errors, |e| e.flag()) {
        attrs.strict = strict;
    }
    if let Some(clears) = fields.maybe("clears", errors, |e| e.whole()) {
        attrs.clears_per_sec = clears;
    }
    if let Some(bp) = fields.maybe("budget", errors, budget) {
        attrs.budget_bp = bp;
    }
    let intervals = fields.get("intervals");
    if let Some(fields) =
        intervals.and_then(|e| e.fields(&["sample", "aggregation", "update", "goal"], errors))
    {
        let sample = fields.maybe("sample", errors, sample);
        attrs.sample_us = sample.unwrap_or(attrs.sample_us);
        let keys =
            [("aggregation", "100ms", &mut attrs.aggr_us), ("update", "1s", &mut attrs.update_us)];
        for (key, example, to) in keys {
            let read = |e: Entry<'_>| e.positive_interval(example, ONLY_LOOKS);
            *to = fields.maybe(key, errors, read).unwrap_or(*to);
        }
        if let Some(goal) = fields.get("goal").and_then(|e| intervals_goal(e, errors)) {
            attrs.intervals_goal = goal;
        }
    }
    let regions = fields.get("regions");
    if let Some(fields) = regions.and_then(|e| e.fields(&["min", "max", "min_size"], errors)) {
        for (key, to) in [("min", &mut attrs.min_nr_regions), ("max", &mut attrs.max_nr_regions)] {
            *to = fields.maybe(key, errors, |e| e.whole()).unwrap_or(*to);
        }
        let size = fields.maybe("min_size", errors, min_size);
        attrs.min_region_sz = size.unwrap_or(attrs.min_region_sz);
    }
    if errors.0.len() == before
        && let Err(e) = attrs.validate()
    {
        errors.push(invalid(e, intervals, regions, fields));
    }
    attrs
}

/// Attributes that do not go together, at the table that says so.
fn invalid(
    error: AttrsError,
    intervals: Option<Entry<'_>>,
    regions: Option<Entry<'_>>,
    fields: &Fields<'_>,
) -> TextError {
    let (table, hint) = match error {
        AttrsError::MinNrRegions | AttrsError::NrRegions | AttrsError::MinRegionSize => {
            (regions, "the defaults are min = 10, max = 1000, min_size = \"4K\"")
        }
        AttrsError::GoalBounds | AttrsError::GoalSample | AttrsError::Intervals => {
            (intervals, "the defaults are sample = \"5ms\", aggregation = \"100ms\"")
        }
    };
    let what = error.to_string();
    table.map_or_else(|| fields.error(what.clone()), |e| e.error(what.clone())).hint(hint)
}

/// A sample interval, in µs.
fn sample(entry: Entry<'_>) -> Result<u64, TextError> {
    match entry.positive_interval("5ms", ONLY_LOOKS)? {
        us if us < defaults::LEAST_SAMPLE_US => Err(entry
            .error(format!("`{}` is too short", entry.key))
            .why("to wake up and look takes tens of microseconds")
            .hint("at least 100us; the default is 5ms")),
        us => Ok(us),
    }
}

fn min_size(entry: Entry<'_>) -> Result<u64, TextError> {
    match entry.size("4K")? {
        size if size < 4096 => Err(entry.error("a region smaller than a page (4K)")),
        size => Ok(size),
    }
}

fn budget(entry: Entry<'_>) -> Result<u32, TextError> {
    match entry.share("1%")? {
        0 => Err(entry
            .error("a budget of 0, with which nothing can be seen")
            .hint("the default is 1%")),
        10_001.. => Err(entry.error("more than one CPU").hint("the default is 1%")),
        bp => Ok(bp),
    }
}

fn method(entry: Entry<'_>) -> Result<Method, TextError> {
    match entry.text()? {
        "first_touch" | "first-touch" => Ok(Method::FirstTouch),
        "resample" => Ok(Method::Resample),
        "census" => Ok(Method::Census),
        other => {
            Err(unknown(entry.span(), "method", other, &["first_touch", "census", "resample"]))
        }
    }
}

fn intervals_goal(entry: Entry<'_>, errors: &mut Errors) -> Option<IntervalsGoal> {
    let keys = &["access", "aggregations", "min_sample", "max_sample"];
    let fields = entry.fields(keys, errors)?;
    let access =
        fields.need("access", "a goal for the intervals").and_then(|e| match e.share("4%")? {
            0 => Err(e
                .error("`access` is 0")
                .hint("leave the goal out to keep the intervals as they are")),
            bp => Ok(u64::from(bp)),
        });
    let aggrs = fields.maybe("aggregations", errors, |e| match e.whole()? {
        0 => Err(e
            .error("`aggregations` is 0")
            .hint("leave the goal out to keep the intervals as they are")),
        aggrs => Ok(aggrs),
    });
    let min = fields.maybe("min_sample", errors, sample);
    let max = fields.maybe("max_sample", errors, sample);
    Some(IntervalsGoal {
        access_bp: errors.keep(access)?,
        aggrs: aggrs.unwrap_or(3),
        min_sample_us: min.unwrap_or(5_000),
        max_sample_us: max.unwrap_or(10_000_000),
    })
}
