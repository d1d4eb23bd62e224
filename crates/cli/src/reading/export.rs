//! `isotherm export`: converts a record for other tools.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm::raw::record::export;

use crate::exit::usage;
use crate::files;
use crate::terminal::warn;

/// Arguments of `isotherm export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The record.
    #[arg(default_value = "isotherm.data")]
    record: PathBuf,
    /// Format to write. By default it follows from the end of the file's name (.parquet, .jsonl,
    /// .ndjson, .csv), and is Parquet if that says nothing.
    #[arg(long, value_enum)]
    format: Option<Format>,
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

/// The format to write to `output`; `is_terminal` tells what standard output is.
fn format(given: Option<Format>, output: &Path, is_terminal: bool) -> anyhow::Result<Format> {
    let end = output.extension().map(|end| end.to_string_lossy().to_lowercase());
    let format = match (given, end.as_deref()) {
        (Some(format), _) => format,
        (None, Some("csv")) => Format::Csv,
        (None, Some("jsonl" | "ndjson" | "json")) => Format::Jsonl,
        (None, None | Some("parquet" | "pq")) => Format::Parquet,
        (None, Some(end)) => {
            return Err(usage(format!(
                "no format is known by `.{end}`\n  hint:  name the file .parquet, .jsonl or .csv, or \
                 give --format"
            )));
        }
    };
    if format == Format::Parquet && is_terminal && output.as_os_str() == "-" {
        return Err(usage(
            "Parquet is binary, and standard output is a terminal\n  hint:  -o FILE.parquet, or text: \
             --format csv or --format jsonl",
        ));
    }
    Ok(format)
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let is_terminal = std::io::stdout().is_terminal();
    let format = format(args.format, &args.output, is_terminal)?;
    let record = files::open(&args.record)?;
    let mut reader = record.reader()?;
    let out: Box<dyn Write + Send> = if args.output.as_os_str() == "-" {
        Box::new(BufWriter::new(std::io::stdout()))
    } else {
        let file =
            File::create(&args.output).map_err(|e| files::cannot_create(&args.output, &e))?;
        Box::new(BufWriter::new(file))
    };
    match (args.table, format) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_from_the_name_and_nothing_binary_goes_to_a_terminal() {
        use Format::{Csv, Jsonl, Parquet};
        for (given, output, is_terminal, want) in [
            (None, "r.csv", false, Some(Csv)),
            (None, "a.b/r.JSONL", true, Some(Jsonl)),
            (None, "r.ndjson", false, Some(Jsonl)),
            (None, "r.parquet", true, Some(Parquet)),
            (None, "r", true, Some(Parquet)),
            (Some(Parquet), "r.csv", false, Some(Parquet)),
            (None, "r.txt", false, None),
            (None, "-", false, Some(Parquet)),
            (None, "-", true, None),
            (Some(Parquet), "-", true, None),
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
