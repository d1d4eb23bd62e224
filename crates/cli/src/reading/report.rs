//! `isotherm report`: shows a record as text, JSON or a picture.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use isotherm::raw::core::AddrRange;
use isotherm::raw::record::Record;
use isotherm::raw::report::{
    Filter, ages, diff, heatmap, mappings, memory, pages, regions, summary, wss,
};

use crate::exit::usage;
use crate::files;
use crate::history::{HistoryArgs, ago};
use crate::terminal::pager::PagerArg;
use crate::terminal::{ColorArg, warn, width};

/// Arguments of `isotherm report`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// Without one: the record on one page.
    #[command(subcommand)]
    kind: Option<Kind>,
    #[command(flatten)]
    page: Common,
    #[command(flatten)]
    pager: PagerArg,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    /// Heat of memory by address and time.
    Heatmap(HeatmapArgs),
    /// Percentiles of the working set, with error bars.
    Wss(WssArgs),
    /// The regions of every snapshot.
    Regions(Common),
    /// Which mapping (heap, library, file, stack) is hot and cold.
    Mappings(MappingsArgs),
    /// Which pages were touched within 5 ms to 1 min, by mapping.
    ///
    /// Or by 2 MiB. Records of the method census have them.
    Pages(PagesArgs),
    /// Compare two records, of before and after a change.
    ///
    /// Working set, mappings, ages.
    Diff(DiffArgs),
    /// For how long memory was not accessed.
    Ages(Common),
    /// What cgroups used over time, as an agent has recorded it.
    ///
    /// With --since 1h, say. Working set by span, memory by idle time, what was paged out, and for
    /// how much of the time each cgroup was watched. An agent with --cgroups, --metrics or --fleet
    /// records that.
    Cgroups(super::cgroups::Args),
    /// All of it as one page for a browser, to look at or to send.
    Html(super::html::Args),
    /// Physical memory (`record --paddr`), by node or who uses it.
    ///
    /// How much of it is hot and cold, by node, cgroup, process or kind.
    Memory(MemoryArgs),
}

/// Options that all reports take.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// The record.
    #[arg(default_value = "isotherm.data")]
    pub(super) record: PathBuf,
    /// Show what the agent has recorded since then, as 1h or "10 min ago".
    #[arg(
        long,
        value_name = "TIME",
        value_parser = ago,
        conflicts_with = "record",
        help_heading = "History",
        hide_short_help = true
    )]
    since: Option<Duration>,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    pub(super) limits: Limits,
}

/// What is shown of a record, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Limits {
    /// Print JSON instead of text.
    #[arg(long)]
    pub(super) json: bool,
    /// Show only this time since the start, as 5s..1m.
    ///
    /// Either end may be left out.
    #[arg(long, value_name = "FROM..TO", value_parser = time)]
    time: Option<(u64, u64)>,
    /// Show only these addresses, as 0x7f0000000000-0x7f0040000000.
    #[arg(long, value_name = "FROM-TO", value_parser = address, hide_short_help = true)]
    address: Option<AddrRange>,
    /// Show only this target, by pid or name.
    ///
    /// May be given more than once.
    #[arg(long = "target", value_name = "PID|NAME")]
    targets: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct HeatmapArgs {
    #[command(flatten)]
    common: Common,
    /// Write a picture to this file: SVG or PNG, as its name ends.
    #[arg(short, long, value_name = "FILE", value_parser = picture)]
    output: Option<PathBuf>,
    /// Write an SVG picture to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a PNG picture to this file.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Draw a panel for every target (up to 16).
    ///
    /// Not only for the four with the most accesses.
    #[arg(long)]
    all_targets: bool,
    /// The rate of the brightest shade, as 5%.
    ///
    /// By default it is chosen to fit the record.
    #[arg(long, value_name = "PERCENT", value_parser = brightest)]
    max: Option<f32>,
    /// How shades follow rates.
    ///
    /// The default fits the record; the legend says which it is.
    #[arg(long, value_enum, default_value_t = Shades::Auto, hide_short_help = true)]
    scale: Shades,
    #[command(flatten)]
    color: ColorArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shades {
    /// Whichever shows more.
    Auto,
    /// Each shade is as much more.
    Linear,
    /// Each of eight shades is twice the one before.
    Log,
}

#[derive(Debug, clap::Args)]
struct WssArgs {
    #[command(flatten)]
    common: Common,
    /// Order of the percentiles: by size or by time.
    #[arg(long, value_enum, default_value_t = SortBy::Size)]
    sort: SortBy,
    /// What counts as touched. The default is pages if the record knows them and no --address is
    /// given, else regions. JSON always has all that is known.
    #[arg(long, value_enum)]
    by: Option<CountBy>,
}

#[derive(Debug, clap::Args)]
struct DiffArgs {
    /// The record from before the change.
    before: PathBuf,
    /// The record from after it.
    after: PathBuf,
    #[command(flatten)]
    limits: Limits,
}

#[derive(Debug, clap::Args)]
struct MappingsArgs {
    #[command(flatten)]
    common: Common,
    /// Only the N hottest, merged across processes: one line per file, and per program for heaps,
    /// stacks and anonymous memory. Shared memory counts once.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

#[derive(Debug, clap::Args)]
struct PagesArgs {
    #[command(flatten)]
    common: Common,
    /// One line per 2 MiB, not per mapping. In JSON: also the units.
    #[arg(long)]
    units: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CountBy {
    /// Pages that were touched within a span, for spans from a sample interval to a minute.
    Pages,
    /// All of a region in which an access was seen within a window, as DAMON counts.
    Regions,
}

#[derive(Debug, clap::Args)]
struct MemoryArgs {
    #[command(flatten)]
    common: Common,
    /// What the lines are grouped by.
    #[arg(long, value_enum, default_value_t = GroupBy::Owner)]
    by: GroupBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum GroupBy {
    /// The NUMA node.
    Node,
    /// The memory cgroup that memory is charged to.
    Cgroup,
    /// The process that maps it. Memory that several processes map is split evenly among them.
    Owner,
    /// What it holds: anonymous, file, unmapped file, shared, slab, free and others.
    Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SortBy {
    /// By size: p50 is the median.
    Size,
    /// By time: p50 is the working set in the middle of the record.
    Time,
}

/// A share of samples above 0 %.
fn brightest(text: &str) -> Result<f32, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f32>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("give a share of the samples above 0% and up to 100%, such as 5%".into()),
    }
}

fn time(text: &str) -> Result<(u64, u64), String> {
    Filter::parse_time(text).map_err(|e| e.to_string())
}

fn address(text: &str) -> Result<AddrRange, String> {
    Filter::parse_address(text).map_err(|e| e.to_string())
}

impl Common {
    /// Opens the record. The reports warn of damage themselves, because they read all of it.
    pub(super) fn open(&self) -> anyhow::Result<(Record, Filter)> {
        let record = match self.since {
            Some(since) => self.history.open(since)?,
            None => files::open(&self.record)?,
        };
        Ok((record, self.limits.filter()))
    }

    /// Opens the record, or what the agent has recorded of every context that is meant, by name.
    fn open_all(&self) -> anyhow::Result<Vec<(String, Record)>> {
        match self.since {
            Some(since) => self.history.open_all(since),
            None => Ok(vec![(String::new(), files::open(&self.record)?)]),
        }
    }

    /// Prints a report of each context that is meant.
    fn each(
        &self,
        out: &mut impl Write,
        report: impl FnMut(&Record, &Filter) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        self.each_of(&self.open_all()?, out, report)
    }

    /// Prints a report of each of these, below its name if there are several. In JSON each has its
    /// name and a line then.
    fn each_of(
        &self,
        records: &[(String, Record)],
        out: &mut impl Write,
        mut report: impl FnMut(&Record, &Filter) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let several = records.len() > 1;
        for (nr, (name, record)) in records.iter().enumerate() {
            let text = report(record, &self.limits.filter())?;
            if several && self.limits.json {
                let report: serde_json::Value = serde_json::from_str(&text)?;
                writeln!(out, "{}", serde_json::json!({ "context": name, "report": report }))?;
                continue;
            }
            if several {
                writeln!(out, "{}{name}\n", if nr > 0 { "\n" } else { "" })?;
            }
            writeln!(out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

impl Limits {
    pub(super) fn filter(&self) -> Filter {
        Filter { time: self.time, address: self.address, targets: self.targets.clone() }
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = args.pager.open();
    let shown = match args.kind {
        Some(kind) => show(kind, &mut out),
        None => one_page(&args.page, &mut out),
    };
    // What was shown before an error is shown, too.
    let finished = out.finish();
    shown?;
    finished?;
    Ok(ExitCode::SUCCESS)
}

fn one_page(page: &Common, out: &mut impl Write) -> anyhow::Result<()> {
    let records = page.open_all().map_err(|err| match page.since {
        Some(_) => err,
        None => no_such_report(&page.record, err),
    })?;
    page.each_of(&records, out, |record, filter| {
        let report = summary::Report::build(record, filter)?;
        Ok(if page.limits.json { report.to_json() } else { report.to_text() })
    })
}

/// Adds a hint to the error that a record is not there, if its name looks like that of a report.
fn no_such_report(record: &Path, err: anyhow::Error) -> anyhow::Error {
    let begin: String = record.to_string_lossy().chars().take(3).collect();
    let reports = <Kind as Subcommand>::augment_subcommands(clap::Command::new("report"));
    let mut reports = reports.get_subcommands().map(clap::Command::get_name);
    let like = |report: &&str| begin.len() > 2 && report.starts_with(&begin);
    match reports.find(like).filter(|_| !record.exists()) {
        Some(report) => usage(format!("{err}\n  hint:  did you mean `isotherm report {report}`?")),
        None => err,
    }
}

fn show(kind: Kind, out: &mut impl Write) -> anyhow::Result<()> {
    match kind {
        Kind::Diff(args) => {
            let [before, after] = [files::open(&args.before)?, files::open(&args.after)?];
            let report = diff::Report::build(&before, &after, &args.limits.filter())?;
            let text = if args.limits.json { report.to_json() } else { report.to_text() };
            writeln!(out, "{}", text.trim_end())?;
        }
        Kind::Cgroups(args) => super::cgroups::run(&args, out)?,
        Kind::Html(args) => super::html::run(&args, out)?,
        Kind::Heatmap(args) => heat(&args, out)?,
        Kind::Wss(args) => args.common.each(out, |record, filter| {
            let report = wss::Report::build(record, filter)?;
            working_set(&args, &report)
        })?,
        Kind::Regions(common) if common.limits.json => {
            let (record, filter) = common.open()?;
            regions::json(&record, &filter, &mut *out)?;
            // The lines have no place for a note about damage, so it goes to standard error.
            let mut reader = record.reader()?;
            while reader.next_event()?.is_some() {}
            files::warn_of_damage(&common.record, &reader.damage());
        }
        Kind::Regions(common) => all_regions(&common, out)?,
        Kind::Mappings(args) => args.common.each(out, |record, filter| {
            let report = mappings::Report::build(record, filter)?;
            Ok(match (args.common.limits.json, args.top) {
                (true, None) => report.to_json(),
                (true, Some(most)) => report.top_json(most),
                (false, None) => report.to_text(),
                (false, Some(most)) => report.top_text(most),
            })
        })?,
        Kind::Pages(args) => args.common.each(out, |record, filter| {
            let report = pages::Report::build(record, filter)?;
            Ok(match (args.common.limits.json, args.units) {
                (true, units) => report.to_json(units),
                (false, true) => report.units_text(),
                (false, false) => report.to_text(),
            })
        })?,
        Kind::Memory(args) => args.common.each(out, |record, filter| {
            let by = match args.by {
                GroupBy::Node => memory::By::Node,
                GroupBy::Cgroup => memory::By::Cgroup,
                GroupBy::Owner => memory::By::Owner,
                GroupBy::Kind => memory::By::Kind,
            };
            let report = memory::Report::build(record, filter, by)?;
            Ok(if args.common.limits.json { report.to_json() } else { report.to_text() })
        })?,
        Kind::Ages(common) => common.each(out, |record, filter| {
            let report = ages::Report::build(record, filter)?;
            Ok(if common.limits.json { report.to_json() } else { report.to_text() })
        })?,
    }
    Ok(())
}

/// The windows of each context, one after the other: they are too many to be kept as a text.
fn all_regions(common: &Common, out: &mut impl Write) -> anyhow::Result<()> {
    let records = common.open_all()?;
    for (nr, (name, record)) in records.iter().enumerate() {
        if records.len() > 1 {
            writeln!(out, "{}{name}\n", if nr > 0 { "\n" } else { "" })?;
        }
        regions::text(record, &common.limits.filter(), &mut *out)?;
    }
    Ok(())
}

fn working_set(args: &WssArgs, report: &wss::Report) -> anyhow::Result<String> {
    let order = match args.sort {
        SortBy::Size => wss::Order::Size,
        SortBy::Time => wss::Order::Time,
    };
    if args.common.limits.json {
        return Ok(report.to_json(order));
    }
    let profile = report.profile_text(order);
    match args.by {
        None => Ok(profile.unwrap_or_else(|| report.to_text(order))),
        Some(CountBy::Regions) => Ok(report.to_text(order)),
        Some(CountBy::Pages) => profile.ok_or_else(|| {
            usage(
                "the working set by pages is not known\n  why:   the record has none (only the method \
                 census measures it), or --address names a part of a target\n  hint:  --by regions",
            )
        }),
    }
}

fn heat(args: &HeatmapArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let (record, filter) = args.common.open()?;
    let ends = |path: &Path, ending: &str| path.extension().is_some_and(|end| end == ending);
    let named = |ending| args.output.iter().filter(move |path| ends(path, ending));
    let svgs: Vec<_> = args.svg.iter().chain(named("svg")).collect();
    let pngs: Vec<_> = args.png.iter().chain(named("png")).collect();
    let picture = !svgs.is_empty() || !pngs.is_empty();
    let mut options =
        if picture { heatmap::Options::for_picture() } else { heatmap::Options::for_text(width()) };
    options.all_targets = args.all_targets;
    let mut map = heatmap::Heatmap::build(&record, &filter, &options)?;
    map.scale = match (args.scale, args.max) {
        (Shades::Auto, None) => map.scale,
        (shades, max) => {
            heatmap::Scale { max: max.unwrap_or(map.scale.max), doubling: shades == Shades::Log }
        }
    };
    if !map.damage.is_empty() {
        warn(&map.damage);
    }
    for path in svgs {
        write_file(path, map.to_svg().as_bytes())?;
    }
    for path in pngs {
        write_file(path, &map.to_png()?)?;
    }
    if args.common.limits.json {
        writeln!(out, "{}", map.to_json())?;
    } else if !picture {
        writeln!(out, "{}", map.to_text(&args.color.style()).trim_end())?;
    }
    Ok(())
}

/// The name of a picture.
fn picture(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension().and_then(|end| end.to_str()) {
        Some("svg" | "png") => Ok(path),
        _ => Err("the name of a picture ends in .svg or .png".to_owned()),
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).map_err(|e| files::cannot_create(path, &e))
}
