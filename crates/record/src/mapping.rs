//! Mappings of a target: what an address range is for.

use serde::{Deserialize, Serialize};

use crate::varint::{self, Cursor};

/// What a mapping holds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MappingKind {
    /// The `brk` heap.
    Heap,
    /// A stack.
    Stack,
    /// Private memory without a file.
    #[default]
    Anonymous,
    /// A shared library, or a program's own code.
    Library,
    /// Any other file.
    File,
    /// Memory without a file that can be shared: shm, memfd, System V.
    Shared,
    /// Made by the kernel: vdso and its like.
    Special,
}

impl MappingKind {
    /// Every kind, in the order in which reports list them.
    pub const ALL: [Self; 7] = [
        Self::Heap,
        Self::Stack,
        Self::Anonymous,
        Self::Library,
        Self::File,
        Self::Shared,
        Self::Special,
    ];

    /// Its name in reports.
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
        }
    }

    /// Tells the kind from the permissions and the path of a `/proc/PID/maps` line.
    #[must_use]
    pub fn of(perms: &str, path: &str) -> Self {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let file = path.rsplit('/').next().unwrap_or(path);
        if path.is_empty() || path.starts_with("[anon:") {
            Self::Anonymous
        } else if path == "[heap]" {
            Self::Heap
        } else if path.starts_with("[stack") {
            Self::Stack
        } else if path.starts_with("[anon_shmem:")
            || ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"].iter().any(|p| path.starts_with(p))
        {
            Self::Shared
        } else if path.starts_with('[') {
            Self::Special
        } else if file.ends_with(".so") || file.contains(".so.") || perms.contains('x') {
            Self::Library
        } else {
            Self::File
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Heap => 0,
            Self::Stack => 1,
            Self::Anonymous => 2,
            Self::Library => 3,
            Self::File => 4,
            Self::Shared => 5,
            Self::Special => 6,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.code() == code)
    }
}

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mapping {
    /// First address, in bytes.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Permissions as `/proc/PID/maps` shows them, for example `rw-p`.
    pub perms: String,
    /// What it holds.
    pub kind: MappingKind,
    /// Path or bracketed name; empty for anonymous memory.
    pub name: String,
}

impl Mapping {
    /// A mapping whose kind follows from its permissions and name.
    #[must_use]
    pub fn new(start: u64, end: u64, perms: &str, name: &str) -> Self {
        let kind = MappingKind::of(perms, name);
        Self { start, end, perms: perms.into(), kind, name: name.into() }
    }

    /// A short name for people: the file's name, the bracketed name, or `[anon]`.
    #[must_use]
    pub fn label(&self) -> &str {
        match self.name.rsplit('/').next() {
            None | Some("") if self.name.is_empty() => "[anon]",
            Some(file) if !file.is_empty() && !self.name.starts_with('[') => file,
            _ => &self.name,
        }
    }
}

/// Appends a target's mappings: time, target, number, then each one against its predecessor.
pub(crate) fn encode(out: &mut Vec<u8>, t_ns: u64, target: u32, mappings: &[Mapping]) {
    varint::put(out, t_ns);
    varint::put(out, u64::from(target));
    varint::put(out, mappings.len() as u64);
    let mut cursor = 0;
    let mut previous: Option<&Mapping> = None;
    for m in mappings {
        varint::put_delta(out, cursor, m.start);
        varint::put_delta(out, m.start, m.end);
        cursor = m.end;
        out.push(m.kind.code());
        put_text(out, &m.perms);
        // Neighbours mostly belong to the same file: 0 repeats the name, n is a name of n - 1 bytes.
        if previous.is_some_and(|p| p.name == m.name) {
            varint::put(out, 0);
        } else {
            varint::put(out, m.name.len() as u64 + 1);
            out.extend_from_slice(m.name.as_bytes());
        }
        previous = Some(m);
    }
}

/// Undoes [`encode`]. `None` if the bytes are not what `encode` writes.
pub(crate) fn decode(bytes: &[u8], mappings: &mut Vec<Mapping>) -> Option<(u64, u32)> {
    mappings.clear();
    let mut c = Cursor::new(bytes);
    let t_ns = c.get()?;
    let target = c.get_u32()?;
    let n = c.get_count(c.len())?;
    let mut cursor = 0;
    for _ in 0..n {
        let start = c.get_delta(cursor)?;
        let end = c.get_delta(start)?;
        cursor = end;
        let kind = MappingKind::from_code(c.byte()?)?;
        let perms = get_text(&mut c)?;
        let name = match c.get()? {
            0 => mappings.last()?.name.clone(),
            len => text(c.take(usize::try_from(len - 1).ok()?)?)?,
        };
        mappings.push(Mapping { start, end, perms, kind, name });
    }
    (c.len() == 0).then_some((t_ns, target))
}

fn put_text(out: &mut Vec<u8>, s: &str) {
    varint::put(out, s.len() as u64);
    out.extend_from_slice(s.as_bytes());
}

fn get_text(c: &mut Cursor<'_>) -> Option<String> {
    let n = c.get_count(c.len())?;
    text(c.take(n)?)
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_labels() {
        for (perms, path, kind, label) in [
            ("rw-p", "", MappingKind::Anonymous, "[anon]"),
            ("rw-p", "[heap]", MappingKind::Heap, "[heap]"),
            ("rw-p", "[stack]", MappingKind::Stack, "[stack]"),
            ("rw-p", "[anon:glibc: malloc]", MappingKind::Anonymous, "[anon:glibc: malloc]"),
            ("rw-p", "[anon:a/b]", MappingKind::Anonymous, "[anon:a/b]"),
            ("r-xp", "[vdso]", MappingKind::Special, "[vdso]"),
            ("r--p", "/usr/lib/libc.so.6", MappingKind::Library, "libc.so.6"),
            ("r-xp", "/usr/bin/cat", MappingKind::Library, "cat"),
            ("r--s", "/var/db/data.mdb", MappingKind::File, "data.mdb"),
            ("rw-s", "/memfd:x (deleted)", MappingKind::Shared, "memfd:x (deleted)"),
            ("rw-s", "/dev/shm/a", MappingKind::Shared, "a"),
        ] {
            let m = Mapping::new(0, 1, perms, path);
            assert_eq!((m.kind, m.label()), (kind, label), "{perms} {path}");
        }
    }
}
