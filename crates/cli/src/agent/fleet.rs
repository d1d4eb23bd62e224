//! Options for fleet data.

use std::path::{Path, PathBuf};
use std::time::Duration;

use isotherm::raw::core::units::{duration, size};
use isotherm::raw::host::{Machine, Roots};
use isotherm_fleet::settings::hashed;
use isotherm_fleet::{FileNames, Retention, Settings, Table};
use isotherm_metrics::Build;

use crate::exit;

/// The shortest interval.
const LEAST_EVERY: Duration = Duration::from_secs(1);

/// Options for fleet data.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Fleet data")]
pub(super) struct FleetArgs {
    /// Write what is seen and done into Parquet files below this directory, for questions about
    /// many hosts.
    ///
    /// The files are DIR/isotherm/v1/TABLE/date=DAY/host=NAME/part-*.parquet, whole or not there.
    /// docs/FLEET.md has the schema, and how to upload them.
    #[arg(long = "fleet", value_name = "DIR", hide_short_help = true)]
    dir: Option<PathBuf>,
    /// The tables to write: sessions, cgroups, events; and if they are named, snapshots (a row per
    /// region), pages (a row per 2 MiB) and files (a row per mapped file).
    #[arg(
        long = "fleet-tables",
        value_name = "TABLE,...",
        value_delimiter = ',',
        default_value = "sessions,cgroups,events",
        hide_short_help = true
    )]
    tables: Vec<Table>,
    /// Close a file and begin the next after this time.
    #[arg(
        long = "fleet-every",
        value_name = "TIME",
        default_value = "5min",
        value_parser = duration,
        hide_short_help = true
    )]
    every: Duration,
    /// The host's name in paths; its own name if this is not given.
    #[arg(long = "fleet-host", value_name = "NAME", hide_short_help = true)]
    host: Option<String>,
    /// Write a hash of the host's name instead, made with the key in this file.
    ///
    /// All hosts of a site have the same key. Who does not have it cannot tell the names. Hashes of
    /// files' paths are made with it as well.
    #[arg(long = "fleet-hash-key", value_name = "FILE", hide_short_help = true)]
    hash_key: Option<PathBuf>,
    /// The site's label for what the host is for.
    #[arg(long = "fleet-service", value_name = "LABEL", hide_short_help = true)]
    service: Option<String>,
    /// The site's label for the kind of machine.
    #[arg(long = "fleet-node-class", value_name = "LABEL", hide_short_help = true)]
    node_class: Option<String>,
    /// Keep at most this much on this host.
    #[arg(
        long = "fleet-size",
        value_name = "SIZE",
        default_value = "1G",
        value_parser = size,
        hide_short_help = true
    )]
    most_bytes: u64,
    /// Keep files on this host for this long.
    #[arg(
        long = "fleet-age",
        value_name = "TIME",
        default_value = "7d",
        value_parser = duration,
        hide_short_help = true
    )]
    most_age: Duration,
    /// Also write the texts of events, which can name processes and paths.
    #[arg(long = "fleet-texts", hide_short_help = true)]
    texts: bool,
    /// Write the paths of files into the table files, and not hashes of them.
    #[arg(long = "fleet-paths", hide_short_help = true)]
    paths: bool,
}

impl FleetArgs {
    /// What is to be written; none if nothing is. `budget_bp`: the agent's share of one CPU.
    pub(super) fn settings(
        self,
        built: &Build,
        budget_bp: u32,
    ) -> anyhow::Result<Option<Settings>> {
        let Some(dir) = self.dir else { return Ok(None) };
        if self.every < LEAST_EVERY {
            return Err(exit::usage("--fleet-every is at least 1s".to_owned()));
        }
        let own = || Machine::read(&Roots::default()).host;
        let host = self.host.or_else(own).unwrap_or_else(|| "localhost".to_owned());
        let key = self.hash_key.as_deref().map(key).transpose()?;
        let host = match &key {
            None => host,
            Some(key) => hashed(&host, key),
        };
        let file_names =
            if self.paths { FileNames::Paths } else { FileNames::Hashed(key.unwrap_or_default()) };
        Ok(Some(Settings {
            dir,
            tables: self.tables.into_iter().collect(),
            every: self.every,
            host,
            service: self.service,
            node_class: self.node_class,
            retention: Retention { most_bytes: self.most_bytes, most_age: self.most_age },
            texts: self.texts,
            file_names,
            budget: f64::from(budget_bp) / 10_000.0,
            version: built.version.clone(),
            commit: built.commit.clone(),
        }))
    }
}

/// Reads the key that names are hashed with.
fn key(path: &Path) -> anyhow::Result<Vec<u8>> {
    let key = std::fs::read(path).map_err(|err| {
        let path = path.display();
        exit::with(
            exit::of_io(&err),
            format!(
                "cannot hash the host's name\n  tried: read {path}: {err}\n  hint:  a file with a \
                 secret, the same on all hosts: `openssl rand -hex 32`"
            ),
        )
    })?;
    if key.len() < 16 {
        return Err(exit::usage(format!(
            "the key in {} has {} bytes\n  why:   names could be found out with fewer than 16\n  \
             hint:  `openssl rand -hex 32`",
            path.display(),
            key.len()
        )));
    }
    Ok(key)
}
