//! What is written, where to, and for how long it is kept.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};

/// The version of the schema, which is in the path and in each file.
pub const SCHEMA: &str = "1";

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// One row per interval: the host and the agent.
    Sessions,
    /// One row per cgroup and interval.
    Cgroups,
    /// One row per event.
    Events,
    /// One row per region.
    Snapshots,
    /// One row per 2 MiB of memory.
    Pages,
    /// One row per cgroup and file that it maps.
    Files,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Sessions, Self::Cgroups, Self::Events, Self::Snapshots, Self::Pages, Self::Files];

    /// Its name in paths.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Cgroups => "cgroups",
            Self::Events => "events",
            Self::Snapshots => "snapshots",
            Self::Pages => "pages",
            Self::Files => "files",
        }
    }
}

impl std::str::FromStr for Table {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|table| table.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("there is no table `{text}`; it is one of {known}")
        })
    }
}

/// How much is kept on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The most bytes of all parts together.
    pub most_bytes: u64,
    /// The greatest age of a part.
    pub most_age: Duration,
}

/// What files are called in the table `files`.
#[derive(Clone, PartialEq, Eq)]
pub enum FileNames {
    /// By their paths.
    Paths,
    /// By a hash of the path, made with this key. With an empty key, who guesses a path can tell
    /// that it is the right one.
    Hashed(Vec<u8>),
}

impl FileNames {
    /// The name of the file at this path.
    pub(crate) fn of(&self, path: &str) -> String {
        match self {
            Self::Paths => path.to_owned(),
            Self::Hashed(key) => hashed(path, key),
        }
    }
}

impl std::fmt::Debug for FileNames {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Paths => "Paths",
            Self::Hashed(_) => "Hashed(..)",
        })
    }
}

/// What is written, and where to.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The directory below which `isotherm/v1/` is.
    pub dir: PathBuf,
    /// The tables to write.
    pub tables: BTreeSet<Table>,
    /// How long an interval is. Each part has one.
    pub every: Duration,
    /// What the host is called in paths; [`hashed`] makes one that tells nothing.
    pub host: String,
    /// The site's label for what the host is for.
    pub service: Option<String>,
    /// The site's label for the kind of machine.
    pub node_class: Option<String>,
    /// How much is kept.
    pub retention: Retention,
    /// Whether texts of events are written, which can name paths and processes.
    pub texts: bool,
    /// What files are called.
    pub file_names: FileNames,
    /// The share of one CPU that the agent may use, from 0.
    pub budget: f64,
    /// The version of the program.
    pub version: String,
    /// The commit that it was built from.
    pub commit: String,
}

/// A name for a host or a file that only who has the key can tell: 16 hexadecimal digits. The same
/// host has the same name everywhere, so rows of one host still belong together.
#[must_use]
pub fn hashed(host: &str, key: &[u8]) -> String {
    let inner = Sha256::new().chain_update(key).chain_update(host).finalize();
    let outer = Sha256::new().chain_update(key).chain_update(inner).finalize();
    outer[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hashed_name_depends_on_host_and_key_and_shows_neither() {
        let name = hashed("db-7.example.org", b"secret");
        assert_eq!(name, hashed("db-7.example.org", b"secret"));
        assert_eq!(name.len(), 16);
        assert!(name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        for (host, key) in [("db-8.example.org", "secret"), ("db-7.example.org", "other")] {
            assert_ne!(name, hashed(host, key.as_bytes()));
        }
    }

    #[test]
    fn files_have_the_same_name_on_all_hosts_and_debugging_shows_no_key() {
        let names = FileNames::Hashed(b"0123456789abcdef".to_vec());
        assert_eq!(names.of("/srv/x"), hashed("/srv/x", b"0123456789abcdef"));
        assert_ne!(names.of("/srv/x"), FileNames::Hashed(Vec::new()).of("/srv/x"));
        assert_eq!(FileNames::Paths.of("/srv/x"), "/srv/x");
        assert_eq!(format!("{names:?}"), "Hashed(..)");
    }

    #[test]
    fn tables_have_names() {
        for table in Table::ALL {
            assert_eq!(table.name().parse(), Ok(table));
        }
        assert!(
            "row".parse::<Table>().unwrap_err().contains("sessions, cgroups, events, snapshots")
        );
    }
}
