//! Measures what it costs to write the snapshots of a record once more.
//!
//! ```text
//! cargo run --release -p isotherm-record --example rewrite -- FILE [ROUNDS]
//! ```
//!
//! Prints the time per snapshot and per region, the median and the best of all rounds, and a
//! checksum of what was written, so that two versions of the writer can be compared. The caches are
//! warm, which they are not between two windows of a real program.
#![expect(clippy::print_stdout, reason = "a measurement for people to read")]

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use isotherm_core::Snapshot;
use isotherm_record::{Event, Header, Record, Writer};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let path = args.get(1).ok_or("usage: rewrite FILE [ROUNDS]")?;
    let rounds = args.get(2).map_or(Ok(16), |rounds| rounds.parse())?;
    let mut reader = Record::open(path)?.reader()?;
    let mut snapshots = Vec::new();
    while let Some(event) = reader.next_event()? {
        if let Event::Snapshot(snapshot) = event {
            snapshots.push(snapshot.clone());
        }
    }
    let regions: usize = snapshots.iter().map(Snapshot::nr_regions).sum();
    let mut took = Vec::new();
    let mut checksum = DefaultHasher::new();
    for _ in 0..rounds {
        let mut writer = Writer::new(Vec::new(), &Header::default())?;
        let begin = Instant::now();
        for snapshot in &snapshots {
            writer.push_snapshot(snapshot)?;
        }
        writer.flush()?;
        took.push(begin.elapsed());
        let end = snapshots.last().map_or_else(Default::default, |s| s.end);
        checksum = DefaultHasher::new();
        writer.finish(end, "")?.0.hash(&mut checksum);
    }
    took.sort_unstable();
    let per = |took: std::time::Duration, nr: usize| took.as_secs_f64() * 1e9 / nr.max(1) as f64;
    for (name, took) in [("median", took[took.len() / 2]), ("best", took[0])] {
        let (s, r) = (per(took, snapshots.len()), per(took, regions));
        println!("{name}: {s:.0} ns per snapshot, {r:.1} ns per region");
    }
    println!("{} snapshots, checksum {:016x}", snapshots.len(), checksum.finish());
    Ok(())
}
