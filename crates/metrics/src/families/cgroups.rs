//! What is about cgroups.

use super::Kind::Gauge;
use super::Measure::{Bytes, Count, Ratio, Seconds};
use super::Value::{Real, Whole};
use super::{Emit, Family, Value, family};
use crate::reading::{CgroupReading, Reading, SpanReading};

const CGROUP: &[&str] = &["context", "cgroup", "unit", "pod", "container"];
const TIER: &[&str] = &["context", "cgroup", "unit", "pod", "container", "tier"];
const SPAN: &[&str] = &["context", "cgroup", "unit", "pod", "container", "span"];
const AGE: &[&str] = &["context", "cgroup", "unit", "pod", "container", "age_le"];

pub(super) const FAMILIES: &[Family] = &[
    family(
        "cgroup_processes",
        Gauge,
        Count,
        CGROUP,
        "Watched processes in the cgroup",
        |r, emit| r.cgroups.iter().try_for_each(|c| emit(&labels(c), Whole(c.processes))),
    ),
    family(
        "cgroup_age",
        Gauge,
        Seconds,
        CGROUP,
        "How old the knowledge is who is in the cgroup",
        |r, emit| r.cgroups.iter().try_for_each(|c| emit(&labels(c), Real(c.age_seconds))),
    ),
    family(
        "cgroup_waiting",
        Gauge,
        Count,
        CGROUP,
        "Targets in the cgroup that have no place in the operations set now; no size has them",
        |r, emit| r.cgroups.iter().try_for_each(|c| emit(&labels(c), Whole(c.waiting))),
    ),
    family(
        "cgroup_look_age",
        Gauge,
        Seconds,
        CGROUP,
        "Time since the last look at the target of the cgroup that waits the longest, on average over its memory",
        |r, emit| r.cgroups.iter().try_for_each(|c| emit(&labels(c), Real(c.look_age_seconds))),
    ),
    family(
        "target",
        Gauge,
        Bytes,
        TIER,
        "Memory by temperature: hot was touched within a second, warm within a minute, cold was not, and of unresolved memory nothing is known; shared memory counts once per cgroup",
        |r, emit| {
            r.cgroups.iter().try_for_each(|c| {
                let t = c.tiers;
                let tiers = [
                    ("hot", t.hot),
                    ("warm", t.warm),
                    ("cold", t.cold),
                    ("unresolved", t.unresolved),
                ];
                tiers.iter().try_for_each(|(tier, bytes)| emit(&with(c, tier), Whole(*bytes)))
            })
        },
    ),
    family(
        "working_set",
        Gauge,
        Bytes,
        SPAN,
        "Memory that was touched within a span; shared memory counts once per cgroup",
        |r, emit| spans(r, emit, |span| Whole(span.bytes)),
    ),
    family(
        "working_set_lower",
        Gauge,
        Bytes,
        SPAN,
        "Lower end of the working set's 90 % interval",
        |r, emit| spans(r, emit, |span| Whole(span.lo)),
    ),
    family(
        "working_set_upper",
        Gauge,
        Bytes,
        SPAN,
        "Upper end of the working set's 90 % interval",
        |r, emit| spans(r, emit, |span| Whole(span.hi)),
    ),
    family(
        "coverage_ratio",
        Gauge,
        Ratio,
        SPAN,
        "Share of the cgroup's memory for which the span was measured",
        |r, emit| spans(r, emit, |span| Real(span.coverage)),
    ),
    family(
        "idle",
        Gauge,
        Bytes,
        AGE,
        "Memory that is idle for at most this many seconds; shared memory counts once per cgroup",
        |r, emit| {
            r.cgroups.iter().try_for_each(|c| {
                c.idle.iter().try_for_each(|(seconds, bytes)| {
                    let age = match *seconds {
                        u64::MAX => "+Inf".to_owned(),
                        seconds => seconds.to_string(),
                    };
                    emit(&with(c, &age), Whole(*bytes))
                })
            })
        },
    ),
];

fn labels(c: &CgroupReading) -> [&str; 5] {
    [&c.context, &c.cgroup, &c.unit, &c.pod, &c.container]
}

fn with<'a>(c: &'a CgroupReading, last: &'a str) -> [&'a str; 6] {
    let [a, b, d, e, f] = labels(c);
    [a, b, d, e, f, last]
}

fn spans(r: &Reading, emit: &mut Emit<'_>, of: fn(&SpanReading) -> Value) -> std::fmt::Result {
    r.cgroups.iter().try_for_each(|c| {
        c.spans.iter().try_for_each(|span| emit(&with(c, &format!("{}s", span.seconds)), of(span)))
    })
}
