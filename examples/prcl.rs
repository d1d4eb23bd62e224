//! Pages out what a process has not touched for 3 s: `cargo run --release --example prcl -- PID`.
//! It is the working-set example (`wss`) plus one statement. It needs swap. With `-- PID dry` it
//! only counts, and needs no swap.
use std::time::Duration;

use isotherm::{Monitor, Scheme};

#[expect(clippy::print_stdout, reason = "printing is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let pid = args.next().ok_or("usage: prcl PID [dry]")?.parse()?;
    let prcl = Scheme::pageout().idle_for(Duration::from_secs(3));
    let prcl = if args.next().is_some_and(|word| word == "dry") { prcl.dry_run() } else { prcl };
    let mut monitor = Monitor::builder().pid(pid).build()?;
    monitor.add_scheme(prcl)?;
    while let Some(snapshot) = monitor.next_snapshot()? {
        println!("{}", snapshot.working_set());
        println!("{}", monitor.schemes()[0]);
    }
    Ok(())
}
