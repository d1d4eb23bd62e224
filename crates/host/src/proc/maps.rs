//! `/proc/PID/maps`: which parts of an address space exist, and what they are.
//!
//! A line reads `START-END PERMS OFFSET MAJOR:MINOR INODE    NAME`; the name is the rest of the
//! line and may hold spaces. Other lines are skipped: the kernel writes none, and a monitor must
//! not end because of one.

use isotherm_core::{AddrRange, MappingKind};

use super::scan::{line, split, whole_dec, whole_hex, word};

/// Access rights of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Perms {
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub exec: bool,
    /// Writes go to the mapped object (`MAP_SHARED`), not to a private copy.
    pub shared: bool,
}

impl Perms {
    /// Whether the mapping can be accessed at all.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.read || self.write || self.exec
    }
}

/// One mapping; borrows its name from the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'t> {
    /// Its addresses.
    pub range: AddrRange,
    /// Access rights.
    pub perms: Perms,
    /// Offset into the file, in bytes.
    pub offset: u64,
    /// The file's device, major and minor number.
    pub dev: (u32, u32),
    /// The file's inode; 0 for none.
    pub inode: u64,
    /// Path, or `[heap]` and the like; empty for unnamed memory. The kernel writes a line feed in a
    /// path as `\012` and appends ` (deleted)` to an unlinked file's.
    pub name: &'t [u8],
}

impl Mapping<'_> {
    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> MappingKind {
        MappingKind::of(self.perms.shared, self.name)
    }

    /// Whether a monitor should watch it: can be accessed, and is memory that the kernel could
    /// reclaim or move. `PROT_NONE`, device memory and the kernel's own pages are not.
    #[must_use]
    pub fn is_monitored(&self) -> bool {
        self.perms.any() && !matches!(self.kind(), MappingKind::Special | MappingKind::Device)
    }
}

/// The lines of a `maps` file. Made by [`parse_maps`].
#[derive(Debug, Clone)]
pub struct Maps<'t> {
    rest: &'t [u8],
}

/// Walks over the mappings in the text of a `maps` file, in address order.
#[must_use]
pub fn parse_maps(text: &[u8]) -> Maps<'_> {
    Maps { rest: text }
}

impl<'t> Iterator for Maps<'t> {
    type Item = Mapping<'t>;

    fn next(&mut self) -> Option<Mapping<'t>> {
        loop {
            if let Some(mapping) = parse_line(line(&mut self.rest)?) {
                return Some(mapping);
            }
        }
    }
}

pub(super) fn parse_line(mut rest: &[u8]) -> Option<Mapping<'_>> {
    let (start, end) = split(word(&mut rest)?, b'-')?;
    let range = AddrRange::new(whole_hex(start)?, whole_hex(end)?);
    let &[r, w, x, s] = word(&mut rest)? else { return None };
    let perms = Perms { read: r == b'r', write: w == b'w', exec: x == b'x', shared: s == b's' };
    let offset = whole_hex(word(&mut rest)?)?;
    let (major, minor) = split(word(&mut rest)?, b':')?;
    let dev = (u32::try_from(whole_hex(major)?).ok()?, u32::try_from(whole_hex(minor)?).ok()?);
    let inode = whole_dec(word(&mut rest)?)?;
    let name = rest.trim_ascii_start();
    (!range.is_empty()).then_some(Mapping { range, perms, offset, dev, inode, name })
}

/// Appends what is worth monitoring to `ranges`: sorted, not overlapping, neighbours joined.
///
/// The kernel gives `maps` in pieces while the process runs, so a mapping can show up twice. What
/// was already taken is left out the second time.
pub fn monitored_ranges<'t>(maps: impl Iterator<Item = Mapping<'t>>, ranges: &mut Vec<AddrRange>) {
    for mapping in maps.filter(Mapping::is_monitored) {
        let range = mapping.range;
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
55d0c0a00000-55d0c0a01000 r--p 00000000 fe:00 247026                     /usr/bin/my prog
55d0c0a01000-55d0c0a03000 rw-p 00002000 fe:00 247026                     /usr/bin/my prog
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7f0000021000-7f0004000000 ---p 00000000 00:00 0 
7f0010000000-7f0010026000 r-xp 00026000 fe:00 326269                     /usr/lib/libc.so.6
7f0010030000-7f0010040000 rw-s 00000000 00:05 9                          /dev/mem
7f0010040000-7f0010050000 rw-s 00000000 00:01 3                          /dev/zero (deleted)
7f00feced000-7f00fecf0000 r--p 00000000 00:00 0                          [vvar]
7ffc09d7f000-7ffc09da0000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn reads_lines() {
        let maps: Vec<_> = parse_maps(TEXT).collect();
        assert_eq!(maps.len(), 11);
        assert_eq!(maps[1].range, AddrRange::new(0x55d0_c0a0_1000, 0x55d0_c0a0_3000));
        assert_eq!(maps[1].name, b"/usr/bin/my prog");
        assert_eq!(maps[1].offset, 0x2000);
        assert_eq!(maps[1].dev, (0xfe, 0));
        assert_eq!(maps[1].inode, 247_026);
        assert!(maps[1].perms.write && !maps[1].perms.exec && !maps[1].perms.shared);
        assert!(maps[6].perms.shared);
        assert_eq!(maps[3].name, b"");
    }

    #[test]
    fn monitored_leaves_out_what_cannot_be_hot_and_joins_neighbours() {
        let mut ranges = Vec::new();
        monitored_ranges(parse_maps(TEXT), &mut ranges);
        let got: Vec<_> = ranges.iter().map(|r| (r.start, r.end)).collect();
        assert_eq!(
            got,
            [
                (0x55d0_c0a0_0000, 0x55d0_c0a0_3000),
                (0x55d0_c100_0000, 0x55d0_c102_1000),
                (0x7f00_0000_0000, 0x7f00_0002_1000),
                (0x7f00_1000_0000, 0x7f00_1002_6000),
                (0x7f00_1004_0000, 0x7f00_1005_0000),
                (0x7ffc_09d7_f000, 0x7ffc_09da_0000),
            ]
        );
    }

    #[test]
    fn torn_reads_never_make_ranges_overlap() {
        let text = b"1000-3000 rw-p 0 0:0 0 \n2000-3000 rw-p 0 0:0 0 \n5000-4000 rw-p 0 0:0 0 \n";
        let mut ranges = Vec::new();
        monitored_ranges(parse_maps(text), &mut ranges);
        assert_eq!(ranges, [AddrRange::new(0x1000, 0x3000)]);
    }

    #[test]
    fn all_parts_of_a_program_are_one_kind() {
        for perms in ["r--p", "r-xp", "rw-p"] {
            let text = format!("1000-2000 {perms} 00000000 fe:00 7      /usr/bin/cat");
            assert_eq!(parse_line(text.as_bytes()).unwrap().kind(), MappingKind::File, "{perms}");
        }
    }
}
