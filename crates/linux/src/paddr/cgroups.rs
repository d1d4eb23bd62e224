//! The names of memory cgroups by the number that `/proc/kpagecgroup` has for them.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::metrics::cgroup::Cgroups;

/// Cgroups that are listed at most; a machine with more shows the rest by number.
const MOST: usize = 100_000;

/// Paths by inode.
#[derive(Debug, Clone, Default)]
pub struct CgroupNames {
    mount: Option<PathBuf>,
    by_ino: HashMap<u64, String>,
}

impl CgroupNames {
    /// For the hierarchy that memory is charged in: v1's memory hierarchy where it is mounted, else v2.
    #[must_use]
    pub fn new(cgroups: &Cgroups) -> Self {
        let mount = cgroups.v1_of("memory").or(cgroups.v2.as_deref()).map(Path::to_owned);
        Self { mount, by_ino: HashMap::new() }
    }

    /// The path below the mount, with a leading `/`; what is not known yet is looked up by listing all. One that
    /// is gone is called by its number.
    pub fn name(&mut self, ino: u64) -> String {
        if !self.by_ino.contains_key(&ino) {
            self.list();
        }
        self.by_ino.entry(ino).or_insert_with(|| format!("inode {ino}")).clone()
    }

    fn list(&mut self) {
        let Some(mount) = &self.mount else { return };
        let mut waiting = vec![mount.clone()];
        while let Some(dir) = waiting.pop() {
            // One that goes meanwhile is left out.
            let Ok(meta) = fs::metadata(&dir) else { continue };
            let below = dir.strip_prefix(mount).unwrap_or(&dir);
            self.by_ino.insert(meta.ino(), format!("/{}", below.display()));
            let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
            let dirs = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
            waiting.extend(dirs.map(|e| e.path()));
            if self.by_ino.len() + waiting.len() > MOST {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_called_by_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let cgroups = Cgroups { v2: Some(dir.path().to_owned()), v1: Vec::new() };
        let mut names = CgroupNames::new(&cgroups);
        let ino = |path: &str| fs::metadata(dir.path().join(path)).unwrap().ino();
        assert_eq!(names.name(ino("")), "/");
        assert_eq!(names.name(ino("a/b")), "/a/b");
        fs::create_dir(dir.path().join("new")).unwrap();
        assert_eq!(names.name(ino("new")), "/new");
        assert_eq!(names.name(u64::MAX), format!("inode {}", u64::MAX));
        assert_eq!(CgroupNames::default().name(7), "inode 7");
    }
}
