//! What the kernel has charged to a cgroup: `memory.stat`, and the total.

use std::fs;
use std::path::Path;

use isotherm_pages::frames::Version;

/// User memory that is charged, in bytes. The kernel brings these numbers up to date every 2 s or
/// sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lru {
    /// On the lists of the page reclaim: anonymous, shared, files, and what cannot be reclaimed.
    pub all: u64,
    /// What of it cannot be reclaimed.
    pub unevictable: u64,
}

/// One cgroup's numbers, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// With all cgroups below.
    pub hierarchical: Lru,
    /// Without; version 2 does not say.
    pub own: Option<Lru>,
    /// All that is charged, with kernel memory and all cgroups below. The root of v2 has no such
    /// number.
    pub charged: Option<u64>,
}

/// What users have in lists, by the fields' names.
const LISTS: [&str; 5] =
    ["active_anon", "inactive_anon", "active_file", "inactive_file", "unevictable"];

impl Usage {
    /// Reads a cgroup's directory; zeros if it is gone.
    #[must_use]
    pub fn read(dir: &Path, version: Version) -> Self {
        let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        let charged = match version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        let charged = fs::read_to_string(dir.join(charged)).ok();
        Self {
            charged: charged.and_then(|text| text.trim().parse().ok()),
            ..Self::parse(&stat, version)
        }
    }

    fn parse(stat: &str, version: Version) -> Self {
        let lru = |prefix: &str| {
            let field = |name: &str| {
                let of = |line: &str| {
                    line.strip_prefix(prefix)?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()
                };
                stat.lines().find_map(of).unwrap_or(0)
            };
            Lru { all: LISTS.into_iter().map(field).sum(), unevictable: field("unevictable") }
        };
        match version {
            Version::V1 => Self { hierarchical: lru("total_"), own: Some(lru("")), charged: None },
            Version::V2 => Self { hierarchical: lru(""), own: None, charged: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_understood() {
        let v2 = "anon 7\nfile 9\nkernel 100\nactive_anon 1\ninactive_anon 2\nactive_file 3\n\
                  inactive_file 4\nunevictable 5\nslab 50\n";
        let usage = Usage::parse(v2, Version::V2);
        assert_eq!(usage.hierarchical, Lru { all: 15, unevictable: 5 });
        assert_eq!(usage.own, None);
        let v1 = "cache 9\nrss 8\ninactive_anon 1\nactive_anon 2\nunevictable 0\nhierarchical_memory_limit 9\n\
                  total_inactive_anon 10\ntotal_active_anon 20\ntotal_active_file 5\ntotal_unevictable 1\n";
        let usage = Usage::parse(v1, Version::V1);
        assert_eq!(usage.hierarchical, Lru { all: 36, unevictable: 1 });
        assert_eq!(usage.own, Some(Lru { all: 3, unevictable: 0 }));
        assert_eq!(Usage::read(Path::new("/nonexistent"), Version::V2), Usage::default());
    }
}
