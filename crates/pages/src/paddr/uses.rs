//! What frames are used for: their kind, their cgroup, and who maps them.

use std::collections::BTreeMap;
use std::io;

use isotherm_host::metrics::cgroup::Cgroups;
use isotherm_host::proc::Proc;

use super::cgroups::CgroupNames;
use super::kind::FrameKind;
use super::rmap::{self, Found};
use crate::frames::{Flags, Folio, FrameFile, FramesError, Which, Words, by_frame, folios_of};

/// What one frame is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameUse {
    /// Its number.
    pub frame: u64,
    /// The first frame of its folio.
    pub head: u64,
    /// What it holds.
    pub kind: FrameKind,
    /// The memory cgroup that it is charged to, by the inode of its directory.
    pub cgroup: Option<u64>,
    /// Its folio's flags.
    pub flags: Flags,
}

/// Looks what frames are used for.
#[derive(Debug)]
pub struct Uses {
    proc: Proc,
    flags: FrameFile,
    /// Not there without `CONFIG_MEMCG`.
    cgroup: Option<FrameFile>,
    names: CgroupNames,
}

impl Uses {
    /// Opens the kernel's files about frames.
    ///
    /// # Errors
    ///
    /// If the files are not there or we may not open them.
    pub fn open(proc: Proc) -> Result<Self, FramesError> {
        let flags = FrameFile::open(proc.root(), Which::Flags)?;
        let cgroup = FrameFile::open(proc.root(), Which::Cgroup).ok();
        let names = CgroupNames::new(Cgroups::mounted(&proc));
        Ok(Self { proc, flags, cgroup, names })
    }

    /// What these frames (sorted) are used for, and who maps them.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn look(&mut self, frames: &[u64]) -> io::Result<(Vec<FrameUse>, Found)> {
        let uses = uses(&mut self.flags, self.cgroup.as_mut(), frames)?;
        let found = rmap::find(&self.proc, frames)?;
        Ok((uses, found))
    }

    /// The path of a cgroup.
    pub fn cgroup_name(&mut self, ino: u64) -> String {
        self.names.name(ino)
    }
}

fn uses<F: Words>(
    flags: &mut FrameFile<F>,
    cgroup: Option<&mut FrameFile<F>>,
    frames: &[u64],
) -> io::Result<Vec<FrameUse>> {
    // Kernels before 6.10 say nothing at the tails, so the folio's first frame is read.
    let folios = folios_of(flags, frames, &|f| f.has(Flags::TAIL))?;
    let mut heads: Vec<u64> = folios.values().map(|folio| folio.head).collect();
    heads.sort_unstable();
    heads.dedup();
    let charged = cgroup.map_or(Ok(BTreeMap::new()), |file| by_frame(file, &heads))?;
    let one = |frame: &u64| {
        let none = Folio { head: *frame, len: 1, flags: Flags::NOPAGE };
        let folio = folios.get(frame).copied().unwrap_or(none);
        FrameUse {
            frame: *frame,
            head: folio.head,
            kind: FrameKind::of(folio.flags),
            cgroup: charged.get(&folio.head).copied().filter(|ino| *ino != 0),
            flags: folio.flags,
        }
    };
    Ok(frames.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::made_up::Table;

    #[test]
    fn a_tail_is_what_its_first_frame_is_on_old_and_new_kernels() {
        let (lru, anon, head, tail) = (Flags::LRU.0, Flags::ANON.0, Flags::HEAD.0, Flags::TAIL.0);
        for repeated in [0, lru | anon] {
            let mut flags = vec![0; 32];
            flags[8] = lru | anon | head;
            flags[9..16].fill(tail | repeated);
            flags[16] = lru;
            flags[17] = Flags::BUDDY.0;
            let mut cgroups = vec![0; 32];
            cgroups[8] = 77;
            let mut file = FrameFile::new(Table(flags));
            let mut charged = FrameFile::new(Table(cgroups));
            let uses = uses(&mut file, Some(&mut charged), &[7, 8, 12, 16, 17]).unwrap();
            let seen: Vec<_> = uses.iter().map(|u| (u.head, u.kind, u.cgroup)).collect();
            let expected = [
                (7, FrameKind::Kernel, None),
                (8, FrameKind::Anon, Some(77)),
                (8, FrameKind::Anon, Some(77)),
                (16, FrameKind::UnmappedFile, None),
                (17, FrameKind::Free, None),
            ];
            assert_eq!(seen, expected);
        }
    }
}
