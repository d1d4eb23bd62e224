//! A report as a table.

use std::io::{self, Write};

use isotherm::raw::core::units::bytes;
use isotherm::raw::idlemem::{Kind, Method, Report, Row};

use super::{Args, seconds};

/// Writes a report as a table.
pub(super) fn write(
    out: &mut impl Write,
    report: &Report,
    rows: &[&Row],
    args: &Args,
) -> io::Result<()> {
    head(out, report, args)?;
    // The first class is the column `idle`. Of the others, only those are shown that the scan has
    // run long enough for.
    let classes = usize::try_from(report.round.max(1).ilog2()).map_or(7, |n| n.min(7));
    write!(
        out,
        "{:>9} {:>9} {:>6}  {:>9} {:>9} {:>9} {:>9}",
        "total", "idle", "", "anon", "mapped", "unmapped", "locked"
    )?;
    for class in 1..=classes {
        write!(out, " {:>9}", format!(">={}", span(args, 1 << class)))?;
    }
    writeln!(out, "  cgroup")?;
    for row in rows {
        let (idle, total) =
            if args.own { (&row.own, row.own_total) } else { (&row.all, row.total) };
        let total_bytes = total.map(|total| total.all - total.unevictable.min(total.all));
        write!(
            out,
            "{:>9} {:>9} {:>6}",
            total_bytes.map_or_else(|| "-".to_owned(), bytes),
            bytes(idle.idle()),
            total_bytes
                .filter(|t| *t > 0)
                .map_or_else(|| "-".to_owned(), |t| share(idle.idle(), t)),
        )?;
        write!(out, " ")?;
        for kind in Kind::ALL {
            write!(out, " {:>9}", bytes(idle.of_kind(kind)))?;
        }
        for at_least in idle.at_least().into_iter().take(classes + 1).skip(1) {
            write!(out, " {:>9}", bytes(at_least))?;
        }
        write!(out, "  {}", row.name.text())?;
        if report.share < 1.0 && (report.method == Method::Bitmap || idle.deviation() > 0) {
            write!(out, "  (idle +- {})", bytes(2 * idle.deviation()))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn head(out: &mut impl Write, report: &Report, args: &Args) -> io::Result<()> {
    let how = match report.method {
        Method::Bitmap => "idle page tracking",
        Method::PageWalk => "page tables: mapped memory only, unmapped page cache is not seen",
    };
    write!(
        out,
        "idle for {} and longer, {}, by {how}; {} scanned",
        span(args, 1),
        if args.own { "each cgroup by itself" } else { "with the cgroups below" },
        bytes(report.memory),
    )?;
    if report.share < 1.0 {
        write!(out, " by a sample of {:.1} %", report.share * 100.0)?;
    }
    writeln!(out, ", {:.3} s of CPU", seconds(report.cpu_ns))?;
    let Some(unknown) = report.unknown else { return Ok(()) };
    writeln!(
        out,
        "{} processes looked at, {} not permitted; unknown: {} (shared or locked pages)",
        unknown.processes,
        unknown.refused,
        bytes(unknown.unresolved)
    )?;
    if unknown.watched_processes > 0 {
        writeln!(
            out,
            "{} processes are watched by another Isotherm; unknown: {} that they map",
            unknown.watched_processes,
            bytes(unknown.watched)
        )?;
    }
    Ok(())
}

/// The time that `intervals` take.
fn span(args: &Args, intervals: u32) -> String {
    let time = args.interval * intervals;
    match time.as_secs() {
        s if time.subsec_nanos() != 0 && s < 60 => format!("{:.1}s", time.as_secs_f64()),
        s if s < 60 || !s.is_multiple_of(60) => format!("{s}s"),
        s if s.is_multiple_of(3600) => format!("{}h", s / 3600),
        s => format!("{}m", s / 60),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn share(part: u64, whole: u64) -> String {
    format!("{:.1}%", part as f64 / whole as f64 * 100.0)
}
