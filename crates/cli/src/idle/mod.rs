//! `isotherm idle`: shows the idle memory of the machine, by cgroup.

mod json;
mod text;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use isotherm::raw::core::units::duration;
use isotherm::raw::idlemem::{Options, Report, Row, Scan, Walk, default_cpu, matches};
use isotherm::raw::pages::frames::{FramesError, FramesKind};
use isotherm::raw::sys::signals;

use crate::exit;
use crate::terminal::warn;

/// Arguments of `isotherm idle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show only cgroups whose path matches, as `system.slice/*`.
    ///
    /// `*` and `?` as in a shell.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    cgroup: String,
    /// Memory that was not touched for this long is idle.
    ///
    /// As 30s or 5m. There is one report per interval. The first comes after two intervals, or with
    /// --once after one and a quarter.
    #[arg(short, long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    interval: Duration,
    /// Print one report and exit.
    #[arg(long)]
    once: bool,
    /// Count each cgroup without those below it.
    ///
    /// That is, only what is charged to it itself.
    #[arg(long)]
    own: bool,
    /// CPU time that the scan may take, in percent of one CPU.
    ///
    /// If that is not enough for all memory, the scan looks at a sample and shows the error.
    /// Default: 0.5 per 24 GiB of memory, at least 0.1.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    cpu: Option<f64>,
    /// How to look at memory.
    ///
    /// By the kernel's idle page tracking, or by page tables (mapped memory only). `auto` takes the
    /// first of them that this kernel has.
    #[arg(long, value_name = "SET", default_value = "auto", hide_short_help = true)]
    ops: Ops,
    /// Print one JSON object per report.
    #[arg(long)]
    json: bool,
}

/// The ways to look at memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Ops {
    Auto,
    Idle,
    Pagewalk,
}

/// An open scan.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Scanner {
    Bitmap(Scan),
    Walk(Walk),
}

impl Scanner {
    fn open(ops: Ops, options: Options) -> anyhow::Result<Self> {
        if ops == Ops::Pagewalk {
            return Ok(Self::Walk(Walk::open(options).map_err(exit::of)?));
        }
        match Scan::open(options) {
            Ok(scan) => Ok(Self::Bitmap(scan)),
            Err(e) if ops == Ops::Auto && e.kind() == FramesKind::NotSupported => {
                warn(&format!(
                    "{}: page tables are read instead, which show mapped memory only; unmapped page cache is not seen",
                    e.why()
                ));
                Ok(Self::Walk(Walk::open(options).map_err(exit::of)?))
            }
            Err(e) => Err(exit::of(e)),
        }
    }

    fn next(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<Report>, FramesError> {
        match self {
            Self::Bitmap(scan) => scan.next(stop),
            Self::Walk(walk) => walk.next(stop),
        }
    }
}

/// The shortest interval. In less time a round over all memory can hardly be finished.
const SHORTEST: Duration = Duration::from_millis(100);

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.interval < SHORTEST {
        return Err(exit::usage(format!(
            "the interval of {:?} is too short to mark all memory and look at it\n  hint: at least {SHORTEST:?}",
            args.interval
        )));
    }
    signals::install()?;
    let options = Options {
        interval: args.interval,
        spread: if args.once { 0.25 } else { 1.0 },
        cpu: args.cpu.map_or_else(|| default_cpu(memory()), |percent| percent / 100.0),
    };
    let mut scan = Scanner::open(args.ops, options)?;
    let mut stop = || signals::stop_requested().is_some();
    loop {
        let Some(report) = scan.next(&mut stop).map_err(exit::of)? else {
            return Ok(ExitCode::SUCCESS);
        };
        let rows = chosen(&report, &args)?;
        say_oddities(&report, &args);
        let mut out = std::io::stdout().lock();
        if args.json {
            json::write(&mut out, &report, &rows, &args)?;
        } else {
            text::write(&mut out, &report, &rows, &args)?;
        }
        out.flush()?;
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The rows to show, those with most idle memory first.
fn chosen<'r>(report: &'r Report, args: &Args) -> anyhow::Result<Vec<&'r Row>> {
    let all_shown = args.cgroup == "*";
    let mut rows: Vec<&Row> =
        report.rows.iter().filter(|row| all_shown || matches(&args.cgroup, &row.name)).collect();
    if rows.is_empty() {
        const MOST: usize = 12;
        let names: Vec<_> = report.rows.iter().map(|row| row.name.text()).collect();
        let more = if names.len() > MOST { ", ..." } else { "" };
        let some = names[..names.len().min(MOST)].join(", ");
        return Err(exit::usage(format!(
            "no cgroup matches `{}`\n  why:  there are: {some}{more}\n  hint: `*` stands for any part, also for `/`",
            args.cgroup
        )));
    }
    let idle = |row: &Row| if args.own { row.own.idle() } else { row.all.idle() };
    rows.sort_by_key(|row| std::cmp::Reverse(idle(row)));
    Ok(rows)
}

/// Warns of what makes the numbers less reliable.
fn say_oddities(report: &Report, args: &Args) {
    let interval = u64::try_from(args.interval.as_nanos()).unwrap_or(u64::MAX);
    if report.longest_ns > interval + interval / 10 {
        warn(&format!(
            "this machine was late: some memory was looked at {:.1} s after it was marked, not after {:.1} s",
            seconds(report.longest_ns),
            seconds(interval)
        ));
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn memory() -> u64 {
    isotherm::raw::host::Machine::read(&isotherm::raw::host::Roots::default()).memory_bytes
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|e| format!("{e}"))?;
    let fits = number > 0.0 && number <= 100.0;
    if fits { Ok(number) } else { Err("above 0 and up to 100".to_owned()) }
}
