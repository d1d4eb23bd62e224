//! Prints the working set of a process every 100 ms: `cargo run --release --example wss -- PID`.
use isotherm::Monitor;

#[expect(clippy::print_stdout, reason = "printing is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid = std::env::args().nth(1).ok_or("usage: wss PID")?.parse()?;
    let mut monitor = Monitor::builder().pid(pid).build()?;
    while let Some(snapshot) = monitor.next_snapshot()? {
        println!("{}", snapshot.working_set());
    }
    Ok(())
}
