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
    /// What it maps, if that is known and other mappings may map it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Object>,
}

/// A part of a file or of a piece of shared memory. Mappings of the same part show the same pages,
/// in whatever process they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Object {
    /// The device, as the kernel shows it: its major number times 2^32, plus its minor number.
    pub device: u64,
    /// The inode on that device; not 0.
    pub inode: u64,
    /// Where the mapping begins in it, in bytes.
    pub offset: u64,
}

impl Mapping {
    /// A mapping whose kind follows from its permissions and name.
    #[must_use]
    pub fn new(start: u64, end: u64, perms: &str, name: &str) -> Self {
        let kind = kind_of(perms, name);
        Self { start, end, perms: perms.into(), kind, name: name.into(), object: None }
    }

    /// The same mapping, of this object.
    #[must_use]
    pub fn of_object(self, object: Object) -> Self {
        Self { object: Some(object).filter(|o| o.inode != 0), ..self }
    }

    /// The object, if all pages of the mapping are its pages. Pages of a private mapping that can
    /// be written become the process's own.
    #[must_use]
    pub fn shared_object(&self) -> Option<Object> {
        let is_own = self.perms.contains('w') && !self.perms.ends_with('s');
        self.object.filter(|_| !is_own)
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
        let kind = kind_of(&perms, &name);
        mappings.push(Mapping { start, end, kind, perms, name, object: None });
    }
    (c.len() == 0).then_some((t_ns, target))
}

/// Appends the objects of a target's mappings: time, target, number of mappings, then of each the
/// inode (0 for none), and behind an inode its device and the offset. Returns whether there are
/// any. They are no part of [`encode`], so that older readers still read the mappings.
pub(crate) fn encode_objects(out: &mut Vec<u8>, t_ns: u64, id: u32, mappings: &[Mapping]) -> bool {
    varint::put(out, t_ns);
    varint::put(out, u64::from(id));
    varint::put(out, mappings.len() as u64);
    for object in mappings.iter().map(|m| m.object) {
        let Object { device, inode, offset } = object.unwrap_or_default();
        varint::put(out, inode);
        if inode != 0 {
            varint::put(out, device);
            varint::put(out, offset);
        }
    }
    mappings.iter().any(|m| m.object.is_some())
}

/// Objects of mappings that are still to be read.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    of: (u64, u32),
    list: Vec<Option<Object>>,
}

impl Objects {
    /// Decodes what [`encode_objects`] wrote. Returns `None` if the bytes are something else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut c = Cursor::new(bytes);
        let of = (c.get()?, c.get_u32()?);
        let n = c.get_count(c.len())?;
        let mut list = Vec::with_capacity(n);
        for _ in 0..n {
            list.push(match c.get()? {
                0 => None,
                inode => Some(Object { inode, device: c.get()?, offset: c.get()? }),
            });
        }
        (c.len() == 0).then_some(Self { of, list })
    }

    /// Gives the mappings of a target at a time their objects, if these are for them.
    pub(crate) fn give_to(&self, of: (u64, u32), mappings: &mut [Mapping]) {
        if self.of == of && self.list.len() == mappings.len() {
            mappings.iter_mut().zip(&self.list).for_each(|(m, object)| m.object = *object);
        }
    }
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

    #[test]
    fn objects_come_back_to_their_mappings_only() {
        let object = Object { device: 7 << 32 | 1, inode: 300, offset: 1 << 40 };
        let lib = Mapping::new(0, 1 << 12, "r-xp", "/lib/libc.so.6").of_object(object);
        let all = [lib.clone(), Mapping::new(1 << 12, 1 << 13, "rw-p", "[heap]")];
        let mut bytes = Vec::new();
        assert!(encode_objects(&mut bytes, 5, 7, &all));
        assert!(!encode_objects(&mut Vec::new(), 5, 7, &all[1..]));
        let objects = Objects::decode(&bytes).unwrap();
        let bare = || all.clone().map(|m| Mapping { object: None, ..m });
        for (of, want) in [((5, 7), all.clone()), ((6, 7), bare()), ((5, 8), bare())] {
            let mut mappings = bare();
            objects.give_to(of, &mut mappings);
            assert_eq!(mappings, want, "{of:?}");
        }
        (0..bytes.len()).for_each(|n| assert!(Objects::decode(&bytes[..n]).is_none(), "{n}"));
        assert_eq!(lib.shared_object(), Some(object));
        let private = Mapping { perms: "rw-p".into(), ..lib };
        assert_eq!(private.shared_object(), None, "its pages may be copies");
    }
}
