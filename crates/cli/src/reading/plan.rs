//! `isotherm plan`: how much memory could be saved, at what price, and by which policy.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Context;
use isotherm::raw::act::{RefaultPrice, refault_price};
use isotherm::raw::agent::gauge::Counter;
use isotherm::raw::agent::policy::{TargetSpec, print};
use isotherm::raw::agent::ready::{Reclaim, Whose};
use isotherm::raw::core::scheme::Watermarks;
use isotherm::raw::core::units::{duration, interval_us_with_unit, share_bp};
use isotherm::raw::host::{Machine, Roots};
use isotherm::raw::record::{Event, Record};
use isotherm::raw::report::plan::{Limits, Report};
use isotherm::raw::report::price::{Estimate, Price};
use isotherm::raw::report::replay::What;

use super::report::Common;
use crate::exit::{self, usage};
use crate::files;
use crate::progress::{Pace, Watch};
use crate::replayed::what;
use crate::terminal::pager::PagerArg;
use crate::terminal::warn;

/// Arguments of `isotherm plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    live: Live,
    /// How much slower the program may become, as 1%.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "1%",
        value_parser = share,
        help_heading = "Limits"
    )]
    max_slowdown: f64,
    /// How much memory may come back per minute, as 0.2%/min of what is resident.
    #[arg(long, value_name = "SHARE/min", value_parser = per_minute, help_heading = "Limits", hide_short_help = true)]
    max_refaults: Option<f64>,
    /// How much of the resident memory has to be saved, as 30%.
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Limits")]
    save: Option<f64>,
    /// What a page costs that comes back, as 20us.
    ///
    /// Without this option it is measured on 16 MiB of own memory if this machine has swap, and
    /// assumed if it has none.
    #[arg(long, value_name = "TIME", value_parser = interval_us_with_unit, help_heading = "Price", hide_short_help = true)]
    refault_cost: Option<u64>,
    /// How many CPUs the program keeps busy.
    ///
    /// While one thread waits for a page, the others go on. Without this option it is what was
    /// measured while watching, and one for a record; at least one.
    #[arg(long, value_name = "N", help_heading = "Price", hide_short_help = true)]
    cpus: Option<f64>,
    /// The last number in this file counts the program's work, and the price is told in it.
    #[arg(
        long,
        value_name = "FILE",
        group = "counter",
        conflicts_with = "record",
        help_heading = "Price",
        hide_short_help = true
    )]
    progress: Option<PathBuf>,
    /// This line of shell prints a number that counts the program's work.
    #[arg(
        long,
        value_name = "CMD",
        group = "counter",
        conflicts_with = "record",
        help_heading = "Price",
        hide_short_help = true
    )]
    progress_cmd: Option<String>,
    /// Write the policy that is recommended to this file.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Write a picture of savings and refaults to this file, as SVG.
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    svg: Option<PathBuf>,
    /// Write all of it to this file, as one page for a browser.
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    html: Option<PathBuf>,
    #[command(flatten)]
    pager: PagerArg,
}

/// Processes to watch first.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Watch first")]
struct Live {
    /// Watch these processes and their children, then plan for them.
    #[arg(
        short,
        long = "pid",
        value_name = "PID,...",
        value_delimiter = ',',
        conflicts_with = "record"
    )]
    pids: Vec<u32>,
    /// Watch processes whose name matches.
    #[arg(long = "name", value_name = "GLOB", conflicts_with = "record", hide_short_help = true)]
    names: Vec<String>,
    /// Watch the processes of matching cgroups.
    #[arg(long = "cgroup", value_name = "GLOB", conflicts_with = "record", hide_short_help = true)]
    cgroups: Vec<String>,
    /// Watch the processes of a systemd unit.
    #[arg(long = "unit", value_name = "NAME", conflicts_with = "record", hide_short_help = true)]
    units: Vec<String>,
    /// Watch the processes of matching Kubernetes pods.
    #[arg(long = "pod", value_name = "GLOB", conflicts_with = "record", hide_short_help = true)]
    pods: Vec<String>,
    /// Watch the processes of matching containers.
    #[arg(
        long = "container",
        value_name = "GLOB",
        conflicts_with = "record",
        hide_short_help = true
    )]
    containers: Vec<String>,
    /// For how long to watch.
    ///
    /// Idle times up to a fifth of it can be told of.
    #[arg(long, alias = "for", value_name = "TIME", default_value = "5m", value_parser = duration)]
    duration: Duration,
    /// Keep the record in this file.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    keep: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  isotherm plan r.data                            from a record
  isotherm plan -p 1234 --duration 5m             watch a process first
  isotherm plan r.data --save 30%                 the cheapest way to save 30 %
  isotherm plan r.data --max-slowdown 0.5% -o p.toml   the policy, for `isotherm run p.toml`";

/// A share of 0 % or more.
fn share(text: &str) -> Result<f64, String> {
    let bp = share_bp(text).map_err(|err| err.to_string())?;
    #[expect(clippy::cast_precision_loss, reason = "basis points")]
    Ok(bp as f64 / 10_000.0)
}

/// A share per minute.
fn per_minute(text: &str) -> Result<f64, String> {
    let known = text.trim().strip_suffix("/min").or_else(|| text.trim().strip_suffix("/m"));
    share(known.ok_or("give a share per minute, as 0.2%/min")?)
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.cpus.is_some_and(|cpus| !(cpus > 0.0 && cpus.is_finite())) {
        return Err(usage("--cpus is a number above 0, as 2.5"));
    }
    let specs = args.live.specs();
    let counter = args.counter();
    if counter.is_some() && specs.is_empty() {
        return Err(usage(
            "a counter of work is read while a program is watched\n  hint:  -p PID, or another \
             target; a record knows no counter",
        ));
    }
    let mut pace = Pace { cpus: 1.0, work_per_s: None };
    let scratch = if specs.is_empty() { None } else { Some(files::scratch("plan")?) };
    let (record, filter) = match &scratch {
        Some(dir) => {
            let path = args.live.keep.clone().unwrap_or_else(|| dir.path().join("plan.data"));
            let watch = Watch::begin(counter.as_ref())?;
            args.live.watch(&path)?;
            let record = files::open(&path)?;
            pace = watch.end(&pids(&record)?)?;
            if pace.work_per_s.is_some_and(|work| work <= 0.0) {
                let told = counter.as_ref().map_or_else(String::new, Counter::told);
                return Err(usage(format!(
                    "{told}: it did not grow while the program was watched"
                )));
            }
            (record, args.common.limits.filter())
        }
        None => args.common.open()?,
    };
    let limits = Limits {
        max_slowdown: args.max_slowdown,
        max_refaults: args.max_refaults,
        save: args.save,
    };
    let cpus = args.cpus.unwrap_or(pace.cpus.max(1.0));
    let price = Price { work_per_s: pace.work_per_s, ..price(args.refault_cost, cpus) };
    let report = Report::build(&record, &filter, price, limits, &after)?;
    if let Some(path) = &args.svg {
        write_file(path, &report.to_svg())?;
    }
    let policy = policy(&report, specs);
    if let Some(path) = &args.html {
        write_file(path, &report.to_html(policy.as_deref()))?;
    }
    if let (Some(path), Some(policy)) = (&args.output, &policy) {
        write_file(path, policy)?;
    }
    let mut out = args.pager.open();
    let shown = show(&args, &report, policy.as_deref(), &mut out);
    let finished = out.finish();
    shown?;
    finished?;
    // What was watched is told in any case. A script that wants a policy gets none.
    if args.output.is_some() && policy.is_none() {
        return Err(exit::with(
            exit::PARTIAL,
            format!(
                "no policy was written\n  why:   {}\n  hint:  a longer record narrows the intervals; \
                 --max-slowdown, --max-refaults and --save say what you want",
                report.verdict()
            ),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The processes in a record.
fn pids(record: &Record) -> anyhow::Result<BTreeSet<u32>> {
    let (mut reader, mut pids) = (record.reader()?, BTreeSet::new());
    while let Some(event) = reader.next_event()? {
        if let Event::Target(target) = event {
            pids.insert(target.pid);
        }
    }
    Ok(pids)
}

fn show(
    args: &Args,
    report: &Report,
    policy: Option<&str>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if args.common.limits.json {
        return Ok(writeln!(out, "{}", report.to_json())?);
    }
    writeln!(out, "{}", report.to_text().trim_end())?;
    match (&args.output, policy) {
        (Some(path), Some(_)) => {
            let path = path.display();
            writeln!(out, "\nthe policy is in {path}; `isotherm run {path} --dry-run` tries it")?;
            // What a plan tells is where it ends. A record of a minute may be over before.
            writeln!(
                out,
                "its quota decides how soon so much is saved; `isotherm run {path} --over RECORD` plays \
                 that back"
            )?;
        }
        (None, Some(policy)) => {
            writeln!(
                out,
                "\nthe policy, which -o FILE writes to a file:\n\n{}",
                policy.trim_end()
            )?;
        }
        (_, None) => {}
    }
    Ok(())
}

impl Args {
    fn counter(&self) -> Option<Counter> {
        let file = self.progress.clone().map(Counter::File);
        file.or_else(|| self.progress_cmd.clone().map(Counter::Command))
    }
}

impl Live {
    /// What is to be watched, for a policy.
    fn specs(&self) -> Vec<TargetSpec> {
        let pids = self.pids.iter().map(|pid| TargetSpec::Pid(*pid));
        let names = self.names.iter().cloned().map(TargetSpec::Name);
        let cgroups = self.cgroups.iter().cloned().map(TargetSpec::Cgroup);
        let units = self.units.iter().cloned().map(TargetSpec::Unit);
        let pods = self.pods.iter().cloned().map(TargetSpec::Pod);
        let containers = self.containers.iter().cloned().map(TargetSpec::Container);
        pids.chain(names).chain(cgroups).chain(units).chain(pods).chain(containers).collect()
    }

    /// Records for a while, as `isotherm record` does.
    fn watch(&self, path: &Path) -> anyhow::Result<()> {
        let own = std::env::current_exe().context("find our own program")?;
        let mut command = Command::new(own);
        command.arg("record").arg("--quiet").arg("--output").arg(path);
        command.args(["--duration", &format!("{}ms", self.duration.as_millis())]);
        command.args(self.pids.iter().map(|pid| format!("--pid={pid}")));
        let named = [
            ("name", &self.names),
            ("cgroup", &self.cgroups),
            ("unit", &self.units),
            ("pod", &self.pods),
            ("container", &self.containers),
        ];
        for (option, values) in named {
            command.args(values.iter().map(|value| format!("--{option}={value}")));
        }
        writeln!(std::io::stderr(), "watching for {:?}; Ctrl-C ends it sooner", self.duration).ok();
        let status = command.status().context("run `isotherm record`")?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) if code == i32::from(exit::PARTIAL) => {
                warn("the record is not complete");
                Ok(())
            }
            code => {
                let code = code.and_then(|code| u8::try_from(code).ok());
                let code = code.unwrap_or(exit::UNEXPECTED);
                Err(exit::with(code, "so there is nothing to plan for: watching failed"))
            }
        }
    }
}

/// What a page costs that comes back: as told, as measured, or as assumed.
pub(crate) fn price(told_us: Option<u64>, cpus: f64) -> Price {
    let assumed = Price { cpus, ..Price::assumed() };
    if let Some(us) = told_us {
        #[expect(clippy::cast_precision_loss, reason = "a time of µs")]
        let us = us as f64;
        let source = "as --refault-cost says".to_owned();
        return Price { us: Estimate::new(us, us, us), source, ..assumed };
    }
    if Machine::read(&Roots::default()).swap_bytes == 0 {
        return Price { source: "assumed: this machine has no swap".to_owned(), ..assumed };
    }
    match refault_price() {
        Ok(Some(RefaultPrice { p10, mean, p90, pages })) => {
            let source = format!("measured on this machine's swap, {pages} pages");
            Price { us: Estimate::new(p10, mean, p90), source, ..assumed }
        }
        Ok(None) => {
            let source = "assumed: this machine's swap took nothing; is it full?".to_owned();
            Price { source, ..assumed }
        }
        Err(err) => {
            Price { source: format!("assumed: it could not be measured: {err}"), ..assumed }
        }
    }
}

/// What pages out after an idle time, in µs. The plan is for this program alone, however much
/// memory is free.
fn reclaim(min_age_us: u64) -> Reclaim {
    let mut reclaim = Reclaim {
        min_age_us,
        refault_window_us: min_age_us.clamp(1_000_000, 60_000_000),
        ..Reclaim::default()
    };
    reclaim.limits.watermarks = Watermarks::default();
    reclaim
}

/// The same to be played back, without quota and brake.
pub(crate) fn after(min_age_us: u64) -> What {
    let mut reclaim = reclaim(min_age_us);
    (reclaim.limits.size, reclaim.limits.time, reclaim.limits.brake) = (None, None, None);
    let policy = reclaim.policy();
    what(&policy.contexts[0].schemes[0])
}

/// The policy that is recommended. It names the programs as the user named them, or as the record
/// knows them.
fn policy(report: &Report, specs: Vec<TargetSpec>) -> Option<String> {
    let row = report.chosen()?;
    let names = report.names.iter().filter(|name| !name.is_empty());
    let targets =
        if specs.is_empty() { names.cloned().map(TargetSpec::Name).collect() } else { specs };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an idle time")]
    let min_age_us = (row.age_s * 1e6) as u64;
    let whose = Whose { targets, ..Whose::default() };
    let reclaim = Reclaim { whose, ..reclaim(min_age_us) };
    let about = format!("# {}\n# {}\n", report.title, report.verdict().replace('\n', " "));
    Some(about + &print(&reclaim.policy()))
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).map_err(|err| files::cannot_create(path, &err))
}
