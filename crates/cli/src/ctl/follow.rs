//! `isotherm ctl follow`: prints what happens, one JSON object per line.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::core::units::duration;
use isotherm_control::client::Client;
use isotherm_control::types::{self, Followed};

use super::told;
use crate::terminal::warn;

/// Arguments of `isotherm ctl follow`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only of this policy.
    policy: Option<String>,
    /// Print snapshots.
    #[arg(long)]
    snapshots: bool,
    /// Print events.
    #[arg(long)]
    events: bool,
    /// Print accounts.
    #[arg(long)]
    accounts: bool,
    /// The time between two snapshots of a context, or two accounts of a policy.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    every: Duration,
    /// Stop after this time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Stop after this many lines.
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
}

pub(super) fn run(agent: &mut Client, args: Args) -> anyhow::Result<ExitCode> {
    let some = |wanted: bool| wanted.then_some(true);
    let every_ms = u64::try_from(args.every.as_millis()).ok();
    let arguments = types::Follow {
        snapshots: some(args.snapshots),
        events: some(args.events),
        accounts: some(args.accounts),
        policy: args.policy,
        every_ms,
    };
    agent.call_more("Follow", &arguments).map_err(told)?;
    let started = Instant::now();
    let mut printed = 0;
    let mut lost = 0;
    let mut out = std::io::stdout().lock();
    while args.count.is_none_or(|most| printed < most) {
        let left = args.duration.map(|all| all.saturating_sub(started.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        agent.set_patience(left)?;
        let followed: Followed = match agent.receive() {
            Ok(followed) => followed,
            // Nothing came within the time that was left.
            Err(_) if args.duration.is_some_and(|all| started.elapsed() >= all) => break,
            Err(err) => return Err(told(err)),
        };
        lost += followed.lost.unwrap_or(0);
        writeln!(out, "{}", serde_json::to_string(&lean(&followed)?)?)?;
        out.flush()?;
        printed += 1;
    }
    if lost > 0 {
        warn(&format!("{lost} messages were lost, because they were not read in time"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The message without the fields that are not set.
fn lean(followed: &Followed) -> serde_json::Result<serde_json::Value> {
    let mut value = serde_json::to_value(followed)?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    Ok(value)
}
