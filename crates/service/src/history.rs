//! The history: records of what every context saw, kept for a while.
//!
//! Every context writes a record of its own below `history/POLICY/CONTEXT/`, named by when it was
//! begun. A new one is begun from time to time, so that old ones can be dropped one by one. Records
//! survive a crash as they are (see `isotherm-record`).
//!
//! Dropped are records that are too old, and the oldest ones while all together are too large, or
//! the disk is full. The record that is being written is never dropped.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use isotherm_control::types;
use tracing::{info, warn};

/// After so long, or so many bytes, a new record is begun.
pub(crate) const NEW_AFTER: Duration = Duration::from_secs(3600);
pub(crate) const NEW_BYTES: u64 = 64 << 20;
/// The share of the history that is dropped when the disk is full: a tenth.
const ROOM: u64 = 10;
/// The ending of the files.
const ENDING: &str = "data";

/// How long records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The most bytes of all records together.
    pub most_bytes: u64,
    /// The greatest age of a record's end.
    pub most_age: Duration,
}

/// The directory of records.
#[derive(Debug)]
pub(crate) struct History {
    dir: PathBuf,
    retention: Retention,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Records that are being written.
    open: BTreeSet<PathBuf>,
    dropped: u64,
    trouble: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    modified: SystemTime,
    path: PathBuf,
    bytes: u64,
}

impl History {
    pub(crate) fn new(dir: PathBuf, retention: Retention) -> Self {
        Self { dir, retention, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of a new record of a context, which is being written from now on. `former`: the one
    /// that it replaces.
    ///
    /// # Errors
    ///
    /// If its directory cannot be made.
    pub(crate) fn begin(
        &self,
        policy: &str,
        context: &str,
        former: Option<&Path>,
    ) -> io::Result<PathBuf> {
        let dir = self.dir.join(policy).join(file_name(context));
        fs::create_dir_all(&dir)?;
        let mut ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let path_at = |ms: u128| dir.join(format!("{ms:014}.{ENDING}"));
        let mut inner = self.inner();
        // Another one may have begun in this millisecond, or before the clock was put back.
        while inner.open.contains(&path_at(ms)) || path_at(ms).exists() {
            ms += 1;
        }
        let path = path_at(ms);
        former.map(|former| inner.open.remove(former));
        inner.open.insert(path.clone());
        Ok(path)
    }

    /// A record is not written any more.
    pub(crate) fn end(&self, path: &Path) {
        self.inner().open.remove(path);
    }

    /// Drops what is too old or too much.
    pub(crate) fn prune(&self) {
        self.drop_oldest(self.retention.most_bytes);
    }

    /// Makes room on a full disk: drops a tenth of all, and at least one record. Says so.
    pub(crate) fn make_room(&self, why: &str) {
        let bytes: u64 = self.found().iter().map(|found| found.bytes).sum();
        let dropped = self.drop_oldest(bytes.saturating_sub((bytes / ROOM).max(1)));
        let text = match dropped {
            0 => format!("a record cannot be written, and there is no older one to drop: {why}"),
            n => format!("a record could not be written, so the oldest were dropped ({n}): {why}"),
        };
        warn!("history: {text}");
        self.inner().trouble = Some(text);
    }

    /// Drops records that are too old, and the oldest until all together have `most` bytes. Returns
    /// how many.
    fn drop_oldest(&self, most: u64) -> u64 {
        let mut found = self.found();
        found.sort_by_key(|found| found.modified);
        let mut bytes: u64 = found.iter().map(|found| found.bytes).sum();
        let oldest = SystemTime::now().checked_sub(self.retention.most_age).unwrap_or(UNIX_EPOCH);
        let mut dropped = 0;
        let mut inner = self.inner();
        for Found { modified, path, bytes: of_one } in found {
            if (bytes <= most && modified >= oldest) || inner.open.contains(&path) {
                continue;
            }
            match fs::remove_file(&path) {
                Ok(()) => {
                    bytes -= of_one;
                    dropped += 1;
                    // The directory of a context that is gone.
                    path.parent().map(fs::remove_dir);
                }
                Err(err) => warn!("history: cannot remove {}: {err}", path.display()),
            }
        }
        inner.dropped += dropped;
        if dropped > 0 {
            info!("history: {dropped} old records were dropped");
        }
        dropped
    }

    /// All records.
    fn found(&self) -> Vec<Found> {
        let below = |dir: &Path| -> Vec<PathBuf> {
            fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        let contexts = below(&self.dir).into_iter().flat_map(|policy| below(&policy));
        let files = contexts.flat_map(|context| below(&context));
        files
            .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
            .filter_map(|path| {
                let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
                Some(Found { modified: metadata.modified().ok()?, path, bytes: metadata.len() })
            })
            .collect()
    }

    /// As the interface has it.
    pub(crate) fn shown(&self) -> types::History {
        let found = self.found();
        let inner = self.inner();
        types::History {
            bytes: found.iter().map(|found| found.bytes).sum(),
            most_bytes: self.retention.most_bytes,
            records: found.len() as u64,
            dropped_records: inner.dropped,
            trouble: inner.trouble.clone(),
        }
    }
}

/// The name of a context as the name of a directory.
fn file_name(context: &str) -> String {
    let mut name = String::new();
    for byte in context.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    // The longest name of a file has 255 bytes.
    name.truncate(200);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn history(dir: &Path, most_bytes: u64, most_age: Duration) -> History {
        History::new(dir.join("history"), Retention { most_bytes, most_age })
    }

    /// A record of 100 bytes that was last written so many days ago.
    fn write(path: &Path, days: u32) {
        fs::write(path, [0; 100]).unwrap();
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - DAY * days).unwrap();
    }

    #[test]
    fn the_oldest_go_first_and_the_open_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let history = history(dir.path(), 250, DAY * 7);
        let open = history.begin("p", "c", None).unwrap();
        write(&open, 30);
        let paths: Vec<PathBuf> = [9, 3, 2, 1]
            .into_iter()
            .map(|days| {
                let path = open.with_file_name(format!("{days}.data"));
                write(&path, days);
                path
            })
            .collect();
        fs::write(open.with_file_name("notes.txt"), [0; 1000]).unwrap();
        history.prune();
        let left: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!((left, open.exists()), (vec![false, false, false, true], true));
        assert_eq!((history.shown().records, history.shown().dropped_records), (2, 3));
        // A full disk.
        history.make_room("no space");
        assert!(!paths[3].exists() && open.exists());
        history.make_room("no space");
        let trouble = history.shown().trouble.unwrap();
        assert!(trouble.contains("there is no older one"), "{trouble}");
        let next = history.begin("p", "c", Some(&open)).unwrap();
        write(&next, 0);
        history.prune();
        assert!(!open.exists() && next.exists(), "it is too old");
    }

    #[test]
    fn records_of_one_millisecond_have_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let history = history(dir.path(), 250, DAY);
        let paths: BTreeSet<PathBuf> = (0..50)
            .map(|_| {
                let path = history.begin("p", "c", None).unwrap();
                write(&path, 0);
                history.end(&path);
                path
            })
            .collect();
        assert_eq!(paths.len(), 50);
    }

    #[test]
    fn names_of_contexts_are_no_paths() {
        for (context, name) in [
            ("a", "a"),
            ("../../etc", "%2e%2e%2f%2e%2e%2fetc"),
            ("ä b", "%c3%a4%20b"),
            (".", "%2e"),
        ] {
            assert_eq!(file_name(context), name);
        }
        assert_eq!(file_name(&"x".repeat(500)).len(), 200);
    }
}
