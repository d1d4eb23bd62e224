//! Ends a command that was started for a run.

use isotherm_ops::targets::{ChildExit, Tracker};
use isotherm_sys::clock;
use rustix::process::Signal;

use crate::monitor::Monitor;

/// How long a command may take to end after a SIGTERM, in µs.
const PATIENCE_US: u64 = 2_000_000;

/// Asks the command that a monitor started to end (SIGTERM), if it still runs. Returns how it
/// ended, or after 2 s that it runs on: it may have to save its data, so it is not killed.
pub fn end_command(monitor: &mut Monitor) -> Option<ChildExit> {
    end_child(monitor.tracker())
}

fn end_child(tracker: &mut Tracker) -> Option<ChildExit> {
    let deadline = clock::now().plus_us(PATIENCE_US);
    // The signal fails if the command has just ended by itself.
    tracker.signal_child(Signal::TERM).ok();
    while tracker.child_is_running() && clock::now() < deadline {
        tracker.poll(clock::now());
        clock::sleep_until(clock::now().plus_us(5_000));
    }
    tracker.child_exit().or(tracker.child_pid().map(|pid| ChildExit::RunsOn { pid }))
}
