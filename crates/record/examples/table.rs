//! Reads the regions of a record into Arrow's record batches, as Python does, and prints time and
//! memory: `cargo run --release -p isotherm-record --example table --features arrow -- FILE [N]`.

use std::time::Instant;

use isotherm_record::Record;
use isotherm_record::export::{Table, arrow::Stream};

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let record = Record::open(args.next().ok_or("which record?")?)?;
    for _ in 0..args.next().map_or(Ok(1), |n| n.parse())? {
        let began = Instant::now();
        let batches: Vec<_> =
            Stream::new(Table::Regions, record.reader()?)?.collect::<Result<_, _>>()?;
        let rows: usize = batches.iter().map(arrow_array::RecordBatch::num_rows).sum();
        println!("{rows} rows, {} batches, {:?}", batches.len(), began.elapsed());
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}
