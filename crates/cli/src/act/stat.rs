//! `isotherm stat`: shows for how long memory is idle, and an estimate of the memory bandwidth. It
//! acts on nothing.

use std::io::Write;
use std::process::ExitCode;

use isotherm::raw::agent::ready::Stat;
use isotherm::raw::agent::run::Summary;
use isotherm::raw::core::units::{bytes, interval_us_with_unit};

use super::args::{RunArgs, WhoseArgs};
use super::drive::{Extra, print_or_drive};

/// Arguments of `isotherm stat`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    whose: WhoseArgs,
    /// Count memory that was idle for this long.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "120s",
        value_parser = interval_us_with_unit,
        help_heading = "Monitoring"
    )]
    age: u64,
    /// Keep the intervals as given.
    ///
    /// By default they are tuned so that 4 % of the samples see an access.
    #[arg(long, help_heading = "Monitoring", hide_short_help = true)]
    no_autotune: bool,
    #[command(flatten)]
    run: RunArgs,
}

const EXAMPLES: &str = "Examples:
  isotherm stat 1234                   of a process and its children, every second
  isotherm stat --unit redis --json    of a systemd unit, as JSON
  isotherm stat -a --age 10m           of all processes: what was idle for ten minutes";

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let whose = args.whose.whose()?;
    let policy = Stat { whose, idle_min_age_us: args.age, autotune: !args.no_autotune }.policy();
    print_or_drive(policy, &args.whose, &args.run, Extra { percentiles: true, ..Extra::default() })
}

/// The percentiles that a line shows.
const SHOWN: [usize; 7] = [0, 10, 25, 50, 75, 90, 100];

/// Says what the lines of text show.
pub(super) fn head() -> std::io::Result<()> {
    writeln!(
        std::io::stdout().lock(),
        "seconds for which memory was not accessed, by percentile of its bytes; negative: in use for \
         so long"
    )
}

/// Writes the state of a context, as a line of text or as a JSON object.
pub(super) fn show(summary: &Summary, elapsed_s: f64, json: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        let line = serde_json::json!({
            "elapsed_s": elapsed_s, "targets": summary.nr_targets, "regions": summary.nr_regions,
            "sample_us": summary.sample_us, "aggr_us": summary.aggr_us,
            "bandwidth_bytes_per_s": summary.bandwidth, "idle_ms_percentiles": summary.idle_ms,
        });
        writeln!(out, "{line}")?;
    } else {
        write!(out, "{elapsed_s:8.1} s  bandwidth {:>9}/s  idle s", bytes(summary.bandwidth))?;
        for p in SHOWN {
            let ms = summary.idle_ms.get(p).copied().unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
            let seconds = ms as f64 / 1e3;
            write!(out, "  p{p} {seconds:.1}")?;
        }
        writeln!(out)?;
    }
    out.flush()
}
