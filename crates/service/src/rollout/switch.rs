//! The kill switch: files that end all action as long as they exist.
//!
//! A thread looks for them five times a second, and keepers ask what it has seen. So a file on
//! storage that hangs can make no keeper wait. If it cannot be told whether there is a file, for
//! another reason than that there is none, or if looking takes too long, action ends as well: who
//! cannot be told to stop must not act.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::warn;

/// How often the files are looked for.
const EVERY: Duration = Duration::from_millis(200);
/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tells whether policies may act.
#[derive(Debug)]
pub(crate) struct Switch {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    path: PathBuf,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Seen {
    /// When a look was over last.
    at: Instant,
    /// Why no policy may act.
    all: Option<String>,
    /// By the names of policies: why each may not act.
    single: BTreeMap<String, Option<String>>,
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Switch {
    /// Looks once, and then goes on with that on a thread of its own.
    ///
    /// # Errors
    ///
    /// If there is no thread to be had.
    pub(crate) fn start(path: &Path) -> io::Result<Self> {
        let seen = Seen { at: Instant::now(), all: found(path), single: BTreeMap::new() };
        let seen = Arc::new(Mutex::new(seen));
        let stop = Arc::new(AtomicBool::new(false));
        let (to_fill, until, at) = (Arc::clone(&seen), Arc::clone(&stop), path.to_owned());
        let thread = std::thread::Builder::new().name("stop file".to_owned());
        let thread = thread.spawn(move || {
            while !until.load(Ordering::Relaxed) {
                look(&at, &to_fill);
                std::thread::sleep(EVERY);
            }
        })?;
        Ok(Self { seen, stop, path: path.to_owned(), thread: Mutex::new(Some(thread)) })
    }

    /// Why this policy may not act; none if it may. The first time that a policy asks, its file is
    /// looked for at once.
    pub(crate) fn holds(&self, policy: &str) -> Option<String> {
        let known = {
            let seen = locked(&self.seen);
            if let Some(why) = &seen.all {
                return Some(why.clone());
            }
            let late = seen.at.elapsed();
            if late > PATIENCE {
                let path = self.path.display();
                return Some(format!("{path} cannot be looked for since {} s", late.as_secs()));
            }
            seen.single.get(policy).cloned()
        };
        known.unwrap_or_else(|| {
            let why = found(&of_policy(&self.path, policy));
            locked(&self.seen).single.insert(policy.to_owned(), why.clone());
            why
        })
    }

    /// Forgets a policy that is gone.
    pub(crate) fn forget(&self, policy: &str) {
        locked(&self.seen).single.remove(policy);
    }

    /// Ends the thread. One that hangs is left to itself.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let is_late = locked(&self.seen).at.elapsed() > PATIENCE;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !is_late {
            thread.map(JoinHandle::join);
        }
    }
}

/// Looks for all files. The lock is not held meanwhile.
fn look(path: &Path, seen: &Mutex<Seen>) {
    let names: Vec<String> = locked(seen).single.keys().cloned().collect();
    let all = found(path);
    let single: Vec<_> = names
        .into_iter()
        .map(|name| {
            let why = found(&of_policy(path, &name));
            (name, why)
        })
        .collect();
    let mut seen = locked(seen);
    if seen.all != all {
        match &all {
            Some(why) => warn!("no policy acts: {why}"),
            None => warn!("policies may act again: {} is gone", path.display()),
        }
    }
    (seen.at, seen.all) = (Instant::now(), all);
    for (name, why) in single {
        if let Some(known) = seen.single.get_mut(&name) {
            *known = why;
        }
    }
}

/// The stop file of a policy: `stop.NAME`.
fn of_policy(path: &Path, policy: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{policy}"));
    path.with_file_name(name)
}

/// Why nothing may be done; none if there is no such file. A link counts, wherever it leads.
fn found(path: &Path) -> Option<String> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Ok(_) => Some(format!("{shown} exists")),
        Err(err)
            if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            None
        }
        Err(err) => Some(format!("it cannot be told whether {shown} exists: {err}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until it is so, for as long as that may take on a busy machine.
    fn until(mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < Duration::from_secs(60), "never");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn files_stop_all_policies_or_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stop");
        let switch = Switch::start(&path).unwrap();
        assert_eq!((switch.holds("a"), switch.holds("b")), (None, None));
        fs::write(dir.path().join("stop.a"), "").unwrap();
        until(|| switch.holds("a").is_some_and(|why| why.contains("stop.a exists")));
        assert_eq!(switch.holds("b"), None);
        assert!(switch.holds("a").is_some());
        // A dangling link is a file, too.
        std::os::unix::fs::symlink("/nonexistent/x", &path).unwrap();
        until(|| switch.holds("b").is_some());
        fs::remove_file(&path).unwrap();
        until(|| switch.holds("b").is_none());
        fs::remove_file(dir.path().join("stop.a")).unwrap();
        until(|| switch.holds("a").is_none());
        switch.end();
    }

    #[test]
    fn who_cannot_be_told_to_stop_does_not_act() {
        let dir = tempfile::tempdir().unwrap();
        // A link to itself can be followed to no end.
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let switch = Switch::start(&circle.join("stop")).unwrap();
        assert!(switch.holds("a").is_some_and(|why| why.contains("cannot be told")));
        switch.end();
        // Looking hangs.
        let switch = Switch::start(&dir.path().join("stop")).unwrap();
        switch.end();
        assert_eq!(switch.holds("a"), None);
        locked(&switch.seen).at -= Duration::from_secs(60);
        assert!(switch.holds("a").is_some_and(|why| why.contains("cannot be looked for since")));
        // The directory is not there at all, so there is no file.
        let switch = Switch::start(&dir.path().join("none/stop")).unwrap();
        assert_eq!(switch.holds("a"), None);
        switch.end();
    }
}
