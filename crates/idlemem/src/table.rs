//! From sums by inode to rows by cgroup, with and without the cgroups below.

use isotherm_host::glob::glob;
use isotherm_pages::frames::Groups;
use isotherm_pages::frames::groups::Ancestry;

use super::kinds::Bytes;
use super::usage::{Lru, Usage};

/// The cgroup that memory belongs to, or why it belongs to none that can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// A cgroup's path.
    Path(String),
    /// Charged to no cgroup.
    Nobody,
    /// Charged to cgroups that cannot be seen from here: outside of our container, or gone before
    /// they were seen.
    Unseen,
}

impl Name {
    /// As it is shown.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Path(path) => path,
            Self::Nobody => "(nobody)",
            Self::Unseen => "(not seen)",
        }
    }
}

/// One cgroup's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The cgroup.
    pub name: Name,
    /// Idle memory charged to it and to all below.
    pub all: Bytes,
    /// Idle memory charged to itself.
    pub own: Bytes,
    /// User memory charged to the cgroup and to all below, as the kernel counts it. `None` where it
    /// does not.
    pub total: Option<Lru>,
    /// The same of itself.
    pub own_total: Option<Lru>,
    /// All that is charged, memory of the kernel too, with all below.
    pub charged: Option<u64>,
}

/// Makes the rows of all cgroups, parents before children, and of the memory that belongs to none,
/// if any.
pub(super) fn rows(groups: &Groups, ancestry: &Ancestry, sums: &[(u64, Bytes)]) -> Vec<Row> {
    let usages: Vec<Usage> =
        (0..groups.list().len()).map(|nr| Usage::read(&groups.dir(nr), groups.version())).collect();
    let mut rows: Vec<Row> = groups
        .list()
        .iter()
        .zip(own_totals(groups, &usages))
        .zip(&usages)
        .map(|((group, own_total), usage)| Row {
            name: Name::Path(group.path.clone()),
            all: Bytes::default(),
            own: Bytes::default(),
            total: Some(usage.hierarchical),
            own_total: Some(own_total),
            charged: usage.charged,
        })
        .collect();
    let nobodys = |name| Row {
        name,
        all: Bytes::default(),
        own: Bytes::default(),
        total: None,
        own_total: None,
        charged: None,
    };
    let (mut nobody, mut unseen) = (nobodys(Name::Nobody), nobodys(Name::Unseen));
    for (ino, bytes) in sums {
        let row = match ancestry.find(groups, *ino) {
            Some(nr) => &mut rows[nr],
            None if *ino == 0 => &mut nobody,
            None => &mut unseen,
        };
        row.own.add_all(bytes);
    }
    for row in rows.iter_mut().chain([&mut nobody, &mut unseen]) {
        row.all = row.own;
    }
    // Children come behind their parents. So going backwards, every row is complete when it is
    // added.
    for nr in (0..groups.list().len()).rev() {
        if let Some(parent) = groups.list()[nr].parent {
            let all = rows[nr].all;
            rows[parent].all.add_all(&all);
        }
    }
    rows.extend([nobody, unseen].into_iter().filter(|row| row.own != Bytes::default()));
    rows
}

/// One row for everything, where there are no cgroups.
pub(super) fn whole(sums: &[(u64, Bytes)]) -> Vec<Row> {
    let mut all = Bytes::default();
    sums.iter().for_each(|(_, bytes)| all.add_all(bytes));
    vec![Row { name: Name::Nobody, all, own: all, total: None, own_total: None, charged: None }]
}

/// What is charged to each cgroup itself. Where the kernel does not count that: all of it, less
/// what the children have.
fn own_totals(groups: &Groups, usages: &[Usage]) -> Vec<Lru> {
    let mut own: Vec<Lru> = usages.iter().map(|usage| usage.hierarchical).collect();
    for (nr, group) in groups.list().iter().enumerate() {
        if let Some(parent) = group.parent {
            let child = usages[nr].hierarchical;
            own[parent].all = own[parent].all.saturating_sub(child.all);
            own[parent].unevictable = own[parent].unevictable.saturating_sub(child.unevictable);
        }
    }
    own.iter().zip(usages).map(|(derived, usage)| usage.own.unwrap_or(*derived)).collect()
}

/// The rows whose cgroup's path matches a pattern as in a shell, with or without a leading `/`.
#[must_use]
pub fn matches(pattern: &str, name: &Name) -> bool {
    let Name::Path(path) = name else { return pattern == name.text() };
    let below = path.strip_prefix('/').unwrap_or(path);
    [path.as_str(), below].iter().any(|path| glob(pattern.as_bytes(), path.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::kinds::Kind;
    use super::*;
    use isotherm_pages::frames::Version;

    /// A made-up hierarchy of cgroups.
    fn tree(paths: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in paths {
            fs::create_dir_all(dir.path().join(path.trim_start_matches('/'))).unwrap();
        }
        dir
    }

    fn ino(dir: &std::path::Path, path: &str) -> u64 {
        let at = dir.join(path.trim_start_matches('/'));
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(at).unwrap())
    }

    fn bytes(anon: u64) -> Bytes {
        let mut bytes = Bytes::default();
        bytes.add(Kind::Anon, 1, anon, 1.0);
        bytes
    }

    #[test]
    fn sums_go_up_the_hierarchy() {
        let dir = tree(&["/", "/a", "/a/b", "/c"]);
        for (path, inactive) in [("/", 100), ("/a", 70), ("/a/b", 40), ("/c", 10)] {
            let at = dir.path().join(path.trim_start_matches('/'));
            fs::write(at.join("memory.stat"), format!("inactive_anon {inactive}\n")).unwrap();
            fs::write(at.join("memory.current"), format!("{}\n", inactive + 5)).unwrap();
        }
        let groups = Groups::below(dir.path(), Version::V2).unwrap();
        let ino = |path| ino(dir.path(), path);
        let sums = [
            (ino("/a"), bytes(1)),
            (ino("/a/b"), bytes(2)),
            (ino("/c"), bytes(4)),
            (ino("/"), bytes(8)),
            (ino("/c"), bytes(16)),
            (0, bytes(32)),
            (u64::MAX, bytes(64)),
        ];
        let rows = rows(&groups, &Ancestry::default(), &sums);
        let found: Vec<_> = rows
            .iter()
            .map(|r| {
                let totals = (r.total.map(|t| t.all), r.own_total.map(|t| t.all), r.charged);
                (r.name.text(), r.all.idle(), r.own.idle(), totals)
            })
            .collect();
        let expected = [
            ("/", 31, 8, (Some(100), Some(20), Some(105))),
            ("/a", 3, 1, (Some(70), Some(30), Some(75))),
            ("/c", 20, 20, (Some(10), Some(10), Some(15))),
            ("/a/b", 2, 2, (Some(40), Some(40), Some(45))),
            ("(nobody)", 32, 32, (None, None, None)),
            ("(not seen)", 64, 64, (None, None, None)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn patterns_match_paths_with_and_without_the_first_slash() {
        let path = |p: &str| Name::Path(p.to_owned());
        for (pattern, name, expected) in [
            ("*", path("/"), true),
            ("/", path("/"), true),
            ("system.slice/*", path("/system.slice/a.service"), true),
            ("/system.slice/*", path("/system.slice/a.service"), true),
            ("system.slice", path("/system.slice/a.service"), false),
            ("*.service", path("/system.slice/a.service"), true),
            ("*", Name::Nobody, false),
            ("(nobody)", Name::Nobody, true),
        ] {
            assert_eq!(matches(pattern, &name), expected, "{pattern} {name:?}");
        }
    }
}
