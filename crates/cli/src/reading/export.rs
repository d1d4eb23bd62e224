//! `isotherm export`: converts a record for other tools.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use isotherm::raw::record::export;

use crate::files;

/// Arguments of `isotherm export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The record.
    #[arg(default_value = "isotherm.data")]
    record: PathBuf,
    /// Format to write. Each has one row per region and snapshot.
    #[arg(long, value_enum, default_value_t = Format::Parquet)]
    format: Format,
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
    match args.format {
        Format::Parquet => export::parquet(&mut reader, out)?,
        Format::Jsonl => export::jsonl(&mut reader, out)?,
        Format::Csv => export::csv(&mut reader, out)?,
    }
    files::warn_of_damage(&args.record, &reader.damage());
    Ok(ExitCode::SUCCESS)
}
