//! A private directory for one run of a program.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Below the system's directory for temporary files, because the path of a Unix socket is short;
/// removed when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    /// Makes it.
    pub(crate) fn create(name: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("isotherm-{name}-{}", std::process::id()));
        // Only our own pid can have left it behind.
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that everybody can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.file(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Gives the directory to a user without privileges.
    pub(crate) fn give_to(&self, uid: u32, gid: u32) -> anyhow::Result<()> {
        let give = || {
            chown(&self.path, Some(uid), Some(gid))?;
            fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700))
        };
        give().with_context(|| format!("give {} to user {uid}", self.path.display()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_gone_when_dropped() {
        let place = Place::create("place-test").unwrap();
        let path = place.path().to_owned();
        let file = place.write("a", "b").unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), "b");
        drop(place);
        assert!(!path.exists());
    }
}
