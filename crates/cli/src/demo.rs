//! `isotherm demo`: records a workload whose pattern is known, and shows the result.
//!
//! The demo uses the best operations set that works on this machine, or simulates if none does. It
//! then prints the heatmap, the working set, and a score of the record against what the workload
//! really did.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use isotherm::raw::agent::monitor::Monitor;
use isotherm::raw::agent::recorder::{Recorder, Step};
use isotherm::raw::core::{Attrs, Method};
use isotherm::raw::ops::targets::Tracker;
use isotherm::raw::record::Record;
use isotherm::raw::report::{Filter, heatmap, wss};
use isotherm::raw::sim::world::Options;
use isotherm::raw::sys::{clock, signals};
use tempfile::TempDir;

use crate::files::{self, cannot_create, not_created, not_kept};
use crate::options::sets::{OpsArg, open_set};
use crate::reading::score;
use crate::terminal::{ColorArg, When, style, warn, width};
use crate::{exit, sim, workload};

/// The workload, and how long all its phases take together.
const WORKLOAD: &str = "stairs";
const SECONDS: &str = "24s";

/// Arguments of `isotherm demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Simulate, even if this machine can record a real process.
    #[arg(long)]
    simulate: bool,
    #[command(flatten)]
    color: ColorArg,
    /// The same as `--color never`.
    #[arg(long, conflicts_with = "when", help_heading = "Output")]
    plain: bool,
    /// Keep the record and the truth in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<std::path::PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Removed at the end, unless the user gave one.
    let own = if args.keep.is_none() { Some(files::scratch("demo")?) } else { None };
    let dir = own.as_ref().map(TempDir::path).or(args.keep.as_deref()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).map_err(|err| cannot_create(dir, &err))?;
    let (record, truth) = (dir.join("demo.data"), dir.join("demo.truth"));
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "workload `{WORKLOAD}`: ten objects of 10 MiB, first all of them, then one after another"
    )?;
    let mut attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let set = if args.simulate {
        Err(exit::usage("--simulate was given"))
    } else {
        open_set(OpsArg::Auto, &mut attrs)
    };
    match set {
        Ok((set, why)) => {
            for line in why {
                writeln!(out, "{line}")?;
            }
            writeln!(out, "recording a real process for {SECONDS} ...\n")?;
            real(set, attrs, &record, &truth)?;
        }
        Err(why) => {
            writeln!(out, "{why}\nso the demo runs a SIMULATION of it\n")?;
            simulated(attrs, &record, &truth)?;
        }
    }
    let record_file = Record::open(&record)?;
    let filter = Filter::default();
    let options = heatmap::Options { all_targets: false, ..heatmap::Options::for_text(width()) };
    let map = heatmap::Heatmap::build(&record_file, &filter, &options)?;
    let style = if args.plain { style(When::Never) } else { args.color.style() };
    writeln!(out, "{}", map.to_text(&style))?;
    let report = wss::Report::build(&record_file, &filter)?;
    writeln!(out, "{}", report.to_text(wss::Order::Size))?;
    writeln!(out, "score against what the workload really accessed")?;
    writeln!(out, "{}", score::of_files(&record, &truth)?)?;
    if let Some(dir) = &args.keep {
        writeln!(out, "kept: {0}/demo.data {0}/demo.truth", dir.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the workload as a separate process, and records it to its end.
fn real(
    set: isotherm::raw::ops::set::OpsSet,
    attrs: Attrs,
    record: &Path,
    truth: &Path,
) -> anyhow::Result<()> {
    signals::install()?;
    let own = std::env::current_exe().context("find our own program")?;
    let words = ["workload", WORKLOAD, "--scale", SECONDS, "-q", "--truth"];
    let mut command: Vec<OsString> = words.map(Into::into).into();
    command.push(truth.into());
    let tracker = Tracker::spawn(own, &command, true).map_err(exit::of)?;
    let mut monitor = Monitor::new(tracker, set, attrs, clock::now().as_ns())?;
    let mut recorder =
        Recorder::builder(record).create(&mut monitor).map_err(not_created(record))?;
    monitor.tracker().start().map_err(exit::of)?;
    recorder.keep().map_err(not_kept)?;
    while !matches!(recorder.step(&mut monitor), Step::Over | Step::Failed) {
        recorder.take_events().iter().for_each(|event| warn(&event.to_string()));
        if signals::stop_requested().is_some() {
            crate::record::end_command(&mut monitor);
            return Err(anyhow::anyhow!("interrupted; nothing is left behind"));
        }
    }
    let summary = recorder.finish(&mut monitor, "every target has exited")?;
    summary.events.iter().for_each(|event| warn(&event.to_string()));
    Ok(())
}

fn simulated(attrs: Attrs, record: &Path, truth: &Path) -> anyhow::Result<()> {
    let (name, mut config) = workload::load(WORKLOAD, &workload::LayoutArgs::default())?;
    let factor = workload::scale_factor(SECONDS, config.total_ms())?;
    config.scale(factor);
    let options = Options { seed: config.settings.seed, ..Options::default() };
    let (simulation, _) = sim::simulate(&name, &config, &options, attrs, record)?;
    sim::write_truth(&simulation, &name, truth)
}
