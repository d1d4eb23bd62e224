//! What is about contexts and their schemes.

use super::Kind::{Counter, Gauge, Histogram, Info};
use super::Measure::{Bytes, Count, Ratio, Seconds};
use super::Value::{Real, Spread, Whole};
use super::{Emit, Family, Value, family};
use crate::reading::{ContextReading, Reading, SchemeReading};

const CONTEXT: &[&str] = &["context"];
const SCHEME: &[&str] = &["context", "scheme", "action"];

pub(super) const FAMILIES: &[Family] = &[
    family(
        "backend",
        Info,
        Count,
        &["context", "backend"],
        "The operations set of a context",
        |r, emit| r.contexts.iter().try_for_each(|c| emit(&[&c.name, &c.backend], Whole(1))),
    ),
    family("context_up", Gauge, Count, CONTEXT, "1 while the context runs", |r, emit| {
        each(r, emit, |c| Whole(c.is_up.into()))
    }),
    family("targets", Gauge, Count, CONTEXT, "Processes that are targets", |r, emit| {
        each(r, emit, |c| Whole(c.targets))
    }),
    family(
        "targets_waiting",
        Gauge,
        Count,
        CONTEXT,
        "Targets that have no place in the operations set now, and are watched in turn",
        |r, emit| each(r, emit, |c| Whole(c.waiting)),
    ),
    family(
        "longest_wait",
        Gauge,
        Seconds,
        CONTEXT,
        "For how long the first of the targets without a place was not watched",
        |r, emit| each(r, emit, |c| Real(c.longest_wait_seconds)),
    ),
    family("regions", Gauge, Count, CONTEXT, "Regions of all targets", |r, emit| {
        each(r, emit, |c| Whole(c.regions))
    }),
    family(
        "accessed",
        Gauge,
        Bytes,
        CONTEXT,
        "Pages touched within a second, or where only regions are known, regions accessed in the last window; memory that targets share as often as they map it",
        |r, emit| each(r, emit, |c| Whole(c.working_set_bytes)),
    ),
    family(
        "bandwidth_bytes_per_second",
        Gauge,
        Count,
        CONTEXT,
        "Estimated memory bandwidth of the targets",
        |r, emit| each(r, emit, |c| Whole(c.bandwidth)),
    ),
    family("windows", Counter, Count, CONTEXT, "Aggregation windows", |r, emit| {
        each(r, emit, |c| Whole(c.windows))
    }),
    family(
        "windows_late",
        Counter,
        Count,
        CONTEXT,
        "Windows that took at least twice as long as they should",
        |r, emit| each(r, emit, |c| Whole(c.late_windows)),
    ),
    family(
        "windows_missing",
        Counter,
        Seconds,
        CONTEXT,
        "Time within late windows in which nobody looked",
        |r, emit| each(r, emit, |c| Real(c.missing_seconds)),
    ),
    family("samples", Counter, Count, CONTEXT, "Looks at single pages", |r, emit| {
        each(r, emit, |c| Whole(c.samples))
    }),
    family(
        "sample_duration",
        Histogram,
        Seconds,
        CONTEXT,
        "How long a sample took: from waking up to sleeping again",
        |r, emit| each(r, emit, |c| Spread(c.durations)),
    ),
    family("clears", Counter, Count, CONTEXT, "Accessed bits that were cleared", |r, emit| {
        each(r, emit, |c| Whole(c.clears))
    }),
    family(
        "target_cpu",
        Counter,
        Seconds,
        CONTEXT,
        "CPU time that targets paid to set accessed bits again, an estimate; only census tells",
        |r, emit| {
            let known = |c: &ContextReading| Some((c.name.clone(), c.target_seconds?));
            let mut all = r.contexts.iter().filter_map(known);
            all.try_for_each(|(name, seconds)| emit(&[&name], Real(seconds)))
        },
    ),
    family(
        "budget_ratio",
        Gauge,
        Ratio,
        CONTEXT,
        "Share of one CPU that the context's monitor may take",
        |r, emit| each(r, emit, |c| Real(c.budget_ratio)),
    ),
    family(
        "last_snapshot_timestamp",
        Gauge,
        Seconds,
        CONTEXT,
        "When the last window ended, since 1970",
        |r, emit| {
            let known = |c: &ContextReading| Some((c.name.clone(), c.last_snapshot_seconds?));
            let mut all = r.contexts.iter().filter_map(known);
            all.try_for_each(|(name, at)| emit(&[&name], Real(at)))
        },
    ),
    family(
        "actions_blocked",
        Gauge,
        Count,
        CONTEXT,
        "1 while the guard blocks all actions",
        |r, emit| each(r, emit, |c| Whole(c.is_blocked.into())),
    ),
    family(
        "scheme_active",
        Gauge,
        Count,
        SCHEME,
        "1 while the watermarks let the scheme work",
        |r, emit| schemes(r, emit, |s| Whole(s.is_active.into())),
    ),
    family(
        "scheme_dry_run",
        Gauge,
        Count,
        SCHEME,
        "1 if the scheme only decides and counts",
        |r, emit| schemes(r, emit, |s| Whole(s.is_dry_run.into())),
    ),
    family(
        "scheme_tried",
        Counter,
        Bytes,
        SCHEME,
        "Regions that the scheme was tried on",
        |r, emit| schemes(r, emit, |s| Whole(s.tried_bytes)),
    ),
    family(
        "scheme_asked",
        Counter,
        Bytes,
        SCHEME,
        "What the kernel was asked to act on",
        |r, emit| schemes(r, emit, |s| Whole(s.asked_bytes)),
    ),
    family(
        "scheme_done",
        Counter,
        Bytes,
        SCHEME,
        "What a look afterwards showed that the kernel did",
        |r, emit| schemes(r, emit, |s| Whole(s.done_bytes)),
    ),
    family(
        "scheme_refaulted",
        Counter,
        Bytes,
        SCHEME,
        "What was done and touched again within the refault window",
        |r, emit| schemes(r, emit, |s| Whole(s.refaulted_bytes)),
    ),
    family("scheme_refused", Counter, Bytes, SCHEME, "What the kernel refused", |r, emit| {
        schemes(r, emit, |s| Whole(s.refused_bytes))
    }),
    family("scheme_applied", Counter, Bytes, SCHEME, "What DAMON calls applied", |r, emit| {
        schemes(r, emit, |s| Whole(s.applied_bytes))
    }),
    family(
        "scheme_quota_exceeded",
        Counter,
        Count,
        SCHEME,
        "Quota windows in which the quota was used up",
        |r, emit| schemes(r, emit, |s| Whole(s.quota_exceeded)),
    ),
    family(
        "scheme_quota",
        Gauge,
        Bytes,
        SCHEME,
        "What the scheme may use in this quota window; missing if there is no limit",
        |r, emit| {
            every(r, &mut |c, s| match s.quota_bytes {
                Some(bytes) => emit(&[&c.name, &s.name, &s.action], Whole(bytes)),
                None => Ok(()),
            })
        },
    ),
    family(
        "scheme_charged",
        Gauge,
        Bytes,
        SCHEME,
        "What it has used in this quota window",
        |r, emit| schemes(r, emit, |s| Whole(s.charged_bytes)),
    ),
    family(
        "scheme_action",
        Counter,
        Seconds,
        SCHEME,
        "Time that acting and evidence took",
        |r, emit| schemes(r, emit, |s| Real(s.action_seconds)),
    ),
    family(
        "scheme_goal_ratio",
        Gauge,
        Ratio,
        &["context", "scheme", "action", "metric"],
        "A goal's value divided by its target: 1 is reached",
        |r, emit| {
            every(r, &mut |c, s| {
                let mut goals = s.goals.iter();
                goals.try_for_each(|goal| {
                    emit(&[&c.name, &s.name, &s.action, &goal.metric], Real(goal.ratio))
                })
            })
        },
    ),
];

fn each(r: &Reading, emit: &mut Emit<'_>, of: fn(&ContextReading) -> Value) -> std::fmt::Result {
    r.contexts.iter().try_for_each(|c| emit(&[&c.name], of(c)))
}

fn every(
    r: &Reading,
    f: &mut dyn FnMut(&ContextReading, &SchemeReading) -> std::fmt::Result,
) -> std::fmt::Result {
    let mut all = r.contexts.iter().flat_map(|c| c.schemes.iter().map(move |s| (c, s)));
    all.try_for_each(|(c, s)| f(c, s))
}

fn schemes(r: &Reading, emit: &mut Emit<'_>, of: fn(&SchemeReading) -> Value) -> std::fmt::Result {
    every(r, &mut |c, s| emit(&[&c.name, &s.name, &s.action], of(s)))
}
