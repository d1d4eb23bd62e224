//! The directory of one run:
//!
//! ```text
//! JOB-TIME/spec.json            what was asked for
//!          system.json          the machine, its load, the commit, what doctor says
//!          system-after.json    the load at the end
//!          requirements.json    satisfied or missed
//!          raw/                 what `run` left
//!          result.json          what `study` made of raw/
//!          report.txt           what `format` made of result.json
//!          pictures/            what `run` and `study` drew, if they draw
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::job::Spec;

const PICTURES: &str = "pictures";
/// A picture in documents is not larger.
pub(crate) const PICTURE_BYTES: u64 = 100 << 10;

/// A result directory.
#[derive(Debug)]
pub(crate) struct ResultDir {
    path: PathBuf,
}

impl ResultDir {
    /// Makes the directory of a new run below `out`.
    pub(crate) fn create(out: &Path, spec: &Spec) -> anyhow::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let path = out.join(format!("{}-{}", spec.job, timestamp(now)));
        fs::create_dir_all(path.join("raw")).with_context(|| format!("make {}", path.display()))?;
        let path = path.canonicalize().with_context(|| format!("find {}", path.display()))?;
        let dir = Self { path };
        dir.write_json("spec.json", spec)?;
        Ok(dir)
    }

    /// The directory of an old run.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let path = path.canonicalize().with_context(|| format!("find {}", path.display()))?;
        let dir = Self { path };
        dir.read_json::<Spec>("spec.json").context("this is no result directory")?;
        Ok(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a raw file.
    pub(crate) fn raw(&self, name: &str) -> PathBuf {
        self.path.join("raw").join(name)
    }

    /// Path of a picture; its directory is made.
    pub(crate) fn picture(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join(PICTURES);
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(path.join(name))
    }

    /// Copies all pictures to `to`, and says how many. One that is too large for a repository is
    /// refused.
    pub(crate) fn copy_pictures(&self, to: &Path) -> anyhow::Result<usize> {
        let from = self.path.join(PICTURES);
        let listed =
            fs::read_dir(&from).with_context(|| format!("no pictures: read {}", from.display()))?;
        fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
        let mut copied = 0;
        for entry in listed {
            let entry = entry.with_context(|| format!("read {}", from.display()))?;
            let bytes = entry.metadata().context("look at a picture")?.len();
            anyhow::ensure!(
                bytes <= PICTURE_BYTES,
                "{} has {bytes} bytes, more than {PICTURE_BYTES}",
                entry.path().display()
            );
            let name = to.join(entry.file_name());
            fs::copy(entry.path(), &name)
                .with_context(|| format!("copy a picture to {}", name.display()))?;
            copied += 1;
        }
        Ok(copied)
    }

    pub(crate) fn write_json(&self, name: &str, value: &impl Serialize) -> anyhow::Result<()> {
        self.write_text(name, &(serde_json::to_string_pretty(value)? + "\n"))
    }

    pub(crate) fn write_text(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    pub(crate) fn read_json<T: DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        let path = self.path.join(name);
        let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("understand {}", path.display()))
    }
}

/// Seconds since 1970 as YYYYMMDD-HHMMSS in UTC.
fn timestamp(unix: u64) -> String {
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    let (mut year, mut day) = (1970, days);
    let is_leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year}{:02}{:02}-{h:02}{m:02}{s:02}", month + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_copied_unless_they_are_large() {
        let out = tempfile::tempdir().unwrap();
        let dir = ResultDir::create(out.path(), &Spec::of_test("x")).unwrap();
        let to = out.path().join("docs/gallery");
        assert!(dir.copy_pictures(&to).unwrap_err().to_string().contains("no pictures"));
        fs::write(dir.picture("a.svg").unwrap(), "<svg/>").unwrap();
        assert_eq!(dir.copy_pictures(&to).unwrap(), 1);
        assert_eq!(fs::read_to_string(to.join("a.svg")).unwrap(), "<svg/>");
        fs::write(dir.picture("b.svg").unwrap(), vec![b' '; 102_401]).unwrap();
        assert!(dir.copy_pictures(&to).unwrap_err().to_string().contains("102401 bytes"));
    }

    #[test]
    fn timestamps_are_utc() {
        for (unix, expected) in [
            (0, "19700101-000000"),
            (951_782_400, "20000229-000000"),
            (951_868_799, "20000229-235959"),
            (4_107_542_400, "21000301-000000"),
            (1_767_225_599, "20251231-235959"),
        ] {
            assert_eq!(timestamp(unix), expected);
        }
    }
}
