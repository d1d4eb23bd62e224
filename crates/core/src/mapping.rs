//! What a mapping holds, as its line in `/proc/PID/maps` shows.
//!
//! Nothing else in the tree decides this. The kind follows from what backs the mapping, that is,
//! from its name and from whether it is shared. It does not follow from the permissions. A program
//! has one part to execute, one to read and one to write, and all parts of one file are of one
//! kind.

/// What a mapping holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MappingKind {
    /// The program break's area.
    Heap,
    /// The main thread's stack. Stacks of other threads are anonymous memory to the kernel.
    Stack,
    /// Private memory without a file.
    #[default]
    Anonymous,
    /// A shared object (`.so`).
    Library,
    /// Any other file. Programs are such files.
    File,
    /// Memory shared between processes without a file on a disk: shmem, memfd, System V.
    Shared,
    /// The kernel's own pages: vdso, vvar, vsyscall.
    Special,
    /// Memory of a device.
    Device,
}

/// Objects in memory that the kernel shows with a path.
const SHARED_NAMES: [&[u8]; 5] =
    [b"/memfd:", b"/SYSV", b"/dev/shm/", b"/dev/zero", b"/dev/hugepages/"];

impl MappingKind {
    /// Every kind, in the order in which reports list them.
    pub const ALL: [Self; 8] = [
        Self::Heap,
        Self::Stack,
        Self::Anonymous,
        Self::Library,
        Self::File,
        Self::Shared,
        Self::Special,
        Self::Device,
    ];

    /// The kind's name in reports and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::Anonymous => "anonymous",
            Self::Library => "library",
            Self::File => "file",
            Self::Shared => "shared",
            Self::Special => "special",
            Self::Device => "device",
        }
    }

    /// The kind of this name; the inverse of [`MappingKind::name`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of a mapping with the name `name`, which is the last column of `maps`.
    ///
    /// `shared` says that writes go to the mapped object (`s` in the permissions) and not to a
    /// private copy.
    #[must_use]
    pub fn of(shared: bool, name: &[u8]) -> Self {
        if let Some(rest) = name.strip_prefix(b"[") {
            return match rest {
                b"heap]" => Self::Heap,
                b"stack]" => Self::Stack,
                _ if rest.starts_with(b"stack:") => Self::Stack,
                _ if rest.starts_with(b"anon_shmem:") => Self::Shared,
                _ if rest.starts_with(b"anon:") || rest == b"anon]" => Self::Anonymous,
                _ => Self::Special,
            };
        }
        if name.is_empty() {
            return if shared { Self::Shared } else { Self::Anonymous };
        }
        if SHARED_NAMES.iter().any(|prefix| name.starts_with(prefix)) {
            return Self::Shared;
        }
        if name.starts_with(b"/anon_hugepage") {
            return Self::Anonymous;
        }
        if name.starts_with(b"/dev/") || name.starts_with(b"anon_inode:") {
            return Self::Device;
        }
        if is_library(name) { Self::Library } else { Self::File }
    }
}

/// `libx.so`, `libx.so.6`, `libx-2.31.so (deleted)`; not `some.source`.
fn is_library(path: &[u8]) -> bool {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let file = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    let ends_in_version = |rest: &[u8]| {
        rest.is_empty()
            || (rest.first() == Some(&b'.')
                && rest.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'.' || *b == b'-'))
    };
    (0..file.len()).filter_map(|i| file.get(i..)?.strip_prefix(b".so")).any(ends_in_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        use MappingKind::{Anonymous, Device, File, Heap, Library, Shared, Special, Stack};
        for (shared, name, kind) in [
            (false, "[heap]", Heap),
            (false, "[stack]", Stack),
            (false, "[stack:123]", Stack),
            (false, "", Anonymous),
            (true, "", Shared),
            (false, "[anon:cache]", Anonymous),
            (true, "[anon_shmem:x]", Shared),
            (false, "[vdso]", Special),
            (false, "[vvar_vclock]", Special),
            (false, "[vsyscall]", Special),
            (false, "/usr/lib/libm.so", Library),
            (false, "/usr/lib/libm.so.6", Library),
            (false, "/usr/lib/libstdc++.so.6.0.30 (deleted)", Library),
            (false, "/home/a/data.source", File),
            (false, "/usr/lib/x.so.d/data file", File),
            (false, "/usr/bin/cat", File),
            (true, "/var/lib/db (deleted)", File),
            (true, "/memfd:name (deleted)", Shared),
            (true, "/SYSV00000000 (deleted)", Shared),
            (true, "/dev/shm/x", Shared),
            (false, "/anon_hugepage (deleted)", Anonymous),
            (true, "/dev/dri/card0", Device),
            (true, "anon_inode:[io_uring]", Device),
        ] {
            assert_eq!(MappingKind::of(shared, name.as_bytes()), kind, "{name}");
        }
    }

    #[test]
    fn names() {
        for kind in MappingKind::ALL {
            assert_eq!(MappingKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(MappingKind::from_name("code"), None);
    }
}
