//! What mappings say: whether they are shared, what backs them, and their names.

use isotherm_core::AddrRange;
use isotherm_core::addr::round_down;
use isotherm_host::glob::glob;
use isotherm_host::proc::{Proc, parse_maps};

use crate::Process;
use crate::apply::pages::{Bits, GRANULE};

/// A mapping, as filters see it.
#[derive(Debug)]
pub(super) struct Mapped {
    range: AddrRange,
    shared: bool,
    /// Whether only swap can take its pages: shared memory and files of tmpfs.
    in_memory: bool,
    /// The patterns that its name matches, by number.
    matches: Vec<u32>,
}

/// The mappings of a range, in order.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    list: Vec<Mapped>,
}

impl Mappings {
    /// Reads those of `range`; a process that has gone has none.
    pub(super) fn read(process: &Process, range: AddrRange, patterns: &[String]) -> Self {
        let mut text = Vec::new();
        if Proc::default().read(process.pid(), "maps", &mut text).is_err() {
            return Self::default();
        }
        let mut mounts = Vec::new();
        Proc::default().read(process.pid(), "mountinfo", &mut mounts).unwrap_or_default();
        let tmpfs = tmpfs(&String::from_utf8_lossy(&mounts));
        // A huge page can reach beyond.
        let range = AddrRange::new(
            round_down(range.start, GRANULE),
            range.end.checked_next_multiple_of(GRANULE).unwrap_or(range.end),
        );
        let inside = parse_maps(&text).filter(|m| m.range.intersects(&range));
        let mapped = inside.map(|m| {
            let matches = (0_u32..).zip(patterns).filter(|(_, p)| glob(p.as_bytes(), m.name));
            Mapped {
                range: m.range,
                shared: m.perms.shared,
                in_memory: is_in_memory(m.inode, m.name) || tmpfs.contains(&m.dev),
                matches: matches.map(|(nr, _)| nr).collect(),
            }
        });
        Self { list: mapped.collect() }
    }

    /// The pages of the granule at `start` in any mapping.
    pub(super) fn all(&self, start: u64) -> Bits {
        self.pages(start, |_| true)
    }

    /// Those in shared mappings.
    pub(super) fn shared(&self, start: u64) -> Bits {
        self.pages(start, |m| m.shared)
    }

    /// Those of shared memory and of files that are in memory only.
    pub(super) fn in_memory(&self, start: u64) -> Bits {
        self.pages(start, |m| m.in_memory)
    }

    /// Those in mappings whose name matches pattern number `nr`.
    pub(super) fn named(&self, start: u64, nr: u32) -> Bits {
        self.pages(start, |m| m.matches.contains(&nr))
    }

    fn pages(&self, start: u64, is: impl Fn(&Mapped) -> bool) -> Bits {
        let first = self.list.partition_point(|m| m.range.end <= start);
        let here = self.list[first..].iter().take_while(|m| m.range.start < start + GRANULE);
        here.filter(|m| is(m)).fold(Bits::default(), |bits, m| bits.or(Bits::of(start, m.range)))
    }
}

/// Whether a mapping is of the kernel's own tmpfs, which no mount shows: shared anonymous memory,
/// `memfd_create` and System V's shared memory.
fn is_in_memory(inode: u64, name: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"/dev/zero", b"/memfd:", b"/SYSV"];
    inode != 0 && names.iter().any(|of| name.starts_with(of))
}

/// The devices of the mounts of tmpfs in the text of a `mountinfo` file.
fn tmpfs(mounts: &str) -> Vec<(u32, u32)> {
    let device = |line: &str| {
        let (fields, about) = line.split_once(" - ")?;
        let (major, minor) = fields.split(' ').nth(2)?.split_once(':')?;
        let is_tmpfs = about.starts_with("tmpfs ");
        is_tmpfs.then_some((major.parse().ok()?, minor.parse().ok()?))
    };
    mounts.lines().filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_only_swap_can_take_is_known_by_its_name_or_its_mount() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:26 / /dev/shm rw - tmpfs tmpfs rw,inode64\nno mount\n\
                      31 22 0:27 / /proc rw shared:5 master:1 - proc proc rw\n";
        assert_eq!(tmpfs(mounts), [(0, 26)]);
        for (inode, name, want) in [
            (1025, "/dev/zero (deleted)", true),
            (7, "/memfd:buffers (deleted)", true),
            (7, "/SYSV00000000 (deleted)", true),
            (0, "/dev/zero", false),
            (7, "/usr/lib/libc.so.6", false),
            (0, "", false),
        ] {
            assert_eq!(is_in_memory(inode, name.as_bytes()), want, "{name}");
        }
    }
}
