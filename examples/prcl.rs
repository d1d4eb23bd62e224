//! Pages out what a process has not touched for 3 s: `cargo run --release --example prcl -- PID`.
//! The working-set example plus two statements. It needs swap.
use isotherm_act::apply::Settings;
use isotherm_agent::monitor::Monitor;
use isotherm_core::scheme::{Action, Pattern};
use isotherm_core::{Attrs, Scheme};

#[expect(clippy::print_stdout, reason = "printing is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid = std::env::args().nth(1).ok_or("usage: prcl PID")?.parse()?;
    let mut monitor = Monitor::of_pid(pid, Attrs::default())?;
    let pattern = Pattern::idle_for_us(3_000_000);
    let prcl = Scheme { pattern, action: Action::Pageout, ..Scheme::default() };
    monitor.commit_schemes(vec![(prcl, Settings::default())]);
    while let Some(snapshot) = monitor.next_snapshot()? {
        println!("wss: {}", snapshot.working_set());
    }
    Ok(())
}
