//! The report for people.

use std::fmt::{self, Write};

use isotherm_core::units::{bytes, counted, percent, span};

use super::{Line, Over, Report};
use crate::shown::float;

pub(super) fn write(report: &Report, out: &mut String) -> fmt::Result {
    for (nr, line) in report.cgroups.iter().enumerate() {
        if nr > 0 {
            writeln!(out)?;
        }
        block(line, report.of_ns, out)?;
    }
    if !report.damage.is_empty() {
        writeln!(out, "note: {}", report.damage)?;
    }
    Ok(())
}

fn block(line: &Line, of_ns: u64, out: &mut String) -> fmt::Result {
    match line.context.as_str() {
        "" => writeln!(out, "{}", line.cgroup)?,
        context => writeln!(out, "{} ({context})", line.cgroup)?,
    }
    writeln!(
        out,
        "  watched for {} of {} ({}), {}",
        span(float(line.watched_ns)),
        span(float(of_ns)),
        percent(float(line.watched_ns) / float(of_ns.max(1))),
        counted(line.rows, "row"),
    )?;
    let heads = ["25 %", "median", "75 %", "max", "measured"];
    let heads: String = heads.iter().map(|head| format!("{head:>12}")).collect();
    writeln!(out, "  {:<18}{heads}", "")?;
    row(out, "memory", line.memory)?;
    for touched in &line.touched {
        row(out, &format!("touched in {}", span(float(touched.span_ns))), touched.over)?;
    }
    // Where single pages are seen, regions tell less.
    if line.touched.is_empty() {
        row(out, "in use in a window", line.working_set)?;
    }
    for idle in &line.idle {
        let ns = float(idle.idle_ms) * 1e6;
        row(out, &format!("idle for {}", span(ns)), idle.over)?;
    }
    match line.paged_out {
        None => writeln!(out, "  paged out: -"),
        Some(paged) => writeln!(
            out,
            "  paged out: asked {}, done {}, touched again {}",
            bytes(paged.asked),
            bytes(paged.done),
            bytes(paged.refaulted),
        ),
    }
}

fn row(out: &mut String, name: &str, over: Option<Over>) -> fmt::Result {
    let cells = match over {
        None => ["-"; 5].map(str::to_owned),
        Some(Over { p25, median, p75, max, measured_ns }) => {
            let [p25, median, p75, max] = [p25, median, p75, max].map(bytes);
            [p25, median, p75, max, span(float(measured_ns))]
        }
    };
    let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
    writeln!(out, "  {name:<18}{cells}")
}
