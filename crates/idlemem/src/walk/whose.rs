//! Asks the kernel what pages are and whose: only when they are idle for the first time, because it
//! costs more than to look at them.

use std::collections::BTreeMap;
use std::io;

use isotherm_pages::frames::{Flags, FrameFile, Words, by_frame, folios_of, for_each_of};

use super::memory::{Ask, BLOCK, Memory, Owner};
use crate::kinds::Kind;
use crate::scanning::known::Ids;

/// The files that say so.
#[derive(Debug)]
pub(super) struct Files<F> {
    pub(super) flags: FrameFile<F>,
    /// `None` where the kernel does not have it: then all memory is nobody's.
    pub(super) cgroups: Option<FrameFile<F>>,
}

impl<F: Words> Files<F> {
    /// Answers some questions, sorted by frame, and writes the answers into `memory`.
    pub(super) fn answer(
        &mut self,
        asks: &[Ask],
        memory: &mut Memory,
        ids: &mut Ids,
    ) -> io::Result<()> {
        let mut single = Vec::new();
        for ask in asks {
            match ask {
                Ask::Some(frames) => single.extend_from_slice(frames),
                Ask::Whole(first) if self.is_one_folio(*first)? => {
                    let owner = self.owners(&[*first], ids)?.pop();
                    (*first..first + BLOCK).for_each(|f| {
                        memory.set_owner(f, owner.and_then(|(_, owner)| owner));
                    });
                }
                Ask::Whole(first) => single.extend(*first..first + BLOCK),
            }
        }
        for (frame, owner) in self.owners(&single, ids)? {
            memory.set_owner(frame, owner);
        }
        Ok(())
    }

    /// Whether a block is a folio, or part of one that begins there. A folio lies at a multiple of
    /// its size, so it is if the first frame is a head and that in the middle is none.
    fn is_one_folio(&mut self, first: u64) -> io::Result<bool> {
        let (mut head, mut middle) = ([0], [0]);
        self.flags.read(first, &mut head)?;
        self.flags.read(first + BLOCK / 2, &mut middle)?;
        Ok(Flags(head[0]).has(Flags::HEAD) && Flags(middle[0]).has(Flags::TAIL))
    }

    /// What these frames are, sorted, and whose. `None`: the zero page, hugetlb and memory of
    /// devices are on no list and do not count.
    fn owners(&mut self, frames: &[u64], ids: &mut Ids) -> io::Result<Vec<(u64, Option<Owner>)>> {
        let mut found = Vec::with_capacity(frames.len());
        for_each_of(&mut self.flags, frames, |_, frame, word| found.push((frame, Flags(word))))?;
        let mut inos = vec![0; frames.len()];
        if let Some(file) = &mut self.cgroups {
            for_each_of(file, frames, |nr, _, ino| inos[nr] = ino)?;
        }
        let heads = self.heads_of(&found)?;
        let owner = |((frame, flags), ino)| {
            let (flags, ino) = heads.get(&frame).copied().unwrap_or((flags, ino));
            let id = ids.of(ino).filter(|_| flags.has(Flags::LRU));
            (frame, id.map(|id| (Kind::of(flags), id)))
        };
        Ok(found.into_iter().zip(inos).map(owner).collect())
    }

    /// Flags and cgroups of the folios of those frames that are not the first of theirs: older
    /// kernels say little there.
    fn heads_of(&mut self, found: &[(u64, Flags)]) -> io::Result<BTreeMap<u64, (Flags, u64)>> {
        let is_tail = |flags: Flags| flags.has(Flags::TAIL);
        let tails: Vec<u64> = found.iter().filter(|(_, f)| is_tail(*f)).map(|(f, _)| *f).collect();
        if tails.is_empty() {
            return Ok(BTreeMap::new());
        }
        let folios = folios_of(&mut self.flags, &tails, &is_tail)?;
        let mut heads: Vec<u64> = folios.values().map(|folio| folio.head).collect();
        heads.dedup();
        let inos = self.cgroups.as_mut().map(|file| by_frame(file, &heads)).transpose()?;
        let ino = |head| inos.as_ref().and_then(|inos| inos.get(&head)).copied().unwrap_or(0);
        Ok(folios.iter().map(|(frame, f)| (*frame, (f.flags, ino(f.head)))).collect())
    }
}
