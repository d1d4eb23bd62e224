//! Converts a record: `cargo run --example export -- isotherm.data out.parquet` (or `.csv`,
//! `.jsonl`).

use std::fs::File;

use isotherm_record::{Record, export};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (from, to) = (args.next().ok_or("which record?")?, args.next().ok_or("which output?")?);
    let mut reader = Record::open(from)?.reader()?;
    let out = File::create(&to)?;
    match to.rsplit('.').next() {
        Some("csv") => export::csv(&mut reader, out)?,
        Some("jsonl") => export::jsonl(&mut reader, out)?,
        #[cfg(feature = "parquet")]
        Some("parquet") => export::parquet(&mut reader, out)?,
        _ => return Err("the output's name ends in none of .csv, .jsonl, .parquet".into()),
    }
    Ok(())
}
