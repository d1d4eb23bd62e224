//! Notes of advice on disk, so that an agent that was killed leaves nothing behind.
//!
//! Every note is one line of JSON at the end of a file, and on disk before the advice is given. At
//! its start the agent takes back what the notes of a former one say, and begins a new file, with
//! the notes of what could not be taken back. A last line that is cut short was never finished, so
//! what it is about was not done.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use isotherm_act::apply::{Actor, Given, Notes, Undone, Whose};
use serde::{Deserialize, Serialize};
use tracing::warn;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Given(Given),
    TakenBack(Whose),
}

/// The file of notes.
#[derive(Debug)]
pub(crate) struct AdviceLog {
    path: PathBuf,
    file: Mutex<File>,
}

impl AdviceLog {
    /// Takes back what a former agent left, and begins a new file. Returns what was taken back.
    ///
    /// # Errors
    ///
    /// If the file cannot be used.
    pub(crate) fn begin(path: &Path) -> io::Result<(Self, Undone)> {
        let left = match std::fs::read(path) {
            Ok(bytes) => left(&bytes),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(err) => return Err(err),
        };
        let undone = Actor::take_back_left(&left);
        if !left.is_empty() {
            let text = notes_of(left, &undone.unfinished)?;
            crate::state::replace(path, text.as_bytes())?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok((Self { path: path.to_owned(), file: Mutex::new(file) }, undone))
    }

    fn append(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let before = file.metadata()?.len();
        let done = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if done.is_err() {
            // Half a line would spoil the next one.
            file.set_len(before).ok();
        }
        done
    }
}

impl Notes for AdviceLog {
    fn keep(&self, given: &Given) -> io::Result<()> {
        self.append(&Line::Given(given.clone()))
    }

    fn forget(&self, whose: Whose) {
        if let Err(err) = self.append(&Line::TakenBack(whose)) {
            // The note stays. Advice that is not there any more is not taken back again.
            warn!("cannot write {}: {err}", self.path.display());
        }
    }
}

/// The lines about these processes: what could not be taken back now may be later.
fn notes_of(left: Vec<Given>, unfinished: &[Whose]) -> io::Result<String> {
    let still = left.into_iter().filter(|given| unfinished.contains(&given.whose));
    still.map(|given| Ok(serde_json::to_string(&Line::Given(given))? + "\n")).collect()
}

/// What the lines say was given and not taken back.
fn left(bytes: &[u8]) -> Vec<Given> {
    let mut left = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(Line::Given(given)) => left.push(given),
            Ok(Line::TakenBack(whose)) => left.retain(|given| given.whose != whose),
            Err(_) => {}
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pid: u32, granule: u64) -> Given {
        let whose = Whose { pid, start_ticks: 7, program: 9 };
        Given { whose, huge: true, granules: vec![granule], opposed: Vec::new() }
    }

    #[test]
    fn notes_of_what_could_not_be_taken_back_are_kept() {
        let all = [given(1, 0), given(2, 1 << 21), given(1, 2 << 21)];
        let kept =
            |unfinished: &[Whose]| left(notes_of(all.to_vec(), unfinished).unwrap().as_bytes());
        assert_eq!(kept(&[]), []);
        assert_eq!(kept(&[all[1].whose]), [all[1].clone()]);
        assert_eq!(kept(&[all[0].whose, all[1].whose]), all);
    }

    #[test]
    fn notes_outlive_a_crash_at_any_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("advice.jsonl");
        let (log, undone) = AdviceLog::begin(&path).unwrap();
        assert_eq!(undone.restored_bytes + undone.replaced_bytes + undone.left_bytes, 0);
        // No process has these pids.
        let all = [given(4_194_301, 0), given(4_194_302, 1 << 21), given(4_194_301, 2 << 21)];
        for given in &all {
            log.keep(given).unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(left(&bytes), all);
        for cut in 0..bytes.len() {
            let whole = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            let left = left(&bytes[..cut]);
            assert!(left.len() == whole || left.len() == whole + 1, "{cut}");
            assert_eq!(left[..], all[..left.len()]);
        }
        log.forget(all[0].whose);
        assert_eq!(left(&std::fs::read(&path).unwrap()), [all[1].clone()]);
        drop(log);
        // The processes are gone, so nothing is taken back, and the file begins anew.
        let (_log, undone) = AdviceLog::begin(&path).unwrap();
        assert!(undone.errors.is_empty());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }
}
