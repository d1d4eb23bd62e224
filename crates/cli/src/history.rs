//! What an agent has recorded: finds its records of a context, and opens them as one.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use isotherm::raw::core::Time;
use isotherm::raw::core::units::duration;
use isotherm::raw::record::{Record, join};

use crate::exit::{self, usage};
use crate::files;

/// Where an agent keeps its records.
const DIR: &str = "/var/lib/isotherm/history";

/// Options that say which part of an agent's history is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HistoryArgs {
    /// Which context of the agent, as POLICY or POLICY/CONTEXT.
    ///
    /// Needed only if the agent has recorded several.
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
    /// Opens what was recorded since then, as one record.
    pub(crate) fn open(&self, since: Duration) -> anyhow::Result<Record> {
        let context = self.context()?;
        let oldest = SystemTime::now().checked_sub(since).unwrap_or(UNIX_EPOCH);
        let ended_later = |path: &PathBuf| {
            path.metadata().and_then(|m| m.modified()).is_ok_and(|modified| modified >= oldest)
        };
        let mut paths: Vec<PathBuf> = below(&context).into_iter().filter(ended_later).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "data"));
        // The names are times.
        paths.sort();
        let mut records = Vec::new();
        for path in &paths {
            records.push(files::open(path)?);
        }
        // Only what is of the last boot has a common clock.
        let boot = records.last().map(|record| record.header().boot_id.clone());
        records.retain(|record| Some(&record.header().boot_id) == boot.as_ref());
        let Some(last) = records.last() else {
            return Err(usage(format!(
                "the agent has recorded nothing since then\n  tried: read {}\n  hint:  a longer time",
                context.display()
            )));
        };
        let header = last.header();
        let wall = oldest.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let before_start = u128::from(header.started_unix_ns).saturating_sub(wall);
        let after_start = wall.saturating_sub(u128::from(header.started_unix_ns));
        let ns = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
        let from = header.started_ns.saturating_sub(ns(before_start)) + ns(after_start);
        join(&records, Time(from)).map_err(Into::into)
    }

    /// The directory of the context that is meant.
    fn context(&self) -> anyhow::Result<PathBuf> {
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut contexts = Vec::new();
        for policy in below(&self.dir) {
            for context in below(&policy) {
                contexts.push((format!("{}/{}", name(&policy), name(&context)), context));
            }
        }
        contexts.sort();
        if contexts.is_empty() {
            let dir = self.dir.display();
            return Err(exit::with(
                exit::USAGE,
                format!(
                    "no agent has recorded anything\n  tried: read {dir}\n  hint:  `isotherm agent` records \
                     what its policies see; --history DIR if it keeps its state elsewhere"
                ),
            ));
        }
        let known: Vec<String> = contexts.iter().map(|(name, _)| name.clone()).collect();
        if let Some(of) = &self.of {
            contexts.retain(|(name, _)| name == of || name.split('/').next() == Some(of));
        }
        match contexts.len() {
            1 => Ok(contexts.remove(0).1),
            n => Err(usage(format!(
                "it is not clear whose history is meant\n  why:   {} match\n  hint:  --of with one of {}",
                if n == 0 { "none".to_owned() } else { n.to_string() },
                known.join(", ")
            ))),
        }
    }
}

fn below(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
