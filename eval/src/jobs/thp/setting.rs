//! The machine's setting for transparent huge pages, put back when dropped.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// A changed setting. Signals that end the job unwind through here; after SIGKILL the changed
/// setting stays.
#[derive(Debug)]
pub(crate) struct Setting {
    path: PathBuf,
    old: String,
}

impl Setting {
    /// Changes it to `always` or `madvise`.
    pub(crate) fn set(value: &str) -> anyhow::Result<Self> {
        Self::set_in(Path::new(ENABLED), value)
    }

    fn set_in(path: &Path, value: &str) -> anyhow::Result<Self> {
        let read = || fs::read_to_string(path).with_context(|| format!("read {}", path.display()));
        let text = read()?;
        let old = chosen(&text).with_context(|| format!("understand {text:?}"))?.to_owned();
        let setting = Self { path: path.to_owned(), old };
        fs::write(path, value).with_context(|| format!("write {value} to {}", path.display()))?;
        Ok(setting)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(e) = fs::write(&self.path, &self.old) {
            crate::cli::say(&format!(
                "could not write {} to {}: {e}",
                self.old,
                self.path.display()
            ));
        }
    }
}

/// Whether the kernel has transparent huge pages, and what is chosen.
pub(crate) fn found() -> Option<String> {
    Some(chosen(&fs::read_to_string(ENABLED).ok()?)?.to_owned())
}

/// The word in brackets.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("enabled");
        fs::write(&path, "always [madvise] never\n").unwrap();
        let setting = Setting::set_in(&path, "always").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "always");
        drop(setting);
        assert_eq!(fs::read_to_string(&path).unwrap(), "madvise");
        fs::write(&path, "nothing").unwrap();
        assert!(Setting::set_in(&path, "always").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "nothing");
    }
}
