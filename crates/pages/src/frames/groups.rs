//! The cgroups that memory is charged to, and the numbers by which the kernel names them.
//!
//! `/proc/kpagecgroup` names a cgroup by the inode of its directory in the hierarchy with the
//! memory controller: v1's memory hierarchy where it is mounted, else v2. Cgroups come and go
//! during a scan. Memory of a cgroup that is gone counts for its closest ancestor that is left, as
//! in the kernel.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use isotherm_host::metrics::Cgroups;

/// Version of the hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The memory hierarchy of version 1.
    V1,
    /// The one hierarchy of version 2.
    V2,
}

/// One cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Inode of its directory.
    pub ino: u64,
    /// Its path below the mount, with a leading `/`; `/` is the root.
    pub path: String,
    /// Its parent's place in [`Groups::list`]; none for the root.
    pub parent: Option<usize>,
}

/// The cgroups that are there now, parents before children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    mount: PathBuf,
    version: Version,
    list: Vec<Group>,
    by_ino: HashMap<u64, usize>,
}

impl Groups {
    /// Lists the cgroups of the hierarchy that memory is charged in; `None` if none is mounted.
    #[must_use]
    pub fn read(cgroups: &Cgroups) -> Option<Self> {
        let v1 = cgroups.v1_of("memory").map(|at| (at, Version::V1));
        let (mount, version) = v1.or(cgroups.v2.as_deref().map(|at| (at, Version::V2)))?;
        Self::below(mount, version).ok()
    }

    /// Lists those below `mount`.
    ///
    /// # Errors
    ///
    /// If `mount` cannot be read. Cgroups below it that are removed meanwhile are left out.
    pub fn below(mount: &Path, version: Version) -> io::Result<Self> {
        let root = Group { ino: fs::metadata(mount)?.ino(), path: "/".to_owned(), parent: None };
        let mut all = Self {
            mount: mount.to_owned(),
            version,
            by_ino: HashMap::from([(root.ino, 0)]),
            list: vec![root],
        };
        let mut next = 0;
        while next < all.list.len() {
            all.children_of(next);
            next += 1;
        }
        Ok(all)
    }

    fn children_of(&mut self, parent: usize) {
        let above = self.list[parent].path.trim_end_matches('/').to_owned();
        let mut names: Vec<_> = fs::read_dir(self.dir(parent))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .collect();
        names.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in names {
            // Memory of a v2 cgroup without the controller is charged to its parent.
            let charged = entry.path().join("memory.stat").exists();
            let (true, Ok(meta)) = (charged, entry.metadata()) else { continue };
            let path = format!("{above}/{}", entry.file_name().to_string_lossy());
            self.by_ino.insert(meta.ino(), self.list.len());
            self.list.push(Group { ino: meta.ino(), path, parent: Some(parent) });
        }
    }

    /// The cgroups, parents before children.
    #[must_use]
    pub fn list(&self) -> &[Group] {
        &self.list
    }

    /// The hierarchy's version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Where the hierarchy is mounted.
    #[must_use]
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// The place in the list of the cgroup with this inode.
    #[must_use]
    pub fn find(&self, ino: u64) -> Option<usize> {
        self.by_ino.get(&ino).copied()
    }

    /// The directory of the cgroup at this place in the list.
    ///
    /// # Panics
    ///
    /// If there is none at this place.
    #[must_use]
    pub fn dir(&self, nr: usize) -> PathBuf {
        self.mount.join(self.list[nr].path.trim_start_matches('/'))
    }
}

/// Who was whose parent, for cgroups that may be gone by now.
#[derive(Debug, Default)]
pub struct Ancestry {
    parents: HashMap<u64, u64>,
}

impl Ancestry {
    /// Remembers the parents of all that are there now.
    pub fn note(&mut self, groups: &Groups) {
        for group in &groups.list {
            if let Some(parent) = group.parent {
                self.parents.insert(group.ino, groups.list[parent].ino);
            }
        }
    }

    /// The place in `now` of this cgroup, or of its closest ancestor that is left.
    #[must_use]
    pub fn find(&self, now: &Groups, ino: u64) -> Option<usize> {
        let mut ino = ino;
        // Deeper than any hierarchy. It ends a circle, which reused inodes could make.
        for _ in 0..1000 {
            if let Some(nr) = now.find(ino) {
                return Some(nr);
            }
            ino = *self.parents.get(&ino)?;
        }
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A made-up hierarchy: paths below a directory, each a cgroup with this much memory by kind.
    pub(crate) fn tree(paths: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in paths {
            let at = dir.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("memory.stat"), "").unwrap();
        }
        dir
    }

    pub(crate) fn ino(dir: &Path, path: &str) -> u64 {
        fs::metadata(dir.join(path.trim_start_matches('/'))).unwrap().ino()
    }

    #[test]
    fn cgroups_have_paths_parents_and_inodes() {
        let dir = tree(&["/", "/a", "/a/b", "/c"]);
        fs::create_dir(dir.path().join("no-controller")).unwrap();
        let groups = Groups::below(dir.path(), Version::V2).unwrap();
        let paths: Vec<_> = groups.list().iter().map(|g| (g.path.as_str(), g.parent)).collect();
        assert_eq!(paths, [("/", None), ("/a", Some(0)), ("/c", Some(0)), ("/a/b", Some(1))]);
        for (nr, group) in groups.list().iter().enumerate() {
            assert_eq!(groups.find(group.ino), Some(nr));
            assert_eq!(group.ino, ino(dir.path(), &group.path));
        }
        assert_eq!(groups.find(u64::MAX), None);
        assert!(Groups::below(Path::new("/nonexistent"), Version::V1).is_err());
    }

    #[test]
    fn what_was_charged_to_one_that_is_gone_is_its_ancestors() {
        let dir = tree(&["/", "/a", "/a/b", "/a/b/c", "/new"]);
        let before = Groups::below(dir.path(), Version::V2).unwrap();
        let (b, c) = (ino(dir.path(), "/a/b"), ino(dir.path(), "/a/b/c"));
        let mut ancestry = Ancestry::default();
        ancestry.note(&before);
        fs::remove_dir_all(dir.path().join("a/b")).unwrap();
        let now = Groups::below(dir.path(), Version::V2).unwrap();
        let path = |ino| ancestry.find(&now, ino).map(|nr| now.list()[nr].path.clone());
        assert_eq!([b, c].map(path), [Some("/a".to_owned()), Some("/a".to_owned())]);
        assert_eq!(path(ino(dir.path(), "/new")), Some("/new".to_owned()));
        assert_eq!(path(u64::MAX), None);
    }
}
