//! Tells once per second how much of a cgroup's memory is in use, process by process, and follows
//! those that come and go: `cargo run --release --example cgroup -- /system.slice [SECONDS]`.
use std::time::{Duration, Instant};

use isotherm::{Event, Monitor};

#[expect(clippy::print_stdout, reason = "printing is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: cgroup PATH [SECONDS]")?;
    let length = args.next().map(|text| text.parse().map(Duration::from_secs)).transpose()?;

    // A window of one second is enough for this example, and costs less.
    let second = Duration::from_secs(1);
    let builder = Monitor::builder().cgroup(path).sample(second / 20).aggregation(second);
    let mut monitor = builder.build()?;
    if let Some(length) = length {
        let (stopper, end) = (monitor.stopper(), Instant::now() + length);
        std::thread::spawn(move || {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            stopper.stop();
        });
    }
    while let Some(snapshot) = monitor.next_snapshot()? {
        println!("{} in all", snapshot.working_set());
        for target in snapshot.targets() {
            if let Some(who) = target.identity() {
                println!("  {who}: {} of {}", target.working_set(), target.size());
            }
        }
        for event in monitor.take_events() {
            if let Event::Added(_) | Event::Gone(_) | Event::NotWatched { .. } = event {
                println!("  {event}");
            }
        }
    }
    Ok(())
}
