//! Replaces an old record by a new one so that no record is ever lost.
//!
//! A record is first written to a temporary file beside its place:
//!
//! ```text
//!                 run.data      run.data.old   run.data.new-PID
//! create          old           older          new
//! keep            new           old            -                  (the older one goes last)
//! drop, failure   old           older          -
//! ```
//!
//! Until [`Place::keep`] is called, every failure leaves the place as it was. `keep` exchanges the
//! two names in one step where the file system can do that (`RENAME_EXCHANGE`), otherwise by two
//! renames. If a later step fails, it undoes the earlier ones.
//!
//! A place that holds no record (an empty file, a pipe, a device) is written directly.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::Error;

/// The place of a new record, as the module's text describes it. Dropping it undoes the creation.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    new: New,
}

/// What has been created so far.
#[derive(Debug, PartialEq, Eq)]
enum New {
    /// A temporary file beside the place.
    Beside(PathBuf),
    /// The file at the place, which did not exist before.
    Made,
    /// The file at the place, which existed and held no record.
    Reused,
    /// Nothing is left to undo.
    Kept,
}

impl Place {
    /// Creates the file of a new record for `path`.
    ///
    /// # Errors
    ///
    /// If no file can be created there. Nothing has changed then.
    pub fn create(path: &Path) -> Result<(Self, File), Error> {
        let failed = |e| Error::io(format!("create {}", path.display()))(e);
        let there = fs::symlink_metadata(path).ok();
        let behind = fs::metadata(path).ok();
        let new = match (&there, &behind) {
            (None, _) => New::Made,
            (_, Some(m)) if m.is_file() && m.len() > 0 => {
                New::Beside(with_suffix(path, &format!(".new-{}", std::process::id())))
            }
            _ => New::Reused,
        };
        let file = match &new {
            New::Beside(beside) => File::create(beside),
            _ => File::create(path),
        };
        Ok((Self { path: path.to_owned(), new }, file.map_err(failed)?))
    }

    /// Puts the new record into its place. The record that was there becomes `FILE.old`.
    ///
    /// # Errors
    ///
    /// If a file cannot be renamed. The place is as it was before [`Place::create`] then.
    pub fn keep(mut self) -> Result<(), Error> {
        if let New::Beside(new) = &self.new {
            let old = with_suffix(&self.path, ".old");
            let tried = format!("keep the record {} as {}", self.path.display(), old.display());
            let done = match exchange(new, &self.path) {
                Ok(()) => fs::rename(new, &old).inspect_err(|_| {
                    exchange(new, &self.path).ok();
                }),
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    by_two_renames(new, &self.path, &old)
                }
                Err(errno) => Err(errno.into()),
            };
            done.map_err(Error::io(tried))?;
        }
        self.new = New::Kept;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A failure to remove the file is ignored, because nothing more can be done.
        match &self.new {
            New::Beside(new) => fs::remove_file(new).ok(),
            New::Made => fs::remove_file(&self.path).ok(),
            New::Reused => match fs::metadata(&self.path) {
                Ok(m) if m.is_file() => {
                    File::options().write(true).truncate(true).open(&self.path).map(drop).ok()
                }
                _ => None,
            },
            New::Kept => None,
        };
    }
}

fn exchange(a: &Path, b: &Path) -> Result<(), Errno> {
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)
}

/// Replaces the record on file systems that cannot exchange two names. The last rename removes the
/// older record.
fn by_two_renames(new: &Path, path: &Path, old: &Path) -> io::Result<()> {
    let aside = with_suffix(new, "-aside");
    fs::rename(path, &aside)?;
    fs::rename(new, path).inspect_err(|_| {
        fs::rename(&aside, path).ok();
    })?;
    fs::rename(&aside, old).inspect_err(|_| {
        fs::rename(path, new).and_then(|()| fs::rename(&aside, path)).ok();
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Write;

    /// The names and contents of all files in a directory. A directory's content is `/`.
    fn files(dir: &Path) -> BTreeMap<String, String> {
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        all.map(|p| (name(&p), fs::read_to_string(&p).unwrap_or_else(|_| "/".into()))).collect()
    }

    fn expect(dir: &Path, want: &[(&str, &str)]) {
        let want = want.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        assert_eq!(files(dir), want.collect());
    }

    fn create(dir: &Path) -> Place {
        let (place, mut file) = Place::create(&dir.join("r")).unwrap();
        file.write_all(b"new").unwrap();
        place
    }

    fn dir_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    #[test]
    fn the_old_record_stays_until_the_new_one_is_kept() {
        let before = [("r", "old"), ("r.old", "older")];
        let dir = dir_with(&before);
        let place = create(dir.path());
        assert_eq!(fs::read_to_string(dir.path().join("r")).unwrap(), "old");
        drop(place);
        expect(dir.path(), &before);
        create(dir.path()).keep().unwrap();
        expect(dir.path(), &[("r", "new"), ("r.old", "old")]);
    }

    #[test]
    fn where_no_record_was_none_is_left_behind() {
        for before in [&[][..], &[("r", "")]] {
            let dir = dir_with(before);
            drop(create(dir.path()));
            expect(dir.path(), before);
            create(dir.path()).keep().unwrap();
            expect(dir.path(), &[("r", "new")]);
        }
    }

    #[test]
    fn a_rename_that_fails_is_taken_back() {
        let dir = dir_with(&[("r", "old")]);
        // A file cannot be renamed to a directory.
        fs::create_dir(dir.path().join("r.old")).unwrap();
        let err = create(dir.path()).keep().unwrap_err().to_string();
        assert!(err.contains("keep the record") && err.contains("r.old"), "{err}");
        expect(dir.path(), &[("r", "old"), ("r.old", "/")]);
    }

    #[test]
    fn without_an_exchange_of_names_it_is_the_same() {
        let dir = dir_with(&[("r", "old"), ("r.old", "older"), ("n", "new")]);
        let [n, r, old] = ["n", "r", "r.old"].map(|name| dir.path().join(name));
        by_two_renames(&n, &r, &old).unwrap();
        expect(dir.path(), &[("r", "new"), ("r.old", "old")]);
        // Each of the renames fails once.
        assert!(by_two_renames(&n, &dir.path().join("none"), &old).is_err());
        assert!(by_two_renames(&dir.path().join("none"), &r, &old).is_err());
        fs::remove_file(&old).unwrap();
        fs::create_dir(&old).unwrap();
        fs::write(&n, "newer").unwrap();
        assert!(by_two_renames(&n, &r, &old).is_err());
        expect(dir.path(), &[("n", "newer"), ("r", "new"), ("r.old", "/")]);
    }
}
