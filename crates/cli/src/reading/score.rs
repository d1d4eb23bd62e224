//! `isotherm score`: compares a record with the truth of the workload that was recorded.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm::raw::core::TargetId;
use isotherm::raw::core::units::interval_us_with_unit;
use isotherm::raw::record::Event;
use isotherm::raw::report::score::{Options, Score, Scorer};
use isotherm::raw::sim::truth::{ReadError, Truth};

use crate::exit::{self, usage};
use crate::files;
use crate::terminal::warn;

/// Arguments of `isotherm score`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The record.
    record: PathBuf,
    /// The truth file that `isotherm workload --truth` wrote during the recording.
    truth: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Judge all windows.
    ///
    /// By default windows within one second after a change of the pattern are left out.
    #[arg(long)]
    all: bool,
    /// A byte with at least this many accesses per window is hot.
    #[arg(long, value_name = "NR_ACCESSES", default_value_t = 1.0)]
    hot: f64,
    /// Judge only windows that begin at least this long after the start of the truth.
    #[arg(long, value_name = "TIME", value_parser = interval_us_with_unit, default_value = "0s")]
    from: u64,
    /// Judge only windows that end at most this long after the start of the truth.
    #[arg(long, value_name = "TIME", value_parser = interval_us_with_unit)]
    to: Option<u64>,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let truth = read_truth(&args.truth)?;
    let options = Options {
        hot: args.hot,
        all: args.all,
        from_ns: args.from.saturating_mul(1000),
        to_ns: args.to.map_or(u64::MAX, |us| us.saturating_mul(1000)),
    };
    let score = score(&args.record, &args.truth, &truth, options)?;
    if score.windows == 0 {
        warn(
            "no window could be judged: all of them are too near to changes of the pattern; try --all, or a longer run",
        );
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &score)?;
        writeln!(out)?;
    } else {
        write!(out, "{score}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The score of a record with the default options.
pub(crate) fn of_files(record: &Path, truth: &Path) -> anyhow::Result<Score> {
    score(record, truth, &read_truth(truth)?, Options::default())
}

fn read_truth(path: &Path) -> anyhow::Result<Truth> {
    let shown = path.display();
    let file = File::open(path).map_err(|err| {
        let text = format!(
            "cannot open the truth {shown}\n  tried: open {shown}: {err}\n  hint:  `isotherm workload \
             --truth {shown}` writes it while the workload runs"
        );
        exit::with(exit::of_io(&err), text)
    })?;
    Truth::read(BufReader::new(file)).map_err(|e| match e {
        ReadError::Io(e) => anyhow::Error::new(e).context(format!("read {shown}")),
        e => usage(format!("{shown}: {e}")),
    })
}

/// Feeds the record to a scorer.
fn score(
    record: &Path,
    truth_path: &Path,
    truth: &Truth,
    options: Options,
) -> anyhow::Result<Score> {
    let mut reader = files::open(record)?.reader()?;
    let mut scorer = Scorer::new(truth, options);
    let mut known = false;
    while let Some(event) = reader.next_event()? {
        match event {
            Event::Target(target) => {
                known |= truth.process(target.pid).is_some();
                scorer.target(TargetId(target.id), target.pid);
            }
            Event::Pages(pages) => scorer.pages(pages),
            Event::Snapshot(snapshot) => scorer.snapshot(snapshot),
            Event::Note(note) => {
                if let Some(bytes) = peak_rss(&note.text) {
                    scorer.monitor_rss(bytes);
                }
            }
            _ => {}
        }
    }
    files::warn_of_damage(record, &reader.damage());
    if !known {
        let pids: Vec<String> = truth.processes.values().map(|p| p.pid.to_string()).collect();
        return Err(usage(format!(
            "{} and {} are not about the same run\n  why:   no target of the record has a pid of the \
             truth ({})",
            record.display(),
            truth_path.display(),
            pids.join(", ")
        )));
    }
    Ok(scorer.finish())
}

/// Reads the recorder's own memory from the note that it left in the record.
fn peak_rss(note: &str) -> Option<u64> {
    note.strip_prefix("peak rss ")?.strip_suffix(" bytes")?.parse().ok()
}
