//! What is about Isotherm itself.

use super::Kind::{Counter, Gauge, Info};
use super::Measure::{Bytes, Count, Ratio, Seconds};
use super::Value::{Real, Whole};
use super::{Family, family};

pub(super) const FAMILIES: &[Family] = &[
    family(
        "build",
        Info,
        Count,
        &["version", "commit"],
        "What was built from which commit",
        |r, emit| emit(&[&r.build.version, &r.build.commit], Whole(1)),
    ),
    family("overhead_cpu", Counter, Seconds, &[], "CPU time of Isotherm itself", |r, emit| {
        emit(&[], Real(r.own.cpu_seconds))
    }),
    family(
        "overhead_cpu_ratio",
        Gauge,
        Ratio,
        &[],
        "Share of one CPU that Isotherm itself took over the last seconds",
        |r, emit| emit(&[], Real(r.own.cpu_ratio)),
    ),
    family(
        "overhead_memory",
        Gauge,
        Bytes,
        &[],
        "Resident memory of Isotherm itself",
        |r, emit| emit(&[], Whole(r.own.memory_bytes)),
    ),
    family(
        "errors",
        Counter,
        Count,
        &["kind"],
        "Errors: actions that failed, actions blocked by the guard, contexts that failed, processes left out, and events lost",
        |r, emit| r.errors.iter().try_for_each(|(kind, count)| emit(&[kind], Whole(*count))),
    ),
    family(
        "policy_held",
        Gauge,
        Count,
        &["policy", "by"],
        "1 for a policy that only watches: by a stop file, by a limit that was passed, or since the host is not in its share",
        |r, emit| r.held.iter().try_for_each(|(policy, by)| emit(&[policy, by], Whole(1))),
    ),
];
