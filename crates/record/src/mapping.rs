//! Mappings of a target, which tell what an address range is used for.

use isotherm_core::MappingKind;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::encoding::varint::{self, Cursor};

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
    #[serde(serialize_with = "kind_name", deserialize_with = "named_kind")]
    pub kind: MappingKind,
    /// Path or bracketed name; empty for anonymous memory.
    pub name: String,
}

impl Mapping {
    /// A mapping whose kind follows from its permissions and name.
    #[must_use]
    pub fn new(start: u64, end: u64, perms: &str, name: &str) -> Self {
        let kind = kind_of(perms, name);
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

/// The kind of a mapping, from the permissions and the name of its `/proc/PID/maps` line.
fn kind_of(perms: &str, name: &str) -> MappingKind {
    MappingKind::of(perms.ends_with('s'), name.as_bytes())
}

/// The number of the kind in the file. Older readers use it; they know no devices.
const fn code_of(kind: MappingKind) -> u8 {
    match kind {
        MappingKind::Heap => 0,
        MappingKind::Stack => 1,
        MappingKind::Anonymous => 2,
        MappingKind::Library => 3,
        MappingKind::File | MappingKind::Device => 4,
        MappingKind::Shared => 5,
        MappingKind::Special => 6,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn kind_name<S: Serializer>(kind: &MappingKind, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(kind.name())
}

fn named_kind<'de, D: Deserializer<'de>>(input: D) -> Result<MappingKind, D::Error> {
    let name = String::deserialize(input)?;
    let unknown = || serde::de::Error::custom(format!("no kind of mapping is called `{name}`"));
    MappingKind::from_name(&name).ok_or_else(unknown)
}

/// Appends a target's mappings: time, target, number of mappings, then each as its difference from
/// the one before.
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
        out.push(code_of(m.kind));
        put_text(out, &m.perms);
        // Neighbours mostly belong to the same file. So 0 means the same name again, and n a name
        // of n - 1 bytes.
        if previous.is_some_and(|p| p.name == m.name) {
            varint::put(out, 0);
        } else {
            varint::put(out, m.name.len() as u64 + 1);
            out.extend_from_slice(m.name.as_bytes());
        }
        previous = Some(m);
    }
}

/// Decodes what [`encode`] wrote. Returns `None` if the bytes are not what `encode` writes.
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
        // The kind is derived again by the present rule. Older records call the executable part of
        // a program a library, and the rest of the same program a file.
        let _code = c.byte()?;
        let perms = get_text(&mut c)?;
        let name = match c.get()? {
            0 => mappings.last()?.name.clone(),
            len => text(c.take(usize::try_from(len - 1).ok()?)?)?,
        };
        mappings.push(Mapping { start, end, kind: kind_of(&perms, &name), perms, name });
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
            ("rw-s", "", MappingKind::Shared, "[anon]"),
            ("rw-p", "[heap]", MappingKind::Heap, "[heap]"),
            ("rw-p", "[anon:glibc: malloc]", MappingKind::Anonymous, "[anon:glibc: malloc]"),
            ("rw-p", "[anon:a/b]", MappingKind::Anonymous, "[anon:a/b]"),
            ("r--p", "/usr/lib/libc.so.6", MappingKind::Library, "libc.so.6"),
            ("r--s", "/var/db/data.mdb", MappingKind::File, "data.mdb"),
            ("rw-s", "/memfd:x (deleted)", MappingKind::Shared, "memfd:x (deleted)"),
            ("rw-s", "/dev/dri/card0", MappingKind::Device, "card0"),
        ] {
            let m = Mapping::new(0, 1, perms, path);
            assert_eq!((m.kind, m.label()), (kind, label), "{perms} {path}");
            let json = serde_json::to_string(&m).unwrap();
            assert_eq!(serde_json::from_str::<Mapping>(&json).unwrap(), m, "{json}");
        }
    }

    #[test]
    fn all_parts_of_a_program_are_one_kind_in_old_records_too() {
        let parts = [("r--p", 4), ("r-xp", 3), ("rw-p", 4)];
        let mut old: Vec<_> = (1..)
            .zip(parts)
            .map(|(at, (perms, _))| Mapping::new(at << 12, (at + 1) << 12, perms, "/usr/bin/cat"))
            .collect();
        for (m, (_, code)) in old.iter_mut().zip(parts) {
            assert_eq!(m.kind, MappingKind::File, "{}", m.perms);
            // The kind as older records have it.
            m.kind = if code == 3 { MappingKind::Library } else { MappingKind::File };
        }
        let (mut bytes, mut read) = (Vec::new(), Vec::new());
        encode(&mut bytes, 5, 7, &old);
        assert_eq!(decode(&bytes, &mut read), Some((5, 7)));
        assert!(read.iter().all(|m| m.kind == MappingKind::File), "{read:?}");
    }
}
