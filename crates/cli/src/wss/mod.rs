//! `isotherm wss`: prints the working set of running processes live, one line per interval.
//!
//! Methods that see single pages tell how much was touched within several spans. The others tell
//! the size of the regions with at least one access, which is DAMON's working set. Memory that
//! several targets share counts once; the sum over them is told beside it.

mod shared;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::agent::monitor::{Happened, Monitor};
use isotherm::raw::agent::run::take_in_targets;
use isotherm::raw::core::Snapshot;
use isotherm::raw::core::units::{bytes, duration};
use isotherm::raw::core::{Method, Touched, TouchedBytes};
use isotherm::raw::report::page_maps::span_name;
use isotherm::raw::report::wss::WorkingSet;
use isotherm::raw::sys::{clock, signals};

use crate::exit;
use crate::options::attrs::AttrsArgs;
use crate::options::sets::open_set_for;
use crate::options::targets::TargetArgs;
use crate::record::end_command;
use crate::terminal::warn;
use crate::wss::shared::{Once, Shared};

/// Arguments of `isotherm wss`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: TargetArgs,
    /// Print a line this often (seconds if no unit is given). Each line shows the last window
    /// before it.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// Stop after this time (seconds if no unit is given).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    attrs: AttrsArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut attrs = args.attrs.attrs(Method::Census)?;
    signals::install()?;
    let tracker = args.targets.tracker()?;
    let (set, why) = open_set_for(&args.targets, &mut attrs, args.attrs.is_auto())?;
    // A second line means that the set is not the best one; it says why.
    for line in why.iter().filter(|_| why.len() > 1) {
        writeln!(std::io::stderr(), "{line}")?;
    }
    let mut monitor = Monitor::new(tracker, set, attrs, clock::now().as_ns())?;
    // The lines of `why` were printed above.
    take_in_targets(&mut monitor, &[]).map_err(exit::refused)?;
    monitor.tracker().start().map_err(exit::of)?;
    let started = Instant::now();
    let mut next = started + args.interval;
    let mut out = std::io::stdout().lock();
    let mut has_header = args.json;
    let mut shared = Shared::default();
    loop {
        match monitor.next() {
            Happened::Snapshot => {
                shared.learn(monitor.snapshot());
                if Instant::now() >= next {
                    next += args.interval;
                    let once = shared.once(&mut monitor);
                    let (snapshot, elapsed) = (monitor.snapshot(), started.elapsed());
                    if !std::mem::replace(&mut has_header, true) && once.touched.is_some() {
                        header(&mut out, snapshot)?;
                    }
                    match once.touched {
                        _ if args.json => json(&mut out, snapshot, &once)?,
                        Some(touched) => row(&mut out, &touched, &once, elapsed)?,
                        None => print(&mut out, &once, elapsed)?,
                    }
                }
            }
            Happened::NotWatched(target, err) if !err.is_gone() => {
                warn(&format!("process {} ({}) is not watched: {err}", target.pid, target.name));
            }
            Happened::Watched(target) => {
                warn(&format!("process {} ({}) is watched from now on", target.pid, target.name));
            }
            Happened::Trouble(text) => warn(&text),
            Happened::Failed(text) => {
                end_command(&mut monitor);
                return Err(anyhow::anyhow!(text));
            }
            Happened::Stopped => break,
            _ => {}
        }
        let over = args.duration.is_some_and(|d| started.elapsed() >= d);
        if over || signals::stop_requested().is_some() {
            break;
        }
    }
    if let Some(others) = monitor.others() {
        writeln!(std::io::stderr(), "{others}")?;
    }
    let late = monitor.late();
    if let Some(late) = late {
        warn(&late.to_string());
    }
    let status = end_command(&mut monitor);
    Ok(if late.is_some_and(|late| late.is_much()) { ExitCode::from(exit::PARTIAL) } else { status })
}

fn json(out: &mut impl Write, snapshot: &Snapshot, once: &Once) -> std::io::Result<()> {
    let WorkingSet { bytes: wss, lo, hi, unresolved, .. } = once.regions;
    let mut line = serde_json::json!({
        "t_ns": snapshot.end.as_ns(), "wss_bytes": wss, "lo": lo, "hi": hi,
        "unresolved_bytes": unresolved, "regions": snapshot.nr_regions(),
        "targets": snapshot.targets.len(),
        "sum_over_processes_bytes": once.sum,
    });
    if let Some(touched) = once.touched {
        line["watched_bytes"] = touched.watched.into();
        line["touched"] = spans(snapshot, &touched);
    }
    writeln!(out, "{line}").and_then(|()| out.flush())
}

fn print(out: &mut impl Write, once: &Once, elapsed: Duration) -> std::io::Result<()> {
    let WorkingSet { bytes: wss, lo, hi, unresolved, .. } = once.regions;
    write!(
        out,
        "{:8.1} s  working set {:>9}  ({} to {})",
        elapsed.as_secs_f64(),
        bytes(wss),
        bytes(lo),
        bytes(hi)
    )?;
    if unresolved > 0 {
        write!(out, "  unresolved {}", bytes(unresolved))?;
    }
    sum(out, once)?;
    writeln!(out).and_then(|()| out.flush())
}

/// The sum over processes, if it counts memory more than once.
fn sum(out: &mut impl Write, once: &Once) -> std::io::Result<()> {
    if once.is_shared {
        write!(out, "  (sum over processes {})", bytes(once.sum))?;
    }
    Ok(())
}

/// The working set by span, for JSON. A span that was not measured yet is missing.
fn spans(snapshot: &Snapshot, touched: &Touched) -> serde_json::Value {
    let spans = snapshot.spans_us().into_iter().zip(touched.spans);
    let spans = spans.filter_map(|(us, within)| {
        let TouchedBytes { bytes, lo, hi, measured } = within?;
        Some(serde_json::json!({
            "span_us": us, "bytes": bytes, "lo": lo, "hi": hi, "measured_bytes": measured,
        }))
    });
    spans.collect()
}

/// The names of the columns.
fn header(out: &mut impl Write, snapshot: &Snapshot) -> std::io::Result<()> {
    write!(out, "{:>10}", "touched in")?;
    for us in snapshot.spans_us() {
        write!(out, "  {:>15}", span_name(us))?;
    }
    writeln!(out, "  measured")
}

/// The working set by span, each with half of its 90 % interval if that is a percent or more.
fn row(
    out: &mut impl Write,
    touched: &Touched,
    once: &Once,
    elapsed: Duration,
) -> std::io::Result<()> {
    write!(out, "{:8.1} s", elapsed.as_secs_f64())?;
    for within in touched.spans {
        let text = within.map_or_else(
            || "-".to_owned(),
            |within| {
                let half = (within.hi - within.lo) / 2;
                match half * 100 / within.bytes.max(1) {
                    0 => format!("{}     ", bytes(within.bytes)),
                    percent @ 1..100 => format!("{} ±{percent:>2}%", bytes(within.bytes)),
                    _ => format!("{} ± ? ", bytes(within.bytes)),
                }
            },
        );
        write!(out, "  {text:>15}")?;
    }
    let measured = touched.spans[0].map_or(0, |within| within.measured);
    write!(out, "  {:6} %", measured * 100 / touched.watched.max(1))?;
    sum(out, once)?;
    writeln!(out).and_then(|()| out.flush())
}
