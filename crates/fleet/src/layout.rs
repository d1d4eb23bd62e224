//! Where parts are: `ROOT/isotherm/v1/TABLE/date=YYYY-MM-DD/host=NAME/part-START_NS-SEQ.parquet`.
//!
//! The date is that of the part's first row, by UTC. Engines for tables read `date` and `host` from
//! the path, so neither is a column.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use isotherm_record::export::utc_date;

use crate::cells::UnixNs;
use crate::settings::{SCHEMA, Table};

/// The ending of parts.
const ENDING: &str = ".parquet";

/// The directories of one host below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    root: PathBuf,
    /// `host=NAME`.
    host: String,
}

/// A part on disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// When its first row is from, by its name.
    pub(crate) start: i64,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

impl Layout {
    pub(crate) fn new(root: &Path, host: &str) -> Self {
        let root = root.join("isotherm").join(format!("v{SCHEMA}"));
        Self { root, host: format!("host={}", encoded(host)) }
    }

    /// The directory of a table's parts of a day.
    pub(crate) fn dir(&self, table: Table, first: UnixNs) -> PathBuf {
        let date = format!("date={}", utc_date(first.0));
        self.root.join(table.name()).join(date).join(&self.host)
    }

    /// The name of a part.
    pub(crate) fn name(first: UnixNs, seq: u64) -> String {
        format!("part-{:019}-{seq:06}{ENDING}", first.0)
    }

    /// All files of this host that are parts, or were to become parts; and of the directories that
    /// cannot be read one, with the reason.
    fn files(&self) -> (Vec<(String, PathBuf)>, Option<String>) {
        let (mut files, mut trouble) = (Vec::new(), None);
        let mut below = |dir: &Path| match list(dir) {
            Ok(names) => names,
            Err(err) => {
                trouble.get_or_insert_with(|| format!("cannot read {}: {err}", dir.display()));
                Vec::new()
            }
        };
        for table in Table::ALL.map(|table| self.root.join(table.name())) {
            for date in below(&table).into_iter().filter(|name| name.starts_with("date=")) {
                let dir = table.join(date).join(&self.host);
                let names = below(&dir).into_iter().filter(|name| name.ends_with(ENDING));
                files.extend(names.map(|name| (name.clone(), dir.join(name))));
            }
        }
        (files, trouble)
    }

    /// All parts of this host; and of the directories that cannot be read one, with the reason.
    pub(crate) fn found(&self) -> (Vec<Found>, Option<String>) {
        let (files, trouble) = self.files();
        let parts = files.into_iter().filter_map(|(name, path)| {
            let start = name.strip_prefix("part-")?.split('-').next()?.parse().ok()?;
            let bytes = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?.len();
            Some(Found { start, path, bytes })
        });
        (parts.collect(), trouble)
    }

    /// Files that a killed agent has not finished.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let files = self.files().0.into_iter();
        files.filter(|(name, _)| name.starts_with(".part-")).map(|(_, path)| path).collect()
    }
}

/// The names in a directory that are text; none if there is no directory.
fn list(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
    names.filter_map(Result::transpose).collect()
}

/// A value in a path, as readers of hive's layout expect it.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    // The longest name of a file has 255 bytes. An escape is not cut.
    while out.len() > 200 {
        let cut = if out.as_bytes()[out.len() - 3] == b'%' { 3 } else { 1 };
        out.truncate(out.len() - cut);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_are_one_part_of_a_path() {
        for (host, name) in [
            ("db-7.example.org", "db-7.example.org"),
            ("a/b=c d", "a%2Fb%3Dc%20d"),
            ("ä", "%C3%A4"),
        ] {
            assert_eq!(encoded(host), name);
        }
        let long = encoded(&"ä".repeat(100));
        assert!(long.len() <= 200 && long.len().is_multiple_of(3), "no escape is cut: {long}");
        let layout = Layout::new(Path::new("/d"), "..");
        let dir = layout.dir(Table::Events, UnixNs(1_709_251_199_000_000_000));
        assert_eq!(dir, Path::new("/d/isotherm/v1/events/date=2024-02-29/host=.."));
        assert_eq!(Layout::name(UnixNs(5), 7), "part-0000000000000000005-000007.parquet");
    }
}
