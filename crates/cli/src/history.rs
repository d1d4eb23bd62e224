//! What an agent has recorded: finds its records of a context, and opens them as one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use isotherm::raw::core::Time;
use isotherm::raw::core::units::duration;
use isotherm::raw::host::proc::Proc;
use isotherm::raw::record::{Event, Record, join};
use isotherm::raw::sys::clock;

use crate::exit::{self, usage};
use crate::files;

/// Where an agent keeps its records.
pub(crate) const DIR: &str = "/var/lib/isotherm/history";

/// Options that say which part of an agent's history is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HistoryArgs {
    /// Which context of the agent, as POLICY or POLICY/CONTEXT.
    ///
    /// Needed only if the agent has recorded several, and for what shows one of them alone: `top`,
    /// `report heatmap`, `html` and `plan`, and `report regions --json`. Other reports show all.
    #[arg(long = "of", value_name = "POLICY", help_heading = "History", hide_short_help = true)]
    of: Option<String>,
    /// Where the agent keeps its history.
    #[arg(
        long = "history",
        value_name = "DIR",
        default_value = DIR,
        help_heading = "History",
        hide_short_help = true
    )]
    dir: PathBuf,
}

/// A time before now: `10m`, `1h`, `10 min ago`.
pub(crate) fn ago(text: &str) -> Result<Duration, String> {
    let text = text.trim().strip_suffix("ago").unwrap_or(text).trim().replace(' ', "");
    duration(&text).map_err(|e| e.to_string())
}

impl HistoryArgs {
    /// Of this policy, or of all, in this directory.
    pub(crate) const fn new(policy: Option<String>, dir: PathBuf) -> Self {
        Self { of: policy, dir }
    }

    /// The records that may hold something of the time since then, and from when on by their clock,
    /// of every context that is meant, by name. A context that has none is left out.
    ///
    /// # Errors
    ///
    /// If there is no context, or none has a record that can be read.
    pub(crate) fn records(
        &self,
        since: Duration,
    ) -> anyhow::Result<Vec<(String, Vec<Record>, Time)>> {
        let (mut all, mut failed) = (Vec::new(), None);
        for (name, dir) in self.contexts()? {
            match found(&dir, since) {
                Ok((records, from)) => all.push((name, records, from)),
                Err(err) => failed = Some(err),
            }
        }
        match failed {
            Some(err) if all.is_empty() => Err(err),
            _ => Ok(all),
        }
    }

    /// Opens what was recorded since then, as one record.
    ///
    /// # Errors
    ///
    /// If there is none, or several contexts are meant.
    pub(crate) fn open(&self, since: Duration) -> anyhow::Result<Record> {
        let mut contexts = self.contexts()?;
        if contexts.len() > 1 {
            return Err(unclear(&contexts.len().to_string(), &contexts));
        }
        match contexts.pop() {
            Some((_, dir)) => opened(&dir, since),
            None => Err(self.nothing()),
        }
    }

    /// Opens what was recorded since then of every context that is meant, by name. A context that
    /// has recorded nothing since then is left out, if another has.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(crate) fn open_all(&self, since: Duration) -> anyhow::Result<Vec<(String, Record)>> {
        let (mut records, mut failed) = (Vec::new(), None);
        for (name, dir) in self.contexts()? {
            match opened(&dir, since) {
                Ok(record) => records.push((name, record)),
                Err(err) => failed = Some(err),
            }
        }
        match failed {
            Some(err) if records.is_empty() => Err(err),
            _ => Ok(records),
        }
    }

    /// The directories of the contexts that are meant, by name; at least one.
    fn contexts(&self) -> anyhow::Result<Vec<(String, PathBuf)>> {
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut contexts = Vec::new();
        for policy in below(&self.dir)? {
            for context in below(&policy)? {
                contexts.push((format!("{}/{}", name(&policy), name(&context)), context));
            }
        }
        contexts.sort();
        if contexts.is_empty() {
            return Err(self.nothing());
        }
        let known = contexts.clone();
        if let Some(of) = &self.of {
            contexts.retain(|(name, _)| name == of || name.split('/').next() == Some(of));
        }
        if contexts.is_empty() { Err(unclear("none", &known)) } else { Ok(contexts) }
    }

    fn nothing(&self) -> anyhow::Error {
        let dir = self.dir.display();
        usage(format!(
            "no agent has recorded anything\n  tried: read {dir}\n  hint:  `isotherm agent` records \
             what its policies see; --history DIR if it keeps its state elsewhere"
        ))
    }
}

/// The error for a command that needs one context.
fn unclear(nr: &str, known: &[(String, PathBuf)]) -> anyhow::Error {
    let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    usage(format!(
        "it is not clear whose history is meant\n  why:   {nr} match\n  hint:  --of with one of {}",
        known.join(", ")
    ))
}

/// What was recorded in this directory since then, as one record.
fn opened(dir: &Path, since: Duration) -> anyhow::Result<Record> {
    let (records, from) = found(dir, since)?;
    if !records.is_empty() {
        let joined = join(&records, from)?;
        if has_snapshot(&joined)? {
            return Ok(joined);
        }
    }
    Err(usage(format!(
        "the agent has recorded nothing since then\n  tried: read {}\n  hint:  a longer time",
        dir.display()
    )))
}

/// The records in this directory that may hold something of the time since then, and from when on
/// by their clock.
fn found(dir: &Path, since: Duration) -> anyhow::Result<(Vec<Record>, Time)> {
    let mut paths = below(dir)?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "data"));
    // The names are in the order of time.
    paths.sort();
    let now = Now {
        wall: SystemTime::now(),
        monotonic: clock::now(),
        boot_id: Proc::default().boot_id().unwrap_or_default(),
    };
    let (mut records, mut damaged) = (Vec::new(), None);
    for path in &paths {
        // One that has no beginning, as after a power failure, does not hide the others.
        match files::open(path) {
            Ok(record) => records.push(record),
            Err(err) => damaged = Some(err),
        }
    }
    if let (Some(err), true) = (damaged, records.is_empty()) {
        return Err(err);
    }
    Ok(since_then(records, since, &now))
}

fn has_snapshot(record: &Record) -> anyhow::Result<bool> {
    let mut reader = record.reader()?;
    while let Some(event) = reader.next_event()? {
        if matches!(event, Event::Snapshot(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What time it is.
struct Now {
    wall: SystemTime,
    monotonic: Time,
    /// The boot that the monotonic clock belongs to.
    boot_id: String,
}

/// Those of the records, which are in the order of time, that may hold something of the time since
/// then; and from when on, by their clock. Only what is of the last boot has a common clock. If
/// that is the present boot, nothing depends on the wall clock, which may have been set meanwhile.
fn since_then(mut records: Vec<Record>, since: Duration, now: &Now) -> (Vec<Record>, Time) {
    let boot = records.last().map(|record| record.header().boot_id.clone());
    records.retain(|record| Some(&record.header().boot_id) == boot.as_ref());
    let Some(last) = records.last() else { return (records, Time::default()) };
    let ns = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
    let header = last.header();
    let from = if header.boot_id == now.boot_id {
        now.monotonic.as_ns().saturating_sub(ns(since.as_nanos()))
    } else {
        let oldest = now.wall.checked_sub(since).unwrap_or(UNIX_EPOCH);
        let wall = oldest.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let before_start = u128::from(header.started_unix_ns).saturating_sub(wall);
        let after_start = wall.saturating_sub(u128::from(header.started_unix_ns));
        header.started_ns.saturating_sub(ns(before_start)).saturating_add(ns(after_start))
    };
    // A record ends at the latest when the next one begins.
    let began = records.partition_point(|record| record.header().started_ns <= from);
    (records.split_off(began.saturating_sub(1)), Time(from))
}

/// What is in this directory; nothing if there is none. Fails if it may not be read.
fn below(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    match std::fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(err) => Err(exit::with(
            exit::of_io(&err),
            format!(
                "the agent's history cannot be read\n  tried: read {}: {err}\n  why:   members of the \
                 agent's group may read it, and root\n  hint:  join the group (`sudo usermod -aG \
                 isotherm NAME`, then log in again), or run as root",
                dir.display()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use isotherm::raw::record::{Header, Writer};

    use super::*;

    const S: u64 = 1_000_000_000;

    /// A record that began at this time of both clocks, in seconds, in this boot.
    fn record(boot: &str, started: u64, wall: u64) -> Record {
        let header = Header {
            boot_id: boot.to_owned(),
            started_ns: started * S,
            started_unix_ns: wall * S,
            ..Header::default()
        };
        let writer = Writer::new(Vec::new(), &header).unwrap();
        Record::from_bytes(writer.finish(Time(started * S), "test").unwrap().0).unwrap()
    }

    #[test]
    fn the_wall_clock_may_be_set_while_the_agent_records() {
        let now = |wall, boot: &str| Now {
            wall: UNIX_EPOCH + Duration::from_secs(wall),
            monotonic: Time(10_000 * S),
            boot_id: boot.to_owned(),
        };
        let started = |records: &[Record]| -> Vec<u64> {
            records.iter().map(|record| record.header().started_ns / S).collect()
        };
        // Set to 1970 and ahead by years in between.
        let records = || {
            vec![
                record("other", 50, 1_800_000_000),
                record("this", 1000, 1_800_000_000),
                record("this", 5000, 7),
                record("this", 9000, 2_500_000_000),
            ]
        };
        let hour = Duration::from_secs(3600);
        for wall in [0, 1_800_009_000, 2_600_000_000] {
            let (found, from) = since_then(records(), hour, &now(wall, "this"));
            assert_eq!((started(&found), from), (vec![5000, 9000], Time(6400 * S)), "{wall}");
            let (found, from) = since_then(records(), hour * 24, &now(wall, "this"));
            assert_eq!((started(&found), from), (vec![1000, 5000, 9000], Time(0)), "{wall}");
        }
        // After a reboot there is only the wall clock.
        let before = vec![record("other", 50, 1000), record("other", 500, 1450)];
        let (found, from) = since_then(before, hour, &now(5000, "this"));
        assert_eq!((started(&found), from), (vec![50, 500], Time(450 * S)));
        assert_eq!(since_then(Vec::new(), hour, &now(5000, "this")).0.len(), 0);
    }

    #[test]
    fn times_before_now_are_read_as_people_write_them() {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        for (text, time) in [
            ("10m", minutes(10)),
            ("10 min ago", minutes(10)),
            ("1h", minutes(60)),
            ("2h ago", minutes(120)),
        ] {
            assert_eq!(ago(text), Ok(time), "{text}");
        }
        assert!(ago("soon").is_err());
    }
}
