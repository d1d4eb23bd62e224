//! What outlives the agent: which policies were committed, stopped or paused by its clients.
//!
//! The file is replaced as a whole: written beside, synced, renamed, and the directory synced. So
//! it is either the old or the new state, also after a power failure. It says the version of its
//! format. An agent reads every version up to its own, and refuses a newer one by name, since it
//! would drop what it does not know.
//!
//! A lock on the directory makes sure that only one agent uses it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// The version of the format that this agent writes.
const VERSION: u32 = 2;
/// The version of a state that says nothing of single contexts. It is written as long as that is
/// so, and then an agent that knows no newer one can read it.
const WITHOUT_CONTEXTS: u32 = 1;

/// What a policy is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wanted {
    #[default]
    Running,
    Paused,
    Stopped,
}

/// What is kept of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    #[serde(default)]
    pub(crate) wanted: Wanted,
    /// Contexts that were paused or stopped one by one, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) contexts: BTreeMap<String, Wanted>,
    /// The text that a client committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The text of its file when that was committed. While the file says the same, the committed
    /// text holds; a file that was changed since then holds instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) over: Option<String>,
}

impl Kept {
    /// Whether nothing is worth keeping.
    fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u32,
    /// The version of the program, for people.
    written_by: String,
    #[serde(default)]
    policies: BTreeMap<String, Kept>,
}

/// Only the version, which every format has.
#[derive(Debug, Deserialize)]
struct Head {
    version: u32,
    #[serde(default)]
    written_by: String,
}

/// Why the state cannot be used.
#[derive(Debug)]
pub(crate) enum StateError {
    Io(PathBuf, &'static str, io::Error),
    /// Another agent uses the directory.
    InUse(PathBuf),
    /// The file was written by a newer agent.
    Newer {
        path: PathBuf,
        version: u32,
        by: String,
    },
    /// The file is not what an agent wrote.
    Damaged(PathBuf, String),
}

impl StateError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Io(_, _, err) if matches!(err.kind(), io::ErrorKind::PermissionDenied) => 4,
            Self::Io(..) => 1,
            Self::InUse(_) | Self::Damaged(..) => 2,
            Self::Newer { .. } => 3,
        }
    }
}

impl std::fmt::Display for StateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(path, tried, err) => write!(
                f,
                "cannot {tried} the agent's state\n  tried: {tried} {}: {err}\n  hint:  --state DIR \
                 for another directory",
                path.display()
            ),
            Self::InUse(path) => write!(
                f,
                "another agent uses {}\n  hint:  `isotherm ctl status` shows it; --state DIR for a \
                 second one",
                path.display()
            ),
            Self::Newer { path, version, by } => write!(
                f,
                "the agent's state is of a newer Isotherm\n  why:   {} has version {version}, \
                 written by Isotherm {by}; this one knows up to {VERSION}\n  hint:  run Isotherm \
                 {by} or newer, or move the file away to begin without a state",
                path.display()
            ),
            Self::Damaged(path, why) => write!(
                f,
                "the agent's state cannot be read\n  why:   {}: {why}\n  hint:  move the file away \
                 to begin without a state",
                path.display()
            ),
        }
    }
}

/// The state on disk.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    version: String,
    policies: BTreeMap<String, Kept>,
    /// Holds the lock.
    _lock: File,
}

impl Store {
    /// Opens the state in this directory, which is made if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be used; nothing has changed then.
    pub(crate) fn open(dir: &Path, version: &str) -> Result<Self, StateError> {
        let io = |tried, path: &Path| {
            let path = path.to_owned();
            move |err| StateError::Io(path, tried, err)
        };
        fs::create_dir_all(dir).map_err(io("create", dir))?;
        let lock_path = dir.join("lock");
        let lock = File::create(&lock_path).map_err(io("lock", &lock_path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|err| match err {
            rustix::io::Errno::WOULDBLOCK => StateError::InUse(dir.to_owned()),
            err => StateError::Io(lock_path, "lock", err.into()),
        })?;
        let path = dir.join("state.json");
        let policies = match fs::read(&path) {
            Ok(bytes) => parse(&path, &bytes)?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(err) => return Err(StateError::Io(path, "read", err)),
        };
        Ok(Self { path, version: version.to_owned(), policies, _lock: lock })
    }

    /// What is kept of all policies.
    pub(crate) const fn policies(&self) -> &BTreeMap<String, Kept> {
        &self.policies
    }

    /// What is kept of a policy.
    pub(crate) fn of(&self, name: &str) -> Kept {
        self.policies.get(name).cloned().unwrap_or_default()
    }

    /// Keeps this of a policy. When this returns, it is on disk.
    ///
    /// # Errors
    ///
    /// If it could not be written; the state is as before then.
    pub(crate) fn keep(&mut self, name: &str, kept: Kept) -> Result<(), StateError> {
        let before = self.policies.clone();
        if kept.is_plain() {
            self.policies.remove(name);
        } else {
            self.policies.insert(name.to_owned(), kept);
        }
        if self.policies == before {
            return Ok(());
        }
        let written = self.write();
        if written.is_err() {
            self.policies = before;
        }
        written
    }

    fn write(&self) -> Result<(), StateError> {
        let document = Document {
            version: if self.policies.values().all(|kept| kept.contexts.is_empty()) {
                WITHOUT_CONTEXTS
            } else {
                VERSION
            },
            written_by: self.version.clone(),
            policies: self.policies.clone(),
        };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|e| StateError::Damaged(self.path.clone(), e.to_string()))?;
        replace(&self.path, text.as_bytes())
            .map_err(|err| StateError::Io(self.path.clone(), "write", err))
    }
}

/// Replaces a file as a whole, durably.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Kept>, StateError> {
    let damaged = |e: serde_json::Error| StateError::Damaged(path.to_owned(), e.to_string());
    let head: Head = serde_json::from_slice(bytes).map_err(damaged)?;
    if head.version > VERSION {
        let (version, by) = (head.version, head.written_by);
        return Err(StateError::Newer { path: path.to_owned(), version, by });
    }
    let document: Document = serde_json::from_slice(bytes).map_err(damaged)?;
    Ok(document.policies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path(), "1.2.3").unwrap();
        assert!(matches!(Store::open(dir.path(), "1.2.3"), Err(StateError::InUse(_))));
        let version = || {
            let bytes = fs::read(dir.path().join("state.json")).unwrap();
            serde_json::from_slice::<Head>(&bytes).unwrap().version
        };
        let mut kept = Kept { text: Some("a = 1".into()), ..Kept::default() };
        kept.wanted = Wanted::Paused;
        store.keep("a", kept.clone()).unwrap();
        assert_eq!(version(), 1, "an agent that knows no contexts could read it");
        kept.contexts.insert("c".into(), Wanted::Stopped);
        store.keep("a", kept.clone()).unwrap();
        assert_eq!(version(), 2, "such an agent would drop that");
        store.keep("b", Kept { wanted: Wanted::Stopped, ..Kept::default() }).unwrap();
        store.keep("b", Kept::default()).unwrap();
        drop(store);
        let store = Store::open(dir.path(), "1.2.3").unwrap();
        assert_eq!(store.policies(), &BTreeMap::from([("a".to_owned(), kept)]));
        assert_eq!(store.of("b"), Kept::default());
    }

    #[test]
    fn a_newer_state_is_refused_by_name_and_an_older_one_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(dir.path().join("state.json"), text).unwrap();
        write(r#"{"version":99,"written_by":"9.9.9","policies":["of another kind"]}"#);
        let err = Store::open(dir.path(), "1").unwrap_err();
        assert_eq!(err.exit_code(), 3);
        let text = err.to_string();
        assert!(text.contains("version 99, written by Isotherm 9.9.9"), "{text}");
        for damaged in ["", "{", "[]", r#"{"version":1}"#, r#"{"version":"1","written_by":""}"#] {
            write(damaged);
            let err = Store::open(dir.path(), "1").unwrap_err();
            assert!(matches!(err, StateError::Damaged(..)), "{damaged}: {err}");
        }
        write(r#"{"version":0,"written_by":"0.0.1","policies":{"a":{"wanted":"stopped"}}}"#);
        let store = Store::open(dir.path(), "1").unwrap();
        assert_eq!(store.of("a").wanted, Wanted::Stopped);
    }

    #[test]
    fn a_write_that_fails_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path(), "1").unwrap();
        let stopped = Kept { wanted: Wanted::Stopped, ..Kept::default() };
        store.keep("a", stopped.clone()).unwrap();
        // A directory is where the new file would be written.
        fs::create_dir(dir.path().join("state.new")).unwrap();
        store.keep("a", Kept::default()).unwrap_err();
        assert_eq!(store.of("a"), stopped);
        drop(store);
        assert_eq!(Store::open(dir.path(), "1").unwrap().of("a"), stopped);
    }
}
