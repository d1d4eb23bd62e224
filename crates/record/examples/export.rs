//! Converts a record: `cargo run --example export -- isotherm.data out.parquet` (or `.arrow`,
//! `.csv`, `.jsonl`).

use std::fs::File;

use isotherm_record::Record;
use isotherm_record::export::{self, Table};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (from, to) = (args.next().ok_or("which record?")?, args.next().ok_or("which output?")?);
    let mut reader = Record::open(from)?.reader()?;
    let out = File::create(&to)?;
    match to.rsplit('.').next() {
        Some("csv") => export::csv(Table::Regions, &mut reader, out)?,
        Some("jsonl") => export::jsonl(Table::Regions, &mut reader, out)?,
        #[cfg(feature = "parquet")]
        Some("parquet") => export::parquet(Table::Regions, &mut reader, out)?,
        #[cfg(feature = "arrow")]
        Some("arrow") => {
            export::arrow::arrow(Table::Regions, &mut reader, out, export::arrow::Layout::File)?
        }
        _ => return Err("the output's name ends in none of .csv, .jsonl, .parquet, .arrow".into()),
    };
    Ok(())
}
