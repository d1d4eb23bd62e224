//! The lines as text.

use std::io::Write;
use std::time::Duration;

use isotherm::raw::core::TouchedBytes;
use isotherm::raw::core::units::{bytes, span};
use isotherm::raw::report::page_maps::span_name;

use super::line::{Line, Now};

/// The width of what stands before the columns: the time, the pid and the name.
const FRONT: usize = 11 + 9 + 17;
/// The width of a column.
const COLUMN: usize = 16;
/// The width of the last two columns.
const MEASURED: usize = 10 + 13;

/// A table that goes on and on.
#[derive(Debug)]
pub(super) struct Table {
    room: usize,
    /// What the columns were at the last header.
    header: Vec<String>,
}

impl Table {
    /// A table that leaves out columns that do not fit into so many.
    pub(super) const fn new(room: usize) -> Self {
        Self { room, header: Vec::new() }
    }

    /// Writes the lines of an interval, and the names of the columns before the first.
    pub(super) fn write(
        &mut self,
        out: &mut impl Write,
        now: &Now,
        elapsed: Duration,
    ) -> std::io::Result<()> {
        let shown = self.shown(now);
        let columns: Vec<String> = shown.iter().map(|nr| span_name(now.spans_us[*nr])).collect();
        let over = format!("over {}", span_name(now.interval_us));
        let last = if now.total.touched.is_some() { "measured   looked ago" } else { "unresolved" };
        let names: Vec<String> = [over].into_iter().chain(columns).collect();
        if names != self.header {
            write!(out, "{:>11}{:>9}  {:<15}", "time", "pid", "name")?;
            names.iter().try_for_each(|name| write!(out, "{name:>COLUMN$}"))?;
            writeln!(out, "  {last}")?;
            self.header = names;
        }
        for line in &now.lines {
            row(out, now, line, &shown, elapsed)?;
            writeln!(out)?;
        }
        // No line at all would look as if nothing went on.
        if now.lines.len() != 1 {
            row(out, now, &now.total, &shown, elapsed)?;
            if now.is_shared {
                write!(out, "  (sum over processes {})", bytes(now.sum))?;
            }
            writeln!(out)?;
        }
        out.flush()
    }

    /// The spans that have a column: all that fit, but not the interval's own.
    fn shown(&self, now: &Now) -> Vec<usize> {
        if now.total.touched.is_none() {
            return Vec::new();
        }
        let others = (0..now.spans_us.len()).filter(|nr| now.spans_us[*nr] != now.interval_us);
        let fit = self.room.saturating_sub(FRONT + COLUMN + MEASURED) / COLUMN;
        // The shortest says least about what a process needs.
        let others: Vec<usize> = others.collect();
        others.into_iter().rev().take(fit).rev().collect()
    }
}

fn row(
    out: &mut impl Write,
    now: &Now,
    line: &Line,
    shown: &[usize],
    elapsed: Duration,
) -> std::io::Result<()> {
    let pid = if line.pid == 0 { String::new() } else { line.pid.to_string() };
    let name: String = line.name.chars().take(15).collect();
    write!(
        out,
        "{:9.1} s{pid:>9}  {name:<15}{:>COLUMN$}",
        elapsed.as_secs_f64(),
        known(Some(line.over))
    )?;
    let Some(touched) = line.touched else {
        return write!(out, "  {}", bytes(line.regions.unresolved));
    };
    for nr in shown {
        write!(out, "{:>COLUMN$}", known(touched.spans[*nr]))?;
    }
    let own = now.spans_us.iter().position(|us| *us == now.interval_us).unwrap_or_default();
    let measured = touched.spans[own].map_or(0, |within| within.measured);
    write!(out, "  {:6} %", measured * 100 / touched.watched.max(1))?;
    let Some(ns) = line.look_age_ns else { return Ok(()) };
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let ago = span(ns as f64);
    write!(out, " {ago:>12}")
}

/// A working set with half of its 90 % interval, if that is a percent or more.
pub(super) fn known(within: Option<TouchedBytes>) -> String {
    let Some(within) = within else { return "-".to_owned() };
    let half = within.hi.saturating_sub(within.lo) / 2;
    match half * 100 / within.bytes.max(1) {
        0 => format!("{}     ", bytes(within.bytes)),
        percent @ 1..100 => format!("{} ±{percent:>2}%", bytes(within.bytes)),
        _ => format!("{} ± ? ", bytes(within.bytes)),
    }
}
