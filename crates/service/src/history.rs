//! The history: records of what every context saw, kept for a while.
//!
//! Every context writes a record of its own below `history/POLICY/CONTEXT/`, named by when it was
//! begun. A new one is begun from time to time, so that old ones can be dropped one by one. Records
//! survive a crash as they are (see `isotherm-record`).
//!
//! Dropped are records that are too old, and the oldest ones while all together are too large, or
//! the disk is full. The record that is being written is never dropped.
//!
//! The wall clock may be set at any time. So a name is later than all names before it, whatever the
//! clock says, and the order of names is that of time. A record is as old as the newest stamp of it
//! and those before it that is not in the future, and what time it is now is told by `Steady`.
//! Where that is in doubt a record is kept: the size is a limit that needs no clock.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use isotherm_control::types;
use tracing::{info, warn};

/// After so long, or so many bytes, a new record is begun.
pub(crate) const NEW_AFTER: Duration = Duration::from_secs(3600);
pub(crate) const NEW_BYTES: u64 = 64 << 20;
/// The share of the history that is dropped when the disk is full: a tenth.
const ROOM: u64 = 10;
/// For so long the number and the size of all records are taken from the last count. Status is
/// asked for often, and counting takes longer than all the rest of its answer: 2 µs per record.
const COUNTED_FOR: Duration = Duration::from_secs(5);
/// For so long it is told that a record could not be written. A record that fails is begun anew
/// after 10 s, so it is told as long as that goes on.
const TOLD_FOR: Duration = Duration::from_secs(60);
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

/// A jump of the wall clock that is smaller than this is none.
const NO_JUMP: Duration = Duration::from_secs(60);
/// After a jump the wall clock is believed once it has gone on evenly for so long.
const BELIEVED_AFTER: Duration = Duration::from_secs(3600);

/// The time of day, which does not jump at once when the wall clock does: by a clock that is set
/// ten years ahead by mistake all history would be too old.
#[derive(Debug, Clone, Copy)]
struct Steady {
    wall: SystemTime,
    at: Instant,
    /// Where the wall clock went, and when.
    jumped: Option<(SystemTime, Instant)>,
}

impl Steady {
    const fn new(wall: SystemTime, at: Instant) -> Self {
        Self { wall, at, jumped: None }
    }

    /// What time it is, when the wall clock says `wall`.
    fn now(&mut self, wall: SystemTime, at: Instant) -> SystemTime {
        let expected = self.wall + at.duration_since(self.at);
        if apart(wall, expected) < NO_JUMP {
            (self.wall, self.at, self.jumped) = (wall, at, None);
            return wall;
        }
        let since = match self.jumped {
            Some((to, since)) if apart(wall, to + at.duration_since(since)) < NO_JUMP => since,
            _ => {
                warn!("history: the wall clock has jumped; nothing is too old because of that yet");
                self.jumped = Some((wall, at));
                at
            }
        };
        if at.duration_since(since) < BELIEVED_AFTER {
            return expected;
        }
        (self.wall, self.at, self.jumped) = (wall, at, None);
        wall
    }
}

fn apart(a: SystemTime, b: SystemTime) -> Duration {
    a.duration_since(b).unwrap_or_else(|err| err.duration())
}

/// The directory of records.
#[derive(Debug)]
pub(crate) struct History {
    dir: PathBuf,
    retention: Retention,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Steady,
    /// The number of the last name, in ms.
    last_name: u64,
    /// Records that are being written.
    open: BTreeSet<PathBuf>,
    dropped: u64,
    trouble: Option<Trouble>,
    counted: Option<Counted>,
}

/// Why a record could not be written.
#[derive(Debug)]
struct Trouble {
    at: Instant,
    text: String,
}

/// All records as they were counted.
#[derive(Debug, Clone, Copy)]
struct Counted {
    at: Instant,
    bytes: u64,
    records: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// The number that its name is; 0 if it is none.
    name: u64,
    modified: SystemTime,
    path: PathBuf,
    bytes: u64,
}

impl History {
    pub(crate) fn new(dir: PathBuf, retention: Retention) -> Self {
        let inner = Inner {
            clock: Steady::new(SystemTime::now(), Instant::now()),
            last_name: 0,
            open: BTreeSet::new(),
            dropped: 0,
            trouble: None,
            counted: None,
        };
        let this = Self { dir, retention, inner: Mutex::new(inner) };
        let last = this.found().iter().map(|found| found.name).max();
        this.inner().last_name = last.unwrap_or(0);
        this
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
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = u64::try_from(since.as_millis()).unwrap_or(0);
        let mut inner = self.inner();
        inner.last_name = ms.max(inner.last_name + 1);
        let path = dir.join(format!("{:014}.{ENDING}", inner.last_name));
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
        self.drop_oldest(self.retention.most_bytes, SystemTime::now());
    }

    /// Makes room on a full disk: drops a tenth of all, and at least one record. Says so.
    pub(crate) fn make_room(&self, why: &str) {
        let bytes: u64 = self.found().iter().map(|found| found.bytes).sum();
        let most = bytes.saturating_sub((bytes / ROOM).max(1));
        let dropped = self.drop_oldest(most, SystemTime::now());
        let text = match dropped {
            0 => format!("a record cannot be written, and there is no older one to drop: {why}"),
            n => format!("a record could not be written, so the oldest were dropped ({n}): {why}"),
        };
        self.trouble(text, Instant::now());
    }

    /// A record cannot be written or begun. Says so.
    pub(crate) fn trouble(&self, text: String, at: Instant) {
        warn!("history: {text}");
        self.inner().trouble = Some(Trouble { at, text });
    }

    /// Drops records that are too old, and the oldest until all together have `most` bytes. Returns
    /// how many. `wall`: what the wall clock says.
    fn drop_oldest(&self, most: u64, wall: SystemTime) -> u64 {
        let mut found = self.found();
        found.sort_by_key(|found| found.name);
        let mut bytes: u64 = found.iter().map(|found| found.bytes).sum();
        let mut dropped = 0;
        let mut inner = self.inner();
        let now = inner.clock.now(wall, Instant::now());
        let oldest = now.checked_sub(self.retention.most_age).unwrap_or(UNIX_EPOCH);
        // What was written later is no older than what was written before it.
        let mut newest: Option<SystemTime> = None;
        for Found { modified, path, bytes: of_one, .. } in found {
            newest = newest.max((modified <= now).then_some(modified));
            let is_old = newest.is_some_and(|newest| newest < oldest);
            if (bytes <= most && !is_old) || inner.open.contains(&path) {
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
            inner.counted = None;
        }
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
                let name = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
                let (name, modified) = (name.unwrap_or(0), metadata.modified().ok()?);
                Some(Found { name, modified, path, bytes: metadata.len() })
            })
            .collect()
    }

    /// As the interface has it. Sizes are as old as [`COUNTED_FOR`] at most.
    pub(crate) fn shown(&self) -> types::History {
        let last = self.inner().counted.filter(|counted| counted.at.elapsed() < COUNTED_FOR);
        let counted = last.unwrap_or_else(|| {
            let found = self.found();
            let bytes = found.iter().map(|found| found.bytes).sum();
            Counted { at: Instant::now(), bytes, records: found.len() as u64 }
        });
        let mut inner = self.inner();
        inner.counted = Some(counted);
        inner.trouble.take_if(|trouble| trouble.at.elapsed() >= TOLD_FOR);
        types::History {
            bytes: counted.bytes,
            most_bytes: self.retention.most_bytes,
            records: counted.records,
            dropped_records: inner.dropped,
            trouble: inner.trouble.as_ref().map(|trouble| trouble.text.clone()),
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
                let path = open.with_file_name(format!("{}.data", 10 - days));
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
        // It is over: no record has failed since.
        for (ago, told) in [(TOLD_FOR / 2, true), (TOLD_FOR, false)] {
            history.trouble("no space".to_owned(), Instant::now() - ago);
            assert_eq!(history.shown().trouble.is_some(), told, "{ago:?}");
        }
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
    fn a_clock_that_jumps_drops_nothing_and_confuses_no_order() {
        let dir = tempfile::tempdir().unwrap();
        let history = history(dir.path(), 1000, DAY * 7);
        let first = history.begin("p", "c", None).unwrap();
        write(&first, 8);
        let second = history.begin("p", "c", Some(&first)).unwrap();
        write(&second, 1);
        // Set back to 1980: the name is later all the same, and the stamp says nothing.
        let third = history.begin("p", "c", Some(&second)).unwrap();
        write(&third, 365 * 45);
        // Set ahead.
        let fourth = history.begin("p", "c", Some(&third)).unwrap();
        write(&fourth, 0);
        let file = fs::File::options().append(true).open(&fourth).unwrap();
        file.set_modified(SystemTime::now() + DAY * 3650).unwrap();
        history.end(&fourth);
        let all = [&first, &second, &third, &fourth];
        assert!(all.is_sorted(), "{all:?}");
        let left = || all.map(|path| path.exists());
        // Ten years ahead, for now: nothing is too old by that.
        history.drop_oldest(1000, SystemTime::now() + DAY * 3650);
        assert_eq!(left(), [false, true, true, true], "the first one is too old by any clock");
        // Another context begins behind all of them, also after a restart of the agent.
        let history = History::new(
            dir.path().join("history"),
            Retention { most_bytes: 250, most_age: DAY * 7 },
        );
        let other = history.begin("p", "d", None).unwrap();
        assert!(other.file_name() > fourth.file_name());
        // Too much: the first that was written goes first, whatever its stamp is.
        history.prune();
        assert_eq!(left(), [false, false, true, true]);
    }

    #[test]
    fn a_jump_is_believed_once_it_has_lasted() {
        let (wall, at) = (SystemTime::now(), Instant::now());
        let hours = |n: u32| Duration::from_secs(3600) * n;
        let mut clock = Steady::new(wall, at);
        assert_eq!(clock.now(wall + hours(1), at + hours(1)), wall + hours(1));
        // It drifts, and is set a little.
        let little = wall + hours(2) + Duration::from_secs(30);
        assert_eq!(clock.now(little, at + hours(2)), little);
        let jumped = wall + DAY * 3650;
        assert_eq!(clock.now(jumped, at + hours(2)), little);
        let minutes = Duration::from_secs(1800);
        assert_eq!(clock.now(jumped + minutes, at + hours(2) + minutes), little + minutes);
        // It jumps once more, so the hour begins again.
        let other = wall - DAY * 3650;
        assert_eq!(clock.now(other, at + hours(3)), little + hours(1));
        assert_eq!(
            clock.now(other + minutes, at + hours(3) + minutes),
            little + hours(1) + minutes
        );
        assert_eq!(clock.now(other + hours(1), at + hours(4)), other + hours(1));
        // And back, as if nothing had been.
        let mut clock = Steady::new(wall, at);
        clock.now(jumped, at + hours(1));
        assert_eq!(clock.now(wall + hours(2), at + hours(2)), wall + hours(2));
        assert!(clock.jumped.is_none());
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
