//! The kernel's engine, driven to its end: DAMON does the work, this looks on.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm_agent::run::Refused;
use isotherm_agent::tier::Pushed;

use super::Args;
use super::own::{Told, why_stop};
use crate::exit;
use crate::stopped::Stopped;

/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often the table of heat is read: it takes the kernel an apply interval.
const TABLE: Duration = Duration::from_secs(10);

/// Looks on until it is time to stop.
pub(super) fn run(args: &Args, mut pushed: Pushed, notes: &[String]) -> anyhow::Result<ExitCode> {
    let refused = |r: Refused| exit::with(r.code, r.text);
    let mut told = Told::new(args, "kernel");
    for note in notes {
        told.say(note);
    }
    told.say("engine `kernel`: DAMON over the physical memory of these nodes, one kdamond");
    let mut stopped = None;
    let (mut next, mut table) = (Instant::now() + LOOK, Instant::now() + TABLE);
    while stopped.is_none() {
        std::thread::sleep(Duration::from_millis(50));
        if Instant::now() >= next {
            next = Instant::now() + LOOK;
            let with_table = Instant::now() >= table;
            if with_table {
                table = Instant::now() + TABLE;
            }
            told.summary(pushed.summary(with_table).map_err(refused)?)?;
        }
        stopped = why_stop(args, told.started);
    }
    let summary = pushed.summary(true).map_err(refused)?;
    pushed.finish().map_err(refused)?;
    told.account(stopped.unwrap_or(Stopped::Signal), summary)?;
    Ok(ExitCode::SUCCESS)
}
