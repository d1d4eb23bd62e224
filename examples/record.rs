//! Records a workload for some seconds and reports on it: `cargo run --release --example record --
//! [PID [SECONDS]]`. Without a pid it records a simulated workload, which needs no privilege and no
//! waiting.
use std::time::Duration;

use isotherm::Monitor;
use isotherm::record::{Record, Recorder};
use isotherm::report::heatmap::{Heatmap, Options, Style};
use isotherm::report::{Filter, wss};
use isotherm::sim::Workload;

#[expect(clippy::print_stdout, reason = "printing is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let builder = match args.next() {
        Some(pid) => Monitor::builder().pid(pid.parse()?),
        None => Monitor::builder().sim(Workload::shipped("stairs")?),
    };
    let length = Duration::from_secs(args.next().map_or(Ok(60), |text| text.parse())?);
    let path = std::env::temp_dir().join(format!("example-{}.isotherm", std::process::id()));

    let mut monitor = builder.build()?;
    let mut recorder = Recorder::create(&path, &monitor)?;
    let mut start = None;
    while let Some(snapshot) = monitor.next_snapshot()? {
        recorder.push(&snapshot)?;
        if snapshot.end() - *start.get_or_insert(snapshot.start()) >= length {
            break;
        }
    }
    recorder.finish("the example is over")?;

    let record = Record::open(&path)?;
    let everything = Filter::default();
    println!("{}", wss::Report::build(&record, &everything)?.to_text(wss::Order::Size));
    let heatmap = Heatmap::build(&record, &everything, &Options::for_text(80))?;
    println!("{}", heatmap.to_text(&Style::default()));
    std::fs::remove_file(&path)?;
    Ok(())
}
