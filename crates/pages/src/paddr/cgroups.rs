//! The names of memory cgroups by their numbers in `/proc/kpagecgroup`.

use std::collections::HashMap;

use isotherm_host::metrics::cgroup::Cgroups;

use crate::frames::Groups;

/// Paths by inode.
#[derive(Debug, Clone, Default)]
pub struct CgroupNames {
    cgroups: Cgroups,
    by_ino: HashMap<u64, String>,
}

impl CgroupNames {
    /// For the hierarchy that memory is charged in.
    #[must_use]
    pub fn new(cgroups: Cgroups) -> Self {
        Self { cgroups, by_ino: HashMap::new() }
    }

    /// The path below the mount, with a leading `/`. An unknown number is looked up by listing all
    /// cgroups. A cgroup that is gone keeps its name if it was ever listed, else its number is its
    /// name.
    pub fn name(&mut self, ino: u64) -> String {
        if !self.by_ino.contains_key(&ino)
            && let Some(now) = Groups::read(&self.cgroups)
        {
            self.by_ino.extend(now.list().iter().map(|g| (g.ino, g.path.clone())));
        }
        self.by_ino.entry(ino).or_insert_with(|| format!("inode {ino}")).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::groups::tests::{ino, tree};

    #[test]
    fn cgroups_are_called_by_their_paths() {
        let dir = tree(&["/", "/a", "/a/b"]);
        let cgroups = Cgroups { v2: Some(dir.path().to_owned()), v1: Vec::new() };
        let mut names = CgroupNames::new(cgroups);
        let ino = |path: &str| ino(dir.path(), path);
        assert_eq!(names.name(ino("")), "/");
        assert_eq!(names.name(ino("a/b")), "/a/b");
        std::fs::create_dir(dir.path().join("new")).unwrap();
        std::fs::write(dir.path().join("new/memory.stat"), "").unwrap();
        assert_eq!(names.name(ino("new")), "/new");
        assert_eq!(names.name(u64::MAX), format!("inode {}", u64::MAX));
        assert_eq!(CgroupNames::default().name(7), "inode 7");
    }
}
