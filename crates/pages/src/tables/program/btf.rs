//! A reader for the kernel's type information (BTF), just large enough to find struct offsets.
//!
//! `/sys/kernel/btf/vmlinux` describes every type of the running kernel: a header, then the types
//! one behind the other, then their names. The offsets found here take the place of a compiler's
//! relocations: the program is made for this kernel, at run time.
//!
//! Invariants: every read is bounds-checked, every recursion bounded; a malformed file gives an
//! error, never a panic and never an endless loop. There is no table of all names (126,000 types
//! would make it the largest thing in the monitor): a look-up scans.
//!
//! Format: Documentation/bpf/btf.rst. Kinds up to 19 (`ENUM64`, Linux 6.0).

use std::fmt;

use isotherm_sys::map::KernelTypes;

const MAGIC: u16 = 0xeb9f;
const TYPE_HEADER: usize = 12;
const MEMBER: usize = 12;
/// One position in this many is remembered, so that finding a type by its id is a short scan.
const INDEX_STEP: usize = 256;
/// A longer chain of qualifiers, or of structs inside each other, is not the kernel's.
const MAX_DEPTH: u32 = 16;
/// A struct with more members than this, inner ones included, is not the kernel's. Both limits
/// end the search in a struct that (in a malformed file) contains itself.
const MAX_MEMBERS: u32 = 10_000;

const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_FUNC: u32 = 12;

/// Why type information could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BtfError {
    /// The data does not begin like little-endian BTF.
    NotBtf,
    /// The data ends before something that it promises.
    Truncated,
    /// A kind of type that this reader does not know, so that it cannot skip it either.
    UnknownKind(u32),
    /// No struct of this name has this member.
    NoMember(String),
    /// The member is there but is not a pointer at a whole byte offset inside the struct.
    NotAPointer(String),
    /// There is no function of this name.
    NoFunction(String),
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBtf => f.write_str("not BTF"),
            Self::Truncated => f.write_str("BTF is cut off"),
            Self::UnknownKind(kind) => write!(f, "BTF has types of the unknown kind {kind}"),
            Self::NoMember(what) => write!(f, "BTF has no {what}"),
            Self::NotAPointer(what) => write!(f, "BTF says that {what} is not a pointer"),
            Self::NoFunction(name) => write!(f, "BTF has no function {name}"),
        }
    }
}

impl std::error::Error for BtfError {}

/// A BTF file in memory.
#[derive(Debug)]
pub struct Btf {
    data: KernelTypes,
    types: (usize, usize),
    strings: (usize, usize),
    index: Vec<usize>,
}

/// One type's fixed header.
#[derive(Clone, Copy)]
struct Type {
    at: usize,
    name: u32,
    info: u32,
    /// The type that this one refers to, or its size in bytes.
    size_or_type: u32,
}

impl Type {
    fn kind(self) -> u32 {
        (self.info >> 24) & 0x1f
    }

    fn vlen(self) -> usize {
        (self.info & 0xffff) as usize
    }

    /// Bytes behind the header.
    fn payload(self) -> Result<usize, BtfError> {
        Ok(match self.kind() {
            KIND_PTR | 7..=12 | 16 | 18 => 0,
            1 | 14 | 17 => 4,
            3 => 12,
            KIND_STRUCT | KIND_UNION => MEMBER * self.vlen(),
            6 | 13 => 8 * self.vlen(),
            15 | 19 => 12 * self.vlen(),
            kind => return Err(BtfError::UnknownKind(kind)),
        })
    }
}

/// What was found under a member's name.
struct Member {
    bit_offset: u64,
    type_id: u32,
    bitfield: bool,
}

impl Btf {
    /// Takes a BTF file and checks that all of its types can be walked.
    ///
    /// # Errors
    ///
    /// [`BtfError`], if the data is not BTF or is cut short.
    pub fn parse(data: impl Into<KernelTypes>) -> Result<Self, BtfError> {
        let data = data.into();
        let word = |at| read_u32(&data, at);
        let (magic, version) = match data.first_chunk::<3>() {
            Some(&[lo, hi, version]) => (u16::from_le_bytes([lo, hi]), version),
            None => return Err(BtfError::NotBtf),
        };
        if magic != MAGIC || version != 1 {
            return Err(BtfError::NotBtf);
        }
        let header = word(4)? as usize;
        let section = |offset: u32, len: u32| {
            let start = header.checked_add(offset as usize)?;
            let end = start.checked_add(len as usize)?;
            (end <= data.len()).then_some((start, end))
        };
        let types = section(word(8)?, word(12)?).ok_or(BtfError::Truncated)?;
        let strings = section(word(16)?, word(20)?).ok_or(BtfError::Truncated)?;
        let mut btf = Self { data, types, strings, index: Vec::new() };
        btf.index = btf.positions()?;
        Ok(btf)
    }

    /// The byte offset of a pointer member in a struct; members of anonymous inner structs and
    /// unions count as the outer one's own.
    ///
    /// # Errors
    ///
    /// [`BtfError`], if there is no such pointer.
    pub fn pointer_offset(&self, name: &str, member: &str) -> Result<u32, BtfError> {
        let (found, size) = self.find_member(name, member)?;
        self.as_pointer(&found)?
            .filter(|offset| offset.saturating_add(8) <= size)
            .ok_or_else(|| BtfError::NotAPointer(format!("{name}.{member}")))
    }

    /// The byte offset of a member of 8 bytes in a struct, found as in [`Btf::pointer_offset`].
    ///
    /// # Errors
    ///
    /// [`BtfError`], if there is no such member, or not 8 whole bytes for it.
    pub fn word_offset(&self, name: &str, member: &str) -> Result<u32, BtfError> {
        let (found, size) = self.find_member(name, member)?;
        let offset = u32::try_from(found.bit_offset / 8).unwrap_or(u32::MAX);
        let is_whole = !found.bitfield && found.bit_offset.is_multiple_of(8);
        let fits = is_whole && offset.saturating_add(8) <= size;
        fits.then_some(offset).ok_or_else(|| BtfError::NoMember(format!("{name}.{member}")))
    }

    /// The number of a function's type.
    ///
    /// # Errors
    ///
    /// [`BtfError`], if there is no such function.
    pub fn function(&self, name: &str) -> Result<u32, BtfError> {
        let (mut at, mut id) = (self.types.0, 1);
        while at < self.types.1 {
            let ty = self.type_at(at)?;
            if ty.kind() == KIND_FUNC && self.name_is(ty.name, name) {
                return Ok(id);
            }
            at += TYPE_HEADER + ty.payload()?;
            id += 1;
        }
        Err(BtfError::NoFunction(name.to_owned()))
    }

    /// A member of a struct, and the struct's size.
    fn find_member(&self, name: &str, member: &str) -> Result<(Member, u32), BtfError> {
        let mut at = self.types.0;
        while at < self.types.1 {
            let ty = self.type_at(at)?;
            if ty.kind() == KIND_STRUCT
                && self.name_is(ty.name, name)
                && let Some(found) = self.member(ty, member, 0, &mut { MAX_MEMBERS })?
            {
                return Ok((found, ty.size_or_type));
            }
            at += TYPE_HEADER + ty.payload()?;
        }
        Err(BtfError::NoMember(format!("{name}.{member}")))
    }

    /// Every [`INDEX_STEP`]-th type's position, the first being type 1's.
    fn positions(&self) -> Result<Vec<usize>, BtfError> {
        let (mut index, mut at, mut nr) = (Vec::new(), self.types.0, 0_usize);
        while at < self.types.1 {
            if nr.is_multiple_of(INDEX_STEP) {
                index.push(at);
            }
            at += TYPE_HEADER + self.type_at(at)?.payload()?;
            nr += 1;
        }
        if at == self.types.1 { Ok(index) } else { Err(BtfError::Truncated) }
    }

    fn type_at(&self, at: usize) -> Result<Type, BtfError> {
        if at + TYPE_HEADER > self.types.1 {
            return Err(BtfError::Truncated);
        }
        let word = |offset| read_u32(&self.data, at + offset);
        Ok(Type { at, name: word(0)?, info: word(4)?, size_or_type: word(8)? })
    }

    fn type_by_id(&self, id: u32) -> Result<Type, BtfError> {
        let nr = (id as usize).checked_sub(1).ok_or(BtfError::Truncated)?;
        let mut at = *self.index.get(nr / INDEX_STEP).ok_or(BtfError::Truncated)?;
        for _ in 0..nr % INDEX_STEP {
            at += TYPE_HEADER + self.type_at(at)?.payload()?;
        }
        self.type_at(at)
    }

    /// Follows const, volatile, typedef and the like to what they qualify.
    fn unqualified(&self, mut id: u32) -> Result<Type, BtfError> {
        for _ in 0..=MAX_DEPTH {
            let ty = self.type_by_id(id)?;
            match ty.kind() {
                8..=11 | 18 => id = ty.size_or_type,
                _ => return Ok(ty),
            }
        }
        Err(BtfError::Truncated)
    }

    fn member(
        &self,
        ty: Type,
        wanted: &str,
        depth: u32,
        left: &mut u32,
    ) -> Result<Option<Member>, BtfError> {
        if depth > MAX_DEPTH {
            return Err(BtfError::Truncated);
        }
        for nr in 0..ty.vlen() {
            *left = left.checked_sub(1).ok_or(BtfError::Truncated)?;
            let at = ty.at + TYPE_HEADER + MEMBER * nr;
            let (name, type_id) = (read_u32(&self.data, at)?, read_u32(&self.data, at + 4)?);
            let word = read_u32(&self.data, at + 8)?;
            // With the kind flag the upper byte is the size of a bit field.
            let (bits, size) =
                if ty.info >> 31 == 1 { (word & 0xff_ffff, word >> 24) } else { (word, 0) };
            if self.name_is(name, wanted) {
                let found = Member { bit_offset: bits.into(), type_id, bitfield: size != 0 };
                return Ok(Some(found));
            }
            if self.name_is(name, "") {
                let inner = self.unqualified(type_id)?;
                if matches!(inner.kind(), KIND_STRUCT | KIND_UNION)
                    && let Some(found) = self.member(inner, wanted, depth + 1, left)?
                {
                    let bit_offset = found.bit_offset + u64::from(bits);
                    return Ok(Some(Member { bit_offset, ..found }));
                }
            }
        }
        Ok(None)
    }

    fn as_pointer(&self, member: &Member) -> Result<Option<u32>, BtfError> {
        let is_pointer = self.unqualified(member.type_id)?.kind() == KIND_PTR;
        if !is_pointer || member.bitfield || !member.bit_offset.is_multiple_of(8) {
            return Ok(None);
        }
        Ok(u32::try_from(member.bit_offset / 8).ok())
    }

    /// Whether the string at `offset` is exactly `wanted`; a bad offset is no string.
    fn name_is(&self, offset: u32, wanted: &str) -> bool {
        let strings = &self.data[self.strings.0..self.strings.1];
        strings
            .get(offset as usize..)
            .and_then(|rest| rest.strip_prefix(wanted.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn read_u32(data: &[u8], at: usize) -> Result<u32, BtfError> {
    let bytes = data.get(at..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map(|b| u32::from_le_bytes(*b)).ok_or(BtfError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file of three structs: `outer { int a:3; struct { const *p; union { *q } } ; int n }`,
    /// `empty {}`, and one whose anonymous member is itself.
    fn small() -> Vec<u8> {
        let strings = b"\0outer\0p\0q\0n\0loop\0int\0";
        let name = |s: &str| {
            let s = [s.as_bytes(), &[0]].concat();
            u32::try_from(strings.windows(s.len()).position(|w| w == s).unwrap()).unwrap()
        };
        let members = |nr: u32| KIND_STRUCT << 24 | nr;
        let words = [
            vec![name("int"), 1 << 24, 4, 32],                 // 1: int
            vec![0, KIND_PTR << 24, 0],                        // 2: void *
            vec![0, 10 << 24, 2],                              // 3: const of 2
            vec![0, KIND_UNION << 24 | 1, 8, name("q"), 2, 0], // 4: union { q }
            // 5: struct { p; 4 }
            [vec![0, members(2), 16], vec![name("p"), 3, 0, 0, 4, 64]].concat(),
            // 6: outer; the kind flag makes the upper byte a bit field's size.
            [
                vec![name("outer"), 1 << 31 | members(3), 40],
                vec![name("n"), 1, 3 << 24, 0, 5, 64, name("n"), 1, 256],
            ]
            .concat(),
            vec![name("loop"), members(1), 8, 0, 7, 8], // 7: loop { 7 }
        ]
        .concat();
        let types: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let header = [24, 0, len(&types), len(&types), len(strings)];
        let header = header.into_iter().flat_map(u32::to_le_bytes);
        [vec![0x9f, 0xeb, 1, 0], header.collect(), types, strings.to_vec()].concat()
    }

    #[test]
    fn finds_pointers_also_in_anonymous_members() {
        let btf = Btf::parse(small()).unwrap();
        for (name, member, expected) in [
            ("outer", "p", Ok(8)),
            ("outer", "q", Ok(16)),
            ("outer", "n", Err(BtfError::NotAPointer("outer.n".into()))),
            ("outer", "m", Err(BtfError::NoMember("outer.m".into()))),
            ("oute", "p", Err(BtfError::NoMember("oute.p".into()))),
            ("", "p", Ok(0)),
            ("loop", "p", Err(BtfError::Truncated)),
        ] {
            assert_eq!(btf.pointer_offset(name, member), expected, "{name}.{member}");
        }
    }

    #[test]
    fn every_cut_is_an_error() {
        let whole = small();
        for len in 0..whole.len() {
            assert!(Btf::parse(whole[..len].to_vec()).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn reads_this_kernel() {
        let Ok(data) = KernelTypes::open() else { return };
        let btf = Btf::parse(data).unwrap();
        assert!(btf.pointer_offset("mm_struct", "pgd").unwrap() > 0);
        assert!(btf.pointer_offset("file", "f_op").is_ok());
        let not = btf.pointer_offset("task_struct", "pid");
        assert_eq!(not, Err(BtfError::NotAPointer("task_struct.pid".into())));
        let start = btf.word_offset("vm_area_struct", "vm_start").unwrap();
        assert_eq!(btf.word_offset("vm_area_struct", "vm_end"), Ok(start + 8));
        assert!(btf.function("bpf_iter_task_vma").unwrap() > 1);
        assert_eq!(btf.function("no such"), Err(BtfError::NoFunction("no such".into())));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]
        #[test]
        fn changed_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
            let mut data = small();
            for (at, byte) in changes {
                let at = at.index(data.len());
                data[at] = byte;
            }
            if let Ok(btf) = Btf::parse(data) {
                for (name, member) in [("outer", "p"), ("outer", "q"), ("outer", "m"), ("loop", "p"), ("", "")] {
                    let found = btf.pointer_offset(name, member);
                    prop_assert!(found.map_or(true, |offset| offset <= u32::MAX - 8));
                    let found = btf.word_offset(name, member);
                    prop_assert!(found.map_or(true, |offset| offset <= u32::MAX - 8));
                }
            }
        }
    }
}
