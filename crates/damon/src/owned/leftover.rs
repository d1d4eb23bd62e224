//! Removes what a killed Isotherm left in the kernel, by its notes, after proving that it is ours.
//!
//! A kdamond is ours only if two things hold. Every value in its files is one that we were about to
//! write. Its worker, if it runs, is the very thread that we started (pid and start time). In doubt
//! the kdamond stays, and is named.

use crate::config::entries::default_of;
use crate::error::{self, DamonError};
use crate::kdamond::Kdamond;
use crate::owned::ledger::{Ledger, Settings};
use crate::owned::note::{FileList, Note, Phase, Who, notes};
use crate::sysfs::root::Root;

/// What was found about a note of an earlier Isotherm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// Its owner is at work.
    InUse {
        /// The kdamond.
        index: u32,
        /// The owner's pid.
        owner: u32,
    },
    /// Its owner was killed. The kdamond was stopped, and its directory is as before.
    Cleaned {
        /// The kdamond.
        index: u32,
        /// The owner's pid.
        owner: u32,
        /// The worker that was still running.
        worker: Option<u32>,
    },
    /// Its owner was killed, and the kernel holds nothing of it any more.
    Gone {
        /// The kdamond.
        index: u32,
    },
    /// It cannot be proved to be ours, so it was left alone.
    Left {
        /// The kdamond.
        index: u32,
        /// Why it may not be removed, for the user.
        why: String,
    },
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InUse { index, owner } => {
                write!(f, "kdamond {index}: in use by Isotherm, process {owner}")
            }
            Self::Cleaned { index, owner, worker: Some(worker) } => write!(
                f,
                "kdamond {index}: process {owner} was killed and left it running (thread {worker}); stopped and removed"
            ),
            Self::Cleaned { index, owner, worker: None } => {
                write!(f, "kdamond {index}: process {owner} was killed and left it set up; removed")
            }
            Self::Gone { index } => {
                write!(f, "kdamond {index}: nothing is left of a killed Isotherm")
            }
            Self::Left { index, why } => write!(
                f,
                "kdamond {index}: left alone, since it cannot be proved to be Isotherm's: {why}"
            ),
        }
    }
}

/// Cleans up after Isotherms that were killed. Only what can be proved to be theirs is touched.
///
/// # Errors
///
/// If the notes cannot be read, or the kernel refuses to stop a kdamond that is ours.
pub fn recover(root: &Root, settings: &Settings) -> Result<Vec<Leftover>, DamonError> {
    if !settings.run_dir.exists() {
        return Ok(Vec::new());
    }
    recover_locked(root, &Ledger::lock(root, settings)?)
}

pub(crate) fn recover_locked(root: &Root, ledger: &Ledger) -> Result<Vec<Leftover>, DamonError> {
    let boot = root.proc().boot_id().unwrap_or_default();
    let found = notes(ledger.dir())
        .map_err(|said| error::io(format!("read {}", ledger.dir().display()), said))?;
    let mut leftovers = Vec::new();
    for (index, note) in found {
        let Some(note) = note else {
            leftovers.push(Leftover::Left { index, why: "its note cannot be read".into() });
            continue;
        };
        let leftover = one(root, &note, &boot)?;
        if !matches!(leftover, Leftover::InUse { .. } | Leftover::Left { .. }) {
            Note::remove(ledger.dir(), index)
                .map_err(|said| error::io("remove a note".into(), said))?;
        }
        leftovers.push(leftover);
    }
    ledger.lower(root, &boot)?;
    Ok(leftovers)
}

fn one(root: &Root, note: &Note, boot: &str) -> Result<Leftover, DamonError> {
    let index = note.index;
    if note.boot != boot {
        return Ok(Leftover::Gone { index });
    }
    if note.owner.lives(root.proc()) {
        return Ok(Leftover::InUse { index, owner: note.owner.pid });
    }
    let kdamond = Kdamond::new(root, index);
    if !kdamond.exists() || kdamond.is_untouched()? {
        return Ok(Leftover::Gone { index });
    }
    let left = |why: String| Ok(Leftover::Left { index, why });
    let worker = kdamond.pid()?;
    if let Some(pid) = worker {
        let who = Who::is_now(root.proc(), pid);
        match note.worker {
            Some(ours) if who != Some(ours) => {
                return left(format!("thread {pid} runs there, and Isotherm started {}", ours.pid));
            }
            None if note.phase != Phase::Ready => {
                return left(format!("thread {pid} runs there, and Isotherm had started none"));
            }
            _ => {}
        }
    }
    let allowed: &[&FileList] = match note.phase {
        Phase::Ready | Phase::Running => &[&note.files],
        Phase::Writing | Phase::Changing => &[&note.files, &note.next],
    };
    let defaults = matches!(note.phase, Phase::Writing | Phase::Changing);
    if let Some((path, value)) = foreign(&kdamond, allowed, defaults)? {
        return left(format!("{path} says `{value}`, which Isotherm did not write"));
    }
    kdamond.off()?;
    kdamond.clear()?;
    Ok(Leftover::Cleaned { index, owner: note.owner.pid, worker })
}

/// The first file that says what nobody of us wrote.
fn foreign(
    kdamond: &Kdamond,
    allowed: &[&FileList],
    defaults: bool,
) -> Result<Option<(String, String)>, DamonError> {
    let lists = || allowed.iter().flat_map(|list| list.iter());
    // The kernel writes these two itself, when told to show what it tuned.
    let tuned = lists().any(|(path, value)| path.ends_with("intervals_goal/aggrs") && value != "0");
    for (path, _) in lists() {
        if tuned && (path.ends_with("/sample_us") || path.ends_with("/aggr_us")) {
            continue;
        }
        let live = match kdamond.root().read(&kdamond.path(path)) {
            Ok(live) => live,
            // Older kernels lack some files, and one of the two lists may have more directories.
            Err(err) if err.errno() == Some(libc::ENOENT) => continue,
            Err(err) => return Err(err),
        };
        let ours = lists().any(|(p, value)| p == path && *value == live);
        if !(ours || defaults && live == default_of(path)) {
            return Ok(Some((path.clone(), live)));
        }
    }
    Ok(None)
}
