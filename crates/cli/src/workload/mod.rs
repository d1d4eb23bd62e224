//! `isotherm workload`: runs a real process with a known access pattern, and writes the truth about
//! it.

mod episode;
mod layout;
mod log;
mod memory;
mod process;
mod slots;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use isotherm::raw::core::units::millis;
use isotherm::raw::sim::config::{Config, SHIPPED, shipped};

pub(crate) use self::layout::LayoutArgs;
use crate::exit::usage;

/// Arguments of `isotherm workload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A config file (format of masim), or the name of a shipped workload.
    #[arg(required_unless_present = "list")]
    config: Option<String>,
    #[command(flatten)]
    layout: LayoutArgs,
    /// Write what was accessed, where and when, to this file.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Scale all times by a factor (0.1), or to this long (10s).
    ///
    /// The latter is the time that all phases take together.
    #[arg(long, value_name = "FACTOR|TIME")]
    scale: Option<String>,
    /// Run for this time, from the first phase again if need be.
    ///
    /// By default all phases run once.
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Seed for the random choices, instead of the config's seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Print nothing.
    #[arg(long, short)]
    quiet: bool,
    /// List the shipped workloads.
    #[arg(long)]
    list: bool,
    /// Print the config as isotherm understands it, and exit.
    #[arg(long)]
    print: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if args.list {
        for (name, text) in SHIPPED {
            let what = text.lines().next().unwrap_or("").trim_start_matches(['#', ' ']);
            writeln!(out, "{name:<17} {what}")?;
        }
        write!(out, "{}", layout::LISTED)?;
        return Ok(ExitCode::SUCCESS);
    }
    let source = args.config.as_deref().unwrap_or_default();
    let (name, mut config) = load(source, &args.layout)?;
    if let Some(seed) = args.seed {
        config.settings.seed = seed;
    }
    if let Some(scale) = &args.scale {
        let factor = scale_factor(scale, config.total_ms())?;
        config.scale(factor);
    }
    let duration_ms = match &args.duration {
        Some(text) => millis(text).map_err(|why| usage(format!("--duration {text}: {why}")))?,
        None => config.total_ms(),
    };
    if args.print {
        write!(out, "{config}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if duration_ms > 0 && config.total_ms() == 0 {
        return Err(usage(format!("{source}: all phases are 0 ms long")));
    }
    drop(out);
    process::run(&name, &config, duration_ms, args.truth.as_deref(), args.quiet)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a config by its shipped name, with other parameters if there are any, or from a file.
pub(crate) fn load(source: &str, layout: &LayoutArgs) -> anyhow::Result<(String, Config)> {
    let source = &layout.named(source)?;
    let (name, text) = match shipped(source) {
        Some(text) => (source.clone(), text.into_owned()),
        None => {
            let text = std::fs::read_to_string(source).map_err(|e| {
                let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
                usage(format!(
                    "no workload `{source}`\n  tried: open {source}: {e}\n  \
                     hint:  give a config file, or one of {}",
                    names.join(", ")
                ))
            })?;
            let stem = std::path::Path::new(source).file_stem();
            (stem.map_or_else(|| source.clone(), |s| s.to_string_lossy().into_owned()), text)
        }
    };
    let config = Config::parse(&text)
        .map_err(|e| usage(format!("{source}: {e}")))
        .with_context(|| format!("workload `{name}`"))?;
    Ok((name, config))
}

pub(crate) fn scale_factor(text: &str, total_ms: u64) -> anyhow::Result<f64> {
    let wrong = || usage(format!("--scale {text}: expected a factor (0.1) or a time (10s)"));
    let factor = match millis(text) {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds far below 2^52")]
        Ok(ms) => ms as f64 / total_ms.max(1) as f64,
        Err(_) => text.parse().map_err(|_not_a_number: std::num::ParseFloatError| wrong())?,
    };
    if factor.is_finite() && factor > 0.0 { Ok(factor) } else { Err(wrong()) }
}
