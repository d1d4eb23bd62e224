//! One JSON object per report.

use std::io::{self, Write};

use isotherm::raw::idlemem::{Bytes, Kind, Lru, Method, Report, Row};
use serde_json::{Value, json};

use super::Args;

/// Writes a report as one line.
pub(super) fn write(
    out: &mut impl Write,
    report: &Report,
    rows: &[&Row],
    args: &Args,
) -> io::Result<()> {
    let method = match report.method {
        Method::Bitmap => "idle",
        Method::PageWalk => "pagewalk",
    };
    let groups: Vec<Value> = rows.iter().map(|row| group(row)).collect();
    let mut line = json!({
        "method": method,
        "interval_ns": u64::try_from(args.interval.as_nanos()).unwrap_or(u64::MAX),
        "round": report.round,
        "shortest_ns": report.shortest_ns,
        "longest_ns": report.longest_ns,
        "cpu_ns": report.cpu_ns,
        "memory_bytes": report.memory,
        "share": report.share,
        "marked_before_bytes": report.others,
        "unmapped_seen": report.method == Method::Bitmap,
        "cgroups": groups,
    });
    if let Some(unknown) = report.unknown {
        line["unknown"] = json!({
            "unresolved_bytes": unknown.unresolved,
            "processes": unknown.processes,
            "refused": unknown.refused,
            "watched_processes": unknown.watched_processes,
            "watched_bytes": unknown.watched,
            "set_again": unknown.set_again,
        });
    }
    writeln!(out, "{line}")
}

fn group(row: &Row) -> Value {
    json!({
        "cgroup": row.name.text(),
        "charged_bytes": row.charged,
        "all": idle(&row.all, row.total),
        "own": idle(&row.own, row.own_total),
    })
}

fn idle(bytes: &Bytes, total: Option<Lru>) -> Value {
    json!({
        "total_bytes": total.map(|t| t.all),
        "unevictable_bytes": total.map(|t| t.unevictable),
        "idle_bytes": bytes.idle(),
        "deviation_bytes": bytes.deviation(),
        "anon_bytes": bytes.of_kind(Kind::Anon),
        "mapped_bytes": bytes.of_kind(Kind::Mapped),
        "unmapped_bytes": bytes.of_kind(Kind::Unmapped),
        "locked_bytes": bytes.of_kind(Kind::Unevictable),
        "at_least_intervals": bytes.at_least(),
    })
}
