//! `isotherm export`: converts a record for other tools. `isotherm import` is the other way round.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm::raw::record::export::arrow::{Layout, arrow};
use isotherm::raw::record::export::damo;
use isotherm::raw::record::{Damage, Place, Record, export};

use crate::exit::usage;
use crate::files;
use crate::terminal::warn;

/// Arguments of `isotherm export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The record: ours, or one of damo.
    #[arg(default_value = "isotherm.data")]
    record: PathBuf,
    /// Format to write.
    ///
    /// By default it follows from the end of the file's name (.parquet, .arrow, .feather, .arrows,
    /// .jsonl, .ndjson, .csv, .damo), and is Parquet if that says nothing.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// What the rows are. damo's formats have regions only.
    #[arg(long, value_enum, default_value_t = Table::Regions)]
    table: Table,
    /// File to write. `-` means standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Parquet, for DuckDB, Polars, pandas and Spark.
    Parquet,
    /// Arrow's file format, also known as Feather.
    Arrow,
    /// Arrow's stream format, for pipes.
    ArrowStream,
    /// One JSON object per row.
    Jsonl,
    /// Comma-separated, with a header.
    Csv,
    /// What `damo record` writes (`json_compressed`), for `damo report`.
    Damo,
    /// What `perf script` prints of DAMON's events, for `damo report`.
    PerfScript,
}

impl Format {
    /// The format that the end of a file's name stands for.
    fn of_end(end: &str) -> Option<Self> {
        Some(match end {
            "parquet" | "pq" => Self::Parquet,
            "arrow" | "feather" | "ipc" => Self::Arrow,
            "arrows" => Self::ArrowStream,
            "jsonl" | "ndjson" | "json" => Self::Jsonl,
            "csv" => Self::Csv,
            "damo" => Self::Damo,
            "perf-script" => Self::PerfScript,
            _ => return None,
        })
    }

    /// How it is called in messages, if nobody can read it on a terminal.
    const fn binary(self) -> Option<&'static str> {
        match self {
            Self::Parquet => Some("Parquet"),
            Self::Arrow | Self::ArrowStream => Some("Arrow"),
            Self::Damo => Some("damo's format"),
            Self::Jsonl | Self::Csv | Self::PerfScript => None,
        }
    }

    const fn is_of_damo(self) -> bool {
        matches!(self, Self::Damo | Self::PerfScript)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Table {
    /// One row per target and window: working sets with their intervals, and what the window cost.
    Snapshots,
    /// One row per region and window.
    Regions,
    /// One row per 2 MiB and change: which pages were touched within a sample, a window, 1 s, 10 s
    /// and 1 min. Only records of the method census have them.
    Pages,
    /// One row per mapping, whenever they were read.
    Mappings,
    /// One row per target that came, executed or exited, and per message.
    Events,
}

impl From<Table> for export::Table {
    fn from(table: Table) -> Self {
        match table {
            Table::Snapshots => Self::Snapshots,
            Table::Regions => Self::Regions,
            Table::Pages => Self::Pages,
            Table::Mappings => Self::Mappings,
            Table::Events => Self::Events,
        }
    }
}

/// The format to write to `output`; `is_terminal` tells what standard output is.
fn format(given: Option<Format>, output: &Path, is_terminal: bool) -> anyhow::Result<Format> {
    let end = output.extension().map(|end| end.to_string_lossy().to_lowercase());
    // What damo calls its records by default.
    let is_damos = output.file_name().is_some_and(|name| name == "damon.data");
    let format = match (given, end.as_deref()) {
        (Some(format), _) => format,
        (None, _) if is_damos => Format::Damo,
        (None, None) => Format::Parquet,
        (None, Some(end)) => Format::of_end(end).ok_or_else(|| {
            usage(format!(
                "no format is known by `.{end}`\n  hint:  name the file .parquet, .arrow, .jsonl, \
                 .csv or .damo, or give --format"
            ))
        })?,
    };
    if let Some(name) = format.binary()
        && is_terminal
        && output.as_os_str() == "-"
    {
        return Err(usage(format!(
            "{name} is binary, and standard output is a terminal\n  hint:  -o FILE, or text: \
             --format csv or --format jsonl"
        )));
    }
    Ok(format)
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let is_terminal = std::io::stdout().is_terminal();
    let format = format(args.format, &args.output, is_terminal)?;
    if format.is_of_damo() && args.table != Table::Regions {
        return Err(usage(
            "damo's formats hold regions only\n  hint:  leave --table out, or take another format",
        ));
    }
    let record = files::open(&args.record)?;
    let out = create(&args.output)?;
    let damage = if format.is_of_damo() {
        to_damo(&record, format, out)?
    } else {
        let (rows, damage) = table(&record, args.table.into(), format, out)?;
        if rows == 0 && args.table == Table::Pages {
            warn(
                "the record has no page maps, so the table has no rows; \
                 `isotherm record --method census` makes them",
            );
        }
        damage
    };
    files::warn_of_damage(&args.record, &damage);
    Ok(ExitCode::SUCCESS)
}

fn create(output: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    if output.as_os_str() == "-" {
        return Ok(Box::new(BufWriter::new(std::io::stdout())));
    }
    let file = File::create(output).map_err(|e| files::cannot_create(output, &e))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// Writes a table; returns the number of rows, and what could not be read.
fn table(
    record: &Record,
    table: export::Table,
    format: Format,
    out: Box<dyn Write + Send>,
) -> anyhow::Result<(u64, Damage)> {
    let mut reader = record.reader()?;
    let from = &mut reader;
    let rows = match format {
        Format::Parquet => export::parquet(table, from, out)?,
        Format::Arrow => arrow(table, from, out, Layout::File)?,
        Format::ArrowStream => arrow(table, from, out, Layout::Stream)?,
        Format::Jsonl => export::jsonl(table, from, out)?,
        Format::Csv | Format::Damo | Format::PerfScript => export::csv(table, from, out)?,
    };
    Ok((rows, reader.damage()))
}

/// Writes a record for damo, and tells what its format cannot hold.
fn to_damo(record: &Record, format: Format, out: Box<dyn Write + Send>) -> anyhow::Result<Damage> {
    let exported = match format {
        Format::Damo => damo::json_compressed(record, out)?,
        _ => damo::perf_script(record, out)?,
    };
    if exported.unresolved > 0 {
        warn(&format!(
            "{} of {} regions are left out: nobody could look at them, and damo would show them \
             as cold",
            exported.unresolved,
            exported.unresolved + exported.regions
        ));
    }
    Ok(exported.damage)
}

/// Arguments of `isotherm import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// What damo, `perf script` or `trace-cmd report` wrote. `-` means standard input.
    record: PathBuf,
    /// The record to write. An existing record is kept as FILE.old.
    #[arg(short, long, value_name = "FILE", default_value = "isotherm.data")]
    output: PathBuf,
}

/// Runs `isotherm import`.
pub(crate) fn import(args: ImportArgs) -> anyhow::Result<ExitCode> {
    let record = files::open(&args.record)?;
    if !record.is_of_damo() {
        return Err(usage(format!(
            "{} is a record of isotherm already\n  hint:  `isotherm report` reads it as it is",
            args.record.display()
        )));
    }
    if args.output.as_os_str() == "-" {
        record.copy_to(std::io::stdout())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (place, file) = Place::create(&args.output).map_err(files::not_created(&args.output))?;
    record.copy_to(file)?;
    place.keep().map_err(files::not_kept)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_from_the_name_and_nothing_binary_goes_to_a_terminal() {
        use Format::{Arrow, ArrowStream, Csv, Damo, Jsonl, Parquet, PerfScript};
        for (given, output, is_terminal, want) in [
            (None, "r.csv", false, Some(Csv)),
            (None, "a.b/r.JSONL", true, Some(Jsonl)),
            (None, "r.ndjson", false, Some(Jsonl)),
            (None, "r.parquet", true, Some(Parquet)),
            (None, "r.feather", true, Some(Arrow)),
            (None, "r.arrows", true, Some(ArrowStream)),
            (None, "r", true, Some(Parquet)),
            (None, "a/damon.data", true, Some(Damo)),
            (None, "r.damo", true, Some(Damo)),
            (Some(Parquet), "r.csv", false, Some(Parquet)),
            (None, "r.txt", false, None),
            (None, "-", false, Some(Parquet)),
            (None, "-", true, None),
            (Some(Parquet), "-", true, None),
            (Some(Damo), "-", true, None),
            (Some(PerfScript), "-", true, Some(PerfScript)),
            (Some(Csv), "-", true, Some(Csv)),
        ] {
            let got = format(given, Path::new(output), is_terminal);
            let case = format!("{given:?} {output} {is_terminal}");
            match (got, want) {
                (Ok(got), want) => assert_eq!(Some(got), want, "{case}"),
                (Err(err), want) => {
                    assert!(want.is_none() && err.to_string().contains("hint:"), "{case}: {err}");
                }
            }
        }
    }
}
