//! `isotherm report cgroups`, and `isotherm ctl cgroups --since`: what cgroups used over time.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use isotherm::raw::core::Time;
use isotherm::raw::host::glob::glob_or_below;
use isotherm::raw::report::cgroups::{Build, Report};

use crate::exit::usage;
use crate::files;
use crate::history::{HistoryArgs, ago};

/// Arguments of `isotherm report cgroups`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The record: one of an agent's history.
    #[arg(default_value = "isotherm.data")]
    record: PathBuf,
    /// Show what the agent has recorded since then, as 1h or "10 min ago".
    #[arg(
        long,
        value_name = "TIME",
        value_parser = ago,
        conflicts_with = "record",
        help_heading = "History"
    )]
    since: Option<Duration>,
    #[command(flatten)]
    history: HistoryArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Only cgroups whose path matches, and those below them: /system.slice/*
    #[arg(long = "cgroup", value_name = "GLOB")]
    pattern: Option<String>,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let pattern = args.pattern.as_deref();
    let report = match args.since {
        Some(since) => of_history(&args.history, since, pattern)?,
        None => {
            let mut build = Build::default();
            build.add("", &files::open(&args.record)?, Time::default(), matching(pattern))?;
            report(build, None)?
        }
    };
    show(&report, args.json, out)
}

/// What the agent has recorded of cgroups that match, since then.
///
/// # Errors
///
/// If it has recorded nothing of cgroups.
pub(crate) fn of_history(
    history: &HistoryArgs,
    since: Duration,
    pattern: Option<&str>,
) -> anyhow::Result<Report> {
    let mut build = Build::default();
    for (context, records, from) in history.records(since)? {
        for record in &records {
            build.add(&context, record, from, matching(pattern))?;
        }
    }
    report(build, Some(since))
}

fn matching(pattern: Option<&str>) -> impl Fn(&str) -> bool {
    move |cgroup| pattern.is_none_or(|pattern| glob_or_below(pattern, cgroup))
}

fn report(build: Build, since: Option<Duration>) -> anyhow::Result<Report> {
    if !build.has_rows() {
        return Err(usage(
            "nothing was recorded of cgroups in that time\n  why:   only an agent that adds up what \
             cgroups use records it, every 10 s\n  hint:  start it with --cgroups; --metrics and --fleet \
             have it, too",
        ));
    }
    Ok(build.report(since.map(|since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))))
}

/// Prints the report.
///
/// # Errors
///
/// If it cannot be written.
pub(crate) fn show(report: &Report, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    if json {
        writeln!(out, "{}", report.to_json())?;
    } else if report.cgroups.is_empty() {
        writeln!(out, "no cgroup that matches was watched in that time")?;
    } else {
        writeln!(out, "{}", report.to_text().trim_end())?;
    }
    Ok(())
}
