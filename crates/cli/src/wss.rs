//! `isotherm wss`: prints the working set of running processes live, one line per interval.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::agent::monitor::{Happened, Monitor};
use isotherm::raw::core::Snapshot;
use isotherm::raw::core::units::{bytes, duration};
use isotherm::raw::report::wss::{WorkingSet, estimate};
use isotherm::raw::sys::{clock, signals};

use crate::exit;
use crate::options::attrs::AttrsArgs;
use crate::options::sets::open_set_for;
use crate::options::targets::TargetArgs;
use crate::record::end_command;
use crate::terminal::warn;

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
    let mut attrs = args.attrs.attrs()?;
    signals::install()?;
    let tracker = args.targets.tracker()?;
    let (set, why) = open_set_for(&args.targets, &mut attrs)?;
    // A second line means that the set is not the best one; it says why.
    for line in why.iter().filter(|_| why.len() > 1) {
        writeln!(std::io::stderr(), "{line}")?;
    }
    let mut monitor = Monitor::new(tracker, set, attrs, clock::now().as_ns())?;
    monitor.tracker().start().map_err(exit::of)?;
    let started = Instant::now();
    let mut next = started + args.interval;
    let mut out = std::io::stdout().lock();
    loop {
        match monitor.next() {
            Happened::Snapshot if Instant::now() >= next => {
                next += args.interval;
                print(&mut out, monitor.snapshot(), started.elapsed(), args.json)?;
            }
            Happened::NotWatched(target, err) if !err.is_gone() => {
                warn(&format!("process {} ({}) is not watched: {err}", target.pid, target.name));
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
    Ok(end_command(&mut monitor))
}

fn print(
    out: &mut impl Write,
    snapshot: &Snapshot,
    elapsed: Duration,
    json: bool,
) -> std::io::Result<()> {
    let regions = snapshot.targets.iter().flat_map(|t| &t.regions);
    let WorkingSet { bytes: wss, lo, hi, unresolved, .. } =
        estimate(regions, snapshot.max_nr_accesses);
    if json {
        let line = serde_json::json!({
            "t_ns": snapshot.end.as_ns(), "wss_bytes": wss, "lo": lo, "hi": hi,
            "unresolved_bytes": unresolved, "regions": snapshot.nr_regions(),
            "targets": snapshot.targets.len(),
        });
        return writeln!(out, "{line}").and_then(|()| out.flush());
    }
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
    writeln!(out).and_then(|()| out.flush())
}
