//! `isotherm export`: converts a record for other tools.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use isotherm::raw::record::export;

use crate::files;
use crate::terminal::warn;

/// Arguments of `isotherm export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The record.
    #[arg(default_value = "isotherm.data")]
    record: PathBuf,
    /// Format to write.
    #[arg(long, value_enum, default_value_t = Format::Parquet)]
    format: Format,
    /// What the rows are.
    #[arg(long, value_enum, default_value_t = Table::Regions)]
    table: Table,
    /// File to write. `-` means standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Parquet, for Arrow, DuckDB, Polars, pandas and Spark.
    Parquet,
    /// One JSON object per row.
    Jsonl,
    /// Comma-separated, with a header.
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Table {
    /// One row per region and snapshot.
    Regions,
    /// One row per 2 MiB and change: which pages were touched within a sample, a window, 1 s, 10 s
    /// and 1 min. Only records of the method census have them.
    Pages,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let record = files::open(&args.record)?;
    let mut reader = record.reader()?;
    let out: Box<dyn Write + Send> = if args.output.as_os_str() == "-" {
        Box::new(BufWriter::new(std::io::stdout()))
    } else {
        let file =
            File::create(&args.output).map_err(|e| files::cannot_create(&args.output, &e))?;
        Box::new(BufWriter::new(file))
    };
    match (args.table, args.format) {
        (Table::Regions, Format::Parquet) => export::parquet(&mut reader, out)?,
        (Table::Regions, Format::Jsonl) => export::jsonl(&mut reader, out)?,
        (Table::Regions, Format::Csv) => export::csv(&mut reader, out)?,
        (Table::Pages, format) => {
            let rows = match format {
                Format::Parquet => export::pages::parquet(&mut reader, out)?,
                Format::Jsonl => export::pages::jsonl(&mut reader, out)?,
                Format::Csv => export::pages::csv(&mut reader, out)?,
            };
            if rows == 0 {
                warn(
                    "the record has no page maps, so the table has no rows; \
                     `isotherm record --method census` makes them",
                );
            }
        }
    }
    files::warn_of_damage(&args.record, &reader.damage());
    Ok(ExitCode::SUCCESS)
}
